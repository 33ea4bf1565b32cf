"""What carries work, events and signals between processes: one small interface, and the database's own form of it.

The database is the record and the referee, whatever carries: a message that is lost or comes twice changes nothing
but the time. On one file and on PostgreSQL the database also carries; NATS is in `tasks/nats.py`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from fairlead.failures import Failure, Kind
from fairlead.runtime.clock import Clock
from fairlead.store import Store, Tx
from fairlead.tasks import ledger
from fairlead.tasks.ledger import SQL, Held, Said
from fairlead.tasks.records import Event, Task

#: The variable that names a bus other than the database's own.
VARIABLE: Final = "FAIRLEAD_BUS_URL"
#: Seconds at most between two looks, should a wake have been missed.
LOOK: Final = 5.0
#: Seconds between two words of a worker that it is here.
PRESENCE: Final = 10.0
#: The row that says that workers of this store are woken by a bus, not by the database.
CARRIED: Final = "bus:nats"
#: What those should know who do not use it.
UNHEARD: Final = (
    "Workers on this store are woken over NATS, and this program has no FAIRLEAD_BUS_URL: what it submits they find "
    "when they look, which takes seconds. Set FAIRLEAD_BUS_URL here, too."
)
#: Deltas of one task that are kept.
KEPT_DELTAS: Final = 10_000
#: Events that are read at once.
_PAGE: Final = 1000


class Taken(NamedTuple):
    """A task that a worker has, and what the bus wants to hear of when it is done."""

    task: Task
    token: Any = None


class Source(Protocol):
    """Where one worker gets its work."""

    #: The time by which tasks are taken, which is everybody's.
    wall: Callable[[], float]

    async def take(self, size: int) -> list[Taken]:
        """Up to so many tasks. Where there are none it waits for some, and may give none."""
        ...

    def wake(self) -> None:
        """Have a `take` that waits give what it has."""
        ...

    async def keep(self, tokens: Sequence[Any]) -> None:
        """Say that these are still being run."""
        ...

    async def done(self, token: Any, again: float | None = None) -> None:
        """Say that a run has ended; its task is to be run again in so many seconds, or not."""
        ...

    async def close(self) -> None: ...


class Log(Protocol):
    """Where one run writes what it says."""

    async def write(self, said: Sequence[Said]) -> None:
        """Write it down.

        Raises:
            Fenced: the task is not this run's any more.
        """
        ...

    async def rest(self, said: list[Said]) -> list[Said]:
        """What is left for the ledger to write with the run's last move."""
        ...


class Presence(NamedTuple):
    """A worker, as it last said: when, how many tasks it ran, and how many it can."""

    id: str
    queue: str
    seen: float
    busy: int
    room: int


class Bus(Protocol):
    """What carries between processes."""

    async def present(self, worker: Presence) -> None:
        """Say that a worker is here; it is forgotten when it has not said so for a while."""
        ...

    async def absent(self, worker: Presence) -> None:
        """Say that a worker has gone."""
        ...

    async def workers(self, queue: str) -> list[Presence]:
        """Who is here."""
        ...

    def source(self, queue: str, worker: str, lease: float, look: float) -> Source: ...

    def log(self, held: Held, latest: int) -> Log: ...

    def tail(self, task: Task, since: int, follow: bool) -> AsyncIterator[Event]:
        """What is in a task's log after an offset, and what is added, until it has ended."""
        ...

    async def close(self) -> None: ...


def open_bus(store: Store, clock: Clock, url: str | None = None) -> Bus:
    """The bus that the address, or the environment, names; the database's own by default.

    Raises:
        Failure: there is no such bus.
    """
    named = url or os.environ.get(VARIABLE)
    if not named:
        return DatabaseBus(store, clock)
    if not named.startswith(("nats://", "tls://")):
        raise Failure(
            Kind.misconfigured,
            f"{VARIABLE} names no bus that is known: it must begin with nats:// or tls://.",
        )
    from fairlead.tasks.nats import NatsBus

    return NatsBus(store, clock, named)


