"""`file_read`, `file_write` and `file_edit`: the kinds they give, their caps, and what they say when they cannot."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from fairlead import App
from fairlead.agents import Agent
from fairlead.agents.models.script import ScriptModel
from fairlead.agents.models.script import call as calling
from fairlead.failures import Failure, Kind
from fairlead.failures import tool as wire
from fairlead.runtime import Result
from fairlead.tools.files import MOST_EDITED, files
from fairlead.tools.files_lines import SCANNED
from fairlead.tools.listing import INCOMPLETE


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def app(root: Path) -> App:
    made = App("x")
    for each in files(root):
        made.add(each)
    return made


async def call(app: App, name: str, **input: Any) -> Result:
    return await app.invoke(name, input)


async def done(app: App, name: str, **input: Any) -> Any:
    return (await call(app, name, **input)).unwrap()


async def failed(app: App, name: str, **input: Any) -> Failure:
    result = await call(app, name, **input)
    assert result.failure is not None, result.data
    return result.failure


def told(failure: Failure) -> tuple[str, str | None, bool]:
    """A failure as a model is told: its kind, its field, and whether to try again."""
    envelope = wire.render(failure)
    return envelope["kind"], envelope.get("field"), envelope["retryable"]


async def test_a_file_is_read_whole_as_the_file_kind(app: App, root: Path) -> None:
    (root / "a.txt").write_text("one\ntwo\n")
    assert await done(app, "file_read", path="a.txt") == {
        "kind": "file",
        "text": "one\ntwo\n",
        "path": "a.txt",
        "start_line": 1,
        "end_line": 2,
        "total_lines": 2,
        "total_lines_exact": True,
        "truncated": False,
        "partial_line": False,
        "bytes_read": 8,
        "byte_limit": SCANNED,
    }


@pytest.mark.parametrize(
    ("lines", "text", "end"),
    [
        ({"start_line": 2, "end_line": 3}, "Lines 2-3 of 5\nl2\nl3\n", 3),
        ({"start_line": 4}, "Lines 4-5 of 5\nl4\nl5", 5),
        ({"end_line": 1}, "Lines 1-1 of 5\nl1\n", 1),
        ({"start_line": 5, "end_line": 900}, "Lines 5-5 of 5\nl5", 5),
        ({"start_line": 1, "end_line": 5}, "l1\nl2\nl3\nl4\nl5", 5),
        ({"start_line": "2", "end_line": "2"}, "Lines 2-2 of 5\nl2\n", 2),
    ],
)
async def test_some_lines_of_a_file_carry_a_header(
    app: App, root: Path, lines: dict[str, Any], text: str, end: int
) -> None:
    (root / "a.txt").write_text("l1\nl2\nl3\nl4\nl5")
    data = await done(app, "file_read", path="a.txt", **lines)
    assert (data["text"], data["end_line"], data["total_lines"]) == (text, end, 5)


async def test_lines_beyond_the_end_are_refused_with_how_many_there_are(app: App, root: Path) -> None:
    (root / "a.txt").write_text("one\n")
    failure = await failed(app, "file_read", path="a.txt", start_line=2)
    assert told(failure) == ("invalid_args", "start_line", True)
    assert "1 lines" in failure.message


async def test_lines_in_the_wrong_order_are_refused(app: App, root: Path) -> None:
    assert told(await failed(app, "file_read", path="a", start_line=3, end_line=2))[1] == "end_line"


async def test_an_empty_file_has_no_lines(app: App, root: Path) -> None:
    (root / "a.txt").touch()
    data = await done(app, "file_read", path="a.txt")
    assert (data["text"], data["total_lines"], data["end_line"], data["truncated"]) == ("", 0, 0, False)


async def test_a_long_file_is_cut_at_a_line_within_15_000_characters(app: App, root: Path) -> None:
    (root / "a.txt").write_text("".join(f"line {number:05}\n" for number in range(1, 5001)))
    data = await done(app, "file_read", path="a.txt")
    header, _, text = data["text"].partition("\n")
    assert header == "Lines 1-1363 of 5000"
    assert len(text) <= 15_000
    assert text.endswith("line 01363\n")
    assert (data["truncated"], data["partial_line"], data["end_line"]) == (True, False, 1363)
    rest = await done(app, "file_read", path="a.txt", start_line=data["end_line"] + 1, end_line=1364)
    assert rest["text"] == "Lines 1364-1364 of 5000\nline 01364\n"


async def test_one_line_that_is_too_long_is_cut_and_says_so(app: App, root: Path) -> None:
    (root / "a.txt").write_text("é" * 40_000 + "\nnext\n")
    data = await done(app, "file_read", path="a.txt")
    assert data["text"] == "Lines 1-1 of 2\n" + "é" * 15_000
    assert (data["truncated"], data["partial_line"], data["end_line"], data["total_lines"]) == (
        True,
        True,
        1,
        2,
    )


async def test_a_huge_file_is_not_read_whole(app: App, root: Path) -> None:
    with (root / "huge.log").open("wb") as file:
        file.write(b"first\n" + (b"x" * 1023 + b"\n") * 80 * 1024)
        file.seek(1 << 40)
        file.write(b"\n")
    data = await done(app, "file_read", path="huge.log", end_line=1)
    assert data["text"].startswith("Lines 1-1 of at least ")
    assert (data["total_lines_exact"], data["bytes_read"]) == (False, SCANNED)
    failure = await failed(app, "file_read", path="huge.log", start_line=10_000_000)
    assert told(failure)[:2] == ("invalid_args", "start_line")


@pytest.mark.parametrize("content", [b"\x89PNG\r\n\x1a\n\0\0", b"\xff\xfea\0b\0", b"text\n" * 9000 + b"\0"])
async def test_binary_content_is_not_shown_and_not_worth_a_retry(
    app: App, root: Path, content: bytes
) -> None:
    (root / "a.bin").write_bytes(content)
    assert told(await failed(app, "file_read", path="a.bin")) == ("execution_error", "path", False)
    failure = await failed(app, "file_edit", path="a.bin", old="text", new="x")
    assert told(failure)[0::2] == ("execution_error", False)
    assert (root / "a.bin").read_bytes() == content


async def test_text_in_another_encoding_is_shown_with_a_warning(app: App, root: Path) -> None:
    (root / "a.txt").write_bytes("caf\xe9 au lait, s'il vous pla\xeet".encode("latin-1"))
    result = await call(app, "file_read", path="a.txt")
    assert result.unwrap()["text"] == "caf\ufffd au lait, s'il vous pla\ufffdt"
    assert "UTF-8" in result.warnings[0]


async def test_a_byte_order_mark_is_not_shown(app: App, root: Path) -> None:
    (root / "a.txt").write_bytes(b"\xef\xbb\xbfone\n")
    assert (await done(app, "file_read", path="a.txt"))["text"] == "one\n"


async def test_a_folder_is_read_as_the_listing_kind(app: App, root: Path) -> None:
    for path in ("src/b.py", "src/A.py", "src/inner/deep/deeper/x.py", "Zoo.txt", "apple.txt"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
    assert await done(app, "file_read", path=".") == {
        "kind": "listing",
        "path": ".",
        "entries": [
            {"name": "src", "path": "src", "type": "directory"},
            {"name": "inner", "path": "src/inner", "type": "directory"},
            {"name": "deep", "path": "src/inner/deep", "type": "directory"},
            {"name": "A.py", "path": "src/A.py", "type": "file"},
            {"name": "b.py", "path": "src/b.py", "type": "file"},
            {"name": "apple.txt", "path": "apple.txt", "type": "file"},
            {"name": "Zoo.txt", "path": "Zoo.txt", "type": "file"},
        ],
        "entry_count": 7,
        "truncated": False,
    }


async def test_every_path_in_a_listing_can_be_read_as_it_is(app: App, root: Path) -> None:
    for path in ("a/b/one.txt", "a/two words.txt", "é.txt"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(path)
    listed = await done(app, "file_read", path="./a/..//")
    read = {each["path"]: await done(app, "file_read", path=each["path"]) for each in listed["entries"]}
    kinds = {"file": "file", "directory": "listing"}
    assert [read[each["path"]]["kind"] for each in listed["entries"]] == [
        kinds[each["type"]] for each in listed["entries"]
    ]
    assert {path for path in read if path.endswith(".txt")} == {"a/b/one.txt", "a/two words.txt", "é.txt"}


async def test_an_empty_folder_is_an_empty_listing(app: App) -> None:
    data = await done(app, "file_read", path=".")
    assert (data["entries"], data["entry_count"], data["truncated"]) == ([], 0, False)


async def test_a_folder_of_many_files_shows_20_and_steers_to_file_search(app: App, root: Path) -> None:
    for number in range(21):
        (root / f"{number:02}.txt").touch()
    result = await call(app, "file_read", path=".")
    assert result.unwrap()["entry_count"] == 20
    assert result.unwrap()["truncated"] is True
    assert result.warnings == [INCOMPLETE]
    assert "file_search" in INCOMPLETE
    (root / "20.txt").unlink()
    whole = await call(app, "file_read", path=".")
    assert (whole.unwrap()["truncated"], whole.warnings) == (False, [])


async def test_a_listing_stops_at_300_files_and_keeps_the_upper_levels(app: App, root: Path) -> None:
    for folder in range(20):
        (root / f"{folder:02}").mkdir()
        for number in range(20):
            (root / f"{folder:02}" / f"{number:02}.txt").touch()
    (root / "zz.txt").touch()
    data = await done(app, "file_read", path=".")
    files_shown = [each["path"] for each in data["entries"] if each["type"] == "file"]
    assert len(files_shown) == 300
    assert files_shown[-1] == "zz.txt"
    assert data["truncated"] is True


async def test_hidden_and_ignored_names_are_left_out(app: App, root: Path) -> None:
    (root / ".gitignore").write_text("*.log\n!keep.log\n/build\nlogs/\n# comment\ndocs/*.tmp\n\\#odd\n[bad\n")
    (root / "src").mkdir()
    (root / "src" / ".gitignore").write_text("local.py\n")
    shown = ["src/build", "src/logs", "keep.log", "docs/a.md", "src/main.py", "local.py"]
    left_out = [
        ".env",
        ".git/config",
        "node_modules/x/y.js",
        "src/__pycache__/a.pyc",
        "venv/bin/python",
        "a.log",
    ]
    left_out += ["build/out.txt", "logs/x.txt", "docs/a.tmp", "src/local.py", "src/a.log", "#odd"]
    for path in shown + left_out:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
    data = await done(app, "file_read", path=".")
    paths = {each["path"] for each in data["entries"] if each["type"] == "file"}
    assert paths == set(shown)


async def test_an_ignored_folder_is_listed_when_it_is_asked_for(app: App, root: Path) -> None:
    (root / "node_modules" / "left-pad").mkdir(parents=True)
    data = await done(app, "file_read", path="node_modules")
    assert [each["path"] for each in data["entries"]] == ["node_modules/left-pad"]


async def test_links_are_shown_as_what_they_lead_to_and_those_outside_not_at_all(
    app: App, root: Path
) -> None:
    (root / "src").mkdir()
    (root / "src" / "back").symlink_to("..")
    (root / "out").symlink_to("/etc")
    (root / "broken").symlink_to("nothing")
    os.mkfifo(root / "pipe")
    data = await done(app, "file_read", path=".")
    assert [(each["path"], each["type"]) for each in data["entries"]] == [
        ("src", "directory"),
        ("src/back", "directory"),
    ]


async def test_a_folder_of_very_many_names_is_listed_in_part(app: App, root: Path) -> None:
    for number in range(3000):
        (root / f"{number}").mkdir()
    data = await done(app, "file_read", path=".")
    assert (data["entry_count"], data["truncated"]) == (300, True)


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", "~/x", "x\0y", "out/passwd"])
async def test_a_path_outside_the_root_is_an_invalid_argument(app: App, root: Path, path: str) -> None:
    (root / "out").symlink_to("/etc")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("file_read", {}),
        ("file_write", {"content": "x"}),
        ("file_edit", {"old": "a", "new": "b"}),
        ("file_search", {"query": "root"}),
    ]
    for name, more in calls:
        assert told(await failed(app, name, path=path, **more)) == ("invalid_args", "path", True)


async def test_a_missing_file_is_not_found_and_the_nearest_name_is_told(app: App, root: Path) -> None:
    (root / "docs").mkdir()
    (root / "docs" / "readme.md").touch()
    failure = await failed(app, "file_read", path="docs/readme.txt")
    assert told(failure) == ("not_found", "path", False)
    assert "'readme.md'" in failure.message
    assert told(await failed(app, "file_edit", path="no/file", old="a", new="b")) == (
        "not_found",
        "path",
        False,
    )
    assert told(await failed(app, "file_read", path="docs/readme.md/x")) == ("not_found", "path", False)


async def test_a_path_that_is_too_long_is_an_invalid_argument(app: App) -> None:
    assert told(await failed(app, "file_read", path="x" * 9000))[:2] == ("invalid_args", "path")
    assert told(await failed(app, "file_write", path="x" * 300, content=""))[:2] == ("invalid_args", "path")


async def test_a_pipe_is_refused_at_once(app: App, root: Path) -> None:
    os.mkfifo(root / "pipe")
    assert told(await failed(app, "file_read", path="pipe")) == ("execution_error", "path", False)
    assert told(await failed(app, "file_search", path="pipe", query="x")) == (
        "execution_error",
        "path",
        False,
    )


async def test_a_file_is_written_with_the_folders_on_the_way(app: App, root: Path) -> None:
    written = await done(app, "file_write", path="new/a.txt", content="one\ntwo")
    assert written == {"path": "new/a.txt", "bytes": 7, "lines": 2, "created": True}
    again = await done(app, "file_write", path=str(root / "new" / "a.txt"), content="")
    assert again == {"path": "new/a.txt", "bytes": 0, "lines": 0, "created": False}
    assert (root / "new" / "a.txt").read_text() == ""


async def test_writing_where_a_folder_is_names_the_path(app: App, root: Path) -> None:
    (root / "src").mkdir()
    assert told(await failed(app, "file_write", path="src", content="x")) == ("invalid_args", "path", True)


async def test_an_edit_replaces_the_only_place(app: App, root: Path) -> None:
    (root / "a.py").write_text("x = 1\ny = 2\n")
    assert await done(app, "file_edit", path="a.py", old="y = 2", new="y = 3") == {
        "path": "a.py",
        "replacements": 1,
        "lines": [2],
    }
    assert (root / "a.py").read_text() == "x = 1\ny = 3\n"


async def test_an_edit_of_several_places_lists_them_unless_all_are_meant(app: App, root: Path) -> None:
    (root / "a.py").write_text("one\ntwo\none\n")
    failure = await failed(app, "file_edit", path="a.py", old="one", new="1")
    assert told(failure) == ("invalid_args", "old", True)
    assert failure.details == {"matches": 2, "lines": [1, 3]}
    assert (root / "a.py").read_text() == "one\ntwo\none\n"
    assert (await done(app, "file_edit", path="a.py", old="one", new="1", all=True))["lines"] == [1, 3]
    assert (root / "a.py").read_text() == "1\ntwo\n1\n"


@pytest.mark.parametrize(
    ("old", "said"),
    [
        ("def f( x ):\n", "Line 2"),
        ("    return  x + 1", "Line 3"),
        ("retrun x + 1", "line 3"),
        ("something entirely different", "Nothing in its 4 lines"),
        ("\n\n\n", "Read the file"),
    ],
)
async def test_an_edit_of_what_is_not_there_says_what_is(app: App, root: Path, old: str, said: str) -> None:
    (root / "a.py").write_text("import x\ndef f( x ): pass\n    return x + 1\n")
    failure = await failed(app, "file_edit", path="a.py", old=old, new="y")
    assert told(failure) == ("invalid_args", "old", True)
    assert failure.details == {"matches": 0}
    assert said in failure.message


async def test_an_edit_that_changes_nothing_is_refused(app: App, root: Path) -> None:
    (root / "a.py").write_text("x")
    assert told(await failed(app, "file_edit", path="a.py", old="x", new="x"))[:2] == ("invalid_args", "new")
    assert (await failed(app, "file_edit", path="a.py", old="", new="x")).field == "old"


async def test_edits_of_one_file_at_the_same_time_are_all_made(app: App, root: Path) -> None:
    (root / "a.txt").write_text("".join(f"old {number};\n" for number in range(12)))
    edits = (
        done(app, "file_edit", path="a.txt", old=f"old {number};", new=f"new {number};")
        for number in range(12)
    )
    await asyncio.gather(*edits)
    assert (root / "a.txt").read_text() == "".join(f"new {number};\n" for number in range(12))


async def test_an_edit_fits_lines_that_end_as_on_windows(app: App, root: Path) -> None:
    (root / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    await done(app, "file_edit", path="a.txt", old="one\ntwo", new="1\n2")
    assert (root / "a.txt").read_bytes() == b"1\r\n2\r\n"


async def test_lines_that_an_edit_adds_end_as_those_of_the_file_do(app: App, root: Path) -> None:
    (root / "a.txt").write_bytes(b"a\r\nb\r\n")
    await done(app, "file_edit", path="a.txt", old="b", new="b1\nb2")
    assert (root / "a.txt").read_bytes() == b"a\r\nb1\r\nb2\r\n"
    await done(app, "file_edit", path="a.txt", old="\r\n", new="\n", all=True)
    assert (root / "a.txt").read_bytes() == b"a\nb1\nb2\n"
    (root / "a.txt").write_bytes(b"a\r\nb\nc\r\n")
    await done(app, "file_edit", path="a.txt", old="b", new="b1\nb2")
    assert (root / "a.txt").read_bytes() == b"a\r\nb1\nb2\nc\r\n", "there was no telling"


async def test_a_very_large_file_is_not_edited(app: App, root: Path) -> None:
    (root / "a.txt").write_bytes(b"x" * (MOST_EDITED + 1))
    assert told(await failed(app, "file_edit", path="a.txt", old="x", new="y"))[0::2] == (
        "execution_error",
        False,
    )


def test_without_writing_there_are_two_tools(tmp_path: Path) -> None:
    assert [each.name for each in files(tmp_path, write=False)] == ["file_read", "file_search"]
    assert [each.name for each in files(tmp_path)] == ["file_read", "file_write", "file_edit", "file_search"]


def test_what_tools_change_is_declared(tmp_path: Path) -> None:
    effects = {each.name: each.side_effects for each in files(tmp_path)}
    assert effects == {
        "file_read": "read",
        "file_write": "write",
        "file_edit": "write",
        "file_search": "read",
    }


@pytest.mark.parametrize("surface", ["http", "mcp"])
async def test_files_are_not_changed_from_afar_unless_that_was_said(root: Path, surface: str) -> None:
    input = {"path": "a.txt", "content": "x"}
    near, far = App("x"), App("y")
    near.add(files(root))
    far.add(files(root, write_from_afar=True))
    refused = (await near.invoke("file_write", input, surface=surface)).failure
    assert refused is not None
    assert refused.kind is Kind.unsupported
    assert not (root / "a.txt").exists()
    assert (await far.invoke("file_write", input, surface=surface)).ok
    assert (await near.invoke("file_read", {"path": "a.txt"}, surface=surface)).ok


@pytest.mark.parametrize("conversation", [{}, {"conversation": "c1"}])
async def test_without_a_root_the_folder_of_the_agent_is_used(
    root: Path, tmp_path: Path, conversation: dict[str, str]
) -> None:
    app = App("x", store=f"sqlite:///{tmp_path}/x.db")
    app.add(files())
    (root / "a.txt").write_text("hello")
    assert told(await failed(app, "file_read", path="a.txt")) == ("unavailable", None, False)
    reading, asking = (
        ScriptModel([calling("file_read", path="a.txt"), "Read."]),
        ScriptModel([calling("clerk", prompt="Read."), "Done."]),
    )
    app.add(Agent("clerk", model=reading, tools=["file_read"]))
    app.add(Agent("boss", model=asking, tools=["clerk"], folder=root))
    assert (await app.invoke("boss", {"prompt": "Go.", **conversation})).data == "Done."
    [heard] = [each.content for each in reading.requests[-1].messages if each.role == "tool"]
    assert wire.payload(heard)["text"] == "hello"


async def test_a_name_that_is_no_text_does_not_break_a_listing(app: App, root: Path) -> None:
    (root / os.fsdecode(b"bad\xff.txt")).write_text("findme")
    assert [each["name"] for each in (await done(app, "file_read", path="."))["entries"]] == ["bad\ufffd.txt"]
    assert (await done(app, "file_search", query="findme"))["entries"][0]["path"] == "bad\ufffd.txt"
