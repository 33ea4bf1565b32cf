"""Bounded channels between tasks, and when a network is done: its sources have ended, nothing is under way.

Messages travel in batches, which nobody changes. A full channel holds its writers back, in the order they came. Where
that would stop everything (a loop that is full), the smallest full channel is made larger; so loops never lock up, and
memory stays bounded wherever the program allows it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

Batch = list[Any]
CAPACITY: Final = 1024


class Network:
    """The tasks of a run and the channels between them."""

    def __init__(self) -> None:
        self.inlets: list[Inlet] = []
        #: Tasks that are at work: neither waiting for a message nor held back by a full channel.
        self.running = 0
        #: What can still bring messages from outside.
        self.sources = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._alive = 0
        self._done: asyncio.Future[None] | None = None
        self._checking = False
        self._ended = False
        #: Those who wait for others to do something, with what tells them.
        self._hoping: dict[object, asyncio.Event] = {}
        #: What sees to the end of programs and servers that tasks have started.
        self._leaving: set[asyncio.Task[None]] = set()

    def inlet(self, name: str) -> Inlet:
        """A new channel."""
        made = Inlet(self, name)
        self.inlets.append(made)
        return made

    def start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run a task of the network. What it raises ends the run."""
        self._future()
        self.running += 1
        self._alive += 1
        task = asyncio.get_running_loop().create_task(self._watched(work), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # One that is ended before it began has not been awaited.
        task.add_done_callback(lambda _: work.close())

    async def _watched(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self.fail(error)
        finally:
            self.rest()
            self._alive -= 1
            if self._alive == 0:
                self.finish()

    def _future(self) -> asyncio.Future[None]:
        if self._done is None:
            self._done = asyncio.get_running_loop().create_future()
        return self._done

    def fail(self, error: BaseException) -> None:
        """End the run with an error; the first one counts."""
        if self._done is not None and not self._done.done():
            self._done.set_exception(error)

    def finish(self) -> None:
        """The run is over."""
        if self._done is not None and not self._done.done():
            self._done.set_result(None)

    async def wait(self) -> None:
        """Until every task has ended. Raises what ended the run; nothing of it is left then."""
        done = self._future()
        if self._alive == 0:
            self.finish()
        try:
            await done
        finally:
            await self.cancel()

    async def cancel(self) -> None:
        """End all tasks now."""
        self._ended = True
        left = [each for each in self._tasks if each is not asyncio.current_task()]
        for task in left:
            task.cancel()
        if left:
            await asyncio.gather(*left, return_exceptions=True)
        if self._leaving:
            await asyncio.gather(*self._leaving, return_exceptions=True)

    def leave(self, work: Coroutine[Any, Any, None]) -> Awaitable[None]:
        """Have something done to its end, also when the task that waits for it is ended: nothing is left of a run."""
        task = asyncio.get_running_loop().create_task(work)
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)
        return asyncio.shield(task)

    async def until(self, moved: asyncio.Event) -> bool:
        """Wait for something that others do. False when nobody is left who could."""
        one = object()
        self._hoping[one] = moved
        self.rest()
        try:
            await moved.wait()
        finally:
            self.running += 1
            hopeful = self._hoping.pop(one, None) is not None
        return hopeful

    def rest(self) -> None:
        """A task waits, or is over."""
        self.running -= 1
        if self.running == 0:
            self.look()

    def look(self) -> None:
        """See soon whether anything can still happen."""
        if not self._checking and not self._ended:
            self._checking = True
            asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        self._checking = False
        if self.running > 0 or self._ended:
            return
        full = [each for each in self.inlets if each.held]
        if full:
            min(full, key=lambda each: each.capacity).grow()
        elif self.sources == 0 and self._hoping:
            hoping, self._hoping = self._hoping, {}
            for moved in hoping.values():
                moved.set()
        elif self.sources == 0 and not any(each.count for each in self.inlets):
            for each in self.inlets:
                each.close()


class Inlet:
    """A channel into one place, with any number of writers."""

    __slots__ = (
        "_batches",
        "_getter",
        "_held",
        "_network",
        "capacity",
        "closed",
        "count",
        "dead",
        "name",
        "seen",
        "writers",
    )

    def __init__(self, network: Network, name: str) -> None:
        self._network = network
        self.name = name
        self.capacity = CAPACITY
        self.count = 0
        self.writers = 0
        self.closed = False
        #: Whether its reader has ended: what still comes is let go.
        self.dead = False
        #: Messages that came through so far.
        self.seen = 0
        self._batches: deque[Batch] = deque()
        self._getter: asyncio.Future[Batch | None] | None = None
        self._held: deque[tuple[Batch, asyncio.Future[None]]] = deque()

    @property
    def held(self) -> bool:
        """Whether a writer waits for room."""
        return bool(self._held)

    def offer(self, batch: Batch) -> bool:
        """Put a batch in, if there is room."""
        if self.dead or self.closed or not batch:
            return True
        if self._held or self.count >= self.capacity:
            return False
        self._take_in(batch)
        return True

    def _take_in(self, batch: Batch) -> None:
        self.seen += len(batch)
        getter = self._getter
        if getter is not None and not getter.done():
            self._getter = None
            self._network.running += 1
            getter.set_result(batch)
            return
        self._batches.append(batch)
        self.count += len(batch)

    async def put(self, batch: Batch) -> None:
        """Put a batch in; waits for room."""
        if self.offer(batch):
            return
        room: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._held.append((batch, room))
        self._network.rest()
        await room

    async def get(self) -> Batch | None:
        """The next batch; None when there will be no more."""
        if self._batches:
            batch = self._batches.popleft()
            self.count -= len(batch)
            self._let_in()
            return batch
        if self.closed:
            return None
        self._getter = asyncio.get_running_loop().create_future()
        self._network.rest()
        return await self._getter

    def _let_in(self) -> None:
        while self._held and self.count < self.capacity:
            batch, room = self._held.popleft()
            if room.done():
                continue
            self._take_in(batch)
            self._network.running += 1
            room.set_result(None)

    def grow(self) -> None:
        """Make room for those who are held back: batches are of any size, and nobody looks again before one is in."""
        while self.capacity <= self.count:
            self.capacity *= 2
        self._let_in()

    def leave(self) -> None:
        """A writer has ended; after the last one there will be no more."""
        self.writers -= 1
        if self.writers <= 0:
            self.close()

    def close(self) -> None:
        """There will be no more."""
        if self.closed:
            return
        self.closed = True
        if self._getter is not None and not self._getter.done() and not self._batches:
            self._network.running += 1
            self._getter.set_result(None)
            self._getter = None

    def abandon(self) -> None:
        """The reader has ended: let go of what is here and of what still comes."""
        self.dead = True
        self._batches.clear()
        self.count = 0
        while self._held:
            _, room = self._held.popleft()
            if not room.done():
                self._network.running += 1
                room.set_result(None)


class Outlet:
    """An output: what is done with a batch on its way, and the channels that it goes to."""

    __slots__ = ("_emit", "_inlets", "_single", "count")

    def __init__(self, inlets: list[Inlet], emit: Callable[[Batch], tuple[Batch, ...]] | None) -> None:
        self._inlets = inlets
        self._emit = emit
        self._single = inlets[0] if emit is None and len(inlets) == 1 else None
        self.count = 0
        for each in inlets:
            each.writers += 1

    async def send(self, batch: Batch) -> None:
        """Send a batch on; waits where there is no room."""
        self.count += len(batch)
        if self._single is not None:
            if not self._single.offer(batch):
                await self._single.put(batch)
            return
        made = self._emit(batch) if self._emit is not None else (batch,) * len(self._inlets)
        for inlet, part in zip(self._inlets, made, strict=True):
            if part and not inlet.offer(part):
                await inlet.put(part)

    def close(self) -> None:
        """There will be no more."""
        for each in self._inlets:
            each.leave()
