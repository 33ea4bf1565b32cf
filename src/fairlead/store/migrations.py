"""Numbered changes of the tables, applied once each, in order, by one process at a time.

A migration is a file `migrations/NNNN_name.sql` that both databases understand; a statement under the line
`-- (sqlite)` or `-- (postgres)` is for one of them. Statements end where a line ends with a semicolon; those after the
line `-- (back)` undo it. The number of the last migration is kept in the database: a program that is older than its
database refuses to touch it, and the newer one can take the tables back to what the older one knows.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from fairlead.failures import Failure, Kind, StoreFailure
from fairlead.failures.typed import command
from fairlead.store.statements import Statement
from fairlead.store.store import Store, Tx

_FOLDER: Final = Path(__file__).with_name("migrations")
_END: Final = re.compile(r";[ \t]*$", re.MULTILINE)
_ONLY: Final = re.compile(r"^-- \((sqlite|postgres)\)$", re.MULTILINE)
_BACK: Final = re.compile(r"^-- \(back\)$", re.MULTILINE)
_CREATE: Final = re.compile(r"CREATE TABLE (?:IF NOT EXISTS )?(\w+)\s*\(", re.IGNORECASE)
_NOTHING: Final = "SELECT 1"
_TABLE: Final = Statement.of(
    "CREATE TABLE IF NOT EXISTS migrations "
    "(number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied DOUBLE PRECISION NOT NULL)"
)
#: Another's migration may take long, and is waited for.
_WAIT: Final = Statement.of(_NOTHING, "SET LOCAL lock_timeout = 0")
_LOCK: Final = Statement.of(_NOTHING, "SELECT pg_advisory_xact_lock(7226153470)")
_THERE: Final = Statement.of(
    "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'migrations'",
    "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'migrations'",
)
_DONE: Final = Statement.of("SELECT max(number) FROM migrations")
_NOTE: Final = Statement.of(
    "INSERT INTO migrations (number, name, applied) VALUES (:number, :name, :applied)"
)
_FORGET: Final = Statement.of("DELETE FROM migrations WHERE number = :number")


class Migration(NamedTuple):
    number: int
    name: str
    statements: tuple[Statement, ...]
    #: What undoes it; without any there is no way back from it.
    back: tuple[Statement, ...] = ()

    @property
    def label(self) -> str:
        return f"{self.number:04}_{self.name}"

    @property
    def tables(self) -> list[str]:
        """Those that it makes."""
        return [made[1] for each in self.statements if (made := _CREATE.match(each.sqlite))]


@cache
def migrations() -> tuple[Migration, ...]:
    """All that this program knows, in order."""
    found = []
    for file in sorted(_FOLDER.glob("[0-9][0-9][0-9][0-9]_*.sql")):
        number, _, name = file.stem.partition("_")
        there, *back = _BACK.split(file.read_text())
        found.append(Migration(int(number), name, _statements(there), _statements("".join(back))))
    return tuple(found)


def _statements(text: str) -> tuple[Statement, ...]:
    parts = (part.strip() for part in _END.split(text))
    return tuple(_statement(part) for part in parts if part)


def _statement(text: str) -> Statement:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("--")]
    sql = "\n".join(lines).strip()
    only = _ONLY.search(text)
    if only is None:
        return Statement.of(sql)
    return Statement.of(sql, _NOTHING) if only[1] == "sqlite" else Statement.of(_NOTHING, sql)


def migrate(store: Store, now: float) -> list[Migration]:
    """Bring the tables up to date; gives what was done.

    Raises:
        Failure: a newer program has changed them already.
    """

    def work(tx: Tx) -> list[Migration]:
        tx.all(_WAIT)
        tx.all(_LOCK)
        tx.run(_TABLE)
        missing = _missing(tx, store)
        for each in missing:
            for statement in each.statements:
                tx.run(statement)
            tx.run(_NOTE, number=each.number, name=each.name, applied=now)
        return missing

    # Looking is enough, most times: a program that starts does not wait for one that writes.
    return store.write_now(work) if pending(store) else []


def go_back(store: Store, to: int, *, lose: bool = False) -> list[Migration]:
    """Take the tables back to an earlier version, for an older program; gives what was undone.

    Raises:
        Failure: rows would be lost and are not to be, or there is no way back to that version.
    """

    def work(tx: Tx) -> list[Migration]:
        tx.all(_LOCK)
        _missing(tx, store)
        undone = _since(to, version(tx), store)
        held = {name: _rows(tx, name) for each in undone for name in each.tables}
        if any(held.values()) and not lose:
            rows = ", ".join(f"{count} in {name}" for name, count in held.items() if count)
            words = f"Version {to} has no place for these rows of the store {store.name}: {rows}. "
            raise Failure(Kind.conflict, f"{words}Back it up, and then add --force to drop them.")
        for each in undone:
            for statement in each.back:
                tx.run(statement)
            tx.run(_FORGET, number=each.number)
        return undone

    return store.write_now(work)


def _since(to: int, done: int, store: Store) -> list[Migration]:
    """The migrations after a version, the newest first."""
    if not 1 <= to <= done:
        words = f"The store {store.name} is of version {done}, and cannot go back to version {to}. "
        raise Failure(Kind.invalid_input, f"{words}Choose one from 1 to {done}.")
    undone = [each for each in reversed(migrations()) if to < each.number <= done]
    if final := next((each for each in undone if not each.back), None):
        words = f"There is no way back from {final.label}: restore a backup from before it."
        raise Failure(Kind.unsupported, words)
    return undone


def _rows(tx: Tx, table: str) -> int:
    found = tx.one(Statement.of(f"SELECT count(*) FROM {table}"))  # noqa: S608
    return found[0] if found else 0


def pending(store: Store) -> list[Migration]:
    """What `migrate` would do.

    Raises:
        Failure: a newer program has changed the tables already.
    """
    return store.read_now(lambda tx: _missing(tx, store))


def version(tx: Tx) -> int:
    """The number of the last migration that was applied; zero in an empty database."""
    found = tx.one(_THERE)
    last = tx.one(_DONE) if found and found[0] else None
    return (last[0] if last else None) or 0


def _missing(tx: Tx, store: Store) -> list[Migration]:
    done, known = version(tx), migrations()
    if done > known[-1].number:
        url = f"sqlite:///{store.name}" if store.kind == "sqlite" else ""
        raise StoreFailure(
            Kind.misconfigured,
            f"The store {store.name} has tables of version {done}; this Fairlead knows {known[-1].number}. "
            "Update Fairlead, choose another store, or have the newer Fairlead go back: "
            f"{command(f'store migrate --to {known[-1].number}', url)}",
        )
    return [each for each in known if each.number > done]
