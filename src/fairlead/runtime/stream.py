"""`Stream`: a call as a series of events, bounded and in order, the result last."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from types import TracebackType
from typing import Any

from fairlead.runtime.clock import Clock
from fairlead.runtime.events import ROOM, Channel, Event
from fairlead.runtime.result import Result

Start = Callable[[Channel], Coroutine[Any, Any, Result]]


class Stream:
    """Iterate it once. Leaving early, by `break`, `aclose()` or the end of `async with`, cancels the call."""

    __slots__ = ("_events",)

    def __init__(self, start: Start, clock: Clock) -> None:
        self._events = _events(start, clock)

    def __aiter__(self) -> AsyncGenerator[Event, None]:
        return self._events

    async def __anext__(self) -> Event:
        return await anext(self._events)

    async def aclose(self) -> None:
        await self._events.aclose()

    async def __aenter__(self) -> Stream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()


async def _events(start: Start, clock: Clock) -> AsyncGenerator[Event, None]:
    channel = Channel()
    buffer = channel.buffer
    half = ROOM // 2
    task = asyncio.get_running_loop().create_task(start(channel))
    del start  # what the call was asked with need not be held beside the call
    task.add_done_callback(channel.nudge)
    try:
        while True:
            while buffer:
                # Producers are let on when half the room is free, not one by one.
                if len(buffer) == half:
                    channel.drained()
                yield buffer.popleft()
            channel.drained()
            if task.done():
                break
            await channel.filled()
        if channel.dropped:
            yield _notice(channel.dropped, clock.stamp(clock.time()))
        yield {"type": "result", "envelope": task.result().to_dict()}
    finally:
        channel.close()
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))


def _notice(dropped: int, time: str) -> Event:
    message = (
        f"{dropped} events were dropped: the listener was slow, and the action did not await its events."
    )
    return {"type": "log", "level": "warn", "message": message, "time": time, "fields": {"dropped": dropped}}
