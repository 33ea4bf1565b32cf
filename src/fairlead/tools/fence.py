"""`Fence`: the files below one folder, reached by descriptor, so that no spelling and no race leads out of it.

A path's text is never checked first and used afterwards. Every component is opened below the one before it without
following links; a link is read, and what it says is walked in the same way. So a folder that is swapped for a link
meanwhile leads to an error, not outside. The fence knows no tool: it raises `Outside` and `OSError`, and those who
use it tell that in their own words.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from fairlead.failures import Failure, Kind
from fairlead.tools.fence_turns import alone

#: Bytes of a path, as on Linux.
LONGEST: Final = 4096
#: Bytes that are read at once.
CHUNK: Final = 256 * 1024
#: How files are called that are being written: they become what they are to be by a rename.
TEMPORARY: Final = ".fairlead-"

_LINKS: Final = 40
_STEPS: Final = 10_000
_DEEPEST: Final = 64
_MOST_NAMES: Final = 100_000
_PASS: Final = getattr(os, "O_PATH", os.O_RDONLY)
_FOLDER: Final = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
#: Without waiting: nobody may ever open the other end of a pipe.
_FILE: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_QUIET: Final = getattr(os, "O_NOCTTY", 0) | getattr(os, "O_CLOEXEC", 0)


class Outside(Exception):
    """The path leads out of the folder, or could be the path of no file."""


class NotAFile(OSError):
    """There is something of this name, but it is a device, a pipe or a socket."""


class Changed(OSError):
    """Somebody else has changed the file since it was looked at."""


class Found(NamedTuple):
    """A file in a tree: its path from the fence's root, and where to open it."""

    path: str
    name: str
    folder: int


class Written(NamedTuple):
    """What a write has done: how many bytes there are now, and whether there was no file before."""

    size: int
    created: bool


@dataclass(slots=True)
class _Spot:
    """Where a path ends: a name in an open folder, and what is there now."""

    folder: int
    name: str
    about: os.stat_result | None

    def there(self) -> os.stat_result:
        if self.about is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.name)
        return self.about


