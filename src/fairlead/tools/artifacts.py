"""`Artifacts`: what calls made and shared. The content is in a folder, what is known of it in the store.

    kept = Artifacts(store)
    record = await kept.put("report.csv", data, owner=ctx.caller, context=session.id)
    with kept.open(record.id, owner) as file: ...

Everything is asked for by its owner; what belongs to another is as unknown as what does not exist. How a tool shares
something is `artifacts_sharing.py`.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from fairlead.failures import Failure, Kind
from fairlead.store.folders import alone_in
from fairlead.store.opening import data_folder
from fairlead.store.statements import statements
from fairlead.store.store import Store, Tx
from fairlead.tools.fence import TEMPORARY, Fence, Outside, chunks, opened

SQL: Final = statements(__file__, "artifacts.sql")
#: Bytes of one artifact, and files of one that is a folder.
LARGEST: Final = 1 << 30
MOST_FILES: Final = 10_000
MOST_LISTED: Final = 1000

_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_TYPES: Final = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "svg": "image/svg+xml",
    "html": "text/html",
    "htm": "text/html",
    "css": "text/css",
    "js": "text/javascript",
    "json": "application/json",
    "md": "text/markdown",
    "txt": "text/plain",
    "csv": "text/csv",
    "pdf": "application/pdf",
    "zip": "application/zip",
    "tar": "application/x-tar",
    "gz": "application/gzip",
    "mp3": "audio/mpeg",
    "wav": "audio/wav",
    "m4a": "audio/mp4",
    "ogg": "audio/ogg",
    "mp4": "video/mp4",
    "webm": "video/webm",
    "py": "text/x-python",
    "swift": "text/x-swift",
    "rs": "text/x-rust",
    "go": "text/x-go",
    "java": "text/x-java",
    "c": "text/x-c",
    "h": "text/x-c",
    "cpp": "text/x-c++",
    "hpp": "text/x-c++",
    "cc": "text/x-c++",
    "ts": "text/typescript",
    "xml": "application/xml",
    "yaml": "application/yaml",
    "yml": "application/yaml",
}
DIRECTORY_TYPE: Final = "inode/directory"


class Artifact(NamedTuple):
    """What is known of one artifact."""

    id: str
    owner: str
    context: str
    context_type: str
    name: str
    mime_type: str
    size: int
    sha256: str
    directory: bool
    description: str | None
    created: float

    def to_dict(self) -> dict[str, Any]:
        """The artifact as JSON, without its owner, who knows."""
        told = self._asdict()
        del told["owner"]
        moment = datetime.fromtimestamp(self.created, UTC).isoformat(timespec="seconds")
        return told | {"created": moment.replace("+00:00", "Z")}


#: So that a method may be called `list`.
_Listed = list[Artifact]


class Artifacts:
    """The artifacts of a store. `folder` is where their content is; by default, `artifacts` in the data folder."""

    def __init__(
        self,
        store: Store,
        folder: str | os.PathLike[str] | None = None,
        *,
        largest: int = LARGEST,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.folder = data_folder() / "artifacts" if folder is None else Path(os.path.abspath(folder))
        self._store = store
        self._largest = largest
        self._clock = clock

    async def put(self, name: str, content: bytes | Iterable[bytes], **about: Any) -> Artifact:
        """`put_now`, elsewhere than on the event loop."""
        return await asyncio.to_thread(self.put_now, name, content, **about)

    async def get(self, id: str, owner: str) -> Artifact:
        """What is known of an artifact.

        Raises:
            Failure: its owner has none of this id.
        """
        return _known(await self._store.read(lambda tx: tx.one(SQL.by_id, id=id, owner=owner)))

    async def list(self, owner: str, context: str | None = None, most: int = 100) -> _Listed:
        """An owner's artifacts, the newest first; of one context, if it is given."""
        return await self._store.read(lambda tx: _listed(tx, owner, context, most))

    def get_now(self, id: str, owner: str) -> Artifact:
        """`get` for code without an event loop."""
        return _known(self._store.read_now(lambda tx: tx.one(SQL.by_id, id=id, owner=owner)))

    def list_now(self, owner: str, context: str | None = None, most: int = 100) -> _Listed:
        """`list` for code without an event loop."""
        return self._store.read_now(lambda tx: _listed(tx, owner, context, most))

    def put_now(
        self,
        name: str,
        content: bytes | Iterable[bytes],
        *,
        owner: str,
        context: str,
        context_type: str = "call",
        mime_type: str | None = None,
        description: str | None = None,
    ) -> Artifact:
        """Keep a file, in the place of one of the same name in the same context.

        Raises:
            Failure: the context is another's, the name is not one of a file, or the content is too large.
        """

        def keep(fence: Fence, place: str) -> _Measure:
            measure = _Measure(self._largest)
            _clear(fence, place, folder=False)
            fence.write(place, measure.through([content] if isinstance(content, bytes) else content))
            return measure

        about = {"owner": owner, "context": context, "context_type": context_type, "description": description}
        return self._kept(name, keep, about | {"mime_type": mime_type or mime_type_of(name), "directory": 0})

    def put_tree_now(
        self, name: str, source: Fence, path: str, *, owner: str, context: str, **about: Any
    ) -> Artifact:
        """The same for a folder: its regular files are copied; links are left out."""

        def keep(fence: Fence, place: str) -> _Measure:
            measure = _Measure(self._largest)
            new = f"{_segment(context)}/{TEMPORARY}{secrets.token_hex(8)}"
            try:
                measure.copy(source, path, fence, new)
                _clear(fence, place, folder=True)
                fence.rename(new, place)
            finally:
                fence.remove_tree(new)
            return measure

        given = {"context_type": "call", "description": None} | about
        given |= {"owner": owner, "context": context, "mime_type": DIRECTORY_TYPE, "directory": 1}
        return self._kept(name, keep, given)

    def drop_now(self, context: str, owner: str) -> None:
        """Forget all that an owner has in a context. The content goes first: what is cut short can be done again.

        Raises:
            Failure: the context is another's.
            OSError: the content cannot be removed.
        """
        self._store.read_now(lambda tx: _check_context(tx, owner, context))
        folder = _segment(context)
        with suppress(FileNotFoundError), alone_in(self.folder / folder):
            Fence(self.folder, turns=False).remove_tree(folder)
        self._store.write_now(lambda tx: tx.run(SQL.drop, context=context, owner=owner))

    def path(self, artifact: Artifact) -> Path:
        """Where an artifact's content is on this machine."""
        return self.folder / _segment(artifact.context) / artifact.name

    @contextmanager
    def open(self, id: str, owner: str, inside: str | None = None) -> Iterator[BinaryIO]:
        """An artifact's content; `inside` is the path of a file in one that is a folder.

        Raises:
            Failure: its owner has none of this id, or the content is gone.
        """
        record = self.get_now(id, owner)
        place = self.path(record)
        fence, path = (Fence(place), inside or ".") if record.directory else (Fence(place.parent), place.name)
        try:
            with fence.open(path) as handle, os.fdopen(os.dup(handle), "rb") as file:
                yield file
        except (Outside, FileNotFoundError, NotADirectoryError):
            raise Failure(Kind.not_found, "The artifact has no such content any more.") from None
        except IsADirectoryError:
            words = "The artifact is a folder. Name a file in it: open(id, owner, inside='index.html')."
            raise Failure(Kind.invalid_input, words, field="inside") from None

    def _kept(self, name: str, keep: Callable[[Fence, str], _Measure], about: dict[str, Any]) -> Artifact:
        if name != basename(name):
            raise Failure(Kind.invalid_input, "An artifact's name is a plain file name.", field="name")
        context = _segment(about["context"])
        (self.folder / context).mkdir(mode=0o700, parents=True, exist_ok=True)
        # One at a time in a context, so that the record that stays is the one of the content that stays.
        with alone_in(self.folder / context):
            self._store.read_now(lambda tx: _check_context(tx, about["owner"], about["context"]))
            measure = keep(Fence(self.folder, turns=False), f"{context}/{name}")
            row = about | {"id": secrets.token_hex(16), "name": name, "created": self._clock()}
            row |= {"size": measure.size, "sha256": measure.digest}
            kept = self._store.write_now(lambda tx: tx.one(SQL.put, **row))
        if kept is None:
            raise _stranger()
        return _known(kept)


