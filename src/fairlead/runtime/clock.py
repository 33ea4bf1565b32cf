"""Time and ids, as values that are passed in, so that tests can fix them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable


class Clock:
    """Wall time for people, monotonic time for measuring."""

    __slots__ = ("_millisecond", "_stamp", "monotonic", "time")

    def __init__(
        self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.perf_counter
    ) -> None:
        self.time = wall
        self.monotonic = monotonic
        self._millisecond = -1
        self._stamp = ""

    def stamp(self, moment: float) -> str:
        """Wall time as ISO-8601 UTC with milliseconds and `Z`."""
        now = int(moment * 1000)
        # Events come in bursts: the text of a millisecond is made once.
        if now != self._millisecond:
            whole, part = divmod(now, 1000)
            self._stamp = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{part:03d}Z"
            self._millisecond = now
        return self._stamp


def random_id() -> str:
    """A random UUID (version 4), several times cheaper than the standard library's."""
    digits = os.urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
