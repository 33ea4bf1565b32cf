"""Archives of plugins: unpacked whole or refused whole. Nothing is written outside of the folder, whatever they say."""

from __future__ import annotations

import errno
import gzip
import os
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Final

from fairlead.failures import Failure, Kind

#: What an archive may come to: bytes in all, bytes of one file, files.
LARGEST: Final = 512 * 1024 * 1024
LARGEST_FILE: Final = 256 * 1024 * 1024
MOST_FILES: Final = 10_000
#: No file of a plugin is worth so little that it packs to a part this small; a bomb is.
_SMALLEST_PART: Final = 1 / 1000
_DEEPEST: Final = 32
#: Bytes that a tar may have read at once. Contents come in small pieces; only what is written about an entry does not.
_AT_ONCE: Final = 1024 * 1024
#: What is wrong with the disk, and not with the archive.
_OURS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
_ENDINGS: Final = (".zip", ".tar.gz", ".tgz")


def is_archive(path: Path) -> bool:
    """Whether a file's name says that it is an archive that can be read."""
    return path.name.lower().endswith(_ENDINGS)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack into an empty folder.

    Raises:
        Failure: it is damaged, too large, or has an entry that has no place in a plugin; then nothing is kept.
        OSError: there is no room to unpack it to.
    """
    try:
        if archive.stat().st_size > LARGEST:
            raise Failure(Kind.too_large, f"it is larger than {LARGEST // 1024 // 1024} MiB")
        if archive.name.lower().endswith(".zip"):
            with zipfile.ZipFile(archive) as opened:
                _unpack_zip(opened, folder)
        else:
            with _Stream(archive) as packed, tarfile.open(fileobj=packed, mode="r:") as opened_tar:
                _unpack_tar(opened_tar, folder)
                packed.check()
    except Failure as failure:
        raise _refused(archive, failure.message) from None
    except Exception as exc:
        # Of bytes that make no sense, each way of packing says so by an error of its own.
        if isinstance(exc, OSError) and exc.errno in _OURS:
            raise
        raise _refused(archive, f"it is damaged, or not an archive of its kind ({exc})") from exc


def _unpack_zip(archive: zipfile.ZipFile, folder: Path) -> None:
    entries = archive.infolist()
    _count(len(entries))
    total = 0
    for entry in entries:
        mode = entry.external_attr >> 16
        kind = stat.S_IFMT(mode)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise _wrong(entry.filename, "is a link or a device")
        if entry.flag_bits & 1:
            raise _wrong(entry.filename, "is encrypted")
        place = _place(folder, entry.filename)
        if entry.is_dir():
            place.mkdir(parents=True, exist_ok=True)
            continue
        total += entry.file_size
        _weigh(entry.filename, entry.file_size, total)
        if entry.compress_size < entry.file_size * _SMALLEST_PART and entry.file_size > 1024 * 1024:
            raise _wrong(entry.filename, "is packed beyond all measure")
        with archive.open(entry) as source:
            _copy(source, place, entry.file_size, entry.filename, executable=bool(mode & 0o111))


def _unpack_tar(archive: tarfile.TarFile, folder: Path) -> None:
    total = 0
    for count, entry in enumerate(_members(archive), start=1):
        _count(count)
        place = _place(folder, entry.name)
        if entry.isdir():
            place.mkdir(parents=True, exist_ok=True)
            continue
        if not entry.isreg() or entry.issparse():
            raise _wrong(entry.name, "is a link, a device or a sparse file")
        total += entry.size
        _weigh(entry.name, entry.size, total)
        source = archive.extractfile(entry)
        assert source is not None
        with source:
            _copy(source, place, entry.size, entry.name, executable=bool(entry.mode & 0o111))


class _Stream(gzip.GzipFile):
    """What is in a gzip, as far and as much at a time as an archive of a plugin needs."""

    def read(self, size: int | None = -1) -> bytes:
        if size is None or not 0 <= size <= _AT_ONCE:
            raise Failure(Kind.too_large, "more is written about one of its entries than about any file")
        return super().read(size)

    def check(self) -> None:
        """Read what is left: at the end it says whether all of it came as it was packed."""
        while self.read(_AT_ONCE):
            if self.tell() > 2 * LARGEST:
                raise Failure(Kind.too_large, f"it unpacks to more than {LARGEST // 1024 // 1024} MiB")

    def seek(self, offset: int, whence: int = 0) -> int:
        if offset > 2 * LARGEST:
            raise Failure(Kind.too_large, f"it unpacks to more than {LARGEST // 1024 // 1024} MiB")
        return super().seek(offset, whence)


def _members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """One after the other, so that a bomb is noticed before it is unpacked."""
    while (entry := archive.next()) is not None:
        yield entry
        archive.members = []  # type: ignore[attr-defined]  # it keeps all of them otherwise


def _place(folder: Path, name: str) -> Path:
    """Where an entry goes. Names that lead elsewhere, or mean something else on another system, are refused."""
    if not name or "\\" in name or "\0" in name or not name.isprintable():
        raise _wrong(name, "has a name that no file of a plugin has")
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or any(":" in part for part in path.parts):
        raise _wrong(name, "leads out of the folder")
    if len(path.parts) > _DEEPEST or any(len(part.encode()) > 255 for part in path.parts):
        raise _wrong(name, "has too long a name")
    return folder.joinpath(*path.parts)


def _copy(source: IO[bytes], place: Path, size: int, name: str, *, executable: bool) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o755 if executable else 0o644)
    except FileExistsError:
        raise _wrong(name, "comes twice") from None
    with open(handle, "wb") as target:
        shutil.copyfileobj(_Bounded(source, size, name), target)


class _Bounded:
    """Reads as many bytes as were promised; more are a lie."""

    def __init__(self, source: IO[bytes], size: int, name: str) -> None:
        self._source = source
        self._left = size
        self._name = name

    def read(self, count: int = -1) -> bytes:
        data = self._source.read(count if count >= 0 else 65536)
        self._left -= len(data)
        if self._left < 0:
            raise _wrong(self._name, "is larger than the archive says")
        return data


def _count(number: int) -> None:
    if number > MOST_FILES:
        raise Failure(Kind.too_large, f"it has more than {MOST_FILES} files")


def _weigh(name: str, size: int, total: int) -> None:
    if size > LARGEST_FILE:
        raise _wrong(name, f"is larger than {LARGEST_FILE // 1024 // 1024} MiB")
    if total > LARGEST:
        raise Failure(Kind.too_large, f"it unpacks to more than {LARGEST // 1024 // 1024} MiB")


def _wrong(name: str, what: str) -> Failure:
    return Failure(Kind.invalid_input, f"its entry {name[:120]!r} {what}")


def _refused(archive: Path, why: str) -> Failure:
    return Failure(
        Kind.invalid_input,
        f"The archive {archive.name!r} is refused, and nothing was installed: {why}. Get it anew from its author.",
    )
