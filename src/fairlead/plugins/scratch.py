"""The folder that a plugin's process may write to: made for a runner, watched while the process runs, and removed.

The system limits each file; how many there are and what they take together is looked at from outside, again and again.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

#: Seconds between two looks.
EVERY: Final = 1.0
_PREFIX: Final = "fairlead-plugin-"
_BLOCK: Final = 512
_FOLDER: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
#: What keeps from looking: a folder closed to its owner, or deeper than a path has characters.
_HIDDEN: Final = (errno.EACCES, errno.EPERM, errno.ENAMETOOLONG)


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
    """Remove it with all that is in it, as far as that goes. Raises nothing."""
    with contextlib.suppress(OSError):
        _level(folder)
    with contextlib.suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)


def _level(folder: Path) -> None:
    """Bring all folders below up to the first level, and let their owner look into them.

    A plugin makes them as deep as it likes and with any mode: removing them where they are would run out of levels,
    of characters for a path, or of rights. Links are not followed, also where one takes the place of a folder now.
    """
    top = os.open(folder, _FOLDER)
    try:
        waiting, number, ours = ["."], 0, f".{os.urandom(8).hex()}"
        while waiting:
            here = _opened(waiting.pop(), top)
            try:
                with os.scandir(here) as entries:
                    names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
                for name in names:
                    os.close(_opened(name, here))
                    number += 1
                    os.rename(name, f"{ours}-{number}", src_dir_fd=here, dst_dir_fd=top)
                    waiting.append(f"{ours}-{number}")
            finally:
                os.close(here)
    finally:
        os.close(top)


def _opened(name: str, within: int) -> int:
    """A folder, for its owner to read and to change from now on."""
    with contextlib.suppress(OSError):
        handle = os.open(name, _FOLDER | getattr(os, "O_PATH", 0), dir_fd=within)
        try:
            # By its descriptor: by its name, it may be a link to somewhere else by now.
            os.chmod(f"/proc/self/fd/{handle}", 0o700)
        finally:
            os.close(handle)
    return os.open(name, _FOLDER, dir_fd=within)


def too_much(folder: Path, pids: Iterable[int], most_bytes: int, most_files: int) -> str | None:
    """What there is too much of in the folder; None if nothing.

    Files are counted that were removed and that one of the processes still has open.
    """
    files, size = 0, 0
    left = [str(folder), *(f"/proc/{pid}/fd" for pid in pids)]
    while left:
        try:
            entries = os.scandir(left.pop())
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
        except OSError as error:
            if error.errno in _HIDDEN:
                return f"it keeps what cannot be looked at in its folder ({error.strerror})"
    return None


def belonging(pid: int) -> set[int]:
    """A process, those of its group, and those that any of them started."""
    started: dict[int, list[int]] = {}
    found, left = set[int](), [pid]
    names = os.listdir("/proc") if os.path.isdir("/proc") else []
    for name in names:
        with contextlib.suppress(OSError, IndexError, ValueError):
            about = Path("/proc", name, "stat").read_bytes().rpartition(b")")[2].split()
            started.setdefault(int(about[1]), []).append(int(name))
            if int(about[2]) == pid:
                left.append(int(name))
    while left:
        each = left.pop()
        if each not in found:
            found.add(each)
            left += started.get(each, ())
    return found


def _looked_at(entry: os.DirEntry[str]) -> os.stat_result | None:
    """What an entry takes; None for what is gone, and for open files that are still in a folder."""
    try:
        return entry.stat(follow_symlinks=False) if not entry.path.startswith("/proc/") else _open(entry)
    except FileNotFoundError:
        return None


def _open(entry: os.DirEntry[str]) -> os.stat_result | None:
    """A file that is open and in no folder any more."""
    try:
        found = entry.stat()
    except OSError:
        return None
    return found if stat.S_ISREG(found.st_mode) and not found.st_nlink else None
