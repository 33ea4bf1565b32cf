"""Copying all that one store holds into another, whatever databases they are: all of it, or nothing.

The copy is of one moment: what is written to the source afterwards is not in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from typing import Any, Final, NamedTuple

from fairlead.failures import Failure, Kind
from fairlead.store.migrations import migrations
from fairlead.store.statements import Statement
from fairlead.store.store import Row, Store, Tx

#: Told while it goes on: the table, how many rows of all tables are done, and how many there are.
Progress = Callable[[str, int, int], None]

_BATCH: Final = 1000
_numbers: Final = count(1)
_DROP: Final = re.compile(r"DROP TABLE (?:IF EXISTS )?(\w+)", re.IGNORECASE)
#: Seconds between two batches that the source's server lets pass: the target may be slow.
_PATIENT: Final = Statement.of("SELECT 1", "SET LOCAL idle_in_transaction_session_timeout = 0")
_COLUMNS: Final = Statement.of(
    "SELECT name FROM pragma_table_info(:name) ORDER BY cid",
    "SELECT column_name FROM information_schema.columns "
    "WHERE table_schema = current_schema() AND table_name = :name ORDER BY ordinal_position",
)


class Moved(NamedTuple):
    """How many rows each table had."""

    tables: dict[str, int]

    @property
    def rows(self) -> int:
        return sum(self.tables.values())


@cache
def tables() -> tuple[str, ...]:
    """The tables that the migrations make, without the list of migrations itself."""
    found: dict[str, None] = {}
    for each in migrations():
        found |= dict.fromkeys(each.tables)
        for statement in each.statements:
            if gone := _DROP.match(statement.sqlite):
                found.pop(gone[1], None)
    return tuple(found)


def counts(tx: Tx) -> dict[str, int]:
    """How many rows each table has."""
    return {name: tx.all(Statement.of(f"SELECT count(*) FROM {name}"))[0][0] for name in tables()}  # noqa: S608


def copy(
    source: Store,
    target: Store,
    progress: Progress = lambda *_: None,
    *,
    replace: bool = False,
    way_out: str = "Choose an empty one.",
) -> Moved:
    """Copy every row into a target whose tables are there and empty, or are emptied first.

    Raises:
        Failure: the target holds something, and is not to be replaced; or either database fails.
    """
    done: list[Moved] = []

    def fill(reading: Tx, writing: Tx) -> Moved:
        there = counts(writing)
        if any(there.values()) and not replace:
            held = ", ".join(f"{rows} in {name}" for name, rows in there.items() if rows)
            words = f"The store {target.name} is not empty, it has rows: {held}. {way_out}"
            raise Failure(Kind.conflict, words)
        return _fill(reading, writing, target, progress)

    def read(reading: Tx) -> Moved:
        # A connection that is lost at the very end has this run again; the target has it all already.
        if not done:
            reading.all(_PATIENT)
            done.append(target.write_now(lambda writing: fill(reading, writing)))
        return done[0]

    return source.read_now(read)


def _fill(reading: Tx, writing: Tx, target: Store, progress: Progress) -> Moved:
    """Copy every row, in place of those that are there."""
    for name in tables():
        writing.run(Statement.of(f"DELETE FROM {name}"))  # noqa: S608
    expected = counts(reading)
    total, so_far = sum(expected.values()), 0
    for name in tables():
        progress(name, so_far, total)
        columns = [column for (column,) in reading.all(_COLUMNS, name=name)]
        given = ", ".join(f":{column}" for column in columns)
        insert = Statement.of(f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({given})")  # noqa: S608
        for batch in _batches(reading, name, columns):
            writing.many(insert, [dict(zip(columns, row, strict=True)) for row in batch])
            so_far += len(batch)
            progress(name, so_far, total)
    arrived = counts(writing)
    if arrived != expected:
        raise Failure(Kind.internal, f"Not every row arrived in {target.name}: {arrived} of {expected}.")
    return Moved(expected)


def _batches(tx: Tx, name: str, columns: list[str]) -> Iterator[list[Row]]:
    """The rows of a table, by SQLite's row numbers and PostgreSQL's cursors."""
    listed = ", ".join(columns)
    # Work that is run again must not meet the cursor that it left open.
    cursor = f"copy_{next(_numbers)}"
    begin = Statement.of("SELECT 0", f"DECLARE {cursor} NO SCROLL CURSOR FOR SELECT 0, {listed} FROM {name}")  # noqa: S608
    more = Statement.of(
        f"SELECT rowid, {listed} FROM {name} WHERE rowid > :last ORDER BY rowid LIMIT {_BATCH}",  # noqa: S608
        f"FETCH {_BATCH} FROM {cursor}",
    )
    end = Statement.of("SELECT 0", f"CLOSE {cursor}")
    tx.all(begin)
    last: Any = -(2**63)
    while rows := tx.all(more, last=last):
        last = rows[-1][0]
        yield [row[1:] for row in rows]
    tx.all(end)
