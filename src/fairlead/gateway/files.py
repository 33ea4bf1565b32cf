"""Files of callers: an address to upload to, the upload, and addresses to download from, for agents and for callers.

    POST /api/v1/files/presign-upload      PUT /api/v1/files/{id}/content?...   (signed, once)
    GET  /api/v1/files/{id}                GET /api/v1/files/{id}/content?...   (signed, a day)

A signed address opens one file for one purpose until it expires: whoever has it needs no key. Content is an artifact
of its owner's (`tools/artifacts.py`).
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
import tempfile
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, BinaryIO, Final, NamedTuple
from urllib.parse import quote

from fairlead.failures import Failure, Kind
from fairlead.failures.gateway import (
    AgentNotFound,
    Conflict,
    Forbidden,
    InvalidBody,
    InvalidParam,
    MissingParam,
    PayloadTooLarge,
)
from fairlead.gateway.call import LONGEST_ID, Answer, Call, Content, Route
from fairlead.runtime import App
from fairlead.runtime.hooks import report
from fairlead.store.statements import Statement, statements
from fairlead.store.store import Row, Tx, writable
from fairlead.surfaces.http.asgi import Disconnected
from fairlead.tools.artifacts import Artifact, Artifacts, basename

SQL: Final = statements(__file__, "files.sql")
#: Bytes of one file, unless the gateway is told otherwise.
LARGEST: Final = 100 * 1024 * 1024
#: Bytes of all files of an owner, and seconds that a file is kept, unless the gateway is told otherwise.
QUOTA: Final = 10 * 1024 * 1024 * 1024
RETENTION: Final = 30 * 86_400.0
#: Seconds that an address is good for, and that one upload may take.
UPLOAD_FOR: Final = 3600
DOWNLOAD_FOR: Final = 24 * 3600
_LONGEST_UPLOAD: Final = 3600.0
#: Seconds after which no upload can be under way: the address was taken at its last moment, and then all of its time.
_NEVER: Final = UPLOAD_FOR + 2 * _LONGEST_UPLOAD
#: Files that are forgotten at once.
_SWEPT: Final = 100
#: Before all files.
_START: Final = (0.0, "")
LONGEST_NAME: Final = 512
LONGEST_TYPE: Final = 255
_PIECE: Final = 256 * 1024
_TYPE: Final = re.compile(r"[!#-'*+.^_`|~\w-]+/[!#-'*+.^_`|~\w-]+(?:\s*;[\x20-\x7e]*)?", re.ASCII)
_HOST: Final = re.compile(r"[A-Za-z0-9._-]+(?::\d{1,5})?|\[[0-9A-Fa-f:.]+\](?::\d{1,5})?")
_PLAIN: Final = re.compile(r"[^A-Za-z0-9._ -]")
_UP: Final = "upload"
_DOWN: Final = "download"


class File(NamedTuple):
    """What is known of a file."""

    id: str
    owner: str
    filename: str
    content_type: str
    secret: str
    created: float
    claimed: float | None
    artifact: str | None
    size: int | None
    sha256: str | None


class Files:
    """The files of a gateway. `public_url` is where callers reach the gateway.

    `largest` and `quota` are bytes of a file and of all those of an owner, `retention` seconds; None is no end of it.
    """

    def __init__(
        self,
        app: App,
        *,
        folder: str | None = None,
        largest: int = LARGEST,
        quota: int | None = QUOTA,
        retention: float | None = RETENTION,
        public_url: str | None = None,
    ) -> None:
        self.largest = largest
        self._quota = quota
        self._retention = retention
        self._store = app.store
        self._clock = app.wall
        self._redactor = app.redactor
        self._public = None if public_url is None else public_url.rstrip("/")
        self._artifacts = Artifacts(app.store, folder, largest=largest, clock=app.wall)
        #: Bytes that are here of what owners are uploading just now.
        self._coming: Counter[str] = Counter()
        #: How far this round of forgetting has come: when the last that was tried was made, and its id.
        self._swept: dict[Statement, tuple[float, str]] = {}

    async def add(self, owner: str, filename: str, content_type: str) -> File:
        """A file that is still to be uploaded."""
        now = self._clock()
        file = File(
            f"file-{uuid.uuid4()}",
            owner,
            filename,
            content_type,
            secrets.token_hex(32),
            now,
            None,
            None,
            None,
            None,
        )
        row = {key: value for key, value in file._asdict().items() if key in _ADDED}

        def work(tx: Tx) -> None:
            tx.run(SQL.add, **row)
            # Those that nobody began to upload in time can never be. Others may have content: that is swept.
            tx.run(SQL.prune, before=now - _NEVER)

        await self._store.write(work)
        return file

    async def get(self, id: str, owner: str) -> File:
        """A file of an owner's. Another's is as unknown as one that does not exist. Raises AgentNotFound."""
        file = await self._find(id)
        if file is None or file.owner != owner:
            raise AgentNotFound("There is no such file.")
        return file

    async def signed(self, call: Call, purpose: str) -> File:
        """The file that a signed address opens.

        Raises:
            Forbidden: the address was changed, is for something else, or has expired.
        """
        query = call.request.query
        until, signature = query.get("expires", ""), query.get("signature", "")
        file = await self._find(call.id("id"))
        # As much is done for a file that does not exist: the time it takes does not tell which do.
        known = file.secret if file is not None else _NOBODY
        good = hmac.compare_digest(
            _signature(known, purpose, call.id("id"), until).encode(),
            signature.encode("utf-8", "replace"),
        )
        if file is None or not good or not until.isascii() or not until.isdigit() or len(until) > 12:
            raise Forbidden("This address does not open anything: it is not complete, or it was changed.")
        if int(until) <= self._clock():
            raise Forbidden("This address has expired. Ask for a new one.")
        return file

    def url(self, call: Call, file: File, purpose: str, seconds: int) -> str:
        """An address that opens a file for one purpose, for so long."""
        until = str(int(self._clock()) + seconds)
        signature = _signature(file.secret, purpose, file.id, until)
        return f"{self._base(call)}/api/v1/files/{file.id}/content?expires={until}&signature={signature}"

    async def upload(self, call: Call, file: File) -> File:
        """Take a file's content from the request, once.

        Raises:
            Conflict: it was uploaded before, or is being uploaded.
            PayloadTooLarge: it is longer than files may be, or than what is left to its owner.
            Disconnected: the client went away; another may try again.
        """
        claimed, ours = self._clock(), False

        def claim(tx: Tx) -> bool:
            # It may be done again after a connection was lost, when the claim that is there is ours.
            nonlocal ours
            row = tx.one(SQL.get, id=file.id)
            ours = ours and row is not None and File(*row).claimed == claimed
            ours = ours or bool(
                tx.run(SQL.claim, id=file.id, now=claimed, stale=claimed - 2 * _LONGEST_UPLOAD)
            )
            return ours

        if not await self._store.write(claim):
            raise Conflict(
                "The file was uploaded already, or is being uploaded: this address is good for once."
            )
        try:
            kept = await self._received(call, file, await self._room(call, file.owner))
            await self._noted(file, claimed, kept)
        except BaseException:
            release = self._store.submit(lambda tx: tx.run(SQL.release, id=file.id, claimed=claimed), True)
            await asyncio.shield(asyncio.wrap_future(release))
            raise
        return file._replace(artifact=kept.id, size=kept.size, sha256=kept.sha256)

    async def _room(self, call: Call, owner: str) -> int | None:
        """Bytes that are left to an owner; None for as many as there are. Raises PayloadTooLarge."""
        if self._quota is None:
            return None
        held = await self._store.read(lambda tx: tx.one(SQL.held, owner=owner))
        room = max(0, self._quota - int(held[0]))
        if room == 0 or _declared(call) > room:
            raise _no_room(self._quota)
        return room

    async def _noted(self, file: File, claimed: float, kept: Artifact) -> None:
        """Write down that a file's content is there, if its owner may have it. Raises Failure."""
        done = {"artifact": kept.id, "size": kept.size, "sha256": kept.sha256}

        def work(tx: Tx) -> bool:
            if self._quota is not None:
                # Uploads of one owner at once do not each find the same room.
                tx.one(SQL.lock_owner, owner=file.owner)
                held, found = tx.one(SQL.held, owner=file.owner), tx.one(SQL.get, id=file.id)
                before = 0 if found is None else File(*found).size or 0
                if held is not None and int(held[0]) - before + kept.size > self._quota:
                    raise _no_room(self._quota)
            return bool(tx.run(SQL.complete, id=file.id, claimed=claimed, **done))

        try:
            if not await self._store.write(work):
                raise Conflict("The upload took too long.")
        except PayloadTooLarge:
            await asyncio.to_thread(self._artifacts.drop_now, file.id, _artifact_owner(file.owner))
            raise

    async def sweep(self) -> bool:
        """Forget some files that are old, or were never whole; gives whether there may be more."""
        now = self._clock()
        wanted = {SQL.unfinished: now - _NEVER}
        if self._retention is not None:
            wanted[SQL.old] = now - self._retention
        more = False
        for statement, before in wanted.items():
            since = self._swept.get(statement, _START)
            rows = await self._store.read(partial(_some, statement, before, since))
            await self._drop_all(rows)
            # Those that cannot be removed are passed over until all others have been.
            if len(rows) == _SWEPT:
                self._swept[statement] = rows[-1][2], rows[-1][0]
                more = True
            else:
                self._swept.pop(statement, None)
        return more

    async def _drop_all(self, rows: Iterable[Row]) -> None:
        """Forget files, their content first: who is killed in between finds them again."""
        reported = False
        for file, owner, _ in rows:
            try:
                await asyncio.to_thread(self._artifacts.drop_now, file, _artifact_owner(owner))
            except Failure as failure:
                if failure.kind is not Kind.forbidden:
                    raise
                # Another has shared something under its id, so nothing there is the file's.
            except OSError:
                if not reported:  # it is the same with all of them, most likely
                    report("The content of files that are to be forgotten cannot be removed.", self._redactor)
                reported = True
                continue
            await self._store.write(partial(_forget, file))

    def opened(self, file: File, pieces: ExitStack) -> BinaryIO:
        """A file's content, to be read. Raises Failure."""
        assert file.artifact is not None
        return pieces.enter_context(self._artifacts.open(file.artifact, _artifact_owner(file.owner)))

    async def resolve(
        self, call: Call, attachments: Iterable[Mapping[str, Any]]
    ) -> tuple[dict[str, Any], ...]:
        """Attachments as an agent gets them, with an address to download each from.

        Raises:
            InvalidParam: one is not a file of the caller's that is there.
        """
        told = []
        for number, each in enumerate(attachments):
            at = f"attachments[{number}]"
            file = await self._find(str(each.get("file_id"))[:LONGEST_ID])
            if file is None or file.owner != call.caller.owner or file.artifact is None:
                words = "An attachment is no file of yours that was uploaded."
                raise InvalidParam(words, field=f"{at}.file_id")
            told.append(
                {
                    "file_id": file.id,
                    "filename": _given(each, at, "filename", LONGEST_NAME) or file.filename,
                    "content_type": _given(each, at, "content_type", LONGEST_TYPE) or file.content_type,
                    "size": file.size,
                    "url": self.url(call, file, _DOWN, DOWNLOAD_FOR),
                }
            )
        return tuple(told)

    async def _find(self, id: str) -> File | None:
        row: Row | None = await self._store.read(lambda tx: tx.one(SQL.get, id=writable(id)))
        return None if row is None else File(*row)

    async def _received(self, call: Call, file: File, room: int | None) -> Artifact:
        """The body, by way of a file without a name: what is cut short leaves nothing behind."""
        folder = self._artifacts.folder
        await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
        with (
            self._counting(file.owner, room) as count,
            await asyncio.to_thread(lambda: tempfile.TemporaryFile(dir=folder)) as held,
        ):
            async with asyncio.timeout(_LONGEST_UPLOAD):
                async for piece in _pieces(call, self.largest, count):
                    await asyncio.to_thread(held.write, piece)
            about = {"owner": _artifact_owner(file.owner), "context": file.id, "context_type": "upload"}
            return await self._artifacts.put(
                _kept_name(file.filename), _read(held), mime_type=file.content_type, **about
            )

    @contextmanager
    def _counting(self, owner: str, room: int | None) -> Iterator[Callable[[int], None]]:
        """What counts the bytes of an upload, with those of the owner's others that are coming.

        It raises PayloadTooLarge when they are more than there is room for.
        """
        size = 0

        def count(more: int) -> None:
            nonlocal size
            size += more
            self._coming[owner] += more
            if room is not None and self._quota is not None and self._coming[owner] > room:
                raise _no_room(self._quota)

        try:
            yield count
        finally:
            self._coming[owner] -= size
            if not self._coming[owner]:
                del self._coming[owner]

    def _base(self, call: Call) -> str:
        if self._public is not None:
            return self._public
        request = call.request
        host = request.headers.get("host", "")
        if not _HOST.fullmatch(host):
            name, port = request.scope.get("server") or ("localhost", 80)
            host = f"[{name}]:{port}" if ":" in name else f"{name}:{port}"
        scheme = "https" if request.scope.get("scheme") == "https" else "http"
        return f"{scheme}://{host}{request.scope.get('root_path', '').rstrip('/')}"


