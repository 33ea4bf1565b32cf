"""`file_search`: by name and by content, within its caps, and with no pattern that hangs it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead import App
from fairlead.failures import Failure, Kind
from fairlead.failures import tool as wire
from fairlead.tools.fence import Fence
from fairlead.tools.files import files
from fairlead.tools.globs import BadGlob, Glob
from fairlead.tools.listing import Ignored
from fairlead.tools.searching import BadPattern, Search, TooSlow, matching


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "src" / "inner").mkdir(parents=True)
    (folder / "src" / "app.py").write_text("import os\n\ndef price_of(x):\n    return Price\n")
    (folder / "src" / "inner" / "b.py").write_text("# price list\r\n")
    (folder / "notes.md").write_text("The price is right.")
    return folder


@pytest.fixture
def app(root: Path) -> App:
    made = App("x")
    for each in files(root):
        made.add(each)
    return made


async def done(app: App, **input: Any) -> Any:
    return (await app.invoke("file_search", input)).unwrap()


async def failed(app: App, **input: Any) -> dict[str, Any]:
    result = await app.invoke("file_search", input)
    assert result.failure is not None
    return wire.render(result.failure)


async def test_lines_are_found_by_a_pattern_as_the_search_kind(app: App) -> None:
    assert await done(app, query=r"price_\w+\(") == {
        "kind": "search",
        "query": r"price_\w+\(",
        "entries": [{"path": "src/app.py", "line": 3, "text": "def price_of(x):"}],
        "match_count": 1,
        "truncated": False,
    }


@pytest.mark.parametrize("query", ["price", "pric[e]"])
async def test_plain_text_and_patterns_find_the_same_lines(app: App, query: str) -> None:
    data = await done(app, query=query)
    assert [(each["path"], each["line"], each["text"]) for each in data["entries"]] == [
        ("notes.md", 1, "The price is right."),
        ("src/app.py", 3, "def price_of(x):"),
        ("src/inner/b.py", 1, "# price list"),
    ]
    folded = await done(app, query=query.upper().replace("[E]", "[E]"), ignore_case=True)
    assert folded["match_count"] == 4


@pytest.mark.parametrize("query", ["list$", r"list\r$", "l.st"])
async def test_the_end_of_a_line_is_found_as_on_windows_too(app: App, query: str) -> None:
    [found] = (await done(app, query=query))["entries"]
    assert (found["path"], found["text"]) == ("src/inner/b.py", "# price list")


async def test_the_files_that_are_looked_at_can_be_narrowed(app: App) -> None:
    assert (await done(app, query="price", glob="*.py"))["match_count"] == 2
    assert (await done(app, query="price", glob="src/*.py"))["match_count"] == 1
    assert (await done(app, query="price", path="src", glob="inner/*"))["match_count"] == 1
    assert (await done(app, query="price", path="src/inner"))["match_count"] == 1
    assert (await done(app, query="price", path="src/inner/b.py"))["match_count"] == 1
    assert (await done(app, query="price", glob="*.{md,rst}"))["match_count"] == 1


async def test_files_are_found_by_name(app: App) -> None:
    data = await done(app, query="*.PY", target="NAME", ignore_case=True)
    assert data["entries"] == [
        {"name": "app.py", "path": "src/app.py", "type": "file"},
        {"name": "b.py", "path": "src/inner/b.py", "type": "file"},
    ]
    assert (await done(app, query="src/**/b.*", target="name"))["match_count"] == 1
    assert (await failed(app, query="*", target="name", path="notes.md"))["field"] == "path"


async def test_no_match_is_a_result(app: App) -> None:
    assert (await done(app, query="nothing of this"))["entries"] == []


async def test_hidden_ignored_and_binary_files_are_not_looked_at(app: App, root: Path) -> None:
    (root / ".gitignore").write_text("*.log\n")
    (root / ".env").write_text("price")
    (root / "x.log").write_text("price")
    (root / "x.bin").write_bytes(b"\0price")
    (root / "node_modules").mkdir()
    (root / "node_modules" / "x.js").write_text("price")
    assert (await done(app, query="price"))["match_count"] == 3


async def test_results_stop_at_12_000_characters(app: App, root: Path) -> None:
    (root / "long.txt").write_text(("needle " + "x" * 300 + "\n") * 200)
    result = await app.invoke("file_search", {"query": "needle"})
    data = result.unwrap()
    assert data["truncated"] is True
    assert sum(len(each["text"]) for each in data["entries"]) <= 12_000
    assert data["match_count"] == len(data["entries"]) < 200
    assert "Narrow" in result.warnings[0]


async def test_results_stop_at_500_or_as_many_as_are_asked_for(app: App, root: Path) -> None:
    (root / "s").write_text("n\n" * 600)
    assert (await done(app, query="n", path="s"))["match_count"] == 500
    data = await done(app, query="n", path="s", max_results=3)
    assert (data["match_count"], data["truncated"]) == (3, True)
    assert (await failed(app, query="n", max_results=501))["field"] == "max_results"


async def test_a_very_long_line_is_cut(app: App, root: Path) -> None:
    (root / "min.js").write_text("needle" + "x" * 100_000)
    for query in ("needle", "need[l]e"):
        text = (await done(app, query=query))["entries"][0]["text"]
        assert len(text) == 503


async def test_lines_are_counted_over_all_pieces_of_a_large_file(app: App, root: Path) -> None:
    (root / "big.txt").write_text("x" * 99 + "\n" + ("y" * 99 + "\n") * 9_998 + "needle")
    for query in ("needle", "need[l]e"):
        assert [each["line"] for each in (await done(app, query=query))["entries"]] == [10_000]


@pytest.mark.parametrize("query", ["(", "[z-a]", "a{2,1}", "(?P<x>", "*"])
async def test_a_bad_pattern_names_the_query(app: App, query: str) -> None:
    envelope = await failed(app, query=query)
    assert (envelope["kind"], envelope["field"], envelope["retryable"]) == ("invalid_args", "query", True)


@pytest.mark.parametrize("glob", ["[", "a**b", "../*", "/etc/*", "{a,b}" * 7])
async def test_a_bad_glob_names_its_field(app: App, glob: str) -> None:
    assert (await failed(app, query="x", glob=glob))["field"] == "glob"
    assert (await failed(app, query=glob, target="name"))["field"] == "query"


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(a|aa)+$", r"(?:a{1,1000}){1,1000}$", r"(.*)*\1b"])
def test_a_pattern_that_never_ends_is_stopped(pattern: str) -> None:
    with pytest.raises((TooSlow, BadPattern)), matching(pattern, patience=0.1) as find:
        find(b"a" * 5000 + b"!")


async def test_a_pattern_that_never_ends_is_a_timeout_and_others_are_served_meanwhile(
    app: App, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Less than the usual patience: a processor is busy for as long.
    monkeypatch.setattr("fairlead.tools.files.matching", partial(matching, patience=2))
    (root / "evil.txt").write_text("a" * 5000 + "!")
    searching = asyncio.ensure_future(failed(app, query="(a+)+$"))
    for _ in range(20):
        (await app.invoke("file_read", {"path": "notes.md"})).unwrap()
    assert not searching.done()
    envelope = await searching
    assert (envelope["kind"], envelope["field"], envelope["retryable"]) == ("timeout", "query", True)


async def test_a_search_can_be_cancelled_inside_a_pattern(app: App, root: Path) -> None:
    (root / "evil.txt").write_text("a" * 5000 + "!")
    # The limit of the call is far below the patience with a pattern.
    result = await app.invoke("file_search", {"query": "(a+)+$"}, timeout=0.3)
    assert result.failure is not None
    assert result.failure.kind is Kind.timeout


async def test_a_search_stops_where_it_is_told_to() -> None:
    calls = 0

    def check() -> None:
        nonlocal calls
        calls += 1
        if calls > 3:
            raise Failure(Kind.cancelled, "stop")

    with pytest.raises(Failure), matching("(a+)+$", patience=30, check=check) as find:
        find(b"a" * 5000 + b"!")


def test_a_search_of_too_much_is_told_to_be_incomplete(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.tools.searching.MOST_FILES", 2)
    search = Search(Fence(root), ".", Ignored(Fence(root)), lambda: None)
    assert len(list(search.names())) == 2
    assert search.incomplete


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("*.py", "a/b/c.py", True),
        ("*.py", "c.pyx", False),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "x/src/a.py", False),
        ("src/*.py", "src/a/b.py", False),
        ("src/**/b.py", "src/b.py", True),
        ("src/**/b.py", "src/x/y/b.py", True),
        ("**", "anything/at/all", True),
        ("docs/**", "docs/a/b", True),
        ("./a.txt", "x/a.txt", True),
        ("[!a]*.txt", "b.txt", True),
        ("[^a]*.txt", "a.txt", False),
        ("*.{ts,tsx}", "x.tsx", True),
        ("A*", "a", False),
        ("docs/**", "docs", False),
        ("[^a]b", "x/b", False),
        ("[]x]", "]", True),
        ("[a&&b]", "&", True),
        ("a.c", "abc", False),
    ],
)
def test_globs_mean_what_people_expect(pattern: str, path: str, fits: bool) -> None:
    assert Glob(pattern).matches(path) is fits


def naive(pattern: list[str], names: list[str]) -> bool:
    """What a glob means, by trying everything."""
    if not pattern:
        return not names
    first, *rest = pattern
    if first == "**":
        if not rest:
            return bool(names)
        return any(naive(rest, names[at:]) for at in range(len(names) + 1))
    return bool(names) and naive_name(first, names[0]) and naive(rest, names[1:])


def naive_name(pattern: str, name: str) -> bool:
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(naive_name(pattern[1:], name[at:]) for at in range(len(name) + 1))
    return bool(name) and pattern[0] in ("?", name[0]) and naive_name(pattern[1:], name[1:])


_STARRED = st.from_regex(r"([ab?]|\*(?!\*)){1,5}", fullmatch=True) | st.just("**")


@settings(max_examples=500, deadline=None)
@given(
    pattern=st.lists(_STARRED, min_size=2, max_size=5),
    names=st.lists(st.text("ab", min_size=1, max_size=5), min_size=1, max_size=6),
)
def test_a_glob_means_what_trying_everything_finds(pattern: list[str], names: list[str]) -> None:
    assert Glob("/".join(pattern)).matches("/".join(names)) is naive(pattern, names)


@pytest.mark.parametrize("make", [lambda: "*a" * 400 + "b", lambda: "**/*a/" * 150 + "b"])
def test_no_glob_takes_long(make: Callable[[], str]) -> None:
    glob = Glob(make())
    assert not glob.matches("a" * 250)
    assert not glob.matches("/".join(["a"] * 2000))


@pytest.mark.parametrize("pattern", ["", "  ", "x" * 1001, "\0", "a/../b", "[", "[]", "[z-a]", "[a--b]"])
def test_what_is_no_glob_is_refused(pattern: str) -> None:
    with pytest.raises(BadGlob):
        Glob(pattern)