class Fence:
    """What is below `root`. Where that is, its owner decides: links on the way to it are followed.

    Writers take turns, unless `turns` is false: then they have the folder to themselves already.
    """

    def __init__(self, root: str | os.PathLike[str], *, turns: bool = True) -> None:
        if os.open not in os.supports_dir_fd:
            words = (
                "Tools for files need a system that opens files below a folder: Linux, macOS or another Unix."
            )
            raise Failure(Kind.unsupported, words)
        given = os.path.abspath(os.path.expanduser(root))
        self.root = Path(os.path.realpath(given))
        self._spellings = tuple({str(self.root), given})
        self._turn: Callable[[int], AbstractContextManager[Any]] = alone if turns else nullcontext

    def __repr__(self) -> str:
        return f"Fence({str(self.root)!r})"

    def parts(self, path: str) -> tuple[str, ...]:
        """The names from the root to a path, whatever its spelling; nothing is looked up.

        Raises:
            Outside: it leads out of the root by its very text.
        """
        names: list[str] = []
        for name in self._below(_usable(path)).split("/"):
            if name == ".." and not names:
                raise Outside("it leads out of the folder")
            if name == "..":
                names.pop()
            elif name not in ("", "."):
                names.append(name)
        return tuple(names)

    def spelled(self, path: str) -> str:
        """The path in one spelling, from the root; the root itself is `.`."""
        return "/".join(self.parts(path)) or "."

    def stat(self, path: str) -> os.stat_result:
        """What is there, behind all links."""
        with self._spot(path) as spot:
            return spot.there()

    @contextmanager
    def open(self, path: str) -> Iterator[int]:
        """A descriptor to read a file by.

        Raises:
            IsADirectoryError: it is a folder.
            NotAFile: it is neither.
        """
        with self._spot(path) as spot:
            handle = _opened(spot.name, spot.folder, spot.there())
        try:
            yield handle
        finally:
            os.close(handle)

    def read(self, path: str, most: int) -> tuple[bytes, os.stat_result]:
        """A file's first bytes, and which state of it that was."""
        with self.open(path) as handle:
            return b"".join(chunks(handle, most)), os.fstat(handle)

    @contextmanager
    def folder(self, path: str) -> Iterator[int]:
        """A descriptor of a folder, to list it by."""
        with self._spot(path) as spot:
            handle = os.open(spot.name, os.O_RDONLY | _FOLDER, dir_fd=spot.folder)
        try:
            yield handle
        finally:
            os.close(handle)

    def write(self, path: str, data: bytes | Iterable[bytes]) -> Written:
        """Put a whole file in its place at once, with the folders on the way.

        An old file's mode is kept, and a link inside stays one.
        """
        parts = [data] if isinstance(data, bytes) else data
        with self._spot(path, create=True) as spot:
            if spot.name == "." or (spot.about and stat.S_ISDIR(spot.about.st_mode)):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), spot.name)
            if spot.about and not stat.S_ISREG(spot.about.st_mode):
                raise NotAFile(errno.EINVAL, "not a regular file", spot.name)
            with _new(spot, parts) as (name, size), self._turn(spot.folder):
                created = _look(spot.name, spot.folder) is None
                os.replace(name, spot.name, src_dir_fd=spot.folder, dst_dir_fd=spot.folder)
            return Written(size, created)

    def edit(self, path: str, most: int, change: Callable[[bytes], bytes]) -> None:
        """Put what `change` makes of a file's first bytes in its place.

        Others who write here wait until it is done. Whoever does not wait, as an editor does not, is not undone.

        Raises:
            Changed: somebody else has changed the file meanwhile.
        """
        with self._spot(path) as spot, self._turn(spot.folder):
            # It may be another file than the one that was looked at before the wait.
            handle = _opened(spot.name, spot.folder, _look(spot.name, spot.folder) or spot.there())
            try:
                data, spot.about = b"".join(chunks(handle, most)), os.fstat(handle)
            finally:
                os.close(handle)
            with _new(spot, [change(data)]) as (name, _):
                if _state(_look(spot.name, spot.folder)) != _state(spot.about):
                    raise Changed(errno.EBUSY, "changed meanwhile", spot.name)
                os.replace(name, spot.name, src_dir_fd=spot.folder, dst_dir_fd=spot.folder)

    def delete(self, path: str) -> None:
        """Remove a file, or a link without what it leads to.

        Raises:
            IsADirectoryError: it is a folder.
        """
        with self._spot(path, follow=False) as spot:
            if stat.S_ISDIR(spot.there().st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), spot.name)
            # An edit that is under way would bring the file back.
            with self._turn(spot.folder):
                os.unlink(spot.name, dir_fd=spot.folder)

    def remove_tree(self, path: str) -> None:
        """Remove whatever is there, with all below it."""
        import shutil

        with self._spot(path, follow=False) as spot:
            if spot.about is None:
                return
            if stat.S_ISDIR(spot.about.st_mode):
                shutil.rmtree(spot.name, dir_fd=spot.folder)
            else:
                os.unlink(spot.name, dir_fd=spot.folder)

    def rename(self, old: str, new: str) -> None:
        """Give something another place, instead of a file that is there."""
        with self._spot(old, follow=False) as source, self._spot(new, follow=False, create=True) as target:
            os.replace(source.name, target.name, src_dir_fd=source.folder, dst_dir_fd=target.folder)

    def tree(self, path: str, skip: Callable[[str, bool, int], bool]) -> Iterator[Found]:
        """Every regular file below a folder, in the order of names; links are not followed.

        `skip(path, is_folder, folder)` leaves a name out; `folder` is the descriptor of what it is in.
        """
        with self.folder(path) as handle:
            yield from _files(handle, self.parts(path), skip)

    def _below(self, path: str) -> str:
        """The path from the root, as it was spelled."""
        if path == "~" or path.startswith("~/"):
            path = os.path.expanduser(path)
        if not path.startswith("/"):
            return path
        inner = _inner(os.path.normpath(path), self._spellings)
        if inner is None:
            raise Outside("it is not below the folder")
        return inner

    @contextmanager
    def _spot(self, path: str, *, follow: bool = True, create: bool = False) -> Iterator[_Spot]:
        descent = _Descent(self, self.parts(path))
        try:
            yield descent.end(follow, create)
        finally:
            os.close(descent.here)

    def _enter(self) -> int:
        return os.open(self.root, _PASS | (_FOLDER & ~getattr(os, "O_NOFOLLOW", 0)))

    def _target(self, link: str) -> tuple[bool, list[str]]:
        """Where a link leads: whether from the root on, and the names. They are walked like all others."""
        absolute = link.startswith("/")
        inner = _inner(link, (str(self.root),)) if absolute else link
        if inner is None:
            raise Outside("a link on the way leads out of the folder")
        return absolute, [name for name in inner.split("/") if name not in ("", ".")]


class _Descent:
    """A walk from the root, one open folder at a time."""

    def __init__(self, fence: Fence, names: Iterable[str]) -> None:
        self._fence = fence
        self._waiting = deque(names)
        self._passed: list[str] = []
        self._links = self._steps = 0
        self.here = fence._enter()

    def end(self, follow: bool, create: bool) -> _Spot:
        while self._waiting:
            self._count()
            name = self._waiting.popleft()
            if name == "..":
                self._up()
                continue
            about = _look(name, self.here)
            last = not self._waiting
            if about is not None and stat.S_ISLNK(about.st_mode) and (follow or not last):
                self._follow(name)
            elif last:
                return _Spot(self.here, name, about)
            else:
                self._down(name, create and about is None)
        return _Spot(self.here, ".", os.stat(self.here))

    def _count(self) -> None:
        self._steps += 1
        if self._steps > _STEPS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))

    def _down(self, name: str, create: bool) -> None:
        if create:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=self.here)
        self._move(os.open(name, _PASS | _FOLDER, dir_fd=self.here))
        self._passed.append(name)

    def _up(self) -> None:
        """Only links say this. What `..` is on the disk may have moved; the way from the root has not."""
        if not self._passed:
            raise Outside("a link on the way leads out of the folder")
        self._again(self._passed[:-1])

    def _follow(self, name: str) -> None:
        self._links += 1
        if self._links > _LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
        absolute, names = self._fence._target(os.readlink(name, dir_fd=self.here))
        if absolute:
            self._again(names)
        else:
            self._waiting.extendleft(reversed(names))

    def _again(self, names: list[str]) -> None:
        self._waiting.extendleft(reversed(names))
        self._passed = []
        self._move(self._fence._enter())

    def _move(self, handle: int) -> None:
        os.close(self.here)
        self.here = handle


