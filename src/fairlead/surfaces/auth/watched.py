"""A file of the server's own, read again when it has changed. What cannot be read is never taken for empty."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from fairlead.actions import DefinitionError
from fairlead.failures import Failure, Kind
from fairlead.failures.redaction import DEFAULT
from fairlead.runtime.hooks import report

T = TypeVar("T")
_Mark = tuple[int, int, int, int]


class Watched(Generic[T]):
    """What a file says, by a function that reads its bytes and raises ValueError for what makes no sense."""

    def __init__(self, what: str, path: str | os.PathLike[str], parse: Callable[[bytes], T]) -> None:
        self._what = what
        self._path = Path(path)
        self._parse = parse
        try:
            self._mark, self._value = self._read()
        except (OSError, ValueError) as exc:
            raise DefinitionError(f"{what} cannot be read from {str(path)!r}: {_reason(exc)}") from exc

    @property
    def value(self) -> T:
        """What the file says now.

        Raises:
            Failure: the file is gone, or makes no sense any more.
        """
        try:
            if _mark(os.stat(self._path)) != self._mark:
                self._mark, self._value = self._read()
        except (OSError, ValueError) as exc:
            report(f"{self._what} cannot be read any more.", DEFAULT)
            raise Failure(Kind.misconfigured, f"{self._what} of this server cannot be read.") from exc
        return self._value

    def _read(self) -> tuple[_Mark, T]:
        with self._path.open("rb") as file:
            return _mark(os.fstat(file.fileno())), self._parse(file.read())


def _mark(stat: os.stat_result) -> _Mark:
    return stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def _reason(exc: OSError | ValueError) -> str:
    return exc.strerror or type(exc).__name__ if isinstance(exc, OSError) else str(exc)
