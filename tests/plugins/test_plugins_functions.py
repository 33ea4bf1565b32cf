"""SQL functions of ours in a plugin's database: they give what SQLite's give, and none takes long."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
from sqlcipher3 import _sqlite3, dbapi2  # type: ignore[import-untyped]

from fairlead.plugins import database_functions
from fairlead.plugins.database_functions import bounded
from plugins.plugin_host import Host

PATIENCE = 20.0
CALLS = (
    "instr(?, ?)",
    "replace(?, ?, ?)",
    "trim(?, ?)",
    "ltrim(?, ?)",
    "rtrim(?, ?)",
    "unhex(?, ?)",
)
#: An object with many members, made in SQL.
MEMBERS = (
    "(WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 60000)"
    " SELECT json_group_object('{}' || n, n) FROM t)"
)
PATCHES = ("json_patch(?, ?)", "jsonb_patch(?, ?)", "json_array(json_patch(?, ?))", "json(jsonb_patch(?, ?))")
JSON = (
    '{"a":1,"b":{"c":[1,2]}}',
    '{"a":null,"b":{"c":5,"d":{}}}',
    "{a:+1,}",
    "[1]",
    "7",
    '"é"',
    "{}",
    '{"a":{"a":1}}',
)
BROKEN = ('{"a":', "", "a", '{"a":1}x')
ODD = (None, 7, -1.5, 1e100, b"", b"a\0b", "", "\0", "a", "é", "0a 0B", " ")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT instr(hex(zeroblob(2000000)), hex(zeroblob(400000)) || '1') AS n",
        "SELECT instr(zeroblob(4000000), zeroblob(800000) || x'01') AS n",
        "SELECT length(replace(hex(zeroblob(2000000)), hex(zeroblob(400000)) || '1', '')) AS n",
        "SELECT instr(hex(zeroblob(20000000)), hex(zeroblob(10000000)) || '1') AS n",
        "SELECT hex(zeroblob(2000000)) LIKE '%' || substr(hex(zeroblob(25000)), 1, 49000) || '1%' AS n",
        "SELECT hex(zeroblob(2000000)) GLOB '*' || substr(hex(zeroblob(25000)), 1, 49000) || '1*' AS n",
        "SELECT length(trim(hex(zeroblob(1000000)), hex(randomblob(1000000)) || 'x')) AS n",
        f"SELECT length(json_patch({MEMBERS.format('a')}, {MEMBERS.format('b')})) AS n",
        f"SELECT length(jsonb_patch({MEMBERS.format('a')}, {MEMBERS.format('b')})) AS n",
    ],
)
async def test_no_function_of_two_long_texts_takes_long(host: Host, sql: str) -> None:
    told = await asyncio.wait_for(host.query(sql), PATIENCE)
    assert told.get("error") == "database_error" or len(told["rows"]) == 1


@pytest.mark.parametrize("window", [5, database_functions._WINDOW])
@pytest.mark.parametrize("call", CALLS)
def test_functions_give_what_sqlite_gives(call: str, window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_functions, "_WINDOW", window)
    plain = dbapi2.connect(":memory:")
    ours = bounded(_sqlite3.__file__, lambda: dbapi2.connect(":memory:"))
    chance = random.Random(call)

    def value() -> Any:
        if chance.random() < 0.2:
            return chance.choice(ODD)
        return "".join(chance.choice("abAB01é\0 ") for _ in range(chance.randrange(20)))

    for _ in range(3000):
        values = tuple(value() for _ in range(call.count("?")))
        sql = f"SELECT x, typeof(x) FROM (SELECT {call} AS x)"
        assert ours.execute(sql, values).fetchall() == plain.execute(sql, values).fetchall(), values
    for each in (plain, ours):
        each.close()


@pytest.mark.parametrize("call", PATCHES)
def test_patches_give_what_sqlite_gives(call: str) -> None:
    plain = dbapi2.connect(":memory:")
    ours = bounded(_sqlite3.__file__, lambda: dbapi2.connect(":memory:"))

    def told(connection: Any, values: tuple[Any, ...]) -> Any:
        try:
            return connection.execute(f"SELECT x, typeof(x) FROM (SELECT {call} AS x)", values).fetchall()
        except dbapi2.Error as error:
            return type(error), str(error)

    values = (*JSON, *BROKEN, *ODD)
    for pair in ((one, other) for one in values for other in values):
        assert told(ours, pair) == told(plain, pair), pair
    for each in (plain, ours):
        each.close()


def test_other_connections_keep_sqlite_s_functions() -> None:
    bounded(_sqlite3.__file__, lambda: dbapi2.connect(":memory:")).close()
    other = dbapi2.connect(":memory:")
    assert other.execute("SELECT 'a' LIKE ?", ("%a" * 1000,)).fetchone() == (0,)
    other.close()


async def test_long_texts_and_blobs_are_searched_and_changed_as_ever(host: Host) -> None:
    await host.exec("CREATE TABLE t (word TEXT, data BLOB)")
    await host.exec("INSERT INTO t VALUES (hex(zeroblob(2000000)) || 'needle', zeroblob(6000000) || x'01')")
    found = await host.query(
        "SELECT instr(word, 'needle') AS a, instr(data, x'01') AS b, word LIKE '%NEEDLE' AS c,"
        " length(replace(word, '0', '1-')) AS d, rtrim(word, 'elden') = hex(zeroblob(2000000)) AS e FROM t"
    )
    assert found["rows"] == [{"a": 4000001, "b": 6000001, "c": 1, "d": 8000006, "e": 1}]


async def test_functions_may_stand_in_indexes_views_and_checks(host: Host) -> None:
    await host.exec("CREATE TABLE t (a TEXT CHECK (instr(a, 'x') = 0))")
    await host.exec("CREATE INDEX i ON t (replace(a, '-', ''))")
    await host.exec("CREATE VIEW v AS SELECT trim(a, '-') AS a FROM t")
    await host.exec("INSERT INTO t VALUES ('-1-2-')")
    assert (await host.query("SELECT a FROM v"))["rows"] == [{"a": "1-2"}]
    assert (await host.exec("INSERT INTO t VALUES ('x')"))["error"] == "database_error"


def test_a_library_that_shows_nothing_of_its_inside_is_used_as_it_is_and_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    connection = bounded(str(tmp_path / "none.so"), lambda: dbapi2.connect(":memory:"))
    assert connection.execute("SELECT instr('ab', 'b')").fetchone() == (2,)
    connection.close()
    assert "may take long" in caplog.text