def chunks(handle: int, most: int) -> Iterator[bytes]:
    """What is in an open file, up to so many bytes."""
    while most > 0 and (chunk := os.read(handle, min(CHUNK, most))):
        most -= len(chunk)
        yield chunk


def opened(found: Found) -> int:
    """A descriptor to read a file of a tree by. Raises what `Fence.open` does."""
    about = os.stat(found.name, dir_fd=found.folder, follow_symlinks=False)
    return _opened(found.name, found.folder, about)


def _opened(name: str, folder: int, about: os.stat_result) -> int:
    # Opening a device may do something, so it is asked first; but what counts is what was opened.
    _check_regular(name, about)
    handle = os.open(name, _FILE | _QUIET, dir_fd=folder)
    try:
        _check_regular(name, os.fstat(handle))
    except BaseException:
        os.close(handle)
        raise
    return handle


def _check_regular(name: str, about: os.stat_result) -> None:
    if stat.S_ISDIR(about.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    if not stat.S_ISREG(about.st_mode):
        raise NotAFile(errno.EINVAL, "not a regular file", name)


def _look(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


@contextmanager
def _new(spot: _Spot, parts: Iterable[bytes]) -> Iterator[tuple[str, int]]:
    """A new file beside the place it is for: its name and size. It is gone if it was not moved there."""
    new = f"{TEMPORARY}{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | _QUIET
    handle = os.open(new, flags, 0o666, dir_fd=spot.folder)
    try:
        try:
            size = _filled(handle, parts)
            if spot.about is not None:
                _dress(handle, spot.about)
            os.fsync(handle)
        finally:
            os.close(handle)
        yield new, size
    except BaseException:
        with suppress(OSError):
            os.unlink(new, dir_fd=spot.folder)
        raise


def _filled(handle: int, parts: Iterable[bytes]) -> int:
    size = 0
    for part in parts:
        rest = memoryview(part)
        while rest:
            rest = rest[os.write(handle, rest) :]
        size += len(part)
    return size


def _dress(handle: int, old: os.stat_result) -> None:
    """Make a new file look like the one it replaces."""
    mine = os.fstat(handle)
    if (old.st_uid, old.st_gid) != (mine.st_uid, mine.st_gid):
        with suppress(PermissionError):  # only root gives files away
            os.fchown(handle, old.st_uid, old.st_gid)
    os.fchmod(handle, old.st_mode & 0o777)


def _state(about: os.stat_result | None) -> tuple[int, ...] | None:
    return about and (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns)


def _usable(path: str) -> str:
    if "\0" in path:
        raise Outside("it holds a NUL character")
    try:
        size = len(os.fsencode(path))
    except UnicodeEncodeError:
        raise Outside("it holds characters that no file name can have") from None
    if size >= LONGEST:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
    return path


def _inner(path: str, roots: Iterable[str]) -> str | None:
    """What follows one of the roots in an absolute path, if it begins with one."""
    # POSIX lets two leading slashes mean something of their own; nobody does.
    path = "/" + path.lstrip("/")
    for root in roots:
        if path == root:
            return "."
        if path.startswith(root.rstrip("/") + "/"):
            return path[len(root.rstrip("/")) + 1 :]
    return None


def _files(
    folder: int, above: tuple[str, ...], skip: Callable[[str, bool, int], bool], depth: int = 0
) -> Iterator[Found]:
    for entry in entries(folder)[0]:
        path = "/".join((*above, entry.name))
        deeper = entry.is_dir(follow_symlinks=False)
        if entry.name.startswith(TEMPORARY) or skip(path, deeper, folder):
            continue
        if not deeper:
            if entry.is_file(follow_symlinks=False):
                yield Found(path, entry.name, folder)
        elif depth < _DEEPEST:
            with suppress(OSError), _subfolder(entry.name, folder) as inner:
                yield from _files(inner, (*above, entry.name), skip, depth + 1)


@contextmanager
def _subfolder(name: str, folder: int) -> Iterator[int]:
    handle = os.open(name, os.O_RDONLY | _FOLDER, dir_fd=folder)
    try:
        yield handle
    finally:
        os.close(handle)


def entries(folder: int) -> tuple[list[os.DirEntry[str]], bool]:
    """What is in an open folder, in the order of names, and whether that is all."""
    found: list[os.DirEntry[str]] = []
    with os.scandir(folder) as scan:
        for entry in scan:
            if len(found) == _MOST_NAMES:
                return sorted(found, key=lambda each: each.name), False
            found.append(entry)
    return sorted(found, key=lambda each: each.name), True
