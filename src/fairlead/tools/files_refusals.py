"""What went wrong with a path, in the words a model is told. It decides nothing."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from fairlead.actions.policy import near_miss
from fairlead.failures.tool import ExecutionError, InvalidArgs, NotFound
from fairlead.tools.fence import Changed, Fence, NotAFile, Outside, entries
from fairlead.tools.listing import readable

_EXPECTED = "a path below the folder, such as 'docs/notes.md'"
_LONGEST = 200


@contextmanager
def telling(fence: Fence, path: str, field: str = "path") -> Iterator[None]:
    """Make tool failures of what the fence raises."""
    try:
        yield
    except Outside as exc:
        words = f"The path cannot be used: {exc}. Give {_EXPECTED}; '.' is the folder itself."
        raise InvalidArgs(words, field=field, expected=_EXPECTED) from None
    except (FileNotFoundError, NotADirectoryError) as exc:
        words = f"There is no {_named(path)}.{_nearest(fence, path)}"
        raise NotFound(words, field=field, cause=exc) from None
    except IsADirectoryError:
        words = f"{_named(path)} is a folder, and a file is needed. Give the path of a file in it."
        raise InvalidArgs(words, field=field, expected="the path of a file") from None
    except NotAFile:
        words = f"{_named(path)} is a device, a pipe or a socket, and none of these is opened."
        raise ExecutionError(words, field=field, retryable=False) from None
    except Changed:
        words = f"{_named(path)} was changed by somebody else meanwhile. Read it again, then repeat the edit."
        raise ExecutionError(words, field=field) from None
    except OSError as exc:
        raise _failed(path, field, exc) from None


def _failed(path: str, field: str, exc: OSError) -> InvalidArgs | ExecutionError:
    if exc.errno == errno.ENAMETOOLONG:
        return InvalidArgs("The path is too long for a file name.", field=field, expected=_EXPECTED)
    why = os.strerror(exc.errno) if exc.errno else type(exc).__name__
    lasting = isinstance(exc, PermissionError) or exc.errno in (errno.ELOOP, errno.EROFS)
    words = f"{_named(path)} cannot be used: {why}."
    return ExecutionError(words, field=field, retryable=False if lasting else None, cause=exc)


def _named(path: str) -> str:
    text = readable(path) if len(path) <= _LONGEST else readable(path[:_LONGEST]) + "..."
    return repr(text)


def _nearest(fence: Fence, path: str) -> str:
    """A name like the missing one where it was looked for, else the way to find one."""
    *above, name = fence.parts(path) or ("",)
    folder = "/".join(above) or "."
    try:
        with fence.folder(folder) as handle:
            names = [entry.name for entry in entries(handle)[0][:1000]]
    except (OSError, Outside):
        return " Its folder does not exist either: list a folder above it, or use file_search."
    hint = near_miss(name, names)
    return hint or f" List {_named(folder)} to see what is there, or use file_search."
