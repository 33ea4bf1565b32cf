"""`Store`: the one small interface to the database, SQLite or PostgreSQL.

What is done in one transaction is a function of a `Tx`, which touches nothing but the database: it may be run
again, together with others or after a lost connection. It runs on a thread of the store, never on an event loop.

    task = await store.write(lambda tx: tx.one(SQL.take, id=id))
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from threading import Lock, local
from typing import Any, ClassVar, Final, Generic, NamedTuple, Protocol, Self, TypeVar

from fairlead._json import dumps
from fairlead.failures import Kind, StoreFailure
from fairlead.store.statements import Statement

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)
Row = tuple[Any, ...]
Wake = Callable[[], None]
#: Tells a loop's future how work ended.
Settle = Callable[[asyncio.Future[Any], Any, BaseException | None], None]

#: What a statement tells that touched one row, and gives none.
ONE: Final[list[Row]] = [(1,)]

#: The topic that wakes every listener: something may have been missed.
EVERYTHING = "*"


class Tx(Protocol):
    """A transaction, seen from within."""

    def all(self, statement: Statement, /, **values: Any) -> list[Row]:
        """Run a statement; gives its rows."""
        ...

    def one(self, statement: Statement, /, **values: Any) -> Row | None:
        """Run a statement; gives its first row, if it has one."""
        ...

    def run(self, statement: Statement, /, **values: Any) -> int:
        """Run a statement; gives how many rows it touched."""
        ...

    def many(self, statement: Statement, rows: Sequence[Mapping[str, Any]], /) -> None:
        """Run a statement once for each row of values."""
        ...

    def each(self, statement: Statement, columns: Mapping[str, Sequence[str]], /, **common: Any) -> None:
        """The same for rows that differ in a few texts alone: for PostgreSQL these are arrays in one statement."""
        ...

    def enter(self, statement: Statement, rows: Sequence[Sequence[Any]], /) -> None:
        """Insert rows of plain values, many with one statement: SQLite takes `VALUES :rows`, PostgreSQL `:rows` as
        a JSON list of lists.
        """
        ...

    def tell(self, topic: str, count: int = 1) -> None:
        """Wake the listeners of a topic, in every process, once this is committed; `count` is for a carrier."""
        ...


Work = Callable[[Tx], T]


class Call(NamedTuple):
    """A statement and its values. Where many enter a row each, `packed` is PostgreSQL's for all of them: it takes their
    values as `:rows`, a JSON list of objects. SQLite takes many rows in place of one.
    """

    statement: Statement
    values: Mapping[str, Any]
    packed: Statement | None = None


class Single(Generic[T]):
    """Work that is one statement where the database can say it in one: then many of them take one journey there.

    Elsewhere it is what `otherwise` does. `read` makes the outcome of the statement's rows; of one that gives none,
    of how many it touched, as a row. Of several that were packed it is told that all were entered, or nothing: then
    `otherwise` knows which. `beside` is another statement that goes with it, whose rows nobody reads. Whom it tells
    may depend on the outcome.
    """

    __slots__ = ("beside", "call", "otherwise", "read", "topics")

    def __init__(
        self,
        call: Call,
        topics: Sequence[str] | Callable[[T], Sequence[str]],
        read: Callable[[list[Row]], T],
        otherwise: Callable[[Tx], T],
        beside: Call | None = None,
    ) -> None:
        self.beside = beside
        self.call = call
        self.topics = topics
        self.read = read
        self.otherwise = otherwise

    def __call__(self, tx: Tx) -> T:
        return self.otherwise(tx)


def told_by(works: Iterable[Single[Any]], outcomes: Iterable[Any]) -> dict[str, int]:
    """Whom these tell, and how often."""
    told: dict[str, int] = {}
    for work, outcome in zip(works, outcomes, strict=True):
        for topic in work.topics(outcome) if callable(work.topics) else work.topics:
            told[topic] = told.get(topic, 0) + 1
    return told


class Bundle:
    """Works that PostgreSQL does together, with as few statements as can be."""

    def __init__(self, works: Sequence[Single[Any]]) -> None:
        self.works = works
        #: What is to be run, in this order.
        self.calls: list[Call] = []
        self._packs: dict[int, tuple[int, list[Mapping[str, Any]]]] = {}
        alone = len(works) == 1
        #: Where the rows of each are.
        self._places = [self._place(work.call, alone) for work in works]
        for work in works:
            if work.beside is not None:
                self._place(work.beside, alone)
        for index, rows in self._packs.values():
            self.calls[index] = self.calls[index]._replace(values={"rows": dumps(rows)})

    def _place(self, call: Call, alone: bool) -> int:
        packed = call.packed
        if packed is None or alone:
            self.calls.append(call)
            return len(self.calls) - 1
        pack = self._packs.get(id(packed))
        if pack is None:
            pack = self._packs[id(packed)] = len(self.calls), []
            self.calls.append(Call(packed, {}))
        pack[1].append(call.values)
        return pack[0]

    def outcomes(self, rows: Sequence[list[Row]]) -> list[Any]:
        """What each work gave, by the rows of the calls."""
        told = list(rows)
        for index, packed in self._packs.values():
            told[index] = ONE if rows[index] == [(len(packed),)] else []
        return [work.read(told[index]) for work, index in zip(self.works, self._places, strict=True)]


#: Takes topics, and how often each was told.
Carrier = Callable[[Mapping[str, int]], None]


class Listeners:
    """Who wants to be woken in this process, by topic. Wakes come on any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._topics: dict[str, set[Wake]] = {}

    def add(self, topic: str, wake: Wake) -> Callable[[], None]:
        with self._lock:
            self._topics.setdefault(topic, set()).add(wake)

        def remove() -> None:
            with self._lock:
                wakes = self._topics.get(topic, set())
                wakes.discard(wake)
                if not wakes:
                    self._topics.pop(topic, None)

        return remove

    def __bool__(self) -> bool:
        return bool(self._topics)

    def ring(self, topics: Sequence[str]) -> None:
        with self._lock:
            wakes = [wake for topic in topics for wake in self._topics.get(topic, ())]
            if EVERYTHING in topics:
                wakes = [wake for each in self._topics.values() for wake in each]
        for wake in wakes:
            try:
                wake()
            except Exception:
                # It is theirs; the thread that rings is everybody's.
                logging.getLogger("fairlead").exception("A listener of the store failed.")


