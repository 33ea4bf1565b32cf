"""Where programs and modules come from: a file, a folder of the search path, or the library that is installed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from fairlead.failures import Failure, Kind
from fairlead.failures.runtime import ConfigError
from fairlead.pipelines.problems import Source

INSTALLED: Final = os.path.join(os.path.dirname(__file__), "library")
#: Larger files are no programs.
LARGEST: Final = 10_000_000


def read(path: str) -> Source:
    """The text of a program. Raises Failure when it cannot be read."""
    try:
        size = os.stat(path).st_size
        if size > LARGEST:
            raise ConfigError(
                f"{path} has {size} bytes; a program has at most {LARGEST}.", details={"file": path}
            )
        with open(path, encoding="utf-8", newline="") as file:
            return Source(path, file.read())
    except FileNotFoundError:
        raise ConfigError(f"There is no file {path!r}.", details={"file": path}) from None
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{path} is not UTF-8 text.", details={"file": path}, cause=exc) from exc
    except OSError as exc:
        raise ConfigError(
            f"{path} cannot be read: {exc.strerror}.", details={"file": path}, cause=exc
        ) from exc


class Library:
    """The folders in which modules are looked for."""

    def __init__(self, search_path: tuple[str, ...], environ: Mapping[str, str]) -> None:
        given = environ.get("PLUMB_PATH", "")
        self._folders = [*search_path, *(each for each in given.split(os.pathsep) if each)]

    def find(self, name: str, beside: str | None, *, path: bool) -> Source | None:
        """The module of a name, for a user in some folder or in none; None where there is none."""
        stem = name.removesuffix(".plumb")
        folders = [*self._folders, INSTALLED] if not path else [] if beside is None else [beside]
        for folder in folders:
            file = os.path.normpath(os.path.join(folder, f"{stem}.plumb"))
            if os.path.isfile(file):
                try:
                    return read(file)
                except Failure as failure:
                    if failure.kind is not Kind.misconfigured:
                        raise
                    return None
        return None

    def names(self) -> list[str]:
        """The names of modules that could be used."""
        found = []
        for folder in (*self._folders, INSTALLED):
            try:
                found += [
                    each.removesuffix(".plumb") for each in os.listdir(folder) if each.endswith(".plumb")
                ]
            except OSError:
                continue
        return sorted(set(found))

    def places(self) -> str:
        """Where it is looked, for people."""
        return ", ".join([*self._folders, "the library that is installed"])
