"""One connection to PostgreSQL, spoken to in libpq's pipeline: statements are sent when their results are needed.

So `BEGIN` travels with the first statement, and what is told after `COMMIT` with it. psycopg makes the connection;
its cursors are left out because their cost per statement is more than the database's.
"""

from __future__ import annotations

import contextlib
import select
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import pq

from fairlead._json import dumps
from fairlead.store.statements import Statement
from fairlead.store.store import Row

#: The network's silence that counts as a lost connection; a URL may say otherwise.
_DEFAULTS: Final = {
    "connect_timeout": "10",
    "keepalives_idle": "15",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
    "application_name": "fairlead",
}
#: What of it a server can be told, and under which name.
_TOLD: Final = {
    "keepalives_idle": "tcp_keepalives_idle",
    "keepalives_interval": "tcp_keepalives_interval",
    "keepalives_count": "tcp_keepalives_count",
    "tcp_user_timeout": "tcp_user_timeout",
}
#: Addresses where no options are taken: each refusal is a line in somebody's log, and a connection more.
_no_options: set[str] = set()
_PREPARED: Final = 400
_BATCH: Final = 256
#: Texts in an array at most: what is sent at once is to be done while the next is made.
_ARRAY: Final = 1000
_DONE: Final = pq.ExecStatus.COMMAND_OK
_ERROR: Final = pq.ExecStatus.FATAL_ERROR
_ABORTED: Final = pq.ExecStatus.PIPELINE_ABORTED
_SYNCED: Final = pq.ExecStatus.PIPELINE_SYNC
_IDLE: Final = pq.TransactionStatus.IDLE
_READ: Final = select.POLLIN if hasattr(select, "POLLIN") else 1
_WRITE: Final = select.POLLOUT if hasattr(select, "POLLOUT") else 4


class Refused(Exception):
    """PostgreSQL answered a statement with an error, known by its SQLSTATE."""

    def __init__(self, state: str, message: str) -> None:
        super().__init__(message)
        self.state = state


class Lost(Exception):
    """There is no connection any more; what was not answered may or may not have been done."""


class Form(NamedTuple):
    """A statement that is prepared: its name, and how its columns are read, once one result was seen."""

    name: bytes
    columns: list[Callable[[bytes], Any]]


#: A statement and the types of its values: what is prepared once.
_Key = tuple[bytes, tuple[int, ...]]
#: The same with the values.
Encoded = tuple[bytes, tuple[int, ...], list[bytes | None]]


def connect(url: str, **settings: str) -> psycopg.Connection[Any]:
    """A connection of which each side notices the other's silence, with these settings of the server's.

    Left to itself the server takes two hours, in which a machine that is gone keeps its connections, and all it
    locked. It is told with the request for a connection: whoever vanishes right after would not tell it any more.

    Raises:
        psycopg.Error: it cannot be made.
    """
    wanted = {**_DEFAULTS, **psycopg.conninfo.conninfo_to_dict(url)}
    told = {
        name: str(wanted[ours]) for ours, name in _TOLD.items() if str(wanted[ours]).isdecimal()
    } | settings
    words = " ".join(f"-c {name}={value}" for name, value in told.items())
    # Options of a service's file are known to libpq alone, and would be replaced by ours.
    if "service" not in wanted and url not in _no_options:
        try:
            return _connected({**wanted, "options": f"{words} {wanted.get('options') or _options()}"})
        except psycopg.OperationalError as exc:
            # A pooler that takes no options, or a server that does not know one yet, names what it refuses.
            if not any(name in str(exc) for name in ("options", *told)):
                raise
            _no_options.add(url)
    connection = _connected(wanted)
    rows = ", ".join(f"('{name}', '{value}')" for name, value in told.items())
    known = f"SELECT set_config(name, value, false) FROM (VALUES {rows}) AS told (name, value)"  # noqa: S608
    with contextlib.suppress(psycopg.Error):
        connection.execute(f"{known} WHERE current_setting(name, true) IS NOT NULL".encode())
    return connection


def _connected(wanted: dict[str, Any]) -> psycopg.Connection[Any]:
    return psycopg.connect(psycopg.conninfo.make_conninfo("", **wanted), autocommit=True)


