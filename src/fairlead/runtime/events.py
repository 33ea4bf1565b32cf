"""What an action says while it runs, and the bounded channel that carries it to whoever is listening.

Three producers, one consumer: async code (which can await room), generator bodies (which always do) and
worker threads (which block until there is room).
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Generator
from typing import TYPE_CHECKING, Any

#: Past this many waiting events, a producer that can wait does.
ROOM = 1024
#: Async code that does not await what it emits cannot be held back; past this many, its events are dropped.
LIMIT = 262_144


#: One event: a plain dict with a `type`.
Event = dict[str, Any]

_MAKING = threading.Lock()


class Ready(tuple[()]):
    """Awaitable that is done already: an empty tuple's iterator says what an empty generator would."""

    __slots__ = ()

    if TYPE_CHECKING:

        def __await__(self) -> Generator[Any, None, None]: ...

    else:
        __await__ = tuple.__iter__


READY = Ready()


class Channel:
    """A queue of events with one consumer on the loop it was made on."""

    __slots__ = (
        "_consumer",
        "_loop",
        "_producers",
        "_room",
        "_waiting_threads",
        "buffer",
        "closed",
        "dropped",
    )

    def __init__(self) -> None:
        self.buffer: deque[Event] = deque()
        self.closed = False
        self.dropped = 0
        self._loop = asyncio.get_running_loop()
        self._consumer: asyncio.Future[None] | None = None
        self._producers: list[asyncio.Future[None]] = []
        #: Where threads wait. Few ever do, and it weighs more than the rest of a channel.
        self._room: threading.Condition | None = None
        self._waiting_threads = 0

    def put(self, event: Event) -> Ready | Channel:
        """Add an event from the loop's thread. Awaiting what it gives waits until there is room."""
        buffer = self.buffer
        if self.closed:
            return READY
        waiting = len(buffer)
        if waiting >= LIMIT:
            self.dropped += 1
            return self
        buffer.append(event)
        if self._consumer is not None:
            self.nudge()
        return READY if waiting < ROOM else self

    def put_blocking(self, event: Event) -> Ready:
        """Add an event from a worker thread, waiting there until there is room."""
        if len(self.buffer) >= ROOM:
            room = self._waiting_room()
            with room:
                self._waiting_threads += 1
                room.wait_for(lambda: len(self.buffer) < ROOM or self.closed)
                self._waiting_threads -= 1
        if self.closed:
            return READY
        self.buffer.append(event)
        if self._consumer is not None:
            self._loop.call_soon_threadsafe(self.nudge)
        return READY

    def __await__(self) -> Generator[Any, None, None]:
        while len(self.buffer) >= ROOM and not self.closed:
            waiter = self._loop.create_future()
            self._producers.append(waiter)
            yield from waiter

    def filled(self) -> Awaitable[None]:
        """What the consumer awaits until there is an event or the channel was nudged."""
        waiting = self._consumer = self._loop.create_future()
        # A thread may have added an event between the consumer's look and this line.
        if self.buffer:
            self._consumer = None
            return READY
        return waiting

    def drained(self) -> None:
        """Tell waiting producers, as the consumer, that there is room again."""
        if self._producers:
            producers, self._producers = self._producers, []
            for waiter in producers:
                if not waiter.done():
                    waiter.set_result(None)
        if self._waiting_threads:
            room = self._waiting_room()
            with room:
                room.notify_all()

    def close(self) -> None:
        """Drop what comes from now on and let every waiting producer go."""
        self.closed = True
        self.drained()
        self.nudge()

    def _waiting_room(self) -> threading.Condition:
        with _MAKING:
            if self._room is None:
                self._room = threading.Condition()
            return self._room

    def nudge(self, *_: object) -> None:
        """Let the consumer look again; whatever ended may say so itself."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None and not consumer.done():
            consumer.set_result(None)