class DatabaseBus:
    """The database carries: a worker is woken by what is told there, and takes what is ready there."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._warned = False

    def source(self, queue: str, worker: str, lease: float, look: float) -> Source:
        return DatabaseSource(self._store, self._clock, queue, worker, lease, look)

    def log(self, held: Held, latest: int) -> Log:
        return DatabaseLog(self._store, held)

    async def tail(self, task: Task, since: int, follow: bool) -> AsyncIterator[Event]:
        told = task.oldest
        if since < told:
            yield truncated(since, told + 1, self._clock.time())
        with self._store.listening(ledger.task_topic(task.id)) as bell:
            while True:
                found = await self._store.read(_page(task.id, since))
                if found and found[-1].offset - since > len(found):
                    # Some are missing: forgotten before, or while this reader was slow.
                    oldest = await self._store.read(_oldest(task.id))
                    if told < oldest > since:
                        yield truncated(since, oldest + 1, self._clock.time())
                    told = oldest
                for event in found:
                    yield event
                    if event.type == "terminal":
                        return
                if found:
                    since = found[-1].offset
                if len(found) == _PAGE:
                    continue
                if not follow or await self._store.read(is_over(task.id, since)):
                    return
                await bell.rung(LOOK * 3)

    async def present(self, worker: Presence) -> None:
        if not self._warned and await self._store.read(lambda tx: is_carried(tx, worker.seen)):
            self._warned = True
            logging.getLogger("fairlead").warning(UNHEARD)
        await self._store.write(lambda tx: tx.run(SQL.present, **worker._asdict()))

    async def absent(self, worker: Presence) -> None:
        old = self._clock.time() - 100 * PRESENCE
        await self._store.write(lambda tx: tx.run(SQL.absent, id=worker.id, before=old))

    async def workers(self, queue: str) -> list[Presence]:
        since = self._clock.time() - 3 * PRESENCE
        rows = await self._store.read(lambda tx: tx.all(SQL.workers, queue=queue, since=since))
        return [Presence(*row) for row in rows]

    async def close(self) -> None:
        pass


class DatabaseSource:
    """Work as the database has it."""

    def __init__(
        self, store: Store, clock: Clock, queue: str, worker: str, lease: float, look: float
    ) -> None:
        self._store = store
        self.wall = clock.time
        self._queue = queue
        self._worker = worker
        self._lease = lease
        self._look = look
        self._listening = store.listening(ledger.work_topic(queue))
        self._bell = self._listening.__enter__()

    async def take(self, size: int) -> list[Taken]:
        now = self.wall()
        tasks, late = await self._store.write(
            ledger.taking(self._queue, self._worker, size, now, self._lease)
        )
        if late:
            await self._store.write(lambda tx: ledger.promote(tx, self._queue, now))
        elif not tasks:
            await self._bell.rung(await idle(self._store, self._queue, self.wall(), self._look))
        return [Taken(task) for task in tasks]

    def wake(self) -> None:
        self._bell.ring()

    async def keep(self, tokens: Sequence[Any]) -> None:
        pass

    async def done(self, token: Any, again: float | None = None) -> None:
        pass

    async def close(self) -> None:
        self._listening.__exit__(None, None, None)


class DatabaseLog:
    """Everything that is said is a row."""

    def __init__(self, store: Store, held: Held) -> None:
        self._store = store
        self._held = held
        self._deltas = 0
        #: What was written last: a batch that is given again, because nobody knows, has its first name.
        self._last: tuple[Sequence[Said], str] = ((), "")

    async def write(self, said: Sequence[Said]) -> None:
        if said is not self._last[0]:
            self._last = (said, os.urandom(8).hex())
        name = self._last[1]
        self._deltas += sum(each[0] == "delta" for each in said)
        thin = self._deltas > KEPT_DELTAS
        if thin:
            self._deltas = KEPT_DELTAS // 2

        def work(tx: Any) -> None:
            ledger.append(tx, self._held, said, name)
            if thin:
                ledger.thin(tx, self._held.id, KEPT_DELTAS)

        await self._store.write(work)

    async def rest(self, said: list[Said]) -> list[Said]:
        return said


def carry(tx: Tx, now: float) -> None:
    """Leave word that workers of this store are woken by a bus."""
    tx.run(SQL.present, id=CARRIED, queue="", seen=now, busy=0, room=0)


def is_carried(tx: Tx, now: float) -> bool:
    """Whether workers of this store, lately, are woken by a bus."""
    return tx.one(SQL.seen, id=CARRIED, since=now - 3 * PRESENCE) is not None


async def idle(store: Store, queue: str, now: float, look: float) -> float:
    """Seconds until something is due; none, if something is ready now."""
    due, _, _, ready = await store.read(lambda tx: ledger.soonest(tx, queue))
    if ready:
        return 0.0
    return look if due is None else min(max(0.0, due - now), look)


def is_over(id: str, since: int) -> Callable[[Tx], bool]:
    """Whether nothing comes after an offset: the task has ended before it, or was forgotten meanwhile."""

    def look(tx: Tx) -> bool:
        task = ledger.find(tx, id)
        return task is None or (task.state.final and task.latest <= since)

    return look


def truncated(since: int, oldest: int, now: float) -> Event:
    """Word that deltas after `since` are gone; `oldest` is the first that may still be there."""
    return Event(since, "truncated", now, {"oldest": oldest, "since": since})


def _oldest(id: str) -> Callable[[Tx], int]:
    """The offset up to which deltas were forgotten."""

    def look(tx: Tx) -> int:
        task = ledger.find(tx, id)
        return 0 if task is None else task.oldest

    return look


def _page(id: str, since: int) -> Any:
    return lambda tx: ledger.events(tx, id, since, _PAGE)
