"""The shared store: a PostgreSQL database, over a few connections with a thread each.

Writes that wait for each other are committed together, as in the embedded store. A connection that is lost is made
again and the work done again. A store is not to be used in a forked child: open one there.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import threading
import time
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar
from urllib.parse import urlsplit

from fairlead.failures import Failure, Kind, StoreFailure
from fairlead.store.ear import NOTIFY, NOTIFY_ANYBODY, Ear, payload
from fairlead.store.express import Express
from fairlead.store.refusals import connection_failure, is_starting, statement_failure
from fairlead.store.store import Bundle, Landing, Outlet, Single, Store, Wake, Work, fail, told_by

if TYPE_CHECKING:
    import psycopg

    from fairlead.store.link import Link

T = TypeVar("T")
Job = tuple[Outlet[Any], Work[Any]]

#: Seconds a lost connection may take to come back before the work fails.
PATIENCE: Final = 30.0
#: Connections of one process, without the one that listens.
CONNECTIONS: Final = 8

#: Work that is done in one transaction at most.
_TOGETHER: Final = 64
#: Seconds after which a thread with nothing to do lets its connection go; the first of each lane stays.
_IDLE: Final = 60.0

_BEGIN: Final = b"BEGIN"
_BEGIN_READ: Final = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
#: Together they hold many rows: two such that wait for each other must part soon, each then goes alone.
_PART_SOON: Final = b"SET LOCAL lock_timeout = '200ms'"
#: A process that stands still must not hold up the others for ever.
_SESSION: Final = {"lock_timeout": "15s", "idle_in_transaction_session_timeout": "60s"}
#: Not a fault of the work: it lost against another, or its prepared statement is out of date.
_AGAIN: Final = ("40001", "40P01", "26000")
_HELD: Final = "55P03"
_SHUT: Final = ("57P01", "57P02", "57P03", "25P03")


class PostgresStore(Store):
    """A database on a server. Made by `open_store`, which brings its tables up to date."""

    kind: ClassVar[str] = "postgres"

    def __init__(self, url: str, connections: int = CONNECTIONS, patience: float = PATIENCE) -> None:
        super().__init__()
        self.name = shown(url)
        self.patience = patience
        self._link = _link_of(url)
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._token = os.urandom(6).hex()
        self._ear: Ear | None = None
        self._express: Express | None = None
        self._url = url
        # A wrong address is told now, and the connection is kept for the first work.
        self._first: Link | None = None
        self._first = self._opened()
        half = max(connections // 2, 1)
        self._lanes = {write: _Lane(self, write, half) for write in (True, False)}
        self._close_at_exit()

    def _put(self, outlet: Outlet[T], work: Work[T], write: bool) -> None:
        self._check_process()
        with self._lock:
            if self._closed.is_set():
                raise StoreFailure(Kind.unavailable, f"The store {self.name} is closed.")
            self._lanes[write].put((outlet, work))

    def pass_on(self, waiting: asyncio.Future[T], work: Work[T]) -> None:
        """Have a write done on a thread for which somebody waits already."""
        try:
            self._put(Landing(waiting), work, True)
        except Failure as failure:  # it is closed
            if not waiting.done() and not waiting.get_loop().is_closed():
                waiting.set_exception(failure)

    async def write(self, work: Work[T]) -> T:
        if type(work) is Single:
            express = self._express_of(asyncio.get_running_loop())
            if express is not None:
                outcome: T = await express.put(work)
                return outcome
        return await super().write(work)

    def _express_of(self, loop: asyncio.AbstractEventLoop) -> Express | None:
        """The loop's own connection, when it has one: the first loop gets it, and the next when that is closed."""
        express = self._express
        if express is None or (express.loop is not loop and express.loop.is_closed()):
            if not self._ours or self.closing:
                return None
            if express is not None:
                express.close()
            express = self._express = Express(self, loop)
        return express if express.loop is loop and self._ours and express.ready else None

    def listen(self, topic: str, wake: Wake) -> Callable[[], None]:
        remove = super().listen(topic, wake)
        with self._lock:
            if self._closed.is_set():
                return remove
            if self._ear is None:
                self._ear = Ear(self._listening, self._token, self._listeners)
            self._ear.needed()
        return remove

    def _listening(self) -> psycopg.Connection[Any]:
        from fairlead.store.link import connect

        return connect(self._url)

    def close(self) -> None:
        with self._lock:
            if self._closed.is_set() or not self._ours:
                return
            express, self._express = self._express, None
        if express is not None:
            express.close()
        with self._lock:
            if self._closed.is_set():
                return
            self._closed.set()
        self._stay_at_exit()
        for lane in self._lanes.values():
            lane.close()
        first, self._first = self._first, None
        if first is not None:
            first.close()
        if self._ear is not None:
            self._ear.close()

    def vacuum(self) -> None:
        import psycopg

        from fairlead.store.link import connect

        try:
            with contextlib.closing(connect(self._url)) as connection:
                connection.execute("VACUUM (ANALYZE)")
        except psycopg.Error as exc:
            raise connection_failure(exc, self.name) from exc

    def connected(self) -> Link:
        """A connection that nobody else uses.

        Raises:
            psycopg.Error: it cannot be made.
        """
        with self._lock:
            first, self._first = self._first, None
        if first is not None:
            return first
        return self._link(self._url, **_SESSION)

    def pause(self, seconds: float) -> bool:
        """Wait before another try; False when the store is closing, and there will be none."""
        return not self._closed.wait(seconds)

    @property
    def closing(self) -> bool:
        return self._closed.is_set()

    def notify(self, link: Link, topics: Mapping[str, int], statement: bytes = NOTIFY) -> None:
        """Send word to other processes: in a transaction of its own, as at the end of one that tells of something it
        would hold up everybody who does so.
        """
        link.send(statement, [payload(self._token, list(topics))], careless=True)

    def told(self, topics: Mapping[str, int]) -> None:
        self._listeners.ring(list(topics))
        if self.carrier is not None:
            self.carrier(topics)

    def _opened(self) -> Link:
        import psycopg

        from fairlead.store.link import Lost

        end = time.monotonic() + self.patience
        while True:
            try:
                return self.connected()
            except (psycopg.Error, Lost) as exc:
                if not is_starting(exc) or time.monotonic() > end:
                    raise connection_failure(exc, self.name) from exc
                time.sleep(0.1)