class Outlet(Protocol[T_contra]):
    """Where a thread says how work ended: a `Future`, or a `Landing`."""

    def done(self) -> bool: ...

    def set_result(self, outcome: T_contra, /) -> None: ...

    def set_exception(self, error: BaseException, /) -> None: ...


class Store(ABC):
    """A database that is open. A process that was forked opens its own."""

    #: `sqlite` or `postgres`.
    kind: ClassVar[str]
    #: What the database is, for people: a file's path, or an address without its password.
    name: str

    def __init__(self) -> None:
        self._listeners = Listeners()
        #: What carries topics to other processes, in place of the database's own way. It is called on a thread of
        #: the store or on an event loop, and must not hold up either.
        self.carrier: Carrier | None = None
        self._process = os.getpid()

    @abstractmethod
    def _put(self, outlet: Outlet[T], work: Work[T], write: bool) -> None:
        """Have the work done on a thread of the store, which says there how it ended. Nobody can take it back."""

    def submit(self, work: Work[T], write: bool) -> Future[T]:
        """Have the work done on a thread of the store."""
        future: Future[T] = Future()
        # Whether it was done must be known.
        future.set_running_or_notify_cancel()
        self._put(future, work, write)
        return future

    async def _landed(self, work: Work[T], write: bool) -> T:
        """The same, awaited here."""
        waiting: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._put(Landing(waiting), work, write)
        return await waiting

    @abstractmethod
    def close(self) -> None:
        """Let go of the database; what was begun is ended first."""

    @abstractmethod
    def vacuum(self) -> None:
        """Give room back to the disk, and look at the data anew to find it fast."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *about: object) -> None:
        self.close()

    async def write(self, work: Work[T]) -> T:
        """Do the work in one transaction; when this returns it is on disk.

        Raises:
            Failure: the database refuses, or cannot be reached.
        """
        return await self._landed(work, True)

    async def read(self, work: Work[T]) -> T:
        """Look something up, at one moment."""
        return await self._landed(work, False)

    def write_now(self, work: Work[T]) -> T:
        """`write` for code without an event loop."""
        return self.submit(work, True).result()

    def read_now(self, work: Work[T]) -> T:
        """`read` for code without an event loop."""
        return self.submit(work, False).result()

    @contextlib.contextmanager
    def listening(self, topic: str) -> Iterator[Bell]:
        """Hear of a topic on this event loop: `await bell.rung(timeout)`."""
        bell = Bell()
        remove = self.listen(topic, bell.ring)
        try:
            yield bell
        finally:
            remove()

    def listen(self, topic: str, wake: Wake) -> Callable[[], None]:
        """Have `wake` called, on any thread, whenever somebody tells the topic; gives the way to stop it."""
        return self._listeners.add(topic, wake)

    def ring(self, topics: Sequence[str]) -> None:
        """Wake those who listen in this process: a carrier has brought word from another."""
        self._listeners.ring(topics)

    @property
    def _ours(self) -> bool:
        """Whether this process opened it: a forked child has its memory, and none of its threads."""
        return os.getpid() == self._process

    def _check_process(self) -> None:
        if not self._ours:
            words = f"The store {self.name} was opened before this process was forked. Open it again in the child."
            raise StoreFailure(Kind.misconfigured, words)

    def _close_at_exit(self) -> None:
        """What was accepted is done, even when nobody closed the store."""
        atexit.register(self.close)

    def _stay_at_exit(self) -> None:
        atexit.unregister(self.close)


class Landing(Generic[T]):
    """Where an event loop waits for what a thread of the store does: as much of a `Future` as the threads need."""

    __slots__ = ("_over", "_settle", "waiting")

    def __init__(self, waiting: asyncio.Future[T]) -> None:
        self.waiting = waiting
        self._over = False
        loop = waiting.get_loop()
        if getattr(_MAIL, "loop", None) is not loop:
            _MAIL.loop, _MAIL.settle = loop, _mail_to(loop)
        self._settle: Settle = _MAIL.settle

    def done(self) -> bool:
        return self._over

    def set_result(self, outcome: T) -> None:
        self._over = True
        self._settle(self.waiting, outcome, None)

    def set_exception(self, error: BaseException) -> None:
        self._over = True
        self._settle(self.waiting, None, error)


def _mail_to(loop: asyncio.AbstractEventLoop) -> Settle:
    """How outcomes are brought to a loop, from any thread.

    Each wake of a loop is a journey to the kernel: what is done while one is on its way goes along with it.
    """
    outcomes: deque[tuple[asyncio.Future[Any], Any, BaseException | None]] = deque()
    rung = False

    def deliver() -> None:
        nonlocal rung
        rung = False
        while outcomes:
            waiting, outcome, error = outcomes.popleft()
            if waiting.done():  # whoever waited has gone
                continue
            if error is None:
                waiting.set_result(outcome)
            else:
                waiting.set_exception(error)

    def settle(waiting: asyncio.Future[Any], outcome: Any, error: BaseException | None) -> None:
        nonlocal rung
        outcomes.append((waiting, outcome, error))
        if not rung:
            rung = True
            with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits
                loop.call_soon_threadsafe(deliver)

    return settle


#: The loop of each thread that waited last, and the way to it.
_MAIL: Final = local()


def writable(words: str) -> str:
    """Words as every database can keep them: whole characters, and not the one that ends a text in C."""
    return words.replace("\x00", "\ufffd").encode(errors="replace").decode()


def fail(outlet: Outlet[Any], error: BaseException) -> None:
    """Give a piece of work the error it ended with."""
    if isinstance(error, StopIteration):  # which no awaiting can raise: its caller would wait for ever
        error = RuntimeError("work in the store raised StopIteration")
    outlet.set_exception(error)


class Bell:
    """Remembers that it was rung until somebody looks. Made on the loop of the one who looks."""

    __slots__ = ("_loop", "_rung", "_waiter")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._rung = False
        self._waiter: asyncio.Future[None] | None = None

    def ring(self) -> None:
        """From any thread."""
        if self._rung:
            return
        self._rung = True
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody looks any more
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        # Only for what was not looked at yet: a wake may come late.
        if self._rung and self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def rung(self, timeout: float | None = None) -> bool:
        """Wait until it rings, at most so many seconds; whether it did."""
        if not self._rung:
            self._waiter = self._loop.create_future()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._waiter
            self._waiter = None
        rung, self._rung = self._rung, False
        return rung
