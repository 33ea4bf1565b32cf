"""Files of callers: signed addresses that open one file for one purpose, uploads in pieces, attachments for agents."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import beeos_sdk as sdk
import httpx
import pytest

from fairlead import App, Failure, Kind
from fairlead.gateway.files import Files
from fairlead.gateway.keys import Keys
from fairlead.gateway.sweeper import Sweeper
from fairlead.store.statements import Statement
from fairlead.surfaces.http.asgi import Message, Receive
from fairlead.testing import FixedClock
from fairlead.tools.artifacts import Artifacts
from gateway.site_under_test import PATIENCE, Site, build, serving

LARGEST = 2_000_000
TEXT = "text/plain"


class Shed:
    """A server that takes files, with two callers."""

    def __init__(self, url: str, app: App, site: Any, folder: Path) -> None:
        self.url = url
        self.app = app
        self.asgi = site
        self.site = Site(url, folder)
        keys = Keys(app.store, app.wall)
        self.ann, _ = keys.issue_now("ann", owner="local")
        self.bob, _ = keys.issue_now("bob", owner="bob")

    def api(self, key: str | None = None) -> Any:
        settings = sdk.Configuration(host=self.url, access_token=key or self.ann, retries=False)
        return sdk.FilesApi(sdk.ApiClient(settings))

    def presigned(self, name: str = "a.txt", type: str = TEXT, key: str | None = None) -> Any:
        request = sdk.PresignUploadRequest(filename=name, content_type=type)
        return self.api(key).presign_file_upload(request).data

    def put(self, url: str, content: Any, type: str = TEXT) -> httpx.Response:
        return httpx.put(url, content=content, headers={"Content-Type": type}, timeout=PATIENCE)

    async def answered(self, url: str, receive: Receive) -> list[Message]:
        """What the server says to an upload whose bytes come when the test says so."""
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        parts = urlsplit(url)
        scope = {
            "type": "http",
            "method": "PUT",
            "path": parts.path,
            "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(),
            "headers": [(b"content-type", b"text/plain")],
            "client": ("127.0.0.1", 1),
        }
        await self.asgi(scope, receive, send)
        return sent

    def uploaded(self, content: bytes = b"hello", **about: Any) -> Any:
        made = self.presigned(**about)
        assert self.put(made.upload_url, content, about.get("type", TEXT)).status_code == 200
        return made

    def invoke(self, body: dict[str, Any], key: str | None = None) -> httpx.Response:
        with self.site.raw(key or self.ann) as client:
            return client.post("/agents/echo/invoke", json=body)


@contextmanager
def shed_at(store_url: str, folder: Path, clock: FixedClock | None = None, **options: Any) -> Iterator[Shed]:
    app = build(store_url, folder, clock)
    asgi = app.http(gateway={"files_folder": str(folder / "files"), "largest_file": LARGEST, **options})
    with serving(asgi) as url:
        yield Shed(url, app, asgi, folder)
    app.store.close()


@pytest.fixture
def shed(store_url: str, tmp_path: Path) -> Iterator[Shed]:
    with shed_at(store_url, tmp_path) as made:
        yield made


def on_disk(folder: Path) -> list[bytes]:
    return [each.read_bytes() for each in (folder / "files").rglob("*") if each.is_file()]


def changed(url: str, **query: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(query=urlencode(dict(parse_qsl(parts.query)) | query)))


def test_the_sdk_uploads_a_file_and_an_agent_gets_its_address(shed: Shed) -> None:
    content = b"x,y\n1,2\n" * 50_000
    made = shed.presigned("tide table.csv", "text/csv")
    assert made.download_expires_in == 86400
    put = shed.put(made.upload_url, content, "text/csv")
    assert put.json()["data"]["sha256"] == hashlib.sha256(content).hexdigest()
    found = shed.api().get_file(made.file_id).data
    assert (found.filename, found.content_type, found.size) == ("tide table.csv", "text/csv", len(content))
    assert httpx.get(found.download_url).content == content
    said = shed.site.agents(shed.ann).invoke_agent(
        "echo",
        sdk.InvokeAgentRequest(message="Read it.", attachments=[sdk.AttachmentRef(file_id=made.file_id)]),
    )
    url = said.data.text.rpartition(": ")[2].strip()
    assert "tide table.csv" in said.data.text
    assert httpx.get(url).content == content


def test_a_task_with_a_file_is_made_once_however_late_it_is_repeated(store_url: str, tmp_path: Path) -> None:
    clock = FixedClock()
    with shed_at(store_url, tmp_path, clock) as shed, shed.site.raw(shed.ann) as client:
        files = [shed.uploaded().file_id, shed.uploaded(b"other").file_id]
        body = {"message": "Read it.", "idempotency_key": "k", "attachments": [{"file_id": files[0]}]}
        first = client.post("/agents/echo/tasks", json=body).json()["data"]["task_id"]
        clock.move(60)
        again = client.post("/agents/echo/tasks", json=body)
        assert (again.status_code, again.json()["data"]["task_id"]) == (202, first)
        other = client.post("/agents/echo/tasks", json={**body, "attachments": [{"file_id": files[1]}]})
        assert (other.status_code, other.json()["error"]["code"]) == (409, "conflict")


def test_a_download_is_never_shown_as_a_page(shed: Shed) -> None:
    made = shed.uploaded(b"<script>1</script>", name='b"\u00e4\r.html'.replace("\r", ""), type="text/html")
    got = httpx.get(made.download_url)
    assert got.headers["content-disposition"].startswith('attachment; filename="b__.html"')
    assert got.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in got.headers["content-security-policy"]
    assert got.headers["content-length"] == "18"


def test_an_upload_address_is_good_for_once(shed: Shed) -> None:
    made = shed.uploaded(b"first")
    again = shed.put(made.upload_url, b"second")
    assert (again.status_code, again.json()["error"]["code"]) == (409, "conflict")
    assert httpx.get(made.download_url).content == b"first"


def test_an_upload_is_taken_though_the_store_does_its_writes_again(
    shed: Shed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a lost connection, when nobody knows whether the first was committed."""
    write = shed.app.store.write

    async def twice(work: Any) -> Any:
        await write(work)
        return await write(work)

    monkeypatch.setattr(shed.app.store, "write", twice)
    made = shed.presigned()
    assert shed.put(made.upload_url, b"mine").status_code == 200
    assert shed.put(made.upload_url, b"another").status_code == 409
    assert httpx.get(made.download_url).content == b"mine"


