"""Files written all or none: they are made beside their place, and moved there when all of them stand."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from fairlead.failures import Failure, Kind
from fairlead.store.folders import alone_in


def write_files(
    folder: Path, files: Mapping[str, str | bytes], *, executable: frozenset[str] = frozenset()
) -> None:
    """Write all files under a folder, which is made when it is missing. What else is in it stays.

    Raises:
        Failure: one of them cannot be written; then none is.
    """
    for name in files:
        _check_name(name)
    made: list[Path] = []
    try:
        _make(folder, made)
        with tempfile.TemporaryDirectory(prefix=".fairlead-", dir=folder) as staging:
            for name, content in files.items():
                place = Path(staging, name)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content.encode() if isinstance(content, str) else content)
                place.chmod(0o755 if name in executable else 0o644)
            with alone_in(folder):
                _move(Path(staging), folder, list(files), made)
    except OSError as exc:
        for each in reversed(made):
            with suppress(OSError):
                each.rmdir()
        place = Path(os.fsdecode(exc.filename or folder))
        raise Failure(
            Kind.invalid_input,
            f"{_outside(place, folder)} cannot be written: {exc.strerror}. Nothing was written.",
        ) from exc


def _check_name(name: str) -> None:
    path = Path(name)
    if path.is_absolute() or ".." in path.parts or not path.name or not name.isprintable():
        raise Failure(Kind.invalid_input, f"{name!r} is not a file name inside the output folder.")


def _make(folder: Path, made: list[Path]) -> None:
    """Make a folder and those above it, and note which are new."""
    for each in reversed([folder, *folder.parents]):
        if not each.is_dir():
            each.mkdir(exist_ok=True)  # another build may be making it, too
            made.append(each)


def _move(staging: Path, folder: Path, names: list[str], made: list[Path]) -> None:
    home = folder.resolve()
    for name in names:
        place = folder / name
        if place.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder", str(place))
        if not place.parent.resolve().is_relative_to(home):
            raise OSError(errno.EXDEV, "a link there leads out of the folder", str(place))
        _make(place.parent, made)
        if not os.access(place.parent, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(place.parent))
    for name in names:
        os.replace(staging / name, folder / name)


def _outside(place: Path, folder: Path) -> Path:
    """The place in question; our own temporary folder is nobody's business."""
    inner = next((each for each in (place, *place.parents) if each.name.startswith(".fairlead-")), None)
    return folder if inner is not None else place
