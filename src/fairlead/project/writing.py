"""Files written all or none: they are made beside their place, and moved there when all of them stand."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from fairlead.failures import Failure, Kind


def write_files(
    folder: Path, files: Mapping[str, str | bytes], *, executable: frozenset[str] = frozenset()
) -> None:
    """Write all files under a folder, which is made when it is missing. What else is in it stays.

    Raises:
        Failure: one of them cannot be written; then none is.
    """
    for name in files:
        path = Path(name)
        if path.is_absolute() or ".." in path.parts or not path.name:
            raise Failure(Kind.invalid_input, f"{name!r} is not a file name inside the output folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fairlead-", dir=folder) as staging:
            for name, content in files.items():
                made = Path(staging, name)
                made.parent.mkdir(parents=True, exist_ok=True)
                made.write_bytes(content.encode() if isinstance(content, str) else content)
                made.chmod(0o755 if name in executable else 0o644)
            _move(Path(staging), folder, list(files))
    except OSError as exc:
        place = exc.filename or folder
        raise Failure(
            Kind.invalid_input, f"{place} cannot be written: {exc.strerror}. Nothing was written."
        ) from exc


def _move(staging: Path, folder: Path, names: list[str]) -> None:
    for name in names:
        place = folder / name
        if place.is_dir():
            raise IsADirectoryError(21, "it is a folder", str(place))
        place.parent.mkdir(parents=True, exist_ok=True)
    for name in names:
        os.replace(staging / name, folder / name)
