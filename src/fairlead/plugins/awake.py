"""Waiting for bytes that come soon, awake: to fall asleep and to be woken takes longer than most answers do.

Where it does not pay, because the machine is busy or the other side slow, it is given up for a while.
The helper process loads this file alone, so it imports next to nothing.
"""

from os import read, sched_yield
from time import monotonic

#: Seconds in which an answer is worth waiting for on the spot.
SOON = 0.0001
#: Waits in vain after which it is given up, for four times as many.
_LUCK = 8
_READ_AT_ONCE = 65536


class Awake:
    """Reads one pipe whose reads do not block."""

    def __init__(self) -> None:
        self._luck = 1

    def read(self, fd: int) -> "bytes | None":
        """What comes soon; None if nothing does, or if it is not worth the wait."""
        if self._luck <= 0:
            self._luck = self._luck - 1 if self._luck > -4 * _LUCK else 1
            return None
        until, tries = monotonic() + SOON, 0
        while True:
            try:
                data = read(fd, _READ_AT_ONCE)
            except BlockingIOError:
                tries += 1
                if tries & 3:
                    continue
                if monotonic() > until:
                    self._luck -= 1
                    return None
                # The other side may share this core.
                sched_yield()
            else:
                self._luck = _LUCK
                return data
