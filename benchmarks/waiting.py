"""Many runs that are all under way at the same time. It knows no library: a run waits where it is told to."""

import asyncio
from collections.abc import Awaitable, Callable

from task import Batch


class Waiting:
    """Where runs wait until all are let go."""

    def __init__(self) -> None:
        self._runs: list[asyncio.Task[None]] = []
        self._here = 0
        self._wanted = 0
        self._all_here = asyncio.Event()
        self._let_go = asyncio.Event()

    async def wait(self) -> None:
        self._here += 1
        if self._here >= self._wanted:
            self._all_here.set()
        await self._let_go.wait()

    def batch(self, run: Callable[[], Awaitable[None]]) -> Batch:
        """Has so many runs waiting in the end; with 0, all of them have ended."""

        async def once() -> None:
            await run()

        async def batch(count: int) -> None:
            if not count:
                await self._end()
                return
            self._wanted = count
            self._all_here.clear()
            self._runs += [asyncio.create_task(once()) for _ in range(count - len(self._runs))]
            if self._here < count:
                await self._all_here.wait()

        return batch

    async def _end(self) -> None:
        self._let_go.set()
        runs, self._runs = self._runs, []
        await asyncio.gather(*runs)
        self._let_go.clear()
        self._here = 0