class _Lane:
    """Threads that read, or threads that write: as many as there is work for, up to a limit."""

    def __init__(self, store: PostgresStore, write: bool, limit: int) -> None:
        self._store = store
        self._write = write
        self._limit = limit
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._waiting = 0
        self._closed = False

    def put(self, job: Job) -> None:
        with self._lock:
            self._jobs.put(job)
            self._waiting += 1
            if self._waiting > self._idle and len(self._threads) < self._limit:
                self._start()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            threads = list(self._threads)
            for _ in threads:
                self._jobs.put(None)
        for thread in threads:
            thread.join()

    def _start(self) -> None:
        # It counts as idle until it takes something, so that one burst does not start them all.
        self._idle += 1
        worker = _Worker(self._store, self._write)
        name = f"fairlead-{'write' if self._write else 'read'}"
        thread = threading.Thread(target=self._run, args=(worker,), name=name, daemon=True)
        self._threads.add(thread)
        thread.start()

    def _run(self, worker: _Worker) -> None:
        try:
            ended = False
            while not ended:
                jobs, ended = self._take()
                if jobs:
                    try:
                        worker.settle(jobs)
                    except BaseException as exc:  # nobody waits for ever
                        worker.let_go()
                        _fail([job for job in jobs if not job[0].done()], exc)
                    del jobs
                    with self._lock:
                        self._idle += 1
        finally:
            worker.let_go()

    def _take(self) -> tuple[list[Job], bool]:
        jobs: list[Job] = []
        try:
            job = self._jobs.get(timeout=_IDLE)
            while job is not None:
                jobs.append(job)
                if len(jobs) == _TOGETHER:
                    break
                job = self._jobs.get_nowait()
        except Empty:
            if not jobs:
                return jobs, self._may_go()
            job = jobs[-1]
        with self._lock:
            self._idle -= bool(jobs)
            self._waiting -= len(jobs)
        return jobs, job is None

    def _may_go(self) -> bool:
        with self._lock:
            if self._waiting or self._closed or len(self._threads) == 1:
                return False
            self._threads.discard(threading.current_thread())
            self._idle -= 1
            return True


