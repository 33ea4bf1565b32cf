"""`Window`: so many calls in so many seconds for each key, counted in a window that slides."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Hashable
from typing import Final

#: Keys whose calls have all left the window are forgotten once there are so many keys.
_MANY: Final = 1024


class Window:
    """Counts in memory, for one process."""

    def __init__(
        self, limit: int, seconds: float = 60.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.limit = limit
        self.seconds = seconds
        self._clock = clock
        self._taken: dict[Hashable, deque[float]] = {}

    def take(self, key: Hashable) -> bool:
        """Count a call; False, and nothing counted, where the window is full."""
        now = self._clock()
        taken = self._taken.get(key)
        if taken is None:
            self._forget(now)
            taken = self._taken[key] = deque()
        while taken and taken[0] <= now - self.seconds:
            taken.popleft()
        if len(taken) >= self.limit:
            return False
        taken.append(now)
        return True

    def _forget(self, now: float) -> None:
        if len(self._taken) < _MANY:
            return
        old = [key for key, taken in self._taken.items() if not taken or taken[-1] <= now - self.seconds]
        for key in old:
            del self._taken[key]
