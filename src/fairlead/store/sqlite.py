"""The embedded store: one SQLite file, written by one thread of this process at a time.

Writes that wait for each other are committed together, so that many at once cost one wait for the disk. Other
processes may have the same file open; they are woken through a doorbell, not by polling.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from operator import attrgetter, itemgetter
from pathlib import Path
from queue import SimpleQueue
from typing import Any, ClassVar, Final, TypeVar

from fairlead.failures import Failure, Kind, StoreFailure
from fairlead.failures.typed import command
from fairlead.store.statements import Statement
from fairlead.store.store import ONE, Outlet, Row, Single, Store, Work, fail, told_by

T = TypeVar("T")
Job = tuple[Outlet[Any], Work[Any]]
#: For each piece of work what it gave or how it failed, and how often each topic was told.
Done = tuple[list[tuple[Any, BaseException | None]], dict[str, int]]
Way = Callable[[sqlite3.Connection, list[Work[Any]]], Done]

#: Rows that one statement enters; SQLite counts their values, and has a limit.
_AT_ONCE: Final = 50
#: Seconds to wait for another process that is writing.
PATIENCE: Final = 15.0
#: The oldest SQLite that knows RETURNING.
_OLDEST: Final = (3, 35, 0)
#: Writes that are committed together at most.
_TOGETHER: Final = 256
_READERS: Final = 2
_statement: Final = attrgetter("statement")
#: Full: what was committed survives a power cut, not only a crash. No mmap: a disk that fails would end the process.
_PRAGMAS: Final = (
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cache_size = -16384",
    # The log of changes shrinks again after a long reader let it grow.
    "PRAGMA journal_size_limit = 67108864",
    "PRAGMA analysis_limit = 400",
)
#: Errors after which the connection is not trusted any more: the next work gets a new one.
_SUSPICIOUS: Final = {
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
}


class SqliteTx:
    """A transaction on one connection."""

    __slots__ = ("_connection", "told")

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.told: dict[str, int] = {}

    def all(self, statement: Statement, /, **values: Any) -> list[Row]:
        return self._connection.execute(statement.sqlite, values).fetchall()

    def one(self, statement: Statement, /, **values: Any) -> Row | None:
        row: Row | None = self._connection.execute(statement.sqlite, values).fetchone()
        return row

    def run(self, statement: Statement, /, **values: Any) -> int:
        return self._connection.execute(statement.sqlite, values).rowcount

    def many(self, statement: Statement, rows: Sequence[Mapping[str, Any]], /) -> None:
        self._connection.executemany(statement.sqlite, rows)

    def each(self, statement: Statement, columns: Mapping[str, Sequence[str]], /, **common: Any) -> None:
        rows = zip(*columns.values(), strict=True)
        self.many(statement, [{**common, **dict(zip(columns, row, strict=True))} for row in rows])

    def enter(self, statement: Statement, rows: Sequence[Sequence[Any]], /) -> None:
        # Each statement is a chance for the event loop's thread to take over, so one for each row would take long.
        # Rows out of a JSON text would be one statement, too, but take twice the time.
        for start in range(0, len(rows), _AT_ONCE):
            some = rows[start : start + _AT_ONCE]
            marks = f"({', '.join('?' * len(some[0]))})"
            sql = statement.sqlite.replace(":rows", ", ".join([marks] * len(some)))
            self._connection.execute(sql, [value for row in some for value in row])

    def insert(self, statement: Statement, rows: Sequence[Mapping[str, Any]]) -> int:
        """Run a statement that inserts one row for many of them; gives how many it inserted."""
        count = 0
        wanted = itemgetter(*statement.values)
        for start in range(0, len(rows), _AT_ONCE):
            some = rows[start : start + _AT_ONCE]
            values = [value for row in some for value in wanted(row)]
            count += self._connection.execute(statement.for_rows(len(some)), values).rowcount
        return count

    def tell(self, topic: str, count: int = 1) -> None:
        self.told[topic] = self.told.get(topic, 0) + count


class Opened:
    """A connection of one thread, opened when it is needed, and anew when the file was replaced or is not trusted."""

    def __init__(self, file: Path, patience: float) -> None:
        self._file = file
        self._patience = patience
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None

    def get(self) -> sqlite3.Connection:
        identity = _identity(self._file)
        if self._connection is None or identity != self._identity:
            self.drop()
            self._connection = connect(self._file, self._patience)
            self._identity = identity
        return self._connection

    def undo(self, error: BaseException) -> None:
        """Leave no transaction behind."""
        connection = self._connection
        if connection is None:
            return
        with suppress(sqlite3.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        if connection.in_transaction or (isinstance(error, sqlite3.Error) and _code(error) in _SUSPICIOUS):
            self.drop()

    def drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()

    def close(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.execute("PRAGMA optimize")
        self.drop()


class SqliteStore(Store):
    """One file. Made by `open_store`, which brings its tables up to date."""

    kind: ClassVar[str] = "sqlite"

    def __init__(self, file: Path, patience: float = PATIENCE) -> None:
        super().__init__()
        self.file = file
        self.name = str(file)
        self.patience = patience
        self._writes: SimpleQueue[Job | None] = SimpleQueue()
        self._reads: SimpleQueue[Job | None] = SimpleQueue()
        self._closed = False
        self._lock = threading.Lock()
        self._make()
        writer = Opened(file, patience)
        try:
            writer.get()
        except sqlite3.Error as exc:
            raise told(exc, self.name, patience) from exc
        self._doorbell = _doorbell(file, self._listeners.ring)
        self._threads = [
            threading.Thread(target=self._write, args=(writer,), name="fairlead-write", daemon=True)
        ]
        for _ in range(_READERS):
            self._threads.append(threading.Thread(target=self._read, name="fairlead-read", daemon=True))
        for thread in self._threads:
            thread.start()
        self._close_at_exit()

    def _put(self, outlet: Outlet[T], work: Work[T], write: bool) -> None:
        self._check_process()
        with self._lock:
            if self._closed:
                raise StoreFailure(Kind.unavailable, f"The store {self.name} is closed.")
            (self._writes if write else self._reads).put((outlet, work))

    def close(self) -> None:
        with self._lock:
            if self._closed or not self._ours:
                return
            self._closed = True
        self._stay_at_exit()
        # The writer's connection is the last, alone: of two that close at once each sees the other as still there, and
        # neither brings what the log has into the file.
        for queue, threads in ((self._reads, self._threads[1:]), (self._writes, self._threads[:1])):
            for _ in threads:
                queue.put(None)
            for thread in threads:
                if thread is not threading.current_thread():
                    thread.join()
        if self._doorbell is not None:
            self._doorbell.close()

    def vacuum(self) -> None:
        try:
            connection = connect(self.file, self.patience)
            try:
                connection.execute("VACUUM")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                connection.execute("ANALYZE")
            finally:
                connection.close()
        except sqlite3.Error as exc:
            raise told(exc, self.name, self.patience) from exc

    def _make(self) -> None:
        """The folder and the file, which are nobody else's business."""
        if sqlite3.sqlite_version_info < _OLDEST:
            found = f"Python's SQLite is {sqlite3.sqlite_version}; the store needs 3.35 or newer."
            raise StoreFailure(Kind.misconfigured, f"{found} Use a newer Python, or PostgreSQL.")
        try:
            if not self.file.parent.exists():
                self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with suppress(FileExistsError):
                os.close(os.open(self.file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except OSError as exc:
            words = f"The store {self.name} cannot be made: {exc.strerror or exc}. Check the folder's permissions, "
            raise StoreFailure(
                Kind.misconfigured, f"{words}or choose another with FAIRLEAD_DATA.", cause=exc
            ) from exc

    def _read(self) -> None:
        opened = Opened(self.file, self.patience)
        while (job := self._reads.get()) is not None:
            outlet, work = job
            try:
                connection = opened.get()
                connection.execute("BEGIN")
                outcome = work(SqliteTx(connection))
                connection.execute("COMMIT")
            except BaseException as exc:
                opened.undo(exc)
                fail(outlet, self._told(exc))
            else:
                outlet.set_result(outcome)
            del job, outlet, work
        opened.close()

    def _write(self, opened: Opened) -> None:
        ended = False
        while not ended:
            jobs: list[Job] = []
            first = self._writes.get()
            while first is not None:
                jobs.append(first)
                if len(jobs) == _TOGETHER or self._writes.empty():
                    break
                first = self._writes.get()
            ended = first is None
            if jobs:
                try:
                    self._settle(opened, jobs)
                except BaseException as exc:  # nobody waits for ever
                    for outlet, _ in jobs:
                        if not outlet.done():
                            fail(outlet, exc)
        opened.close()

    def _settle(self, opened: Opened, jobs: list[Job]) -> None:
        """Give each its outcome, with as few waits for the disk as can be."""
        if len(jobs) > 1 and (self._done(opened, jobs, _together) or self._done(opened, jobs, _apart)):
            return
        for job in jobs:
            self._done(opened, [job], _together)

    def _done(self, opened: Opened, jobs: list[Job], way: Way) -> bool:
        """Do them in one transaction; False when it failed, and each should have one of its own."""
        begun = False
        try:
            connection = opened.get()
            connection.execute("BEGIN IMMEDIATE")
            begun = True
            outcomes, topics = way(connection, [work for _, work in jobs])
            connection.execute("COMMIT")
        except BaseException as exc:
            opened.undo(exc)
            if begun and len(jobs) > 1:
                return False
            # What keeps a transaction from beginning would keep each of them from it, one long wait after the other.
            for outlet, _ in jobs:
                fail(outlet, self._told(exc))
            return True
        if topics:
            self._listeners.ring(list(topics))
        for (outlet, _), (outcome, error) in zip(jobs, outcomes, strict=True):
            if error is None:
                outlet.set_result(outcome)
            else:
                fail(outlet, self._told(error))
        if topics and self.carrier is not None:
            self.carrier(topics)
        elif topics and self._doorbell is not None:
            self._doorbell.ring(list(topics))
        return True

    def _told(self, error: BaseException) -> BaseException:
        if isinstance(error, UnicodeEncodeError):
            words = f"The store {self.name} cannot keep a value: a text holds half a character (a lone surrogate)."
            return StoreFailure(Kind.invalid_input, f"{words} Correct the value.", cause=error)
        return told(error, self.name, self.patience) if isinstance(error, sqlite3.Error) else error


def _together(connection: sqlite3.Connection, works: list[Work[Any]]) -> Done:
    """All or none."""
    tx = SqliteTx(connection)
    outcomes: list[Any] = []
    for packed, alike in groupby(works, _packed):
        some = list(alike)
        # A thread that runs many statements waits for the event loop's after each.
        outcomes += _bundled(tx, some) if packed and len(some) > 1 else [work(tx) for work in some]
    return [(outcome, None) for outcome in outcomes], tx.told


def _packed(work: Work[Any]) -> Statement | None:
    return work.call.packed if type(work) is Single else None


def _bundled(tx: SqliteTx, works: list[Any]) -> list[Any]:
    """What is alike, with a statement for many rows."""
    count = tx.insert(works[0].call.statement, [work.call.values for work in works])
    entered = ONE if count == len(works) else []
    outcomes = [work.read(entered) for work in works]
    beside = [work.beside for work in works if work.beside is not None]
    for statement, alike in groupby(beside, _statement):
        tx.insert(statement, [call.values for call in alike])
    for topic, count in told_by(works, outcomes).items():
        tx.tell(topic, count)
    return outcomes


def _apart(connection: sqlite3.Connection, works: list[Work[Any]]) -> Done:
    """One that fails is undone by itself. Costs a little for each, so it is the second way."""
    outcomes: list[tuple[Any, BaseException | None]] = []
    topics: dict[str, int] = {}
    for work in works:
        tx = SqliteTx(connection)
        connection.execute("SAVEPOINT one")
        try:
            outcomes.append((work(tx), None))
        except BaseException as exc:
            connection.execute("ROLLBACK TO one")
            outcomes.append((None, exc))
        else:
            for topic, count in tx.told.items():
                topics[topic] = topics.get(topic, 0) + count
        connection.execute("RELEASE one")
    return outcomes, topics


def connect(file: Path, patience: float = PATIENCE) -> sqlite3.Connection:
    """A connection to a file that exists, which ends its transactions by hand.

    Raises:
        sqlite3.Error: it cannot be opened.
    """
    connection = sqlite3.connect(
        f"{file.absolute().as_uri()}?mode=rw",
        uri=True,
        timeout=patience,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )
    try:
        _log_ahead(connection, patience)
        for pragma in _PRAGMAS:
            connection.execute(pragma)
    except BaseException:
        connection.close()
        raise
    return connection


def _log_ahead(connection: sqlite3.Connection, patience: float) -> None:
    """Have readers and a writer work at once. SQLite does not wait for others when it changes this, so we do."""
    end = time.monotonic() + patience
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as exc:
            if _code(exc) != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(0.01)


def _identity(file: Path) -> tuple[int, int] | None:
    """Which file it is; None when it is gone, which opening will tell better."""
    try:
        about = os.stat(file)
    except OSError:
        return None
    return about.st_dev, about.st_ino


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def told(error: sqlite3.Error, name: str, patience: float = PATIENCE) -> Failure:
    """What went wrong with the file, in words that say what to do."""
    match _code(error):
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED | sqlite3.SQLITE_PROTOCOL:
            words = f"The store {name} is locked: another process has been writing for {patience:g} seconds."
            return StoreFailure(Kind.unavailable, f"{words} Try again.", cause=error, retry_after=1)
        case sqlite3.SQLITE_FULL:
            words = f"The disk of the store {name} is full. Nothing was changed; make room and try again."
            return StoreFailure(Kind.unavailable, words, cause=error)
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_AUTH:
            words = (
                f"The store {name} cannot be written: {error}. Check that it is there, the folder and its "
            )
            return StoreFailure(
                Kind.misconfigured, f"{words}permissions, or choose another with FAIRLEAD_DATA.", cause=error
            )
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            way_out = command("store restore FILE --force", f"sqlite:///{name}")
            words = f"The store {name} is damaged or is no database: {error}. Restore a backup: {way_out}"
            return StoreFailure(Kind.misconfigured, words, cause=error)
        case sqlite3.SQLITE_IOERR:
            words = f"The disk of the store {name} failed: {error}. Nothing was changed; look at the disk and its room."
            return StoreFailure(Kind.unavailable, words, cause=error)
        case sqlite3.SQLITE_CONSTRAINT:
            words = f"The store {name} holds something that rules this out: {error}. Look at what is there."
            return StoreFailure(Kind.conflict, words, cause=error)
    if "no such table" in str(error):
        way_out = command("store migrate", f"sqlite:///{name}")
        words = f"The store {name} lacks a table: {error}. Bring it up to date: {way_out}"
        return StoreFailure(Kind.misconfigured, words, cause=error)
    return StoreFailure(Kind.internal, f"The store {name} failed: {error}", cause=error)


def _doorbell(file: Path, rung: Callable[[Sequence[str]], None]) -> Any:
    """None where there are no such sockets: then others are seen when somebody looks."""
    try:
        from fairlead.store.doorbell import Doorbell

        return Doorbell(file.resolve(), rung)
    except (ImportError, OSError, AttributeError):
        return None