def _options() -> str:
    """Those of the environment, which libpq would take if it were given none."""
    default = next(each.val for each in pq.Conninfo.get_defaults() if each.keyword == b"options")
    return (default or b"").decode()


class Link:
    """A connection, and what was sent over it that is not answered yet. Used by one thread at a time."""

    def __init__(self, url: str, **settings: str) -> None:
        self._connection = connect(url, **settings)
        self._pg = self._connection.pgconn
        self._forms: dict[_Key, Form] = {}
        self._unanswered: deque[_Key | str] = deque()
        self._made = 0
        self._poll = _Waiting(self._pg.socket)
        self._pg.nonblocking = 1
        self._pg.enter_pipeline_mode()

    def close(self) -> None:
        self._connection.close()

    @property
    def lost(self) -> bool:
        return self._pg.status != pq.ConnStatus.OK

    @property
    def socket(self) -> int:
        """Its number, as long as it is not lost."""
        return self._pg.socket

    def send(self, sql: bytes, values: Sequence[Any] = (), careless: bool = False) -> Form:
        """Queue a statement; `careless` when nobody minds that it fails."""
        return self.send_encoded((sql, *_encoded(values)), careless)

    def send_encoded(self, statement: Encoded, careless: bool = False) -> Form:
        sql, types, given = statement
        key = (sql, types)
        form = self._forms.get(key)
        try:
            if form is None:
                form = self._prepare(key)
            self._pg.send_query_prepared(form.name, given)
        except psycopg.Error as exc:
            raise Lost(str(exc)) from exc
        self._unanswered.append("careless" if careless else "statement")
        return form

    def answer(self) -> pq.abc.PGresult | None:
        """Wait for all that was sent; gives the last result.

        Raises:
            Refused: a statement failed. The rest of the transaction will be refused too.
            Lost: the connection broke.
        """
        try:
            self._pg.send_flush_request()
            self._flush()
            return self._results()
        except psycopg.Error as exc:
            raise Lost(str(exc)) from exc

    @property
    def owed(self) -> int:
        """How many answers are outstanding."""
        return len(self._unanswered)

    def sync(self, wanted: int | None = None) -> pq.abc.PGresult | None:
        """End a stretch of the pipeline and wait for so many answers, or all; gives the last of them.

        The others are taken in with the next stretch's.
        """
        try:
            self._pg.pipeline_sync()
            self._unanswered.append("sync")
            self._flush()
            return self._results(0 if wanted is None else self.owed - wanted)
        except psycopg.Error as exc:
            raise Lost(str(exc)) from exc

    def end_stretch(self) -> None:
        """Let what was sent since the last end be committed by itself, without waiting for it."""
        try:
            self._pg.pipeline_sync()
        except psycopg.Error as exc:
            raise Lost(str(exc)) from exc
        self._unanswered.append("sync")

    def rows(self, forms: Sequence[Form], wanted: int) -> list[list[Row]]:
        """Send what is queued and wait for so many answers; gives the rows of each statement of these forms."""
        results: list[pq.abc.PGresult] = []
        try:
            self._flush()
            self._results(self.owed - wanted, into=results)
        except psycopg.Error as exc:
            raise Lost(str(exc)) from exc
        return rows_of(forms, results)

    # For those who must not wait.

    def flush(self) -> bool:
        """Send what is queued, as far as the network takes it now; whether it took all."""
        try:
            return not self._pg.flush()
        except psycopg.Error as exc:
            raise Lost(str(exc)) from exc

    def take_in(self) -> list[pq.abc.PGresult]:
        """The results of statements that have come by now.

        Raises:
            Refused: a statement failed.
            Lost: the connection broke.
        """
        came: list[pq.abc.PGresult] = []
        try:
            self._pg.consume_input()
            while self._unanswered and not self._pg.is_busy():
                self._take(self._pg.get_result(), came)
        except psycopg.Error as exc:
            raise Lost(str(exc)) from exc
        if self.lost:
            raise Lost("the connection was closed")
        return came

    def _take(self, result: pq.abc.PGresult | None, came: list[pq.abc.PGresult]) -> None:
        kind = self._unanswered[0]
        if result is None:  # it ends a statement's results
            if kind != "sync":
                self._unanswered.popleft()
            elif self.lost:
                raise Lost("the connection was closed")
        elif result.status == _SYNCED:
            self._unanswered.popleft()
        elif result.status in (_ERROR, _ABORTED):
            if kind != "careless":
                raise _refusal(result)
        elif kind == "statement":
            came.append(result)

    def rollback(self) -> None:
        """Undo the transaction, whatever state it is in."""
        try:
            self._pg.pipeline_sync()
            self._unanswered.append("sync")
            self._flush()
            self._results(minding=False)
            if self._pg.transaction_status != _IDLE:
                self.send(b"ROLLBACK")
                self.sync()
        except psycopg.Error as exc:
            raise Lost(str(exc)) from exc

    def _prepare(self, key: _Key) -> Form:
        if len(self._forms) >= _PREPARED:
            self._forms.clear()
            self._pg.send_query_params(b"DEALLOCATE ALL", None)
            self._unanswered.append("careless")
        self._made += 1
        form = Form(b"f%d" % self._made, [])
        self._pg.send_prepare(form.name, *key)
        self._unanswered.append(key)
        self._forms[key] = form
        return form

    def _flush(self) -> None:
        while self._pg.flush():
            if self._poll.wait(_READ | _WRITE) & _READ:
                self._pg.consume_input()

    def _results(
        self, owed: int = 0, minding: bool = True, into: list[pq.abc.PGresult] | None = None
    ) -> pq.abc.PGresult | None:
        last: pq.abc.PGresult | None = None
        while len(self._unanswered) > owed:
            result = self._result()
            kind = self._unanswered.popleft()
            if kind == "sync":
                self._synced(result, minding)
                continue
            self._result()  # the None that ends a statement's results
            if kind == "careless":
                continue
            if result is None:
                raise Lost("the connection was closed")
            if result.status in (_ERROR, _ABORTED):
                if not isinstance(kind, str):  # what failed to be prepared, or was passed over, is not there
                    self._forms.pop(kind, None)
                if minding:
                    raise _refusal(result)
            last = result
            if into is not None and kind == "statement":
                into.append(result)
        return last

    def _synced(self, result: pq.abc.PGresult | None, minding: bool) -> None:
        """The end of a stretch. What was not in a transaction is committed here, and may fail here."""
        refused = None
        while result is None or result.status != _SYNCED:
            if self.lost:
                raise Lost("the connection was closed")
            if result is not None and result.status == _ERROR:
                refused = result
            result = self._result()
        if refused is not None and minding:
            raise _refusal(refused)

    def _result(self) -> pq.abc.PGresult | None:
        while self._pg.is_busy():
            self._poll.wait(_READ)
            self._pg.consume_input()
        return self._pg.get_result()


