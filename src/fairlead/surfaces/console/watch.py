"""Noticing that the developer's files have changed, by looking at them now and then.

Only what is the developer's own is looked at: not the libraries, not Python, not Fairlead.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.machinery import SourceFileLoader
from types import TracebackType

#: Seconds between two looks.
EVERY = 0.25

Stamp = tuple[int, int] | None
_LIBRARIES = tuple(
    os.path.realpath(path) + os.sep
    for path in {
        os.path.dirname(os.path.dirname(os.path.dirname(__file__))),
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    }
)


@cache
def is_own(file: str) -> bool:
    """Whether a file is the developer's."""
    return os.path.isabs(file) and not os.path.realpath(file).startswith(_LIBRARIES)


def loaded() -> set[str]:
    """The developer's files that are imported now."""
    # Some modules are stand-ins that import more when they are asked for anything.
    files = (getattr(module, "__dict__", {}).get("__file__") for module in list(sys.modules.values()))
    return {file for file in files if isinstance(file, str) and is_own(file)}


@contextmanager
def noted() -> Iterator[dict[str, Stamp]]:
    """Note the developer's files that are imported meanwhile, as they are when they are read.

    All of an app may take seconds, and a file may change before the last is there.
    """
    found: dict[str, Stamp] = {}
    kept = SourceFileLoader.path_stats

    def path_stats(self: SourceFileLoader, path: str) -> Mapping[str, object]:
        if is_own(path):
            found[path] = _stamp(path)
        return kept(self, path)

    SourceFileLoader.path_stats = path_stats  # type: ignore[method-assign]
    try:
        yield found
    finally:
        SourceFileLoader.path_stats = kept  # type: ignore[method-assign]


def named_in(error: BaseException | None) -> set[str]:
    """The developer's files that a failed import went through, and where it stopped."""
    files: set[str] = set()
    while error is not None:
        trace: TracebackType | None = error.__traceback__
        while trace is not None:
            files.add(trace.tb_frame.f_code.co_filename)
            trace = trace.tb_next
        if isinstance(error, SyntaxError) and error.filename:
            files.add(error.filename)
        error = error.__cause__ or error.__context__
    return {file for file in files if is_own(file)}


def beside(files: Iterable[str], *folders: str) -> set[str]:
    """These files, and every Python file in their folders: what an import misses may appear there."""
    found = set(files)
    for folder in {*(os.path.dirname(file) for file in found), *folders}:
        try:
            found |= {entry.path for entry in os.scandir(folder) if entry.name.endswith(".py")}
        except OSError:
            continue
    return found


class Watch:
    """Knows the files as they are, or were when they were `read`, and says when they are no longer so.

    A file that joins later, such as a module that is imported late, is a change only where `new` is said.
    """

    def __init__(self, files: Callable[[], set[str]], read: Mapping[str, Stamp], *, new: bool) -> None:
        self._files = files
        self._new = new
        self._seen = {file: _stamp(file) for file in files()} | dict(read)

    def changed(self) -> bool:
        """Whether a file is another than it was, or gone."""
        for file in self._files() | self._seen.keys():
            stamp = _stamp(file)
            if file not in self._seen and not self._new:
                self._seen[file] = stamp
            elif self._seen.get(file) != stamp:
                return True
        return False


def _stamp(file: str) -> Stamp:
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
