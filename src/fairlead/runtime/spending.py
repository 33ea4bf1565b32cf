"""What works once, such as a token: remembered until it expires, wherever it would be taken.

What is good in one process is remembered there. What is good in several is used up in the store that they share;
where they share none, it works once in each.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from typing import Protocol, runtime_checkable

from fairlead.runtime.clock import Clock


@runtime_checkable
class Spender(Protocol):
    """What several processes use keys up in. A store of idempotency keys may be one, too."""

    def spend(self, key: str, until: float) -> Awaitable[bool]:
        """Use a key up, and remember it until then; whether nobody had, in whatever process."""
        ...


class Spending:
    """Keys that one runtime uses up. `shared` is where other processes see it, if it is a `Spender`."""

    def __init__(self, clock: Clock, shared: object = None) -> None:
        self._clock = clock
        self._shared = shared if isinstance(shared, Spender) else None
        self._open: Callable[[], Spender] | None = None
        self._process = os.getpid()
        self._used: dict[str, float] = {}
        self._prune_at = 1024
        self._lock = threading.Lock()

    def share_by(self, open: Callable[[], Spender]) -> None:
        """Open this for the first key that is good in several processes, unless they share something already."""
        self._open = open

    async def spend(self, key: str, until: float, *, everywhere: bool) -> bool:
        """Use a key up; whether nobody had. `everywhere` says that other processes would take it, too.

        Raises:
            Failure: nobody can tell, because the store cannot be reached or written.
        """
        # A forked child has the secrets of its parent.
        if everywhere or os.getpid() != self._process:
            if self._shared is None and self._open is not None:
                self._shared = await asyncio.to_thread(self._open)
            if self._shared is not None:
                return await self._shared.spend(key, until)
        return self._spend_here(key, until)

    def _spend_here(self, key: str, until: float) -> bool:
        now = self._clock.time()
        with self._lock:
            if key in self._used:
                return False
            self._used[key] = until
            if len(self._used) > self._prune_at:
                self._used = {used: until for used, until in self._used.items() if until >= now}
                self._prune_at = max(1024, 2 * len(self._used))
        return True