def test_of_many_uploads_at_once_one_is_taken(shed: Shed) -> None:
    made = shed.presigned()
    answers: list[tuple[int, bytes]] = []

    def put(number: int) -> None:
        content = str(number).encode() * 1000
        answers.append((shed.put(made.upload_url, content).status_code, content))

    threads = [threading.Thread(target=put, args=(number,)) for number in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(PATIENCE)
    taken = [content for status, content in answers if status == 200]
    assert sorted(status for status, _ in answers) == [200, 409, 409, 409, 409, 409]
    assert httpx.get(made.download_url).content == taken[0]


def test_a_changed_address_opens_nothing(shed: Shed) -> None:
    made, other = shed.uploaded(b"mine"), shed.presigned()
    up, down = other.upload_url, made.download_url
    signature = dict(parse_qsl(urlsplit(down).query))["signature"]
    wrong = [
        changed(down, signature="0" * 64),
        changed(down, signature=signature[:-1]),
        changed(down, signature=""),
        changed(down, signature="\u00e4" * 64),
        changed(down, expires="99999999999"),
        changed(down, expires="-1"),
        changed(down, expires="1e9"),
        down.replace(made.file_id, other.file_id),
        down.replace(made.file_id, "file-nothing"),
        down.partition("?")[0],
        up,  # an address for an upload
    ]
    answers = [httpx.get(each) for each in wrong]
    assert {(each.status_code, each.json()["error"]["code"]) for each in answers} == {(403, "forbidden")}
    assert len({each.json()["error"]["message"] for each in answers}) == 1
    for each in (changed(up, signature="0" * 64), other.download_url):
        assert shed.put(each, b"x").status_code == 403


def test_signatures_are_compared_in_constant_time(shed: Shed, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []
    compare = hmac.compare_digest

    def watching(one: Any, other: Any) -> bool:
        compared.append(len(other))
        return compare(one, other)

    monkeypatch.setattr(hmac, "compare_digest", watching)
    made = shed.presigned()
    httpx.get(changed(made.download_url, signature="1" * 64))
    # As much is done for a file that is not there.
    httpx.get(made.download_url.replace(made.file_id, "file-nothing"))
    assert compared == [64, 64]


def test_addresses_expire(store_url: str, tmp_path: Path) -> None:
    clock = FixedClock()
    with shed_at(store_url, tmp_path, clock) as shed:
        made, late = shed.uploaded(b"hello"), shed.presigned()
        clock.move(3600)
        assert "expired" in shed.put(late.upload_url, b"x").json()["error"]["message"]
        assert httpx.get(made.download_url).status_code == 200
        clock.move(24 * 3600)
        assert httpx.get(made.download_url).status_code == 403
        # Its owner gets a new one.
        assert httpx.get(shed.api().get_file(made.file_id).data.download_url).content == b"hello"


def test_another_content_type_is_refused(shed: Shed) -> None:
    made = shed.presigned(type="text/plain; charset=utf-8")
    refused = shed.put(made.upload_url, b"x", "text/html")
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_param")
    assert shed.put(made.upload_url, b"x", "Text/Plain;charset=utf-8").status_code == 200


def test_too_large_a_file_is_refused_by_its_word_and_by_what_comes(shed: Shed) -> None:
    made = shed.presigned()

    def endless() -> Iterator[bytes]:
        for _ in range(LARGEST // 100_000 + 1):
            yield b"x" * 100_000

    for content in (b"x" * (LARGEST + 1), endless()):
        try:
            refused = shed.put(made.upload_url, content)
        except httpx.WriteError:
            continue  # told before all of it was sent
        assert (refused.status_code, refused.json()["error"]["code"]) == (413, "payload_too_large")
        assert "retry-after" not in refused.headers
    assert shed.put(made.upload_url, b"x" * LARGEST).status_code == 200


def test_an_upload_that_is_cut_short_leaves_nothing_and_may_be_made_again(shed: Shed, tmp_path: Path) -> None:
    made = shed.presigned()
    messages: list[Message] = [
        {"type": "http.request", "body": b"half", "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive() -> Message:
        return messages.pop(0)

    assert asyncio.run(shed.answered(made.upload_url, receive)) == []
    assert not list((tmp_path / "files").rglob("*.txt"))
    assert httpx.get(made.download_url).status_code == 404
    assert shed.put(made.upload_url, b"whole").status_code == 200
    assert httpx.get(made.download_url).content == b"whole"


def test_content_that_nobody_came_to_note_is_taken_away(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    received = Files._received

    async def left(self: Files, *about: Any) -> Any:
        await received(self, *about)
        raise Failure(Kind.unavailable, "The store is away.")

    clock = FixedClock()
    with shed_at(store_url, tmp_path, clock) as shed:
        whole = shed.uploaded(b"whole")
        lost = shed.presigned()
        sweep = Sweeper(shed.app, shed.asgi._gateway.files).look
        with monkeypatch.context() as patch:
            patch.setattr(Files, "_received", left)
            assert shed.put(lost.upload_url, b"left behind").status_code == 503
        asyncio.run(sweep())
        assert len(on_disk(tmp_path)) == 2  # it may be sent again still
        clock.move(4 * 3600)
        asyncio.run(sweep())
        assert on_disk(tmp_path) == [b"whole"]
        assert not list((tmp_path / "files").glob(f"{lost.file_id}*"))
        assert httpx.get(whole.download_url).content == b"whole"
        assert shed.app.store.read_now(lambda tx: tx.all(Statement.of("SELECT name FROM artifacts"))) == [
            ("a.txt",)
        ]


def test_a_file_is_forgotten_when_it_is_old(store_url: str, tmp_path: Path) -> None:
    clock = FixedClock()
    with (
        shed_at(store_url, tmp_path, clock) as shed,
        shed_at(store_url, tmp_path, clock, files_retention=None) as keen,
    ):
        made = shed.uploaded(b"old")
        clock.move(29 * 86_400)
        new = shed.uploaded(b"new")
        clock.move(2 * 86_400)
        asyncio.run(Sweeper(keen.app, keen.asgi._gateway.files).look())
        assert sorted(on_disk(tmp_path)) == [b"new", b"old"]
        asyncio.run(Sweeper(shed.app, shed.asgi._gateway.files).look())
        assert on_disk(tmp_path) == [b"new"]
        with pytest.raises(sdk.ApiException) as refused:
            shed.api().get_file(made.file_id)
        assert refused.value.status == 404
        assert shed.api().get_file(new.file_id).data.size == 3


def test_a_file_is_kept_from_its_upload_on(store_url: str, tmp_path: Path) -> None:
    clock = FixedClock()
    with shed_at(store_url, tmp_path, clock, files_retention=60.0) as shed:
        made = shed.presigned()
        clock.move(1800)
        assert shed.put(made.upload_url, b"late").status_code == 200
        sweep = Sweeper(shed.app, shed.asgi._gateway.files).look
        asyncio.run(sweep())
        assert on_disk(tmp_path) == [b"late"]
        clock.move(61)
        asyncio.run(sweep())
        assert on_disk(tmp_path) == []


def test_a_file_whose_place_another_has_taken_holds_up_no_others(store_url: str, tmp_path: Path) -> None:
    clock = FixedClock()
    with shed_at(store_url, tmp_path, clock) as shed:
        taken = shed.presigned()
        # A caller of an agent may name a conversation as its file, and the agent shares something there.
        shared = Artifacts(shed.app.store, tmp_path / "files")
        shared.put_now("b.txt", b"shared", owner="local", context=taken.file_id)
        assert shed.put(taken.upload_url, b"nowhere").status_code == 403
        clock.move(1)
        shed.uploaded(b"old", key=shed.bob)
        clock.move(31 * 86_400)
        asyncio.run(Sweeper(shed.app, shed.asgi._gateway.files).look())
        assert on_disk(tmp_path) == [b"shared"]
        with pytest.raises(sdk.ApiException) as refused:
            shed.api().get_file(taken.file_id)
        assert refused.value.status == 404


def test_files_that_cannot_be_removed_hold_up_no_others(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.gateway.files._SWEPT", 2)
    clock = FixedClock()
    with shed_at(store_url, tmp_path, clock) as shed:
        stuck = [tmp_path / "files" / shed.uploaded(b"stuck").file_id for _ in range(3)]
        for folder in stuck:
            folder.rename(folder.with_suffix(".aside"))
            folder.symlink_to(folder)  # nobody can open that, not even root
        clock.move(1)
        shed.uploaded(b"old")
        clock.move(31 * 86_400)
        look = Sweeper(shed.app, shed.asgi._gateway.files).look
        assert [asyncio.run(look()) for _ in range(3)] == [True, True, False]
        assert on_disk(tmp_path) == [b"stuck"] * 3
        for folder in stuck:
            folder.unlink()
            folder.with_suffix(".aside").rename(folder)
        assert [asyncio.run(look()) for _ in range(2)] == [True, False]
        assert on_disk(tmp_path) == []


def test_all_files_of_an_owner_have_a_bound(store_url: str, tmp_path: Path) -> None:
    with shed_at(store_url, tmp_path, files_quota=100) as shed:
        shed.uploaded(b"a" * 60)
        more = shed.presigned()
        for content in (b"b" * 41, iter([b"b" * 30, b"b" * 11])):
            told = shed.put(more.upload_url, content)
            assert (told.status_code, told.json()["error"]["code"]) == (413, "payload_too_large")
        assert on_disk(tmp_path) == [b"a" * 60]
        assert shed.put(more.upload_url, b"b" * 40).status_code == 200
        assert shed.put(shed.presigned().upload_url, b"c").status_code == 413
        shed.uploaded(b"d" * 100, key=shed.bob)


def test_uploads_at_once_do_not_each_find_the_same_room(store_url: str, tmp_path: Path) -> None:
    with shed_at(store_url, tmp_path, files_quota=100) as shed:
        addresses = [shed.presigned().upload_url for _ in range(4)]
        together = threading.Barrier(4)

        def slowly() -> Iterator[bytes]:
            together.wait(PATIENCE)  # all of them have been let in
            yield b"x" * 40

        with ThreadPoolExecutor(4) as pool:
            told = [each.status_code for each in pool.map(lambda url: shed.put(url, slowly()), addresses)]
        assert sorted(told) == [200, 200, 413, 413]
        assert [len(each) for each in on_disk(tmp_path)] == [40, 40]


async def test_uploads_that_are_under_way_have_the_bound_of_what_is_there(
    store_url: str, tmp_path: Path
) -> None:
    with shed_at(store_url, tmp_path, files_quota=100) as shed:
        here, go_on = asyncio.Event(), asyncio.Event()

        async def slowly() -> Message:
            if not here.is_set():
                here.set()
                return {"type": "http.request", "body": b"a" * 60, "more_body": True}
            await go_on.wait()
            return {"type": "http.request"}

        async def at_once() -> Message:
            return {"type": "http.request", "body": b"b" * 41}

        first, second = shed.presigned(), shed.presigned()
        uploading = asyncio.create_task(shed.answered(first.upload_url, slowly))
        await here.wait()
        assert (await shed.answered(second.upload_url, at_once))[0]["status"] == 413
        go_on.set()
        assert (await uploading)[0]["status"] == 200
        assert shed.put(second.upload_url, b"b" * 40).status_code == 200


def test_an_upload_whose_bytes_stay_away_is_not_waited_for_and_may_be_made_again(shed: Shed) -> None:
    made = shed.presigned()
    shed.asgi._gateway.patience = 0.05
    at = urlsplit(made.upload_url)
    with socket.create_connection((at.hostname, at.port), PATIENCE) as slow:
        lines = [
            f"PUT {at.path}?{at.query} HTTP/1.1",
            "Host: files.test",
            f"Content-Type: {TEXT}",
            "Content-Length: 9",
        ]
        slow.sendall("\r\n".join([*lines, "", "half"]).encode())
        assert slow.recv(65_536).startswith(b"HTTP/1.1 400 ")
    shed.asgi._gateway.patience = PATIENCE
    assert shed.put(made.upload_url, b"whole").status_code == 200


def test_a_file_is_its_owners_alone(shed: Shed) -> None:
    made = shed.uploaded()
    with pytest.raises(sdk.exceptions.NotFoundException) as unknown:
        shed.api(shed.bob).get_file(made.file_id)
    assert '"agent_not_found"' in str(unknown.value.body)
    with shed.site.raw(shed.ann) as client:
        client.patch("/agents/echo", json={"visibility": "public"})
    for key, id in ((shed.bob, made.file_id), (shed.ann, "file-x"), (shed.ann, shed.presigned().file_id)):
        refused = shed.invoke({"message": "hi", "attachments": [{"file_id": id}]}, key)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_param")
        assert refused.json()["error"]["param"] == "attachments[0].file_id"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("filename", "a\nb", "line break"),
        ("filename", "a" * 513, "512"),
        ("filename", 1, "text"),
        ("content_type", "text/plain\r\nX: 1", "line break"),
        ("content_type", "t" * 256, "255"),
    ],
)
def test_what_is_wrong_with_an_attachment_is_said_of_the_one_it_is(
    shed: Shed, name: str, value: Any, said: str
) -> None:
    good = {"file_id": shed.uploaded().file_id}
    refused = shed.invoke({"message": "hi", "attachments": [good, {**good, name: value}]}, shed.ann)
    error = refused.json()["error"]
    assert (refused.status_code, error["code"], error["param"]) == (
        400,
        "invalid_param",
        f"attachments[1].{name}",
    )
    assert said in error["message"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"content_type": TEXT}, "missing_param"),
        ({"filename": "a"}, "missing_param"),
        ({"filename": 1, "content_type": TEXT}, "invalid_body"),
        ({"filename": "a" * 513, "content_type": TEXT}, "invalid_param"),
        ({"filename": "a\nb", "content_type": TEXT}, "invalid_param"),
        ({"filename": "a", "content_type": "plain"}, "invalid_param"),
        ({"filename": "a", "content_type": "text/" + "x" * 300}, "invalid_param"),
        ({"filename": "a", "content_type": "text/html\r\nX: 1"}, "invalid_param"),
    ],
)
def test_a_wrong_request_gets_no_address(shed: Shed, body: Any, code: str) -> None:
    with shed.site.raw(shed.ann) as client:
        refused = client.post("/files/presign-upload", json=body)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, code)


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "a/b\\c.txt", ".hidden", "con\u202etxt.exe", "\u00e4" * 500]
)
def test_a_name_is_kept_for_people_and_means_nothing_to_the_disk(
    shed: Shed, tmp_path: Path, name: str
) -> None:
    if not name.isprintable():
        with shed.site.raw(shed.ann) as client:
            body = {"filename": name, "content_type": TEXT}
            assert client.post("/files/presign-upload", json=body).status_code == 400
        return
    made = shed.uploaded(b"data", name=name)
    assert shed.api().get_file(made.file_id).data.filename == name
    assert httpx.get(made.download_url).content == b"data"
    kept = [each for each in tmp_path.rglob("*") if each.is_file() and each.read_bytes() == b"data"]
    assert len(kept) == 1
    assert kept[0].is_relative_to(tmp_path / "files")
