"""A conversation as a stream: what is in its log, and what comes, until it is closed.

Whoever reads brings what the turns' tasks write into the log, and reads it from there: all readers, of whatever
process, see the same entries at the same offsets.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from typing import Final

from fairlead.failures import Failure
from fairlead.failures.gateway import AgentNotFound
from fairlead.gateway import messages
from fairlead.gateway.channels import Channels
from fairlead.gateway.channels_kept import Channel
from fairlead.gateway.channels_said import Turn, topic
from fairlead.store import Store
from fairlead.store.store import Bell
from fairlead.tasks.bus import LOOK
from fairlead.tasks.records import Event, Task

#: Messages that are read at once.
_PAGE: Final = 200
#: Events of one turn that wait to be written; past that, its task is not read on.
_WAITING: Final = 1000


async def frames(channels: Channels, store: Store, channel: Channel, since: int) -> AsyncIterator[bytes]:
    """Messages after an offset, each as a frame, and what comes; the last frame says why it ends."""
    if since < channel.forgotten:
        gone = Event(since, "truncated", channel.touched, {"oldest": channel.forgotten, "since": since})
        yield messages.truncated(gone, since)
    reason = "channel_closed"
    try:
        async with aclosing(_messages(channels, store, channel, since)) as found:  # type: ignore[type-var]
            async for message in found:
                yield messages.sse(message)
    except AgentNotFound:
        pass  # it was forgotten meanwhile
    except Failure:
        # The store is away. Readers come back later and go on from where they are.
        reason = "stream_closed"
    yield messages.end(reason)


async def _messages(
    channels: Channels, store: Store, channel: Channel, since: int
) -> AsyncIterator[messages.Message]:
    with store.listening(topic(channel.id)) as bell:
        watch = _Watch(channels, channel, bell)
        try:
            while True:
                now, open_turns = await channels.state(channel)
                await watch.brought(open_turns)
                page = await channels.log(channel, since, _PAGE, True)
                for message in page.messages:
                    since = message["offset"]
                    yield message
                if page.more:
                    continue
                if now.closed is not None and not open_turns:
                    return
                await bell.rung(LOOK)
        finally:
            await watch.stop()


class _Watch:
    """Follows the tasks of a conversation's turns."""

    def __init__(self, channels: Channels, channel: Channel, bell: Bell) -> None:
        self._channels = channels
        self._channel = channel
        self._bell = bell
        self._followed: dict[int, tuple[asyncio.Task[None], asyncio.Queue[Event]]] = {}

    async def brought(self, open_turns: list[tuple[Turn, Task | None]]) -> None:
        """Bring what was heard into the log, and follow turns that are new."""
        going_on = {turn.number for turn, _ in open_turns}
        for number in [each for each in self._followed if each not in going_on]:
            await _ended(self._followed.pop(number)[0])
        for turn, task in open_turns:
            if task is None:
                await self._channels.written(self._channel, turn, [])
                continue
            following, queue = self._followed.get(turn.number) or self._follow(turn, task)
            heard = [queue.get_nowait() for _ in range(queue.qsize())]
            if heard:
                if turn.number > open_turns[0][0].number:
                    await self._channels.told_before(self._channel, turn.number)
                await self._channels.written(self._channel, turn, heard)
            elif following.done():
                # The store was away, or the end was heard and somebody else wrote it: it is looked at anew.
                del self._followed[turn.number]

    async def stop(self) -> None:
        for following, _ in self._followed.values():
            await _ended(following)

    def _follow(self, turn: Turn, task: Task) -> tuple[asyncio.Task[None], asyncio.Queue[Event]]:
        queue: asyncio.Queue[Event] = asyncio.Queue(_WAITING)
        following = asyncio.ensure_future(self._heard(turn, task, queue))
        self._followed[turn.number] = following, queue
        return following, queue

    async def _heard(self, turn: Turn, task: Task, queue: asyncio.Queue[Event]) -> None:
        with suppress(Failure):
            async with aclosing(self._channels.tail(turn, task, True)) as events:  # type: ignore[type-var]
                async for event in events:
                    await queue.put(event)
                    self._bell.ring()


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait((task,))
