"""Waiting for bytes that come soon, awake: to fall asleep and to be woken takes longer than most answers do.

Where it does not pay, because the machine is busy or the other side slow, it is given up for a while.
The helper process loads this file alone, so it imports next to nothing.
"""

from os import read, sched_yield
from select import POLLIN, poll
from time import monotonic

#: Seconds in which what comes is worth waiting for on the spot.
SOON = 0.0001
#: The same for an answer and for the question after it, even from a side that has to be woken first: else two that
#: gave up waiting for each other would never find out that it pays again.
IN_TALK = 0.0003
#: Waits in vain after which it is given up, for four times as many.
_LUCK = 8
_READ_AT_ONCE = 65536


class Awake:
    """Reads one pipe whose reads do not block."""

    def __init__(self, fd: int, soon: float = SOON) -> None:
        self._fd = fd
        self._soon = soon
        self._luck = 1
        looks = poll()
        looks.register(fd, POLLIN)
        # A look takes less than half the time of a read in vain, most of which is the exception.
        self._look = looks.poll

    def read(self) -> "bytes | None":
        """What comes soon; None if nothing does, or if it is not worth the wait."""
        if self._luck <= 0:
            self._luck = self._luck - 1 if self._luck > -4 * _LUCK else 1
            return None
        look, until = self._look, monotonic() + self._soon
        while not (look(0) or look(0) or look(0)):
            if monotonic() > until:
                self._luck -= 1
                return None
            # The other side may share this core.
            sched_yield()
        self._luck = _LUCK
        return read(self._fd, _READ_AT_ONCE)

    def sleep(self) -> bytes:
        """What comes, however long it takes."""
        self._look()
        return read(self._fd, _READ_AT_ONCE)
