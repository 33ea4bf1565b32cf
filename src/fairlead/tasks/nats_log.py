"""A task's log on the fleet's bus: what stays is a row, deltas are messages, and a reader puts them together.

A row says after which message it comes, a message after which row.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from fairlead._json import encode, loads
from fairlead.runtime.clock import Clock
from fairlead.store import Bell, Store
from fairlead.tasks import ledger
from fairlead.tasks.bus import LOOK, is_over, truncated
from fairlead.tasks.ledger import AFTER, Held, Said
from fairlead.tasks.records import Event, Task

if TYPE_CHECKING:
    from nats.aio.msg import Msg

    from fairlead.tasks.nats import NatsBus

#: Deltas with their offsets and times.
Numbered = list[tuple[int, float, Mapping[str, Any]]]

#: The stream of deltas.
EVENTS: Final = "FAIRLEAD_EVENTS"
#: Seconds to wait for a message that should be there, and how often the stream is read until all are.
_SETTLED: Final = 2.0
_TRIES: Final = 10
#: Seconds until a message is looked at again that came before its row.
_SOON: Final = 0.05
#: Offsets that are set aside for deltas at a time.
_BLOCK: Final = 1000


class NatsLog:
    """What stays goes to the database, deltas go to their stream."""

    def __init__(self, bus: NatsBus, store: Store, held: Held, latest: int) -> None:
        self._bus = bus
        self._store = store
        self._held = held
        self._subject = bus.event_subject(held.id)
        #: The offsets that are set aside for deltas: the next one, and the last.
        self._next = latest + 1
        self._last = latest
        #: The newest row, and the newest delta.
        self._floor = latest
        self._after: int | None = None
        self._count = 0
        #: What is being written: the messages with its deltas that are not known to be kept, and what stays.
        self._batch: Sequence[Said] = ()
        self._messages: deque[tuple[bytes, str]] = deque()
        self._stays: list[Said] = []

    async def write(self, said: Sequence[Said]) -> None:
        stays = await self._passed(said)
        if stays:
            await self._append(stays)

    async def rest(self, said: list[Said]) -> list[Said]:
        stays = await self._passed(said)
        if self._after is None:
            return stays
        return [(type, time, {**data, AFTER: self._after}) for type, time, data in stays]

    async def _passed(self, said: Sequence[Said]) -> list[Said]:
        """Send the deltas; gives what stays. What is tried again is not sent again."""
        if said is not self._batch:
            await self._divide(said)
            self._batch = said
        while self._messages:
            message, name = self._messages[0]
            await self._bus.call(self._bus.publish(self._subject, message, name=name))
            self._messages.popleft()
            self._after = self._next - 1
        return self._stays

    async def _divide(self, said: Sequence[Said]) -> None:
        """Deltas are to be sent. A server that would not take one of them leaves all of this to the database."""
        deltas = [each for each in said if each[0] == "delta"]
        messages = self._spelled(await self._numbered(deltas), self._count + 1) if deltas else []
        if any(len(message) > self._bus.largest for message in messages):
            self._stays = list(said)
            return
        self._count += len(messages)
        self._messages.extend((message, os.urandom(9).hex()) for message in messages)
        self._stays = [each for each in said if each[0] != "delta"]

    async def _numbered(self, deltas: Sequence[Said]) -> Numbered:
        if self._next + len(deltas) - 1 > self._last:
            await self._append([], len(deltas))
        first = self._next
        self._next += len(deltas)
        return [(first + at, time, data) for at, (_, time, data) in enumerate(deltas)]

    def _spelled(self, deltas: Numbered, count: int) -> list[bytes]:
        """Deltas as messages that the server takes, as few as can be; one that is too long by itself stays so."""
        place = {"floor": self._floor, "run": self._held.run, "count": count}
        message = encode({**place, "deltas": deltas})
        half = len(deltas) // 2
        if len(message) <= self._bus.largest or not half:
            return [message]
        first = self._spelled(deltas[:half], count)
        return [*first, *self._spelled(deltas[half:], count + len(first))]

    async def _append(self, said: Sequence[Said], needed: int = 0) -> None:
        name = os.urandom(8).hex()
        block = max(_BLOCK, needed)
        after = self._after
        latest = await self._store.write(
            lambda tx: ledger.append(tx, self._held, said, name, reserve=block, after=after)
        )
        if latest == 0:
            # Written before a lost connection: the block is not known, so the next append sets one aside.
            self._last = self._next - 1
            return
        self._last = latest
        self._next = latest - block + 1
        self._floor = latest - block


class NatsTail:
    """A reader who puts rows and deltas together.

    Deltas are heard as they are published, which costs the server nothing. What was published before, or missed,
    is read from the stream.
    """

    def __init__(
        self, bus: NatsBus, store: Store, clock: Clock, task: Task, since: int, follow: bool
    ) -> None:
        self._bus = bus
        self._store = store
        self._wall = clock.time
        self._task = task
        self._since = since
        self._follow = follow
        self._subject = bus.event_subject(task.id)
        self._home = asyncio.get_running_loop()
        self._subscription: Any = None
        #: Messages that are still to be told, in order.
        self._heard: deque[dict[str, Any]] = deque()
        #: The place of the message that was told last, and of the last before which one was missed.
        self._place = (0, 0)
        self._missed = (0, 0)
        #: The offset up to which the stream was read: what is not here of that is gone.
        self._whole = 0
        self._bell = Bell()

    async def events(self) -> AsyncIterator[Event]:
        if not self._task.state.final:
            self._subscription = await self._bus.call(self._listen())
        await self._catch_up()
        if self._heard and self._heard[0]["count"] > 1 and self._since < _first(self._heard[0]) - 1:
            yield truncated(self._since, _first(self._heard[0]), self._wall())
        remove = self._store.listen(ledger.task_topic(self._task.id), self._bell.ring)
        try:
            async for event in self._merged():
                yield event
        finally:
            remove()

    async def close(self) -> None:
        if self._subscription is not None:
            with suppress(Exception):
                await self._bus.call(self._subscription.unsubscribe())

    async def _merged(self) -> AsyncIterator[Event]:
        while True:
            rows = await self._store.read(
                lambda tx: ledger.events(tx, self._task.id, self._since, _BLOCK, after=True)
            )
            for row in rows:
                # First what was said before it.
                await self._present(row)
                async for delta in self._told(row.offset):
                    yield delta
                self._since = max(self._since, row.offset)
                yield row
                if row.type == "terminal":
                    return
            if rows:
                continue
            async for delta in self._told(None):
                yield delta
            if not self._follow or await self._store.read(is_over(self._task.id, self._since)):
                return
            # A message whose row is on the way is looked at again soon.
            await self._bell.rung(_SOON if self._heard else LOOK * 3)

    async def _told(self, before: int | None) -> AsyncIterator[Event]:
        """Deltas before an offset, or before the next row."""
        while self._heard:
            message = self._heard[0]
            late = message["floor"] > self._since if before is None else _first(message) > before
            if late:
                return
            place = _place(message)
            if place != self._missed and not _follows(place, self._place):
                # One before it was published while the connection was away.
                self._missed = place
                await self._catch_up()
                continue
            self._heard.popleft()
            self._place = place
            for offset, time, data in message["deltas"]:
                if offset > self._since:
                    self._since = offset
                    yield Event(offset, "delta", time, data)

    async def _present(self, row: Event) -> None:
        """See that all deltas are here that were said before a row."""
        after: int | None = row.data.pop(AFTER, None)
        if row.type in ("terminal", "clarification"):
            # The run wrote it with its last move, when all its deltas were sent.
            after = await self._bus.call(self._newest())
        if after is None or after <= max(self._since, self._whole):
            return
        # That later ones were heard does not say that this one was.
        if not any(_first(each) <= after <= _last(each) for each in self._heard):
            await self._catch_up()

    async def _catch_up(self) -> None:
        """Read from the stream what is not here."""
        found = await self._bus.call(self._history())
        self._whole = max([self._whole, *map(_last, found)])
        known = {_first(message) for message in self._heard}
        self._place = max([self._place, *(_place(each) for each in found if _last(each) <= self._since)])
        missing = [each for each in found if _first(each) not in known and _last(each) > self._since]
        if missing:
            self._heard = deque(sorted([*self._heard, *missing], key=_first))

    async def _listen(self) -> Any:
        async def heard(message: Msg) -> None:
            with suppress(RuntimeError):  # the reader's loop is gone
                self._home.call_soon_threadsafe(self._hear, loads(message.data))

        return await self._bus.subscribe(self._subject, heard)

    def _hear(self, message: dict[str, Any]) -> None:
        if _last(message) > self._since and not any(_first(each) == _first(message) for each in self._heard):
            self._heard.append(message)
            self._bell.ring()

    async def _newest(self) -> int:
        """The offset of the newest delta in the stream."""
        from nats.js.errors import NotFoundError

        try:
            found = await self._bus.js.get_last_msg(EVENTS, self._subject)
        except NotFoundError:
            return 0
        return _last(loads(found.data or b"{}"))

    async def _history(self) -> list[dict[str, Any]]:
        """All that the stream has of this task."""
        found: list[dict[str, Any]] = []
        for _ in range(_TRIES):
            if not await self._newest():
                return []
            found, whole = await self._read()
            if whole:
                break
        return found

    async def _read(self) -> tuple[list[dict[str, Any]], bool]:
        """What the stream gives, and whether that is all. Where one of us stood still, it came too late."""
        found: list[dict[str, Any]] = []
        # A server has room for so many readers at once.
        async with self._bus.readers:
            subscription = await self._bus.js.subscribe(self._subject, ordered_consumer=True)
            try:
                while True:
                    message = await subscription.next_msg(timeout=_SETTLED)
                    found.append(loads(message.data))
                    if not message.metadata.num_pending:
                        return found, True
            except TimeoutError:
                return found, False
            finally:
                await subscription.unsubscribe()


def _first(message: dict[str, Any]) -> int:
    offset: int = message["deltas"][0][0]
    return offset


def _place(message: dict[str, Any]) -> tuple[int, int]:
    """The run that said it, and how many messages it had said by then."""
    return message.get("run", 0), message["count"]


def _follows(place: tuple[int, int], before: tuple[int, int]) -> bool:
    """Whether nothing is in between: it is the run's next message, or the first of a later run."""
    run, count = before
    return place == (run, count + 1) or (place[0] > run and place[1] == 1)


def _last(message: dict[str, Any]) -> int:
    offset: int = message["deltas"][-1][0]
    return offset