class _Measure:
    """The size and hash of what passes."""

    def __init__(self, most: int) -> None:
        self.size = 0
        self._most = most
        self._hash = hashlib.sha256()

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def through(self, content: Iterable[bytes]) -> Iterator[bytes]:
        for piece in content:
            self._add(len(piece))
            self._hash.update(piece)
            yield piece

    def copy(self, source: Fence, path: str, target: Fence, place: str) -> None:
        """Copy a folder's files. Its hash is that of their paths and hashes, in the order of paths."""
        above = len("".join(f"{name}/" for name in source.parts(path)))
        for count, found in enumerate(source.tree(path, _nothing)):
            if count == MOST_FILES:
                raise Failure(Kind.too_large, f"The folder has more than {MOST_FILES} files.")
            one = _Measure(self._most - self.size)
            handle = opened(found)
            try:
                pieces = chunks(handle, self._most + 1)
                target.write(f"{place}/{found.path[above:]}", one.through(pieces))
            finally:
                os.close(handle)
            self._add(one.size)
            self._hash.update(os.fsencode(found.path[above:]) + b"\0" + one.digest.encode() + b"\n")
        (target.root / place).mkdir(exist_ok=True)

    def _add(self, size: int) -> None:
        self.size += size
        if self.size > self._most:
            raise Failure(
                Kind.too_large, f"An artifact has at most {self._most} bytes, and this one has more."
            )


