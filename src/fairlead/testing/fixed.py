"""A clock and ids that do what the test says."""

from __future__ import annotations

from itertools import count

from fairlead.runtime import Clock


class FixedClock(Clock):
    """Stands still at `now` (seconds since 1970) until it is moved."""

    __slots__ = ("now",)

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now
        super().__init__(lambda: self.now, lambda: self.now)

    def move(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


class SequentialIds:
    """Gives `id-1`, `id-2`, and so on."""

    def __init__(self, prefix: str = "id") -> None:
        self._prefix = prefix
        self._numbers = count(1)

    def __call__(self) -> str:
        return f"{self._prefix}-{next(self._numbers)}"