def _some(statement: Statement, before: float, since: tuple[float, str], tx: Tx) -> list[Row]:
    return tx.all(statement, before=before, since=since[0], after=since[1], size=_SWEPT)


def _forget(file: str, tx: Tx) -> None:
    tx.run(SQL.forget, id=file)


def told(attachments: Iterable[Mapping[str, Any]]) -> str:
    """Attachments in words, to stand after a message; empty for none."""
    lines = [f"- {each['filename']} ({each['content_type']}): {each['url']}" for each in attachments]
    return "\n".join(["", "", "Attached files:", *lines]) if lines else ""


async def resolve(call: Call, attachments: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
    """`Files.resolve` of the call's gateway."""
    return await call.gateway.files.resolve(call, attachments)


async def presign_upload(call: Call) -> Answer:
    body = call.json()
    filename = _text(body, "filename", LONGEST_NAME)
    content_type = _text(body, "content_type", LONGEST_TYPE)
    if not _TYPE.fullmatch(content_type):
        raise InvalidParam("content_type must be a media type, such as text/csv.", field="content_type")
    files = call.gateway.files
    file = await files.add(call.caller.owner, filename, content_type)
    told = {
        "file_id": file.id,
        "upload_url": files.url(call, file, _UP, UPLOAD_FOR),
        "download_url": files.url(call, file, _DOWN, DOWNLOAD_FOR),
        "download_expires_in": DOWNLOAD_FOR,
    }
    return Answer(told)


async def get_file(call: Call) -> Answer:
    files = call.gateway.files
    file = await files.get(call.id("id"), call.caller.owner)
    told: dict[str, Any] = {
        "file_id": file.id,
        "filename": file.filename,
        "content_type": file.content_type,
    }
    if file.artifact is not None:
        told |= {"size": file.size, "sha256": file.sha256}
        told |= {"download_url": files.url(call, file, _DOWN, DOWNLOAD_FOR)}
        told |= {"download_expires_in": DOWNLOAD_FOR}
    return Answer(told)


async def upload_file(call: Call) -> Answer:
    files = call.gateway.files
    file = await files.signed(call, _UP)
    given = call.request.headers.get("content-type", "")
    if _media_type(given) != _media_type(file.content_type):
        raise InvalidParam(
            f"This file is to be sent with Content-Type: {file.content_type}.", field="Content-Type"
        )
    _check_length(call, files.largest)
    file = await files.upload(call, file)
    return Answer({"file_id": file.id, "size": file.size, "sha256": file.sha256})


async def download_file(call: Call) -> Content:
    files = call.gateway.files
    file = await files.signed(call, _DOWN)
    if file.artifact is None:
        raise AgentNotFound("This file was not uploaded yet.")
    held = ExitStack()
    try:
        content = await asyncio.to_thread(files.opened, file, held)
    except Failure:
        raise AgentNotFound("The file's content is gone.") from None
    headers = (
        (b"content-type", file.content_type.encode("latin-1", "replace")),
        (b"content-length", b"%d" % (file.size or 0)),
        (b"content-disposition", _disposition(file.filename)),
        (b"x-content-type-options", b"nosniff"),
        # Whatever it is, a browser is to show none of it as a page of ours.
        (b"content-security-policy", b"default-src 'none'; sandbox"),
        (b"cache-control", b"private, no-store"),
        (b"referrer-policy", b"no-referrer"),
    )
    return Content(_sent(content, held), headers)


async def _sent(content: BinaryIO, held: ExitStack) -> AsyncIterator[bytes]:
    with held:
        while piece := await asyncio.to_thread(content.read, _PIECE):
            yield piece


async def _pieces(call: Call, largest: int, count: Callable[[int], None]) -> AsyncIterator[bytes]:
    """The body as it comes, in pieces that are worth writing."""
    receive = call.receive
    assert receive is not None
    waiting, size = bytearray(), 0
    while True:
        try:
            async with asyncio.timeout(call.gateway.patience):
                message = await receive()
        except TimeoutError:
            raise InvalidBody("The file's next bytes did not come in time. Upload it again.") from None
        if message["type"] == "http.disconnect":
            raise Disconnected
        body: bytes = message.get("body", b"")
        size += len(body)
        if size > largest:
            raise _too_large(largest)
        count(len(body))
        waiting += body
        more = message.get("more_body", False)
        if len(waiting) >= _PIECE or (waiting and not more):
            yield bytes(waiting)
            waiting.clear()
        if not more:
            return


def _read(held: Any) -> Iterator[bytes]:
    held.seek(0)
    while piece := held.read(_PIECE):
        yield piece


def _check_length(call: Call, largest: int) -> None:
    if _declared(call) > largest:
        raise _too_large(largest)


def _declared(call: Call) -> int:
    """How long the body is said to be; 0 where that is not said."""
    declared = call.request.headers.get("content-length", "")
    return int(declared[:19]) if declared.isascii() and declared.isdigit() else 0


def _too_large(largest: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"A file has at most {largest} bytes here.")


def _no_room(quota: int) -> PayloadTooLarge:
    words = "All files of an owner have at most %d bytes here. Send less, or wait until older files are forgotten."
    return PayloadTooLarge(words % quota)


def _signature(secret: str, purpose: str, id: str, until: str) -> str:
    said = f"{purpose}\n{id}\n{until}".encode(errors="replace")
    return hmac.new(bytes.fromhex(secret), said, hashlib.sha256).hexdigest()


def _text(body: Mapping[str, Any], name: str, longest: int) -> str:
    value = body.get(name)
    if value is None:
        raise MissingParam(f"{name} is missing.", field=name)
    if not isinstance(value, str) or not value.strip():
        raise InvalidBody(f"{name} must be a text that is not empty.", field=name)
    if len(value) > longest or not value.isprintable() or value != writable(value):
        raise InvalidParam(
            f"{name} has at most {longest} characters, and none that cannot be seen.", field=name
        )
    return value


def _given(attachment: Mapping[str, Any], at: str, name: str, longest: int) -> str | None:
    value = attachment.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        wrong = "must be a text"
    elif len(value) > longest:
        wrong = f"has at most {longest} characters"
    elif not value.isprintable():
        wrong = "has a character that cannot be seen, such as a line break: leave it out"
    else:
        return value
    raise InvalidParam(f"An attachment's {name} {wrong}.", field=f"{at}.{name}")


def _media_type(text: str) -> str:
    """A media type in one spelling."""
    return re.sub(r"\s*;\s*", ";", text.strip()).lower()


def _kept_name(filename: str) -> str:
    """What the content is called on disk: short, and without anything that a file system minds."""
    return _PLAIN.sub("_", basename(filename))[-100:].strip(". ") or "file"


def _artifact_owner(owner: str) -> str:
    """Uploads are kept apart from what an agent's calls have made."""
    return f"gateway:{owner}"


def _disposition(filename: str) -> bytes:
    plain = _PLAIN.sub("_", filename)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(filename, safe='')}".encode("ascii")


_ADDED: Final = frozenset({"id", "owner", "filename", "content_type", "secret", "created"})
_NOBODY: Final = "00" * 32
_CONTENT: Final = "/api/v1/files/{id}/content"
ROUTES: Final = (
    Route("POST", "/api/v1/files/presign-upload", presign_upload, "presignFileUpload"),
    Route("GET", "/api/v1/files/{id}", get_file, "getFile"),
    Route("PUT", _CONTENT, upload_file, "uploadFile", open=True, raw=True),
    Route("GET", _CONTENT, download_file, "downloadFile", open=True),
)
