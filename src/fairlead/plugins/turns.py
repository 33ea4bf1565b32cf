"""One at a time, whichever loop or thread asks: for tools that use what a machine has only once."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager


class Turns:
    """A queue of callers, each of whom waits for the one before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken = False
        self._waiting: deque[Future[None]] = deque()

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Have a turn. Who gives up waiting leaves the order of the others as it is."""
        mine: Future[None] = Future()
        with self._lock:
            if self._taken:
                self._waiting.append(mine)
            else:
                mine.set_result(None)
            self._taken = True
        try:
            if not mine.done():
                await _come(mine)
            yield
        finally:
            self._left(mine)

    def _left(self, mine: Future[None]) -> None:
        with self._lock:
            if not mine.done():
                self._waiting.remove(mine)
                return
            following = self._waiting.popleft() if self._waiting else None
            self._taken = following is not None
            if following is not None:
                following.set_result(None)


async def _come(turn: Future[None]) -> None:
    loop = asyncio.get_running_loop()
    come = asyncio.Event()
    turn.add_done_callback(lambda _: loop.call_soon_threadsafe(come.set))
    await come.wait()
