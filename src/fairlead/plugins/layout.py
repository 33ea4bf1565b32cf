"""Where plugins are kept: one folder for each, one in it for each version, and which of them is in use.

<root>/<id>/<version>/{*.so, receipt.json, manifest.json, web/, skills/, ...}
<root>/<id>/current -> <version>
<root>/<id>/data/data.db
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fairlead.plugins.compatibility import Version, semver
from fairlead.plugins.manifest import check_id, is_id
from fairlead.store.opening import data_folder

CURRENT: Final = "current"
DATA: Final = "data"
MANIFEST: Final = "manifest.json"
#: A plugin that is written in Python has this instead of a library.
PYTHON: Final = "plugin.py"
LIBRARY_ENDINGS: Final = (".so", ".dylib")
#: What outlives a plugin's versions.
_KEPT: Final = (DATA, "settings.json")
_PLACE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Layout:
    """The folder of all plugins."""

    root: Path

    @classmethod
    def of(cls, data: str | os.PathLike[str] | None = None) -> Layout:
        """In the folder for data: as given, else FAIRLEAD_DATA, else the platform's."""
        return cls(data_folder(data) / "plugins")

    def ids(self) -> list[str]:
        """The plugins that have a folder, in order of their names."""
        return [name for name in self._folders() if is_id(name)]

    def strangers(self) -> list[str]:
        """Folders that no plugin can have."""
        return [name for name in self._folders() if not is_id(name)]

    def _folders(self) -> list[str]:
        try:
            with os.scandir(self.root) as entries:
                return sorted(
                    each.name for each in entries if each.is_dir() and not each.name.startswith(".")
                )
        except FileNotFoundError:
            return []

    def holds(self, id: str) -> bool:
        """Whether there is a plugin of this id, whole or not; data that it left behind is none."""
        try:
            names = os.listdir(self.home(id))
        except (FileNotFoundError, NotADirectoryError):
            return False
        return any(name not in _KEPT and not name.startswith(".") for name in names)

    def home(self, id: str) -> Path:
        """The folder of one plugin. Raises Failure for an id that no folder can have."""
        return self.root / check_id(id)

    def versions(self, id: str) -> list[str]:
        """The versions that are installed, the highest first."""
        found: list[tuple[Version, str]] = []
        try:
            with os.scandir(self.home(id)) as entries:
                for entry in entries:
                    version = semver(entry.name)
                    if version is not None and entry.is_dir(follow_symlinks=False):
                        found.append((version, entry.name))
        except FileNotFoundError:
            return []
        return [name for _, name in sorted(found, reverse=True)]

    def current(self, id: str) -> str | None:
        """The version in use: the one `current` names, else the highest; None where there is none."""
        pointed = self.pointed(id)
        if pointed is not None:
            folder = self.version_folder(id, pointed)
            if folder.is_dir() and not folder.is_symlink():
                return pointed
        return next(iter(self.versions(id)), None)

    def pointed(self, id: str) -> str | None:
        """What the link `current` names, if it is a plain name; it may not exist."""
        try:
            target = os.readlink(self.home(id) / CURRENT)
        except OSError:
            return None
        return target if _PLACE.fullmatch(target) and target not in (CURRENT, DATA) else None

    def point(self, id: str, version: str) -> None:
        """Make a version the one in use, at once."""
        draft = self.home(id) / f".{CURRENT}.{secrets.token_hex(4)}"
        os.symlink(version, draft)
        os.replace(draft, self.home(id) / CURRENT)
        sync_folder(self.home(id))

    def version_folder(self, id: str, version: str) -> Path:
        """The folder of one version, whether it exists or not."""
        return self.home(id) / version

    def data(self, id: str) -> Path:
        """Where the plugin's own data is kept; it outlives its versions."""
        return self.home(id) / DATA

    def database(self, id: str) -> Path:
        """The plugin's own database."""
        return self.data(id) / "data.db"


def libraries(folder: Path) -> list[Path]:
    """Every library below a folder, hidden ones left out; and the Python file of a plugin that has no library."""
    found = [path for path in files_of(folder) if path.suffix in LIBRARY_ENDINGS]
    python = folder / PYTHON
    return found or ([python] if python.is_file() else [])


def skills(folder: Path) -> list[Path]:
    """The plugin's skills: what ends in SKILL.md in `skills`."""
    inner = folder / "skills"
    return [path for path in files_of(inner) if path.name.endswith("SKILL.md")] if inner.is_dir() else []


def files_of(folder: Path) -> list[Path]:
    """Every plain file below a folder, hidden ones and links left out, in order."""
    return sorted(_walk(folder))


def _walk(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = [each for each in folders if not each.startswith(".")]
        for name in names:
            path = Path(place, name)
            if not name.startswith(".") and path.is_file() and not path.is_symlink():
                yield path


def entries_of(folder: Path) -> Iterator[Path]:
    """Whatever is below a folder and is no folder: hidden files, links and all else. Raises OSError.

    A folder that cannot be listed is not taken for an empty one: what is in it could still be opened by its name.
    """

    def unseen(error: OSError) -> None:
        raise error

    for place, folders, names in os.walk(folder, onerror=unseen):
        yield from (Path(place, name) for name in names)
        yield from (path for path in (Path(place, name) for name in folders) if path.is_symlink())


def sync_folder(folder: Path) -> None:
    """Names in a folder are on disk when this returns."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_durably(path: Path, content: str | bytes, mode: int = 0o600) -> None:
    """Write a file whole or not at all; it is on disk when this returns."""
    draft = path.with_name(f".{path.name.lstrip('.')}.{secrets.token_hex(4)}.tmp")
    raw = content.encode() if isinstance(content, str) else content
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
