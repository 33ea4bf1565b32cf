"""Databases of a PostgreSQL server that tests use one after the other: making one takes longer than most tests.

One that comes back is emptied. It is dropped instead if its catalog is no longer as it was made, if it grew, or if
somebody is still connected, who could come again and disturb the next test. No two tests have the same at one time.

Connections stay with it: a server takes longer to start a process for one than most tests take. A store that is closed
leaves them to the next on the same database, as behind a pooler.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import count
from select import select
from typing import Any, Final, NamedTuple

import psycopg
from psycopg.pq import TransactionStatus

from fairlead.store import open_store, postgres
from fairlead.store.link import Link, Lost
from servers import Postgres, until

#: Seconds that a connection may take to end after its program has closed it, or was killed.
_LINGER: Final = 2.0
#: A table with more bytes than this is not emptied: its dead rows would slow down those who come later.
_GROWN: Final = 256 * 1024

_CATALOG: Final = (
    *("pg_class", "pg_attribute", "pg_attrdef", "pg_constraint", "pg_index", "pg_inherits", "pg_type"),
    *(
        "pg_proc",
        "pg_trigger",
        "pg_rewrite",
        "pg_namespace",
        "pg_extension",
        "pg_policy",
        "pg_largeobject_metadata",
    ),
    *("pg_default_acl", "pg_publication", "pg_event_trigger"),
)
#: Whatever changes a row of the catalog gives it the number of its transaction, and those only grow.
_SCHEMA: Final = " UNION ALL ".join(
    f"SELECT count(*), coalesce(max(xmin::text::bigint), 0) FROM {each}" for each in _CATALOG
)
_SETTINGS: Final = (
    "SELECT d.xmin::text, (SELECT count(*) FROM pg_db_role_setting WHERE setdatabase = d.oid) "
    "FROM pg_database d WHERE datname = current_database()"
)
_OTHERS: Final = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
    "AND backend_type = 'client backend' AND pid <> ALL(%s)"
)
_WRITTEN: Final = (
    "SELECT relname, pg_table_size(oid) FROM pg_class "
    "WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND pg_relation_size(oid) > 0 "
    "AND relname <> 'migrations'"
)
_MIGRATIONS: Final = "SELECT number, name, applied FROM migrations ORDER BY number"


class KeptLink(Link):
    """A connection that is left to others when it is closed."""

    left_to: list[KeptLink]

    def close(self) -> None:
        if self._left():
            self.left_to.append(self)
        else:
            super().close()

    def end(self) -> None:
        super().close()

    @property
    def pid(self) -> int:
        return self._pg.backend_pid

    @property
    def usable(self) -> bool:
        """Whether the server has not said a word since it was left, not even a last one."""
        return not self.lost and not select([self.socket], [], [], 0)[0]

    def _left(self) -> bool:
        """Whether all that was sent over it is done: else it is to be ended, as it would be elsewhere."""
        if self.lost or "statement" in self._unanswered:
            return False
        with suppress(Lost):
            if self.owed:
                self.sync()
            return self._pg.transaction_status == TransactionStatus.IDLE
        return False


class Kept(NamedTuple):
    """A database with tables, what these were like when it was made, and connections that nobody uses now."""

    name: str
    connection: psycopg.Connection[Any]
    shape: list[Any]
    links: list[KeptLink]

    def close(self) -> None:
        self.connection.close()
        for link in self.links:
            link.end()


class Databases:
    """Gives databases to tests, and takes them back."""

    def __init__(self, server: Postgres) -> None:
        self._server = server
        self._numbers = count(1)
        self._control = psycopg.connect(server.url(), autocommit=True)
        # Copying files takes half as long as writing what they hold into the log.
        self._how = " STRATEGY file_copy" if self._control.info.server_version >= 150000 else ""
        self._tables: str | None = None
        self._free: list[Kept] = []
        self._lent: dict[str, Kept] = {}
        self._link_of = postgres._link_of
        vars(postgres)["_link_of"] = self._links

    def empty(self) -> str:
        """The name of a database without tables, which is dropped when it comes back."""
        return self._copy("template1")

    def with_tables(self) -> str:
        """The name of a database that has its tables, and nothing in them."""
        kept = self._free.pop() if self._free else self._make()
        self._lent[self._server.url(kept.name)] = kept
        return kept.name

    def take_back(self, name: str) -> None:
        kept = self._lent.pop(self._server.url(name), None)
        if kept is not None and _emptied(kept):
            self._free.append(kept)
            return
        if kept is not None:
            kept.close()
        self._run(f"DROP DATABASE {name} WITH (FORCE)")

    def close(self) -> None:
        vars(postgres)["_link_of"] = self._link_of
        for kept in (*self._lent.values(), *self._free):
            kept.close()
        self._control.close()

    def _links(self, url: str) -> Any:
        """How a store makes connections to this database."""
        usual, kept = self._link_of(url), self._lent.get(url)
        return usual if kept is None else partial(_link, kept.links)

    def _make(self) -> Kept:
        if self._tables is None:
            self._tables = self.empty()
            open_store(url=self._server.url(self._tables)).close()
        name = self._copy(self._tables)
        connection = psycopg.connect(self._server.url(name), autocommit=True)
        return Kept(name, connection, _shape(connection), [])

    def _copy(self, template: str) -> str:
        name = f"test_{next(self._numbers)}"
        self._run(f"CREATE DATABASE {name} TEMPLATE {template}{self._how}")
        return name

    def _run(self, statement: str) -> None:
        self._control.execute(statement.encode())


def _link(left: list[KeptLink], url: str, **settings: str) -> KeptLink:
    with suppress(IndexError):
        while True:
            link = left.pop()
            if link.usable:
                return link
            link.end()
    link = KeptLink(url, **settings)
    link.left_to = left
    return link


def _emptied(kept: Kept) -> bool:
    """Take its rows away; False when that would not make it what it was."""
    connection = kept.connection
    try:
        if not _alone(kept):
            return False
        written = connection.execute(_WRITTEN).fetchall()
        if any(size > _GROWN for _, size in written):
            return False
        # Without looking at foreign keys, which look at rows that go as well.
        statements = (
            "SET session_replication_role = replica",
            *(f"DELETE FROM {name}" for name, _ in written),
        )
        connection.execute("; ".join(statements).encode())
        return _shape(connection) == kept.shape
    except psycopg.Error:  # the test ended our connection as well, or took tables away
        return False


def _shape(connection: psycopg.Connection[Any]) -> list[Any]:
    """What changes with any change of the tables."""
    return [connection.execute(each.encode()).fetchall() for each in (_SCHEMA, _SETTINGS, _MIGRATIONS)]


def _alone(kept: Kept) -> bool:
    """Whether all others have gone, or go soon."""

    def gone() -> bool:
        return kept.connection.execute(_OTHERS, [[link.pid for link in kept.links]]).fetchone() == (0,)

    try:
        until(gone, "others are connected", _LINGER)
    except TimeoutError:
        return False
    return True
