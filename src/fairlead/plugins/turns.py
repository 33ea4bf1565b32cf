"""One at a time, whichever loop or thread asks: for tools that use what a machine has only once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager


class Turns:
    """A queue of callers, each of whom waits for the one before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: Future[None] | None = None

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Have a turn. Who gives up waiting leaves the order of the others as it is."""
        mine: Future[None] = Future()
        with self._lock:
            before, self._last = self._last, mine
        try:
            if before is not None:
                await _over(before)
            yield
        finally:
            if before is None or before.done():
                mine.set_result(None)
            else:
                before.add_done_callback(lambda _: mine.set_result(None))


async def _over(turn: Future[None]) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    turn.add_done_callback(lambda _: loop.call_soon_threadsafe(ended.set))
    await ended.wait()
