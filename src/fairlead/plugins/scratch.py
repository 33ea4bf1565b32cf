"""The folder that a plugin's process may write to: made for a runner, watched while the process runs, and removed.

The system limits each file; how many there are and what they take together is looked at from outside, again and again.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import Final

#: Seconds between two looks.
EVERY: Final = 1.0
_PREFIX: Final = "fairlead-plugin-"
_BLOCK: Final = 512


def make() -> Path:
    """A folder of the plugin's own; those of hosts that ended without a word go."""
    shared = Path(tempfile.gettempdir())
    for left in shared.glob(f"{_PREFIX}*"):
        pid = left.name.removeprefix(_PREFIX).partition("-")[0]
        # Another host may be removing it as well.
        with contextlib.suppress(OSError):
            if pid.isdigit() and not os.path.exists(f"/proc/{pid}") and left.stat().st_uid == os.getuid():
                remove(left)
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))


def remove(folder: Path) -> None:
    """Remove it with all that is in it, as far as that goes."""
    shutil.rmtree(folder, ignore_errors=True)


def too_much(folder: Path, pid: int, most_bytes: int, most_files: int) -> str | None:
    """What there is too much of in the folder, files counted that were removed and are still open; None if nothing."""
    files, size = 0, 0
    left = [str(folder), f"/proc/{pid}/fd"]
    while left:
        try:
            entries = os.scandir(left.pop())
        except OSError:
            continue
        with entries:
            for entry in entries:
                found = _looked_at(entry)
                if found is None:
                    continue
                if stat.S_ISDIR(found.st_mode):
                    left.append(entry.path)
                files += 1
                size += found.st_blocks * _BLOCK
                if size > most_bytes:
                    return f"it keeps more than {most_bytes} bytes in its folder"
                if files > most_files:
                    return f"it keeps more than {most_files} files in its folder"
    return None


def _looked_at(entry: os.DirEntry[str]) -> os.stat_result | None:
    """What an entry takes; None for what is gone, and for open files that are still in a folder."""
    try:
        if not entry.path.startswith("/proc/"):
            return entry.stat(follow_symlinks=False)
        found = entry.stat()
    except OSError:
        return None
    return found if stat.S_ISREG(found.st_mode) and not found.st_nlink else None