class LinkTx:
    """A transaction on a link."""

    __slots__ = ("_link", "told")

    def __init__(self, link: Link) -> None:
        self._link = link
        self.told: dict[str, int] = {}

    def all(self, statement: Statement, /, **values: Any) -> list[Row]:
        link = self._link
        form = link.send(statement.postgres, [values[name] for name in statement.values])
        return _rows(form, link.answer())

    def one(self, statement: Statement, /, **values: Any) -> Row | None:
        rows = self.all(statement, **values)
        return rows[0] if rows else None

    def run(self, statement: Statement, /, **values: Any) -> int:
        link = self._link
        link.send(statement.postgres, [values[name] for name in statement.values])
        result = link.answer()
        return (result.command_tuples or 0) if result is not None else 0

    def many(self, statement: Statement, rows: Sequence[Mapping[str, Any]], /) -> None:
        link = self._link
        for count, row in enumerate(rows, 1):
            link.send(statement.postgres, [row[name] for name in statement.values])
            if not count % _BATCH:
                link.answer()
        link.answer()

    def each(self, statement: Statement, columns: Mapping[str, Sequence[str]], /, **common: Any) -> None:
        link = self._link
        count = len(next(iter(columns.values())))
        for first in range(0, count, _ARRAY):
            part = {name: list(column[first : first + _ARRAY]) for name, column in columns.items()}
            values = common | part
            link.send(statement.postgres, [values[name] for name in statement.values])
            link.flush()  # so that it is done while the next is made
        link.answer()

    def enter(self, statement: Statement, rows: Sequence[Sequence[Any]], /) -> None:
        if rows:
            self.run(statement, rows=dumps(rows))

    def tell(self, topic: str, count: int = 1) -> None:
        self.told[topic] = self.told.get(topic, 0) + count


