"""A table full of finished tasks: the one that there is, copied with its log, by one statement for each table."""

import sqlite3
from collections.abc import Callable, Iterable
from typing import Any

Execute = Callable[[str], Any]

#: What of a copy differs from its original: copies are older, a tenth of a second from one to the next, as their
#: ids say too.
IDS = {"id": "{id}", "task": "{id}", "key": "NULL"}
TIMES = ("created", "started", "ended", "time")
SERIES = "WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {count}) "


def fill_file(path: str, count: int) -> None:
    """Fill a SQLite file that nobody has open."""
    connection = sqlite3.connect(path, isolation_level=None)
    # It is not the filling that is measured.
    for pragma in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -200000"):
        connection.execute(f"PRAGMA {pragma}")
    id = "printf('00000000-0000-7000-8000-%012x', n)"
    _fill(connection.execute, SERIES.format(count=count), "s", id, count)
    connection.execute("ANALYZE")
    connection.close()


def fill_database(url: str, count: int) -> None:
    """Fill a PostgreSQL database, and leave it as the server's own cleaning would."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET synchronous_commit = off")
        id = "'00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0')"
        series = f"generate_series(1, {count}) AS n"
        _fill(lambda statement: connection.execute(statement.encode()), "", series, id, count)
        connection.execute("VACUUM ANALYZE tasks, task_events")
        connection.execute("CHECKPOINT")


def _fill(execute: Execute, head: str, series: str, id: str, count: int) -> None:
    for table in ("task_events", "tasks"):
        columns = [column[0] for column in execute(f"SELECT * FROM {table} LIMIT 0").description]
        values = ", ".join(_values(columns, id, count))
        execute(
            f"INSERT INTO {table} ({', '.join(columns)}) {head}SELECT {values} FROM {series}, {table} AS old"
        )


def _values(columns: Iterable[str], id: str, count: int) -> Iterable[str]:
    for column in columns:
        if column in TIMES:
            yield f"old.{column} - 0.1 * ({count} - n)"
        else:
            yield IDS[column].format(id=id) if column in IDS else f"old.{column}"
