"""Which processes live: those of a group, and those that carry a mark in their environment. It only looks.

Linux shows both under /proc. Elsewhere a group is asked by signal 0, and marks cannot be seen.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
#: Zombies and the dead: they only wait for their parent to look.
_GONE: Final = b"ZX"


def living(group: int) -> list[int]:
    """The living processes of a group."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return []
    except PermissionError:
        pass
    if not (_PROC / "self" / "stat").exists():
        return [group]
    return [pid for pid in _pids() if _belongs(pid, group)]


def marked(name: str, value: str) -> list[int]:
    """The processes whose environment has this variable with this value."""
    mark = f"{name}={value}".encode()
    found = []
    for pid in _pids():
        with contextlib.suppress(OSError):
            if mark in (_PROC / str(pid) / "environ").read_bytes().split(b"\0"):
                found.append(pid)
    return found


def _pids() -> Iterator[int]:
    with contextlib.suppress(OSError):
        yield from (int(name) for name in os.listdir(_PROC) if name.isdecimal())


def _belongs(pid: int, group: int) -> bool:
    try:
        stat = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return False
    # The program's name stands in brackets and may contain anything, brackets too.
    state, _parent, its_group = stat[stat.rfind(b")") + 2 :].split()[:3]
    return int(its_group) == group and state not in _GONE
