"""A sandbox's folder for temporary files: private, and removed with the sandbox or, if the program was killed, later.

Each folder is locked while somebody uses it. A folder of ours that nobody has locked is left from a program that was
killed, and the next one to make a folder removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Final

PREFIX: Final = "fairlead-sandbox-"


class PrivateTmp:
    """One folder, open and locked. It holds nothing that refers to the sandbox."""

    def __init__(self) -> None:
        self.path, self._held = _locked()
        #: Removes what others left. It may be much, so nobody waits for it.
        self.sweeping = threading.Thread(target=_remove_abandoned, name="fairlead-tmp", daemon=True)
        self.sweeping.start()

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.close(self._held)


def _locked() -> tuple[Path, int]:
    """A new folder with its lock. Before it is locked another may take it for abandoned: then there is another."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=PREFIX))
        with contextlib.suppress(FileNotFoundError):
            held = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(held, fcntl.LOCK_EX)
            if path.exists():
                return path, held
            os.close(held)


def _remove_abandoned() -> None:
    """Remove the folders of ours that nobody uses."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            _remove_if_abandoned(path)


def _remove_if_abandoned(path: Path) -> None:
    held = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(held).st_uid == os.getuid():
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(held)
