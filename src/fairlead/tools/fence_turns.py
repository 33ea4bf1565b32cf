"""`alone`: one writer at a time in a folder, among threads and among programs that keep to it.

A file is changed by reading it, making the new one and moving that into its place. Two who do so at once would each
undo what the other did, so they take turns. The folder is what is locked: the file itself is another one after every
write, and a name may be spelled in more than one way. It knows no paths and no files.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

#: So long another program is waited for, in seconds. Whoever holds a folder for longer is no writer, and a command
#: that never lets go must not hold up every edit; writers look once more before they move a file into its place.
_PATIENCE: Final = 5.0
_NAP: Final = 0.002
#: Few folders are written at once. Two that share a lock only wait for each other.
_LOCKS: Final = tuple(threading.Lock() for _ in range(64))


@contextmanager
def alone(folder: int) -> Iterator[None]:
    """Be the only one that writes in an open folder. Nobody may take two turns at once."""
    about = os.fstat(folder)
    with _LOCKS[hash((about.st_dev, about.st_ino)) % len(_LOCKS)]:
        handle = _readable(folder)
        if handle is None:
            yield
            return
        try:
            _locked(handle)
            yield
        finally:
            os.close(handle)  # which lets go of the lock, too


def _readable(folder: int) -> int | None:
    """The folder, opened such that it can be locked; some may be written and not be read."""
    with suppress(OSError):
        return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    return None


def _locked(handle: int) -> None:
    import fcntl

    end = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                return
            time.sleep(_NAP)
        except OSError:
            return  # a file system that has no such locks
        else:
            return
