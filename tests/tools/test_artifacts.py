"""Artifacts are kept by owner with hash, type and size; `share_artifact`: where it finds files, and how it fails."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fairlead import App
from fairlead.failures import Failure, Kind
from fairlead.failures import tool as wire
from fairlead.store import Store, open_store
from fairlead.tools.artifacts import Artifacts, basename, mime_type_of
from fairlead.tools.artifacts_sharing import END, START, SandboxFolders, shared, sharing
from fairlead.tools.session import SESSION, Session

NOW = 1_800_000_000.0


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    with open_store(url=store_url) as opened:
        yield opened


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Store]:
    """A store for tests in which the database does not matter."""
    with open_store(url=f"sqlite:///{tmp_path}/local.db") as opened:
        yield opened


@pytest.fixture
def kept(local: Store, tmp_path: Path) -> Artifacts:
    return Artifacts(local, tmp_path / "artifacts", clock=lambda: NOW)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "report.csv").write_text("a,b\n1,2\n")
    return folder


def app_of(*sources: Any) -> App:
    made = App("x")
    for each in sources:
        made.add(each)
    return made


async def share(app: App, **input: Any) -> tuple[dict[str, Any], str | None]:
    return shared((await app.invoke("share_artifact", input)).unwrap()["text"])


def text_at(metadata: dict[str, Any]) -> str:
    return Path(metadata["host_path"]).read_text()


def files_at(metadata: dict[str, Any]) -> list[str]:
    place = Path(metadata["host_path"])
    return sorted(str(each.relative_to(place)) for each in place.rglob("*") if not each.is_dir())


async def failed(app: App, **input: Any) -> dict[str, Any]:
    result = await app.invoke("share_artifact", input)
    assert result.failure is not None, result.data
    return wire.render(result.failure)


@contextmanager
def conversation(**about: Any) -> Iterator[None]:
    token = SESSION.set(Session("session-1", owner="ada", **about))
    try:
        yield
    finally:
        SESSION.reset(token)


async def test_what_is_put_is_known_with_hash_type_size_and_owner(store: Store, tmp_path: Path) -> None:
    kept = Artifacts(store, tmp_path / "artifacts", clock=lambda: NOW)
    record = await kept.put("a.csv", b"1,2\n", owner="ada", context="s1", description="numbers")
    assert record._replace(id="") == (
        "", "ada", "s1", "call", "a.csv", "text/csv", 4, hashlib.sha256(b"1,2\n").hexdigest(), False, "numbers", NOW
    )  # fmt: skip
    assert await kept.get(record.id, "ada") == record
    assert await kept.list("ada") == [record]
    assert await kept.list("ada", "s1") == [record]
    assert await kept.list("ada", "s2") == []
    with kept.open(record.id, "ada") as file:
        assert file.read() == b"1,2\n"
    assert kept.path(record) == tmp_path / "artifacts" / "s1" / "a.csv"
    assert record.to_dict()["created"] == "2027-01-15T08:00:00Z"


async def test_what_belongs_to_another_is_as_unknown_as_what_does_not_exist(
    store: Store, tmp_path: Path
) -> None:
    kept = Artifacts(store, tmp_path / "artifacts")
    record = await kept.put("a.txt", b"hers", owner="ada", context="s1")
    said = []
    for id in (record.id, "no-such-id"):
        with pytest.raises(Failure) as caught:
            await kept.get(id, "bob")
        said.append((caught.value.kind, caught.value.message))
        with pytest.raises(Failure), kept.open(id, "bob"):
            pass
    assert said[0] == said[1]
    assert said[0][0] is Kind.not_found
    assert await kept.list("bob") == []


async def test_a_context_of_another_cannot_be_written_to(store: Store, tmp_path: Path) -> None:
    kept = Artifacts(store, tmp_path / "artifacts")
    record = await kept.put("a.txt", b"hers", owner="ada", context="s1")
    for name in ("a.txt", "b.txt"):
        with pytest.raises(Failure) as caught:
            await kept.put(name, b"his", owner="bob", context="s1")
        assert caught.value.kind is Kind.forbidden
    with kept.open(record.id, "ada") as file:
        assert file.read() == b"hers"
    assert os.listdir(tmp_path / "artifacts" / "s1") == ["a.txt"]


async def test_the_same_name_again_replaces_what_was_there(store: Store, tmp_path: Path) -> None:
    kept = Artifacts(store, tmp_path / "artifacts")
    first = await kept.put("a.txt", b"one", owner="ada", context="s1")
    second = await kept.put("a.txt", b"two!", owner="ada", context="s1")
    assert (second.id, second.size) == (first.id, 4)
    assert await kept.list("ada") == [second]


async def test_many_at_once_leave_content_and_record_in_step(store: Store, tmp_path: Path) -> None:
    kept = Artifacts(store, tmp_path / "artifacts")
    puts = [
        kept.put("a.txt", bytes([65 + number]) * 10_000, owner="ada", context="s1") for number in range(12)
    ]
    await asyncio.gather(*puts)
    (record,) = await kept.list("ada")
    with kept.open(record.id, "ada") as file:
        assert hashlib.sha256(file.read()).hexdigest() == record.sha256


def test_what_is_too_large_leaves_nothing(local: Store, tmp_path: Path) -> None:
    kept = Artifacts(local, tmp_path / "artifacts", largest=10)
    with pytest.raises(Failure) as caught:
        kept.put_now("a.bin", [b"12345", b"678901"], owner="ada", context="s1")
    assert caught.value.kind is Kind.too_large
    assert kept.list_now("ada") == []
    assert os.listdir(tmp_path / "artifacts" / "s1") == []


@pytest.mark.parametrize("context", ["../../up", "/etc", "", ".", "..", "a/b", "x" * 500, "\0", "é"])
def test_no_context_leads_out_of_the_folder(kept: Artifacts, tmp_path: Path, context: str) -> None:
    record = kept.put_now("a.txt", b"x", owner="ada", context=context)
    place = kept.path(record)
    assert place.parent.parent == tmp_path / "artifacts"
    assert place.read_bytes() == b"x"


@pytest.mark.parametrize("name", ["../a.txt", "a/b", "", "a\\b", "tab\t"])
def test_a_name_that_is_no_plain_file_name_is_refused(kept: Artifacts, name: str) -> None:
    with pytest.raises(Failure) as caught:
        kept.put_now(name, b"x", owner="ada", context="s1")
    assert caught.value.field == "name"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("report.md", "report.md"),
        ("a/b/report.md", "report.md"),
        ("..\\..\\report.md", "report.md"),
        ("../../etc/passwd", "passwd"),
        ("with\nnew\x00line.txt", "withnewline.txt"),
        ("/", "artifact"),
        ("", "artifact"),
        ("\n", "artifact"),
    ],
)
def test_a_file_name_is_reduced_to_its_last_segment(given: str, name: str) -> None:
    assert basename(given) == name


@pytest.mark.parametrize(
    ("name", "type"),
    [
        ("a.PNG", "image/png"),
        ("a.md", "text/markdown"),
        ("a.tar.gz", "application/gzip"),
        ("a.unheard", "application/octet-stream"),
        ("none", "application/octet-stream"),
    ],
)
def test_a_type_is_told_by_the_ending(name: str, type: str) -> None:
    assert mime_type_of(name) == type


async def test_a_file_of_the_folder_is_shared_with_all_that_is_known_of_it(
    kept: Artifacts, root: Path
) -> None:
    app = app_of(*sharing(kept, root=root))
    with conversation():
        result = await app.invoke("share_artifact", {"path": "./report.csv", "description": "The numbers"})
    text = result.unwrap()["text"]
    metadata, content = shared(text)
    assert text.startswith("Shared report.csv")
    assert metadata == {
        "filename": "report.csv",
        "mime_type": "text/csv",
        "path": "./report.csv",
        "description": "The numbers",
        "host_path": str(kept.folder / "session-1" / "report.csv"),
        "context_id": "session-1",
        "context_type": "conversation",
        "file_size": 8,
        "is_directory": False,
    }
    assert content is None
    assert text_at(metadata) == "a,b\n1,2\n"
    (record,) = kept.list_now("ada")
    (announced,) = result.artifacts
    assert (announced["id"], announced["name"], announced["mimeType"]) == (
        record.id,
        "report.csv",
        "text/csv",
    )
    assert announced["uri"].startswith("data:text/csv;base64,")
    assert announced["metadata"]["sha256"] == record.sha256


async def test_a_large_file_is_pointed_to_and_not_carried_along(kept: Artifacts, root: Path) -> None:
    (root / "big.bin").write_bytes(os.urandom(100_000))
    result = await app_of(*sharing(kept, root=root)).invoke("share_artifact", {"path": "big.bin"})
    (announced,) = result.artifacts
    assert announced["uri"].startswith("file:///")
    assert announced["sizeBytes"] == 100_000


async def test_a_text_is_shared_without_any_folder(kept: Artifacts) -> None:
    app = app_of(*sharing(kept))
    metadata, content = await share(app, content="# Title\\n\\n\\ttext", filename="notes/a.md", path="")
    assert content == "# Title\n\n\ttext"
    assert (metadata["filename"], metadata["has_content"], metadata["context_type"]) == ("a.md", True, "call")
    assert text_at(metadata) == content


async def test_a_text_with_real_lines_stays_as_it_was_written(kept: Artifacts) -> None:
    program = 'print("a\\tb")\nprint("\\n")\n'
    _, content = await share(app_of(*sharing(kept)), content=program, filename="a.py")
    assert content == program


async def test_a_very_long_text_is_kept_and_not_repeated(kept: Artifacts) -> None:
    metadata, content = await share(app_of(*sharing(kept)), content="x" * 60_000, filename="a.txt")
    assert content is None
    assert (metadata["file_size"], len(text_at(metadata))) == (60_000, 60_000)


async def test_with_both_the_real_file_is_copied_and_not_the_text(kept: Artifacts, root: Path) -> None:
    app = app_of(*sharing(kept, root=root))
    metadata, content = await share(app, path="report.csv", content="report.csv", filename="other.txt")
    assert (metadata["filename"], content) == ("report.csv", None)
    assert text_at(metadata) == "a,b\n1,2\n"


async def test_empty_fillers_count_as_left_out(kept: Artifacts, root: Path) -> None:
    app = app_of(*sharing(kept, root=root))
    metadata, _ = await share(app, path="report.csv", content="", filename="  ", description="")
    assert "description" not in metadata
    assert "has_content" not in metadata


@pytest.mark.parametrize(
    "input", [{}, {"path": " "}, {"content": "x"}, {"filename": "x"}, {"content": " ", "filename": "x"}]
)
async def test_neither_a_path_nor_content_with_a_name_is_refused(
    kept: Artifacts, input: dict[str, Any]
) -> None:
    envelope = await failed(app_of(*sharing(kept)), **input)
    assert (envelope["kind"], envelope["field"], envelope["retryable"]) == ("invalid_args", "path", True)


def test_the_schema_says_which_fields_go_together(kept: Artifacts) -> None:
    schema = sharing(kept)[0].input.json_schema
    assert schema["anyOf"] == [{"required": ["path"]}, {"required": ["content", "filename"]}]
    assert schema["additionalProperties"] is False
    assert all(each["description"] for each in schema["properties"].values())


@pytest.mark.parametrize("marker", [START, END])
@pytest.mark.parametrize("field", ["content", "description", "filename"])
async def test_a_marker_in_what_is_shared_is_refused(kept: Artifacts, marker: str, field: str) -> None:
    input = {"content": "text", "filename": "a.txt", "description": "what"}
    envelope = await failed(app_of(*sharing(kept)), **(input | {field: f"x {marker} y"}))
    assert (envelope["kind"], envelope["field"], envelope["retryable"]) == ("invalid_args", field, True)
    assert envelope["message"].startswith("share_artifact:")


async def test_a_file_name_that_climbs_is_contained(kept: Artifacts) -> None:
    metadata, _ = await share(app_of(*sharing(kept)), content="x", filename="../../../etc/cron.d/x")
    assert metadata["filename"] == "x"
    assert Path(metadata["host_path"]).is_relative_to(kept.folder)


async def test_a_file_name_of_which_nothing_is_left_becomes_artifact(kept: Artifacts) -> None:
    metadata, _ = await share(app_of(*sharing(kept)), content="x", filename="///")
    assert metadata["filename"] == "artifact"


@pytest.mark.parametrize("filename", ["..", ".", "a/..", "x" * 300, ".fairlead-1"])
async def test_a_file_name_that_cannot_be_one_is_refused(kept: Artifacts, filename: str) -> None:
    envelope = await failed(app_of(*sharing(kept)), content="x", filename=filename)
    assert (envelope["kind"], envelope["field"], envelope["retryable"]) == ("invalid_args", "filename", True)
    assert envelope["message"].startswith("share_artifact:")


@pytest.mark.parametrize("path", ["../local.db", "/etc/passwd", "out/passwd", "a/../../local.db"])
async def test_a_path_out_of_the_folder_is_refused(kept: Artifacts, root: Path, path: str) -> None:
    (root / "out").symlink_to("/etc")
    envelope = await failed(app_of(*sharing(kept, root=root)), path=path)
    assert (envelope["kind"], envelope["field"], envelope["retryable"]) == ("invalid_args", "path", True)
    assert envelope["message"].startswith("share_artifact:")
    assert kept.list_now("") == []


async def test_without_a_folder_every_path_is_refused(kept: Artifacts, root: Path) -> None:
    envelope = await failed(app_of(*sharing(kept)), path=str(root / "report.csv"))
    assert (envelope["kind"], envelope["field"], envelope["retryable"]) == ("invalid_args", "path", True)


async def test_without_a_root_the_folder_of_the_conversation_is_used(kept: Artifacts, root: Path) -> None:
    with conversation(root=root):
        metadata, _ = await share(app_of(*sharing(kept)), path="report.csv")
    assert metadata["file_size"] == 8


async def test_a_missing_file_lists_where_it_was_looked_for(kept: Artifacts, root: Path) -> None:
    envelope = await failed(app_of(*sharing(kept, root=root)), path="none.csv")
    assert (envelope["kind"], envelope["retryable"], envelope["attempted"]) == (
        "execution_error",
        True,
        ["none.csv"],
    )
    assert envelope["message"].startswith("share_artifact:")


async def test_what_cannot_be_copied_says_why(
    kept: Artifacts, root: Path, local: Store, tmp_path: Path
) -> None:
    os.mkfifo(root / "pipe")
    envelope = await failed(app_of(*sharing(kept, root=root)), path="pipe")
    assert (envelope["kind"], envelope["retryable"], envelope["source"]) == ("execution_error", True, "pipe")
    small = Artifacts(local, tmp_path / "small", largest=3)
    envelope = await failed(app_of(*sharing(small, root=root)), path="report.csv")
    assert envelope["kind"] == "execution_error"
    assert "3 bytes" in envelope["message"]
    (tmp_path / "file").touch()
    nowhere = Artifacts(local, tmp_path / "file" / "inside")
    envelope = await failed(app_of(*sharing(nowhere, root=root)), path="report.csv")
    assert (envelope["kind"], envelope["retryable"]) == ("execution_error", True)
    assert "Not a directory" in envelope["message"]


async def test_a_folder_is_shared_as_a_folder_without_its_links(kept: Artifacts, root: Path) -> None:
    (root / "site" / "css").mkdir(parents=True)
    (root / "site" / "index.html").write_text("<h1>Hi</h1>")
    (root / "site" / "css" / "a.css").write_text("h1 {}")
    (root / "site" / "passwd").symlink_to("/etc/passwd")
    app = app_of(*sharing(kept, root=root))
    with conversation():
        metadata, _ = await share(app, path="site/")
        again, _ = await share(app, path="site")
    assert (metadata["is_directory"], metadata["file_size"]) == (True, 16)
    assert files_at(metadata) == ["css/a.css", "index.html"]
    assert again["host_path"] == metadata["host_path"]
    (record,) = kept.list_now("ada")
    with kept.open(record.id, "ada", "css/a.css") as file:
        assert file.read() == b"h1 {}"
    for inside in (None, "../report.csv", "none"):
        with pytest.raises(Failure), kept.open(record.id, "ada", inside):
            pass
    assert os.listdir(kept.folder / "session-1") == ["site"]


async def test_a_file_takes_the_place_of_a_folder_of_its_name_and_back(kept: Artifacts, root: Path) -> None:
    (root / "one").mkdir()
    (root / "one" / "x").write_text("x")
    app = app_of(*sharing(kept, root=root))
    with conversation():
        for _ in range(2):
            metadata, _ = await share(app, path="one")
            assert files_at(metadata) == ["x"]
            metadata, _ = await share(app, content="text", filename="one")
            assert text_at(metadata) == "text"


class Box:
    """A sandbox with a home and a workspace around it."""

    def __init__(self, folder: Path, kept: Artifacts) -> None:
        self.workspace = folder / "workspace"
        self.home = self.workspace / "agents" / "a1"
        self.home.mkdir(parents=True)
        folders = SandboxFolders("/home/agent", self.home, self.workspace)
        self.app = app_of(*sharing(kept, sandbox=folders))

    def put(self, path: str, text: str = "content") -> None:
        (self.workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (self.workspace / path).write_text(text)


@pytest.fixture
def box(tmp_path: Path, kept: Artifacts) -> Box:
    return Box(tmp_path, kept)


@pytest.mark.parametrize("path", ["chart.png", "./chart.png", "/home/agent/chart.png", "sub/../chart.png"])
async def test_a_path_in_a_sandbox_is_below_its_home(box: Box, path: str) -> None:
    box.put("agents/a1/chart.png")
    metadata, _ = await share(box.app, path=path)
    assert (metadata["filename"], metadata["path"]) == ("chart.png", path)


async def test_a_path_of_the_workspace_is_below_the_workspace(box: Box) -> None:
    box.put("shared/data.csv")
    metadata, _ = await share(box.app, path="/workspace/shared/data.csv")
    assert metadata["filename"] == "data.csv"


@pytest.mark.parametrize("folder", ["output", "out", "build", "dist"])
async def test_what_is_not_in_its_place_is_looked_for_where_builds_put_things(box: Box, folder: str) -> None:
    box.put(f"agents/a1/{folder}/app.zip")
    metadata, _ = await share(box.app, path="/home/agent/somewhere/app.zip")
    assert metadata["filename"] == "app.zip"


async def test_the_first_place_that_has_it_wins(box: Box) -> None:
    box.put("agents/a1/dist/a.txt", "dist")
    box.put("agents/a1/out/a.txt", "out")
    assert text_at((await share(box.app, path="a.txt"))[0]) == "out"
    box.put("agents/a1/a.txt", "home")
    assert text_at((await share(box.app, path="a.txt"))[0]) == "home"


async def test_what_is_nowhere_in_a_sandbox_lists_every_place(box: Box) -> None:
    envelope = await failed(box.app, path="sub/foo.png")
    assert envelope["kind"] == "execution_error"
    assert envelope["attempted"] == [
        "/home/agent/sub/foo.png",
        "/home/agent/output/foo.png",
        "/home/agent/out/foo.png",
        "/home/agent/build/foo.png",
        "/home/agent/dist/foo.png",
    ]
    assert all(each in envelope["message"] for each in envelope["attempted"])


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../a2/x", "/workspace/../../etc/passwd", "~/x", "way/passwd", "/home/agent/../x"]
)
async def test_a_path_out_of_a_sandbox_is_refused(box: Box, path: str) -> None:
    (box.home / "way").symlink_to("/etc")
    envelope = await failed(box.app, path=path)
    assert (envelope["kind"], envelope["field"], envelope["retryable"]) == ("invalid_args", "path", True)
    assert "/home/agent and /workspace" in envelope["message"]
    assert "file_search" in envelope["message"]


async def test_a_sandbox_need_not_have_a_workspace(kept: Artifacts, root: Path) -> None:
    app = app_of(*sharing(kept, sandbox=SandboxFolders(str(root), root)))
    metadata, _ = await share(app, path=str(root / "report.csv"))
    assert metadata["file_size"] == 8
    assert (await failed(app, path="/workspace/report.csv"))["field"] == "path"


@pytest.mark.parametrize(
    "text", ["", "no markers", f"{START}\n{{}}", f"{START}\nnot json\n{END}", f"{END}{START}"]
)
def test_a_result_without_its_markers_is_an_execution_error(text: str) -> None:
    with pytest.raises(Failure) as caught:
        shared(text)
    envelope = wire.render(caught.value)
    assert (envelope["kind"], envelope["retryable"]) == ("execution_error", True)