def basename(name: str) -> str:
    """The last segment of a name, in either slash style, without control characters; `artifact` if none is left."""
    last = re.split(r"[/\\]", name.rstrip("/\\"))[-1]
    return "".join(each for each in last if each.isprintable()).strip() or "artifact"


def mime_type_of(name: str) -> str:
    """The type of a file, by its ending."""
    return _TYPES.get(name.rpartition(".")[2].lower(), "application/octet-stream")


def _segment(context: str) -> str:
    """A context as the name of one folder."""
    if _PLAIN.fullmatch(context):
        return context
    return "_" + hashlib.sha256(context.encode(errors="surrogatepass")).hexdigest()


def _clear(fence: Fence, place: str, *, folder: bool) -> None:
    """Make way where a file is to replace a folder, or the other way round."""
    with suppress(FileNotFoundError):
        if folder or stat.S_ISDIR(fence.stat(place).st_mode):
            fence.remove_tree(place)


def _check_context(tx: Tx, owner: str, context: str) -> None:
    if tx.one(SQL.stranger, context=context, owner=owner) is not None:
        raise _stranger()


def _stranger() -> Failure:
    return Failure(Kind.forbidden, "This context belongs to another: its artifacts cannot be changed.")


def _known(row: tuple[Any, ...] | None) -> Artifact:
    if row is None:
        raise Failure(Kind.not_found, "There is no such artifact.")
    found = Artifact(*row)
    return found._replace(directory=bool(found.directory))


def _listed(tx: Tx, owner: str, context: str | None, most: int) -> list[Artifact]:
    most = min(most, MOST_LISTED)
    if context is None:
        rows = tx.all(SQL.by_owner, owner=owner, most=most)
    else:
        rows = tx.all(SQL.by_context, owner=owner, context=context, most=most)
    return [_known(row) for row in rows]


def _nothing(path: str, is_folder: bool, folder: int) -> bool:
    """Leaves out nothing."""
    return False
