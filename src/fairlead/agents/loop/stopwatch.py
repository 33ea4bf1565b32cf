"""`Stopwatch`: how long a run has worked, and when its time is over. While somebody is asked, it stands still."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Stopwatch:
    """Counts on from the seconds of an earlier run."""

    __slots__ = ("_asked", "_limit", "_monotonic", "_most", "_since", "_started")

    def __init__(self, monotonic: Callable[[], float], before: float = 0.0) -> None:
        self._monotonic = monotonic
        self._started = monotonic() - before
        #: How many are being asked, and since when.
        self._asked = 0
        self._since = 0.0
        self._limit: asyncio.Timeout | None = None
        self._most = 0.0

    @property
    def seconds(self) -> float:
        return (self._since if self._asked else self._monotonic()) - self._started

    def limit(self, seconds: float) -> asyncio.Timeout:
        """What ends the run when it has worked so long."""
        self._most = seconds
        self._limit = asyncio.timeout(seconds - self.seconds)
        return self._limit

    @contextmanager
    def still(self) -> Iterator[None]:
        """While somebody is asked."""
        if not self._asked:
            self._since = self._monotonic()
            self._reschedule(None)
        self._asked += 1
        try:
            yield
        finally:
            self._asked -= 1
            if not self._asked:
                self._started += self._monotonic() - self._since
                self._reschedule(asyncio.get_running_loop().time() + self._most - self.seconds)

    def _reschedule(self, when: float | None) -> None:
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(when)
