"""The weights on this machine: GGUF files in one folder, by name. How they come here from afar is in `pulling.py`."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal

from fairlead.actions.policy import near_miss
from fairlead.agents.models.gguf import About, about
from fairlead.failures import Failure, Kind

#: The folder for weights; by default one in the folder for data.
VARIABLE: Final = "FAIRLEAD_MODELS"
#: Hears how much is done, and of how much.
Told = Callable[[int, int], None]

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
_CHUNK: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Weight:
    """A file with weights."""

    name: str
    path: Path
    size: int
    about: About

    @property
    def type(self) -> Literal["chat", "embedding"]:
        return "embedding" if self.about.embedding else "chat"

    def describe(self) -> dict[str, Any]:
        """The same as JSON."""
        told: dict[str, Any] = {
            "name": self.name,
            "id": f"local/{self.name}",
            "type": self.type,
            "size": self.size,
            "file": str(self.path),
            "architecture": self.about.architecture,
            "context_window": self.about.window,
        }
        if self.about.embedding:
            told["dimensions"] = self.about.dimensions
        return told


class Weights:
    """The weights in a folder."""

    def __init__(
        self, folder: str | os.PathLike[str] | None = None, environ: Mapping[str, str] | None = None
    ) -> None:
        named = (
            os.fspath(folder)
            if folder
            else (os.environ if environ is None else environ).get(VARIABLE, "").strip()
        )
        self._named = named

    @property
    def folder(self) -> Path:
        """Where they are."""
        if self._named:
            return Path(os.path.abspath(os.path.expanduser(self._named)))
        from fairlead.store import data_folder

        return data_folder() / "models"

    def list(self) -> list[Weight]:
        """All of them by name. A file that is no weights is left out."""
        try:
            found = sorted(self.folder.glob("*.gguf"))
        except OSError:
            return []
        return [weight for path in found if (weight := _weight(path)) is not None]

    def get(self, name: str) -> Weight:
        """The weights of a name.

        Raises:
            Failure: there are none of this name.
        """
        there = {each.name: each for each in self.list()}
        if name in there:
            return there[name]
        from fairlead.agents.models.pulling import RECIPES

        way_out = f"Get them: fairlead models pull {name}" if name in RECIPES else "See: fairlead models list"
        hint = near_miss(name, [*there, *RECIPES])
        words = f"There are no weights called {name!r} in {str(self.folder)!r}.{hint} {way_out}"
        raise Failure(Kind.not_found, words)

    def pick(self, type: Literal["chat", "embedding"]) -> Weight | None:
        """The weights that are meant where none are named: the user's own before those that were pulled."""
        from fairlead.agents.models.pulling import RECIPES

        fitting = [each for each in self.list() if each.type == type]
        return max(fitting, key=lambda each: (each.name not in RECIPES, _age(each.path)), default=None)

    def add(self, file: Path, name: str | None = None, told: Told | None = None) -> Weight:
        """Take a file in: by a link where the disk is the same, else as a copy. The file stays where it is.

        Raises:
            Failure: it is no weights, or the name is taken or no name.
        """
        found = about(file)
        called = checked_name(name or file.name.removesuffix(".gguf").lower())
        target = self.folder / f"{called}.gguf"
        if target.exists():
            words = f"There are weights called {called!r} already. Choose another name with --name, or remove those."
            raise Failure(Kind.conflict, words)
        self.make()
        draft = self.folder / f".{called}.{os.getpid()}.new"
        try:
            self._take(file, draft, told)
            os.replace(draft, target)
        finally:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
        return Weight(called, target, target.stat().st_size, found)

    def remove(self, name: str) -> Weight:
        """Delete the weights of a name. Raises Failure when there are none."""
        gone = self.get(name)
        try:
            gone.path.unlink()
        except OSError as exc:
            raise Failure(Kind.unavailable, f"{str(gone.path)!r} cannot be removed: {exc.strerror}.") from exc
        return gone

    def make(self) -> None:
        """Make the folder. Raises Failure when it cannot be made."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            words = f"The folder for weights, {str(self.folder)!r}, cannot be made: {exc.strerror}."
            raise Failure(Kind.misconfigured, f"{words} Name another: {VARIABLE}=FOLDER") from exc

    def _take(self, file: Path, draft: Path, told: Told | None) -> None:
        try:
            try:
                os.link(os.path.realpath(file), draft)
            except OSError:
                _copy(file, draft, told or (lambda done, total: None))
        except OSError as exc:
            raise Failure(Kind.unavailable, f"{str(file)!r} cannot be copied: {exc.strerror}.") from exc


def checked_name(name: str) -> str:
    """A name for weights, which is a file's name too.

    Raises:
        Failure: it is none.
    """
    if _NAME.fullmatch(name) is None:
        words = f"{name[:100]!r} cannot be the name of weights. Expected lower-case letters, digits, '.', '_' and '-'."
        raise Failure(Kind.invalid_input, words)
    return name


def settle(draft: Path, target: Path) -> None:
    """Give a finished file its name, on disk and all at once."""
    handle = os.open(draft, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    os.replace(draft, target)


def _copy(file: Path, draft: Path, told: Told) -> None:
    total = file.stat().st_size
    free = shutil.disk_usage(draft.parent).free
    if free < total:
        words = f"The disk of {str(draft.parent)!r} has {free} bytes left, and {total} are needed."
        raise Failure(Kind.unavailable, words)
    with file.open("rb") as source, draft.open("wb") as copy:
        while chunk := source.read(_CHUNK):
            copy.write(chunk)
            told(copy.tell(), total)
        copy.flush()
        os.fsync(copy.fileno())


def _weight(path: Path) -> Weight | None:
    try:
        state = path.stat()
        found = _about(path, state.st_mtime_ns, state.st_size)
    except (Failure, OSError):
        return None
    return Weight(path.name.removesuffix(".gguf"), path, state.st_size, found)


@lru_cache(maxsize=256)
def _about(path: Path, changed: int, size: int) -> About:
    return about(path)


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