class _Worker:
    """One thread's connection, and what is done over it."""

    def __init__(self, store: PostgresStore, write: bool) -> None:
        self._store = store
        self._write = write
        self._link: Link | None = None

    def let_go(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()

    def settle(self, jobs: list[Job], hurried: bool = False) -> bool:
        """Give each its outcome: all in one transaction if that works, else each in its own.

        One that is hurried does not wait long for rows that others hold; False when it would have to.
        """
        import psycopg

        from fairlead.store.link import Lost, Refused

        store = self._store
        tries = _Tries(store)
        hurried = hurried or len(jobs) > 1
        while True:
            try:
                outcomes, topics = self._transaction([work for _, work in jobs], hurried)
            except psycopg.Error as exc:
                failure = connection_failure(exc, store.name)
                self.let_go()
                if failure.kind is not Kind.unavailable or not tries.another():
                    return _fail(jobs, failure)
            except Lost as exc:
                self.let_go()
                if not tries.another():
                    return _fail(jobs, _unreachable(store.name, exc, store.patience))
            except Refused as exc:
                if exc.state.startswith("08") or exc.state in _SHUT:
                    self.let_go()
                    if not tries.another():
                        return _fail(jobs, _unreachable(store.name, exc, store.patience))
                    continue
                self._undo(exc)
                again = exc.state in _AGAIN or (exc.state == "0A000" and "cached plan" in str(exc))
                if again and tries.another(closing=True):
                    continue
                if len(jobs) > 1:
                    return self._settle_each(jobs)
                if hurried and exc.state == _HELD:
                    return False
                return _fail(jobs, statement_failure(exc.state, exc, store.name))
            except BaseException as exc:
                self._undo(exc)
                if len(jobs) > 1:
                    return self._settle_each(jobs)
                return _fail(jobs, exc)
            else:
                if topics:
                    store.told(topics)
                for (outlet, _), outcome in zip(jobs, outcomes, strict=True):
                    outlet.set_result(outcome)
                return True

    def _settle_each(self, jobs: list[Job]) -> bool:
        """Each alone; those that have to wait for others come last."""
        held = [job for job in jobs if not self.settle([job], hurried=True)]
        for job in held:
            self.settle([job])
        return True

    def _transaction(self, works: list[Work[Any]], hurried: bool) -> tuple[list[Any], dict[str, int]]:
        from fairlead.store.link import LinkTx, Refused

        if self._link is None:
            self._link = self._store.connected()
        link = self._link
        if self._write and all(type(work) is Single and not callable(work.topics) for work in works):
            return self._stretch(link, works)  # type: ignore[arg-type]
        tx = LinkTx(link)
        link.send(_BEGIN if self._write else _BEGIN_READ)
        if self._write and hurried:
            link.send(_PART_SOON)
        outcomes = [work(tx) for work in works]
        if not self._write:
            wanted = link.owed
            link.send(b"COMMIT", careless=True)
            link.sync(wanted)
            return outcomes, tx.told
        link.send(b"COMMIT")
        wanted = link.owed
        if tx.told and self._store.carrier is None:
            self._store.notify(link, tx.told, NOTIFY_ANYBODY)
        ended = link.sync(wanted)
        if ended is None or ended.command_status != b"COMMIT":
            raise Refused("25P02", "a statement of the transaction failed, and the failure was passed over")
        return outcomes, tx.told

    def _stretch(self, link: Link, works: list[Single[Any]]) -> tuple[list[Any], dict[str, int]]:
        """Statements that are a transaction by themselves, together: one journey for all of them."""
        from fairlead.store.link import encoded

        bundle = Bundle(works)
        forms = [link.send_encoded(encoded(call.statement, call.values)) for call in bundle.calls]
        link.end_stretch()
        wanted = link.owed
        told = told_by(works, works)
        if told and self._store.carrier is None:
            self._store.notify(link, told, NOTIFY_ANYBODY)
            link.end_stretch()
        return bundle.outcomes(link.rows(forms, wanted)), told

    def _undo(self, cause: BaseException) -> None:
        from fairlead.store.link import Lost, Refused

        if self._link is None:
            return
        try:
            state = cause.state if isinstance(cause, Refused) else ""
            if state in (
                "25006",
                "26000",
                "0A000",
            ):  # another server may do better; what is prepared is stale
                self.let_go()
            else:
                self._link.rollback()
        except (Lost, Refused):
            self.let_go()


class _Tries:
    """How often and how long a piece of work is tried again."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._end: float | None = None
        self._pause = 0.01

    def another(self, closing: bool = False) -> bool:
        """Wait a little; whether to try again then. A store that closes tries once more, or as long as is said."""
        now = time.monotonic()
        first = self._end is None
        if self._end is None:
            self._end = now + self._store.patience
        if now >= self._end:
            return False
        pause, self._pause = self._pause, min(self._pause * 2, 1.0)
        # Those that failed together must not all come back together.
        return self._store.pause(pause * random.uniform(0.5, 1)) or first or closing  # noqa: S311


def shown(url: str) -> str:
    """The address without its password."""
    parts = urlsplit(url)
    if parts.netloc.count("@") > 1 or "@" in parts.path:
        words = (
            "The database's URL has an @ in its user, password or database. Write it as %40, and a / as %2F."
        )
        raise StoreFailure(Kind.misconfigured, words)
    user, at, host = parts.netloc.rpartition("@")
    kept = [each for each in parts.query.split("&") if each and "pass" not in each.partition("=")[0].lower()]
    more = f"?{'&'.join(kept)}" if kept else ""
    return f"postgresql://{user.partition(':')[0]}{at}{host}{parts.path}{more}"


def _link_of(url: str) -> type[Link]:
    """How connections are made, when psycopg is there and can read the URL."""
    try:
        import psycopg

        from fairlead.store.link import Link
    except ImportError as exc:
        words = "A PostgreSQL store needs psycopg, which is not here or cannot be loaded. Install it: "
        raise StoreFailure(Kind.misconfigured, f"{words}pip install 'fairlead[postgres]'", cause=exc) from exc
    try:
        ports = str(psycopg.conninfo.conninfo_to_dict(url).get("port") or "")
        if not all(each.isdecimal() for each in ports.split(",") if each):
            raise psycopg.ProgrammingError
    except psycopg.Error:
        # libpq's own words repeat the URL, which may hold a password.
        words = "The database's URL cannot be read. Expected postgresql://user@host:5432/database"
        raise StoreFailure(Kind.misconfigured, f"{words}, with special characters as %XX.") from None
    return Link


def _unreachable(name: str, error: Exception, patience: float) -> Failure:
    words = f"The store {name} cannot be reached, for {patience:g} seconds now: {error}."
    return StoreFailure(Kind.unavailable, f"{words} Check that PostgreSQL runs.", cause=error, retry_after=1)


def _fail(jobs: list[Job], error: BaseException) -> bool:
    for outlet, _ in jobs:
        fail(outlet, error)
    return True
