"""`Database`: a plugin's own SQLite file, encrypted by SQLCipher, opened when the first statement comes.

One statement at a time, on a thread of the plugin's own or on the caller's. What it may do is decided by SQLite's
authorizer (`database_guard.py`); how much, by limits of size, rows and time. Every answer is a JSON text, and nothing
is raised.
"""

from __future__ import annotations

import base64
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from fairlead._json import dumps, loads
from fairlead.failures import Failure, Kind
from fairlead.failures.host import (
    AccessDenied,
    ContextUnavailable,
    DatabaseError,
    HostTimeout,
    InvalidRequest,
    ResponseTooLarge,
    render,
)
from fairlead.failures.redaction import DEFAULT, Redactor
from fairlead.plugins.database_functions import bounded
from fairlead.plugins.database_guard import Authorizer
from fairlead.runtime.hooks import report

logger = logging.getLogger("fairlead.plugins")

Values: TypeAlias = "list[Any] | dict[str, Any]"

#: Steps of SQLite's machine between two looks at the clock.
_STEPS: Final = 20_000
#: Seconds between two looks at the size of the log, in which not much can be written.
_LOOKS: Final = 0.01
#: Seconds between two looks of the watch, and how many without a statement are its last.
_GLANCES: Final = 0.25
_QUIET: Final = 20
#: Seconds without a statement after which a database's thread ends.
_IDLE: Final = 30.0
#: Bytes that all plugins' databases together may have in memory.
_HEAP: Final = 256 * 1024 * 1024
_VACUUM: Final = re.compile(r"\s*VACUUM\s*;?\s*", re.IGNORECASE)
_SIGNS: Final = ":@$"
#: What is bound as its JSON; truths are bound as 1 and 0 by themselves.
_NESTED: Final = frozenset({list, dict})
#: A deadline that does not come.
_NEVER: Final = float("inf")
_PATIENCE: Final = "busy_timeout = 5000"
PRAGMAS: Final = (
    # A page is enciphered as a whole for each small write: with pages of a quarter, writing a row costs a third less.
    "cipher_page_size = 1024",
    "journal_mode = WAL",
    "synchronous = NORMAL",
    "foreign_keys = ON",
    "temp_store = MEMORY",
    # Pages of the log before they are moved to the file, which is a fifth of what small writes cost if done as usual.
    "wal_autocheckpoint = 16000",
    _PATIENCE,
)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a plugin's database may take. A size of 0 is no limit."""

    size: int = 100 * 1024 * 1024
    #: Of one answer.
    rows: int = 50_000
    bytes: int = 32 * 1024 * 1024
    #: Of one statement.
    seconds: float = 30.0


class _Asked(NamedTuple):
    query: bool
    #: None to undo what was left open.
    sql: str | None
    params: str | None
    answer: Future[str | None]