class _Waiting:
    """Waiting for a socket, without the limit that `select` has on its number."""

    def __init__(self, socket: int) -> None:
        self._socket = socket
        self._poll = select.poll() if hasattr(select, "poll") else None
        self._for = 0

    def wait(self, events: int) -> int:
        if self._poll is None:  # Windows
            wanted = [self._socket] if events & _WRITE else []
            ready, _, _ = select.select([self._socket], wanted, [])
            return _READ if ready else _WRITE
        if events != self._for:
            self._poll.register(self._socket, events)
            self._for = events
        found = self._poll.poll()
        # An error or a hang-up is told by reading.
        return found[0][1] | (_READ if found[0][1] & ~_WRITE else 0)


def encoded(statement: Statement, values: Mapping[str, Any]) -> Encoded:
    """A statement as it is sent.

    Raises:
        Refused: a value is none that PostgreSQL keeps.
    """
    return (statement.postgres, *_encoded([values[name] for name in statement.values]))


def rows_of(forms: Sequence[Form], results: Sequence[pq.abc.PGresult]) -> list[list[Row]]:
    """The rows of each result; of a statement that gives none, how many it touched."""
    return [
        [(result.command_tuples or 0,)] if result.status == _DONE else _rows(form, result)
        for form, result in zip(forms, results, strict=True)
    ]


def _refusal(result: pq.abc.PGresult) -> Exception:
    if result.status == _ABORTED:
        return Refused("25P02", "an earlier statement of the transaction failed")
    state = result.error_field(pq.DiagnosticField.SQLSTATE)
    message = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or result.error_message
    if state is None:
        return Lost(message.decode(errors="replace").strip())
    return Refused(state.decode(), message.decode(errors="replace").strip())


def _encoded(values: Sequence[Any]) -> tuple[tuple[int, ...], list[bytes | None]]:
    """Types by number, zero for what the statement itself says, and values as text."""
    types: list[int] = []
    given: list[bytes | None] = []
    for value in values:
        kind = type(value)
        if kind is str:
            types.append(0)
            given.append(_text(value))
        elif value is None:
            types.append(0)
            given.append(None)
        elif kind is int or kind is bool:
            types.append(20)
            given.append(b"%d" % value)
        elif kind is float:
            types.append(701)
            given.append(repr(value).encode())
        elif isinstance(value, bytes | bytearray | memoryview):
            types.append(17)
            given.append(b"\\x" + bytes(value).hex().encode())
        elif isinstance(value, str):
            types.append(0)
            given.append(_text(str.__str__(value)))
        elif kind is list:
            types.append(1009)
            given.append(_text(f"{{{','.join(map(_quoted, value))}}}"))
        else:
            raise TypeError(f"A store does not keep {kind.__name__}, only text, numbers, bytes and None.")
    return tuple(types), given


def _quoted(text: str) -> str:
    """A text as an array has it."""
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def _text(value: str) -> bytes:
    if "\x00" in value:
        raise Refused("22021", "a text holds the character NUL")
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise Refused("22021", "a text holds half a character (a lone surrogate)") from None


def _rows(form: Form, result: pq.abc.PGresult | None) -> list[Row]:
    if result is None or not result.ntuples:
        return []
    columns = form.columns
    if not columns:
        columns.extend(_READERS.get(result.ftype(number), _str) for number in range(result.nfields))
    value = result.get_value
    numbered = list(enumerate(columns))
    return [
        tuple(None if (cell := value(row, number)) is None else read(cell) for number, read in numbered)
        for row in range(result.ntuples)
    ]


def _str(cell: bytes) -> str:
    return cell.decode()


def _numeric(cell: bytes) -> int | float:
    return float(cell) if b"." in cell or b"N" in cell else int(cell)


def _bytes(cell: bytes) -> bytes:
    return bytes.fromhex(cell[2:].decode())


#: As SQLite gives them: a truth is 1 or 0, and a sum of integers an integer.
_READERS: Final[dict[int, Callable[[bytes], Any]]] = {
    16: lambda cell: int(cell == b"t"),
    17: _bytes,
    20: int,
    21: int,
    23: int,
    26: int,
    700: float,
    701: float,
    1700: _numeric,
}
