"""The docstore tools: their inputs, outputs, codes and approvals, and a path policy that tells nothing of the disk."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from fairlead import App
from fairlead.failures import Failure, Kind
from fairlead.failures import runtime as wire
from fairlead.tools.documents import documents
from servers import until

SECRET = "the secret outside"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "secret.txt").write_text(SECRET)
    folder = tmp_path / "docs"
    (folder / "notes").mkdir(parents=True)
    (folder / "notes" / "today.md").write_text("buy milk\nTODO: call Ada\nread\n")
    (folder / "index.md").write_text("# Index\n")
    return folder


@pytest.fixture
def app(root: Path) -> App:
    return app_of(root, exec=True)


def app_of(root: Path | None, *, exec: bool = False) -> App:
    made = App("x")
    for each in documents(root, exec=exec):
        made.add(each)
    return made


async def done(app: App, name: str, **input: Any) -> Any:
    return (await app.invoke(name, input, confirm=True)).unwrap()


async def failed(app: App, name: str, **input: Any) -> tuple[Failure, str, str]:
    """The failure, with its code and category on the runtime wire."""
    result = await app.invoke(name, input, confirm=True)
    assert result.failure is not None, result.data
    envelope = wire.render(result.failure)
    return result.failure, envelope["error"], envelope["category"]


async def code(app: App, name: str, **input: Any) -> str:
    return (await failed(app, name, **input))[1]


async def test_a_document_is_read(app: App) -> None:
    assert await done(app, "read", path="notes/today.md") == {"content": "buy milk\nTODO: call Ada\nread\n"}


@pytest.mark.parametrize(
    ("part", "content"),
    [
        ({"offset": 1}, "TODO: call Ada\nread\n"),
        ({"offset": 1, "limit": 1}, "TODO: call Ada\n"),
        ({"limit": 1}, "buy milk\n"),
        ({"offset": 99}, ""),
    ],
)
async def test_some_lines_of_a_document_are_read(app: App, part: dict[str, Any], content: str) -> None:
    assert await done(app, "read", path="notes/today.md", **part) == {"content": content}


async def test_a_very_long_document_is_read_in_parts(app: App, root: Path) -> None:
    (root / "long.txt").write_text("".join(f"{number:09}\n" for number in range(20_000)))
    result = await app.invoke("read", {"path": "long.txt"})
    assert len(result.unwrap()["content"]) == 100_000
    assert "offset 10000" in result.warnings[0]
    rest = await done(app, "read", path="long.txt", offset=10_000, limit=1)
    assert rest == {"content": "000010000\n"}


async def test_a_document_is_written_with_its_folders(app: App, root: Path) -> None:
    assert await done(app, "write", path="new/a.md", content="é") == {"bytes": 2}
    assert (root / "new" / "a.md").read_text() == "é"


async def test_an_edit_needs_one_match_or_all(app: App, root: Path) -> None:
    await done(app, "write", path="a.md", content="x y x")
    assert await done(app, "edit", path="a.md", old="y", new="z") == {"replacements": 1}
    assert await code(app, "edit", path="a.md", old="x", new="z") == "docstore_invalid"
    assert await code(app, "edit", path="a.md", old="q", new="z") == "docstore_invalid"
    assert await done(app, "edit", path="a.md", old="x", new="w", all=True) == {"replacements": 2}
    assert (root / "a.md").read_text() == "w z w"


async def test_edits_of_one_document_at_the_same_time_are_all_made(app: App, root: Path) -> None:
    (root / "list.md").write_text("".join(f"old {number};\n" for number in range(12)))
    edits = (
        done(app, "edit", path="list.md", old=f"old {number};", new=f"new {number};") for number in range(12)
    )
    await asyncio.gather(*edits)
    assert (root / "list.md").read_text() == "".join(f"new {number};\n" for number in range(12))


async def test_lines_that_end_as_on_windows_are_found_and_edited(app: App, root: Path) -> None:
    (root / "list.md").write_bytes(b"alpha\r\nbeta\r\n")
    [found] = await done(app, "grep", pattern="beta$")
    assert (found["line"], found["text"]) == (2, "beta")
    await done(app, "edit", path="list.md", old="alpha\nbeta", new="a\nb")
    assert (root / "list.md").read_bytes() == b"a\r\nb\r\n"


async def test_lines_are_found_in_documents(app: App) -> None:
    found = await done(app, "grep", pattern="TODO|Index")
    assert found == [
        {"path": "index.md", "line": 1, "text": "# Index"},
        {"path": "notes/today.md", "line": 2, "text": "TODO: call Ada"},
    ]
    assert await done(app, "grep", pattern="TODO|Index", glob="notes/*") == found[1:]
    assert await done(app, "grep", pattern="TODO|Index", max=1) == found[:1]


async def test_documents_are_listed(app: App) -> None:
    found = [{"path": "index.md", "size": 8}, {"path": "notes/today.md", "size": 29}]
    assert await done(app, "list") == found
    assert await done(app, "list", glob="notes/**") == found[1:]
    assert await done(app, "list", glob="*.txt") == []


async def test_a_document_is_deleted_once(app: App, root: Path) -> None:
    assert await done(app, "delete", path="index.md") == {"deleted": True}
    assert not (root / "index.md").exists()
    assert await code(app, "delete", path="index.md") == "docstore_not_found"


async def test_each_code_has_its_category(app: App, root: Path) -> None:
    assert (await failed(app, "read", path="no.md"))[1:] == ("docstore_not_found", "not_found")
    assert (await failed(app, "read", path="../secret.txt"))[1:] == ("docstore_denied", "denied")
    assert (await failed(app, "grep", pattern="("))[1:] == ("docstore_invalid", "invalid")
    assert (await failed(app, "grep", pattern="x", glob="["))[1:] == ("docstore_invalid", "invalid")
    assert (await failed(app, "list", glob="a**b"))[1:] == ("docstore_invalid", "invalid")
    assert (await failed(app, "read", path="notes"))[1:] == ("docstore_io_error", "unavailable")
    assert (await failed(app, "write", path="x" * 300, content=""))[1:] == (
        "docstore_io_error",
        "unavailable",
    )
    assert (await failed(app, "exec", cmd="no-such-program"))[1:] == ("process_error", "unavailable")


async def test_a_file_that_cannot_be_read_is_an_io_error() -> None:
    assert await code(app_of(Path("/proc/self")), "read", path="mem") == "docstore_io_error"


async def test_what_the_system_forbids_is_denied() -> None:
    place = Path("/sys/kernel")  # not even root makes files there
    if not forbidden(place):
        pytest.skip("this system does not forbid it")
    assert await code(app_of(place), "write", path="x", content="") == "docstore_denied"


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "..",
        "notes/../../secret.txt",
        "notes/../index.md",
        "/etc/passwd",
        "{root}/index.md",
        "a\0b",
        "out/secret.txt",
        "out/nothing.txt",
        "broken",
        "lone \ud800",
    ],
)
async def test_a_path_that_may_not_be_used_is_denied_for_every_tool(app: App, root: Path, path: str) -> None:
    (root / "out").symlink_to(root.parent)
    (root / "broken").symlink_to("/nowhere/at/all")
    path = path.format(root=root)
    calls: list[tuple[str, dict[str, Any]]] = [
        ("read", {}),
        ("write", {"content": "changed"}),
        ("edit", {"old": "a", "new": "b"}),
    ]
    if path != "broken":
        calls.append(("delete", {}))
    for name, more in calls:
        result = await app.invoke(name, {"path": path, **more}, confirm=True)
        assert result.failure is not None
        if "\ud800" not in path:
            assert wire.render(result.failure)["error"] == "docstore_denied"
    assert (root.parent / "secret.txt").read_text() == SECRET


async def test_what_is_said_of_a_path_outside_does_not_tell_what_is_there(app: App) -> None:
    there, _, _ = await failed(app, "read", path="../secret.txt")
    not_there, _, _ = await failed(app, "read", path="../nothing.txt")
    assert there.message == not_there.message
    assert SECRET not in there.message


async def test_links_outside_are_neither_listed_nor_looked_into(app: App, root: Path) -> None:
    (root / "out").symlink_to(root.parent)
    (root / "file").symlink_to(root.parent / "secret.txt")
    assert [each["path"] for each in await done(app, "list")] == ["index.md", "notes/today.md"]
    assert await done(app, "grep", pattern="secret") == []


async def test_deleting_a_link_deletes_the_link(app: App, root: Path) -> None:
    (root / "file").symlink_to(root.parent / "secret.txt")
    assert await done(app, "delete", path="file") == {"deleted": True}
    assert (root.parent / "secret.txt").read_text() == SECRET


async def test_without_a_folder_everything_is_denied() -> None:
    app = app_of(None, exec=True)
    inputs: dict[str, dict[str, Any]] = {
        "read": {"path": "a"},
        "write": {"path": "a", "content": ""},
        "edit": {"path": "a", "old": "b", "new": "c"},
        "grep": {"pattern": "a"},
        "list": {},
        "delete": {"path": "a"},
        "exec": {"cmd": "true"},
    }
    for name, input in inputs.items():
        assert await code(app, name, **input) == "docstore_denied"


async def test_a_pipe_is_denied_at_once(app: App, root: Path) -> None:
    os.mkfifo(root / "pipe")
    assert await code(app, "read", path="pipe") == "docstore_denied"
    assert await code(app, "write", path="pipe", content="x") == "docstore_denied"


async def test_what_is_not_text_is_neither_shown_nor_edited(app: App, root: Path) -> None:
    (root / "a.bin").write_bytes(b"\0\1\2\xff")
    assert await code(app, "read", path="a.bin") == "docstore_invalid"
    assert await code(app, "edit", path="a.bin", old="\1", new="x") == "docstore_invalid"
    assert (root / "a.bin").read_bytes() == b"\0\1\2\xff"


def test_what_changes_something_asks_and_what_looks_does_not(tmp_path: Path) -> None:
    asks = {each.name: each.requires_confirmation for each in documents(tmp_path, exec=True)}
    looks = dict.fromkeys(("read", "grep", "list"), False)
    assert asks == looks | dict.fromkeys(("write", "edit", "delete", "exec"), True)


def test_exec_is_off_until_it_is_switched_on(tmp_path: Path) -> None:
    names = [each.name for each in documents(tmp_path, prefix="doc_")]
    assert names == ["doc_read", "doc_write", "doc_edit", "doc_grep", "doc_list", "doc_delete"]


async def test_without_confirmation_nothing_is_changed(app: App, root: Path) -> None:
    result = await app.invoke("delete", {"path": "index.md"})
    assert result.failure is not None
    assert result.failure.kind is Kind.needs_confirmation
    assert (root / "index.md").exists()


async def test_a_program_runs_in_the_folder(app: App, root: Path) -> None:
    assert await done(app, "exec", cmd="pwd") == {"exit": 0, "stdout": f"{root}\n", "stderr": ""}
    told = await done(app, "exec", cmd="sh", args=["-c", "cat; echo oops >&2; exit 3"], stdin="in")
    assert told == {"exit": 3, "stdout": "in", "stderr": "oops\n"}


async def test_a_program_is_given_no_key_of_ours(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "value-of-the-key")
    told = await done(app, "exec", cmd="env")
    assert "value-of-the-key" not in told["stdout"]


async def test_a_program_that_takes_too_long_is_stopped_with_all_it_started(app: App, root: Path) -> None:
    script = "echo begun >&2; (sleep 300; touch late) & echo $! > child; wait"
    failure, error, _ = await failed(app, "exec", cmd="sh", args=["-c", script], timeout=0.5)
    assert error == "process_error"
    assert failure.details["stderr"] == "begun\n"
    child = int((root / "child").read_text())
    until(lambda: not running(child), "what the program started still runs")


async def test_a_program_that_a_signal_stops_is_a_process_error(app: App) -> None:
    failure, error, _ = await failed(app, "exec", cmd="sh", args=["-c", "kill -TERM $$"])
    assert (error, failure.details["signal"]) == ("process_error", "SIGTERM")


async def test_what_a_program_says_is_bounded(app: App) -> None:
    told = await done(app, "exec", cmd="sh", args=["-c", "yes | head -c 5000000; echo end"])
    assert len(told["stdout"]) < 51_000
    assert told["stdout"].endswith("y\nend\n")


async def test_a_program_need_not_read_what_it_is_given(app: App) -> None:
    assert (await done(app, "exec", cmd="true", stdin="x" * 1_000_000))["exit"] == 0


def running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def forbidden(folder: Path) -> bool:
    try:
        os.open(folder / "fairlead-test", os.O_CREAT | os.O_WRONLY)
    except PermissionError:
        return True
    except OSError:
        pass
    return False