class Database:
    """The database of one plugin at `file`; `key` gives its 32 bytes when it is opened."""

    def __init__(
        self,
        plugin: str,
        file: Path,
        key: Callable[[], bytes],
        limits: Limits | None = None,
        *,
        redactor: Redactor = DEFAULT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.plugin = plugin
        self.file = file
        self.limits = limits or Limits()
        self._key = key
        self._redactor = redactor
        self._clock = clock
        self._deadline = _NEVER
        self._watched = threading.Lock()
        self._look_again = 0.0
        self._turn = threading.Lock()
        self._door = threading.Lock()
        self._guard = Authorizer()
        self._log = f"{file}-wal"
        self._connection: Any = None
        self._cursor: Any = None
        self._failures: Any = None
        self._asked: SimpleQueue[_Asked | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._left_behind = False
        self._complained = False

    def exec(self, sql: str, params: str | None = None) -> str:
        """`db_exec` on this thread: what changed, as JSON."""
        return self._answered(False, sql, params)

    def query(self, sql: str, params: str | None = None) -> str:
        """`db_query` on this thread: the rows, as JSON."""
        return self._answered(True, sql, params)

    def submit(self, query: bool, sql: str, params: str | None) -> Future[str | None]:
        """The same on the plugin's own thread, one after another."""
        answer: Future[str | None] = Future()
        with self._door:
            if not self._closing:
                self._put(_Asked(query, sql, params, answer))
                return answer
        answer.set_result(_told(_shutting_down()))
        return answer

    @property
    def waiting(self) -> bool:
        """Whether somebody waits for the plugin's own thread."""
        return not self._asked.empty()

    def close(self) -> None:
        """Let the statement that runs come to its end, refuse all others, and let go of the file.

        One that has all its time and more is left behind, in a function that looks at no clock: `snippet` of FTS5, with
        thousands of hits in a row, takes time by the square of them. Its own thread lets go of the file, then.
        """
        with self._door:
            self._closing = True
            self._asked.put(None)
            thread = self._thread
        if not self._turn.acquire(timeout=2 * self.limits.seconds):
            self._left_behind = True
            # It may be just at its end.
            if not self._turn.acquire(timeout=0.1):
                logger.warning(
                    "A statement of the plugin %r cannot be stopped and is left behind.", self.plugin
                )
                return
        self._let_go()
        self._turn.release()
        if thread is not None:
            thread.join()

    def _let_go(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = self._cursor = None

    def abandon(self) -> None:
        """Undo the transaction of a process that is gone; nobody else could end it."""
        with self._door:
            if (self._thread is not None or self._connection is not None) and not self._closing:
                self._put(_Asked(False, None, None, Future()))

    def _put(self, asked: _Asked) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=f"sql {self.plugin}", daemon=True)
            self._thread.start()
        self._asked.put(asked)

    def _work(self) -> None:
        while (asked := self._next()) is not None:
            if asked.sql is None:
                self._undo()
            else:
                asked.answer.set_result(self._answered(asked.query, asked.sql, asked.params))

    def _next(self) -> _Asked | None:
        """What was asked next; None at the end, and when nothing comes for long: the next one begins a thread."""
        try:
            return self._asked.get(timeout=_IDLE)
        except Empty:
            with self._door:
                if not self._asked.empty():
                    return self._asked.get()
                self._thread = None
                return None

    def _undo(self) -> None:
        with self._turn:
            if self._connection is not None and self._connection.in_transaction:
                self._connection.rollback()

    def _answered(self, query: bool, sql: str, params: str | None) -> str:
        with self._turn:
            try:
                if self._closing:
                    raise _shutting_down()
                values = () if params is None else _values(params)
                if self._connection is None:
                    self._open()
                return self._run(query, sql, values)
            except Failure as failure:
                return _told(failure)
            except Exception:
                report(
                    f"A statement of the plugin {self.plugin!r} failed in an unexpected way.", self._redactor
                )
                return _told(DatabaseError("The statement failed for a reason that is not known."))
            finally:
                if self._left_behind:
                    self._let_go()

    def _run(self, query: bool, sql: str, values: Values | tuple[()]) -> str:
        now = self._clock()
        self._deadline = now + self.limits.seconds
        _WATCH.begun(self)
        try:
            return self._run_on(query, sql, values, now)
        finally:
            with self._watched:
                self._deadline = _NEVER
            _WATCH.ended(self)

    def stop_if_late(self) -> None:
        """Stop a statement that is overdue, whose steps are too slow for the next look at the clock."""
        with self._watched:
            if self._overdue() and self._connection is not None:
                self._connection.interrupt()

    def _run_on(self, query: bool, sql: str, values: Values | tuple[()], now: float) -> str:
        connection, guard = self._connection, self._guard
        if now >= self._look_again:
            guard.off = True
            self._check_log(connection)
            self._look_again = now + _LOOKS
        guard.refused = None
        # Rewriting the file attaches another meanwhile, which the guard would take for the plugin's wish.
        guard.off = _VACUUM.fullmatch(sql) is not None
        # One that did its work is used again; one that did not may hold a statement that has not come to its end.
        cursor, self._cursor = self._cursor or connection.cursor(), None
        try:
            told = self._told_by(cursor, query, sql, values)
        except Failure:
            cursor.close()
            raise
        except Exception as error:
            cursor.close()
            raise self._failure(error) from error
        finally:
            guard.off = False
        self._cursor = cursor
        return told

    def _told_by(self, cursor: Any, query: bool, sql: str, values: Values | tuple[()]) -> str:
        connection = self._connection
        before = connection.total_changes
        cursor.execute(sql, values)
        if query:
            return self._rows(cursor)
        changes = cursor.rowcount
        if cursor.description is not None:
            for _ in cursor:
                pass
            changes = -1
        if changes < 0:
            changes = _changes(connection) if connection.total_changes != before else 0
        return f'{{"changes":{changes},"last_insert_rowid":{cursor.lastrowid or 0}}}'

    def _rows(self, cursor: Any) -> str:
        """The answer of a query: rows as objects; which column came first, `columns` says."""
        if cursor.description is None:
            return '{"columns":[],"rows":[]}'
        names = _unique([each[0] for each in cursor.description])
        pieces: list[bytes] = []
        size = 0
        limits = self.limits
        # Row by row: a few that are large would fill the memory before anybody looked.
        for row in cursor:
            if len(pieces) == limits.rows:
                raise ResponseTooLarge(
                    f"The result has more than {limits.rows} rows. Ask for fewer: add LIMIT, and go on from there."
                )
            raw = sum(len(each) for each in row if isinstance(each, str | bytes))
            if raw <= limits.bytes:
                pieces.append(orjson.dumps(dict(zip(names, row, strict=True)), _blob, orjson.OPT_SORT_KEYS))
                size += len(pieces[-1]) + 1
            if max(size, raw) > limits.bytes:
                raise ResponseTooLarge(
                    f"The result is larger than {limits.bytes} bytes. Ask for fewer rows or columns at once."
                )
        return f'{{"columns":{orjson.dumps(names).decode()},"rows":[{b",".join(pieces).decode()}]}}'

    def _open(self) -> None:
        try:
            self._connection = self._opened()
        except Failure as failure:
            self._complain(failure.message)
            raise DatabaseError(f"Database not open: {failure.message}", cause=failure) from failure
        except Exception as error:
            words = f"{type(error).__name__}: {error}"
            self._complain(words)
            raise DatabaseError(f"Database not open: {words}", cause=error) from error

    def _opened(self) -> Any:
        try:
            from sqlcipher3 import _sqlite3, dbapi2  # type: ignore[import-untyped]
        except ImportError:
            words = "Databases of plugins need a package: pip install 'fairlead[plugins]'"
            raise Failure(Kind.misconfigured, words) from None
        self._failures = dbapi2
        self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # For its owner alone, and so are the files that SQLite makes beside it.
        os.close(os.open(self.file, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600))
        connection: Any = bounded(
            _sqlite3.__file__,
            lambda: dbapi2.connect(str(self.file), isolation_level=None, check_same_thread=False),
        )
        try:
            connection.execute(f"PRAGMA key = \"x'{self._key().hex()}'\"")
            for pragma in PRAGMAS:
                connection.execute(f"PRAGMA {pragma}").close()
            connection.execute(f"PRAGMA hard_heap_limit = {_HEAP}").close()
            self._cap(connection)
            connection.execute("SELECT count(*) FROM sqlite_master").close()
            connection.set_authorizer(self._guard)
            connection.set_progress_handler(self._overdue, _STEPS)
        except BaseException:
            connection.close()
            raise
        return connection

    def _cap(self, connection: Any) -> None:
        if not self.limits.size:
            return
        (page,) = connection.execute("PRAGMA page_size").fetchone()
        pages = max(1, self.limits.size // int(page))
        connection.execute(f"PRAGMA max_page_count = {pages}").close()
        connection.execute(f"PRAGMA temp.max_page_count = {pages}").close()

    def _check_log(self, connection: Any) -> None:
        """The log beside the file grows while a reader elsewhere stays in its transaction: no page count ends it."""
        most = 2 * self.limits.size
        if not most or _size(self._log) <= most or connection.in_transaction:
            return
        connection.execute("PRAGMA busy_timeout = 0").fetchall()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        connection.execute(f"PRAGMA {_PATIENCE}").fetchall()
        if _size(self._log) > most:
            raise DatabaseError("database or disk is full: a transaction that only reads was left open")

    def _overdue(self) -> bool:
        return self._clock() > self._deadline

    def _failure(self, error: Exception) -> Failure:
        """What SQLite says, with a code that a plugin can tell apart."""
        kinds = self._failures
        if self._guard.refused is not None:
            return AccessDenied(f"Forbidden SQL statement: {self._guard.refused}.", cause=error)
        if isinstance(error, kinds.Warning):
            return InvalidRequest(
                "The text holds more than one statement. Send them one by one.", cause=error
            )
        if isinstance(error, MemoryError):
            return DatabaseError("The statement needs more memory than plugins have.", cause=error)
        if isinstance(error, kinds.OperationalError) and str(error) == "interrupted":
            words = f"The statement took longer than {self.limits.seconds:g} s and was stopped."
            return HostTimeout(f"{words} Add an index, or do it in smaller parts.", cause=error)
        if isinstance(error, UnicodeError):
            return InvalidRequest("The statement holds half a character.", cause=error)
        if isinstance(error, kinds.ProgrammingError | OverflowError | kinds.InterfaceError):
            return InvalidRequest(f"The parameters do not fit the statement: {error}", cause=error)
        return DatabaseError(str(error), cause=error)

    def _complain(self, words: str) -> None:
        if not self._complained:
            self._complained = True
            report(f"The database of the plugin {self.plugin!r} could not be opened: {words}", self._redactor)


class _Watch:
    """A thread that stops what is overdue, while there are statements. A few heavy steps may take longer than many."""

    def __init__(self) -> None:
        self._running: dict[Database, None] = {}
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def begun(self, database: Database) -> None:
        self._running[database] = None
        if self._thread is None:
            self._begin()

    def _begin(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="sql watch", daemon=True)
                self._thread.start()

    def ended(self, database: Database) -> None:
        self._running.pop(database, None)

    def _work(self) -> None:
        quiet = 0
        while quiet < _QUIET:
            time.sleep(_GLANCES)
            running = list(self._running)
            quiet = 0 if running else quiet + 1
            for each in running:
                each.stop_if_late()
        self._thread = None
        # One that began just now has seen a watch that was about to leave.
        if self._running:
            self._begin()


_WATCH: Final = _Watch()


def _size(file: str) -> int:
    try:
        return os.stat(file).st_size
    except OSError:
        return 0


def _changes(connection: Any) -> int:
    """What the last statement changed itself, without its triggers."""
    (count,) = connection.execute("SELECT changes()").fetchone()
    return int(count)


def _values(params: str) -> Values:
    """Parameters: a list for `?`, an object for `:name`."""
    try:
        given = loads(params)
    except ValueError as error:
        raise InvalidRequest(
            "The parameters are no JSON. Expected a list or an object.", cause=error
        ) from None
    if isinstance(given, list):
        if _NESTED.isdisjoint(map(type, given)):
            return given
        return [each if type(each) not in _NESTED else dumps(each) for each in given]
    if isinstance(given, Mapping):
        return dict(_named(given))
    raise InvalidRequest(
        'The parameters are neither a list nor an object. Expected [1, "two"] for ?, or {":name": 1} for :name.'
    )


def _named(given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    seen = set()
    for key, value in given.items():
        name = key[1:] if key[:1] in _SIGNS and key else key
        if name in seen:
            raise InvalidRequest(f"The parameter {name!r} is given twice.")
        seen.add(name)
        yield name, dumps(value) if type(value) in _NESTED else value


def _blob(value: Any) -> str:
    return base64.b64encode(value).decode()


def _unique(names: list[str]) -> list[str]:
    """Columns of the same name are told apart, so that none is lost: `id`, `id_2`."""
    taken = set(names)
    if len(taken) == len(names):
        return names
    found: dict[str, None] = {}
    for name in names:
        own, number = name, 2
        while own in found or (own != name and own in taken):
            own, number = f"{name}_{number}", number + 1
        found[own] = None
    return list(found)


def _shutting_down() -> Failure:
    return ContextUnavailable("The plugin is shutting down: its database takes no more statements.")


def _told(failure: Failure) -> str:
    return dumps(render(failure), sort_keys=True)
