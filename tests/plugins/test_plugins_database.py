"""A plugin's own database: what SQL gives, what it may not do, how much it may take, and how it ends."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from fairlead._json import dumps, loads
from fairlead.plugins import database as database_module
from fairlead.plugins import slots
from fairlead.plugins.database import Database, Limits
from fairlead.store import Store, open_store
from plugins.plugin_host import Host
from servers import until

PATIENCE = 20.0
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT {} FROM n"
Make = Callable[..., Host]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(url=f"sqlite:///{tmp_path}/store.db") as store:
        yield store


@pytest.fixture
async def make(store: Store, tmp_path: Path) -> AsyncIterator[Make]:
    made: list[Host] = []

    def one(plugin: str = "acme.notes", **options: Any) -> Host:
        made.append(Host(store, tmp_path, plugin, **options))
        return made[-1]

    yield one
    for each in made:
        await each.close()


@pytest.fixture
async def host(make: Make) -> Host:
    host = make()
    await host.exec("CREATE TABLE notes (id INTEGER PRIMARY KEY, title TEXT, done INTEGER)")
    return host


# What SQL gives


async def test_a_statement_tells_what_it_changed(host: Host) -> None:
    assert await host.exec("INSERT INTO notes (title) VALUES ('a')") == {"changes": 1, "last_insert_rowid": 1}
    await host.exec("INSERT INTO notes (title) VALUES ('b')")
    told = await host.exec("WITH new(t) AS (VALUES ('c'), ('d')) INSERT INTO notes (title) SELECT t FROM new")
    assert told == {"changes": 2, "last_insert_rowid": 4}
    assert (await host.exec("UPDATE notes SET done = 1"))["changes"] == 4
    assert (await host.exec("CREATE TABLE more (x)"))["changes"] == 0


async def test_what_triggers_change_is_not_counted(host: Host) -> None:
    await host.exec("CREATE TABLE log (x)")
    await host.exec("CREATE TRIGGER t AFTER INSERT ON notes BEGIN INSERT INTO log VALUES (1), (2); END")
    assert (await host.exec("INSERT INTO notes (title) VALUES ('a')"))["changes"] == 1
    assert (await host.exec("INSERT INTO notes (title) VALUES ('a') RETURNING id"))["changes"] == 1


async def test_rows_are_objects_and_columns_have_their_order(host: Host) -> None:
    await host.exec("INSERT INTO notes (title, done) VALUES ('b', 1), ('a', NULL)")
    assert await host.query("SELECT title, id, done FROM notes ORDER BY id") == {
        "columns": ["title", "id", "done"],
        "rows": [{"title": "b", "id": 1, "done": 1}, {"title": "a", "id": 2, "done": None}],
    }


async def test_an_answer_is_compact_json_with_sorted_keys(host: Host) -> None:
    text = await host.ask(slots.DB_QUERY, "SELECT 2 AS b, 'x/y' AS a", None)
    assert text == '{"columns":["b","a"],"rows":[{"a":"x/y","b":2}]}'


async def test_columns_of_the_same_name_are_all_there(host: Host) -> None:
    told = await host.query("SELECT 1 AS id, 2 AS id, 3 AS id, 4 AS id_2")
    assert told == {
        "columns": ["id", "id_3", "id_4", "id_2"],
        "rows": [{"id": 1, "id_3": 2, "id_4": 3, "id_2": 4}],
    }


async def test_a_query_without_rows_has_its_columns_still(host: Host) -> None:
    assert await host.query("SELECT id, title FROM notes") == {"columns": ["id", "title"], "rows": []}


async def test_a_query_may_write_and_tell_what_it_wrote(host: Host) -> None:
    told = await host.query("INSERT INTO notes (title) VALUES ('a'), ('b') RETURNING id")
    assert told == {"columns": ["id"], "rows": [{"id": 1}, {"id": 2}]}
    assert (await host.exec("INSERT INTO notes (title) VALUES ('c') RETURNING id"))["changes"] == 1
    assert (await host.query("SELECT count(*) AS n FROM notes"))["rows"] == [{"n": 3}]


async def test_a_select_may_be_executed_and_its_rows_are_dropped(host: Host) -> None:
    assert await host.exec("SELECT 1") == {"changes": 0, "last_insert_rowid": 0}


async def test_blobs_come_as_base64(host: Host) -> None:
    assert (await host.query("SELECT x'00ff10' AS b, x'' AS e"))["rows"] == [{"b": "AP8Q", "e": ""}]


async def test_every_character_of_a_text_comes_back(host: Host) -> None:
    text = "".join(map(chr, range(1, 0x20))) + '"\\/\u2028 é 🙂'
    await host.exec("INSERT INTO notes (title) VALUES (?)", dumps([text]))
    assert (await host.query("SELECT title FROM notes"))["rows"] == [{"title": text}]


async def test_the_largest_numbers_come_back(host: Host) -> None:
    values = [2**63 - 1, -(2**63), 0.1, 1e308]
    told = await host.query("SELECT ?1 AS a, ?2 AS b, ?3 AS c, ?4 AS d", dumps(values))
    assert list(told["rows"][0].values()) == values


# Parameters


async def test_parameters_are_taken_by_position(host: Host) -> None:
    told = await host.query("SELECT ? AS a, ? AS b", '["it\'s", 2]')
    assert told["rows"] == [{"a": "it's", "b": 2}]


@pytest.mark.parametrize("sign", [":", "@", "$", ""])
async def test_parameters_are_taken_by_name_with_or_without_their_sign(host: Host, sign: str) -> None:
    mark = sign or ":"
    told = await host.query(
        f"SELECT {mark}one AS a, {mark}two AS b", dumps({f"{sign}one": 1, f"{sign}two": "2"})
    )
    assert told["rows"] == [{"a": 1, "b": "2"}]


async def test_null_is_null(host: Host) -> None:
    told = await host.query("SELECT ? IS NULL AS a, typeof(?) AS b", "[null, null]")
    assert told["rows"] == [{"a": 1, "b": "null"}]


async def test_truths_are_one_and_zero(host: Host) -> None:
    assert (await host.query("SELECT ? AS a, ? AS b", "[true, false]"))["rows"] == [{"a": 1, "b": 0}]


async def test_objects_and_lists_are_kept_as_their_json(host: Host) -> None:
    told = await host.query("SELECT ? AS a, json_extract(?, '$.x') AS b", '[[1,2], {"x": 3}]')
    assert told["rows"] == [{"a": "[1,2]", "b": 3}]


async def test_no_parameters_may_be_null(host: Host) -> None:
    assert (await host.query("SELECT 1 AS a", None))["rows"] == [{"a": 1}]


@pytest.mark.parametrize(
    "params",
    [
        "5",
        '"x"',
        "null",
        "true",
        "not json",
        "[1, 2]",
        "[]",
        "{}",
        '{":b": 1}',
        '{":a": 1, "@a": 2}',
        "[1e999]",
        "[9223372036854775808]",
        "[99999999999999999999999]",
    ],
)
async def test_parameters_that_do_not_fit_are_refused(host: Host, params: str) -> None:
    told = await host.query("SELECT :a AS a", params)
    assert told["error"] == "invalid_request"
    assert "parameter" in told["message"]


# What it may not do


@pytest.mark.parametrize(
    "sql",
    [
        "ATTACH DATABASE '{file}' AS other",
        "attach '' AS other",
        "ATTACH ':memory:' AS other",
        "-- a comment\nATTACH '{file}' AS other",
        "/* a comment */ ATTACH '{file}' AS other",
        "\t\n ATTACH '{file}' AS other",
        "EXPLAIN ATTACH '{file}' AS other",
        "DETACH DATABASE main",
        "VACUUM INTO '{file}'",
        "/**/VACUUM/**/INTO '{file}'",
        "SELECT load_extension('{file}')",
        "SELECT LOAD_EXTENSION('{file}', 'init')",
        "SELECT sqlcipher_export('main')",
        "SELECT fts3_tokenizer('simple')",
        "PRAGMA max_page_count = 1000000",
        "PRAGMA main.max_page_count(1000000)",
        "/* */ PRAGMA /* */ MAX_PAGE_COUNT = 1000000",
        "PRAGMA journal_mode = OFF",
        "PRAGMA page_size = 65536",
        "PRAGMA key = 'x'",
        "PRAGMA rekey = 'x'",
        "PRAGMA cipher_page_size = 65536",
        "PRAGMA cipher_log = '{file}'",
        "PRAGMA writable_schema = ON",
        "PRAGMA temp_store_directory = '/'",
        "PRAGMA mmap_size = 1000000000",
        "PRAGMA hard_heap_limit = 0",
        "PRAGMA locking_mode = EXCLUSIVE",
        "CREATE VIRTUAL TABLE c USING csv(filename='{file}')",
    ],
)
async def test_what_leads_out_of_the_database_is_forbidden(host: Host, tmp_path: Path, sql: str) -> None:
    file = tmp_path / "stolen.db"
    for ask in (host.exec, host.query):
        told = await ask(sql.format(file=file))
        assert told["error"] == "access_denied", told
        assert told["message"].startswith("Forbidden SQL statement")
    assert not file.exists()
    assert (await host.query("PRAGMA max_page_count"))["rows"] == [{"max_page_count": 102400}]


async def test_a_forbidden_statement_within_a_trigger_does_not_run(host: Host) -> None:
    await host.exec(
        "CREATE TRIGGER t AFTER INSERT ON notes BEGIN SELECT load_extension('x'); END",
    )
    assert (await host.exec("INSERT INTO notes (title) VALUES ('a')"))["error"] == "access_denied"
    assert (await host.query("SELECT count(*) AS n FROM notes"))["rows"] == [{"n": 0}]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 'load_extension' AS a",
        "INSERT INTO notes (title) VALUES ('ATTACH; DETACH; VACUUM INTO; PRAGMA key')",
        "CREATE TABLE load_extension (attach TEXT)",
        "CREATE VIRTUAL TABLE words USING fts5(text)",
        "CREATE VIRTUAL TABLE places USING rtree(id, a, b)",
        "CREATE TEMP TABLE scratch (x)",
        "PRAGMA table_info(notes)",
        "PRAGMA user_version = 3",
        "PRAGMA foreign_keys",
        "PRAGMA journal_mode",
        "PRAGMA integrity_check",
        "SELECT name FROM pragma_table_info('notes')",
        "SELECT value FROM json_each('[1, 2]')",
        "ANALYZE",
        "REINDEX",
        "VACUUM",
        " vacuum ; ",
    ],
)
async def test_what_stays_within_the_database_is_allowed(host: Host, sql: str) -> None:
    assert "error" not in await host.query(sql)


async def test_a_full_text_index_works_through_triggers(host: Host) -> None:
    await host.exec("CREATE VIRTUAL TABLE words USING fts5(title, content='notes', content_rowid='id')")
    await host.exec(
        "CREATE TRIGGER fill AFTER INSERT ON notes BEGIN "
        "INSERT INTO words (rowid, title) VALUES (new.id, new.title); END"
    )
    await host.exec("INSERT INTO notes (title) VALUES ('a quick fox'), ('a slow hen')")
    assert (await host.query("SELECT rowid FROM words WHERE words MATCH 'hen'"))["rows"] == [{"rowid": 2}]


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO notes (title) VALUES ('a'); DROP TABLE notes",
        "SELECT 1; SELECT 2",
        "SELECT 1; ATTACH 'x' AS y",
    ],
)
async def test_a_second_statement_is_refused_and_the_first_is_not_run(host: Host, sql: str) -> None:
    told = await host.exec(sql)
    assert told["error"] == "invalid_request"
    assert "more than one statement" in told["message"]
    assert (await host.query("SELECT count(*) AS n FROM notes"))["rows"] == [{"n": 0}]


async def test_a_semicolon_and_a_comment_after_the_statement_are_no_second_one(host: Host) -> None:
    assert (await host.query("SELECT 1 AS a; -- done"))["rows"] == [{"a": 1}]


async def test_wrong_sql_is_told_in_sqlite_s_own_words(host: Host) -> None:
    assert await host.query("SELEC 1") == {"error": "database_error", "message": 'near "SELEC": syntax error'}
    assert (await host.query("SELECT * FROM nowhere"))["message"] == "no such table: nowhere"


async def test_a_broken_constraint_is_an_error_and_changes_nothing(host: Host) -> None:
    await host.exec("INSERT INTO notes (id) VALUES (1)")
    told = await host.exec("INSERT INTO notes (id) VALUES (2), (1)")
    assert told == {"error": "database_error", "message": "UNIQUE constraint failed: notes.id"}
    assert (await host.query("SELECT count(*) AS n FROM notes"))["rows"] == [{"n": 1}]


async def test_foreign_keys_are_minded(host: Host) -> None:
    await host.exec("CREATE TABLE tags (note INTEGER REFERENCES notes (id))")
    assert (await host.exec("INSERT INTO tags VALUES (99)"))["message"] == "FOREIGN KEY constraint failed"


async def test_a_transaction_can_be_undone(host: Host) -> None:
    for sql in ("BEGIN", "INSERT INTO notes (title) VALUES ('a')", "ROLLBACK"):
        assert "error" not in await host.exec(sql)
    assert (await host.query("SELECT count(*) AS n FROM notes"))["rows"] == [{"n": 0}]


# How much it may take


def test_the_size_is_limited_to_100_mib() -> None:
    assert Limits().size == 100 * 1024 * 1024


async def test_what_would_be_too_much_is_refused_and_the_rest_stays(make: Make) -> None:
    host = make("small", limits=Limits(size=64 * 1024))
    await host.exec("CREATE TABLE big (text TEXT)")
    for _ in range(200):
        told = await host.exec("INSERT INTO big VALUES (?)", dumps(["x" * 4000]))
        if "error" in told:
            break
    assert told == {"error": "database_error", "message": "database or disk is full"}
    assert (await host.query("SELECT count(*) > 2 AS some FROM big"))["rows"] == [{"some": 1}]
    await host.exec("DELETE FROM big")
    assert "error" not in await host.exec("INSERT INTO big VALUES ('again')")


async def test_writes_below_the_limit_succeed(make: Make) -> None:
    host = make("small", limits=Limits(size=1024 * 1024))
    await host.exec("CREATE TABLE big (text TEXT)")
    for _ in range(100):
        assert "error" not in await host.exec("INSERT INTO big VALUES (?)", dumps(["x" * 4000]))


async def test_a_size_of_zero_is_no_limit(make: Make) -> None:
    host = make("wide", limits=Limits(size=0))
    await host.exec("CREATE TABLE big (text TEXT)")
    assert "error" not in await host.exec("INSERT INTO big VALUES (?)", dumps(["x" * 500_000]))
    assert (await host.query("PRAGMA max_page_count"))["rows"][0]["max_page_count"] > 1_000_000_000


async def test_a_transaction_that_stays_open_elsewhere_does_not_fill_the_disk(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "_LOOKS", 0.0)
    size = 512 * 1024
    reader, writer = (make("log", limits=Limits(size=size)) for _ in range(2))
    await writer.exec("CREATE TABLE big (text TEXT)")
    await writer.exec("INSERT INTO big VALUES (zeroblob(300000))")
    for sql in ("BEGIN", "SELECT * FROM big"):
        await reader.exec(sql)
    log = writer.database.file.with_name("data.db-wal")
    for _ in range(20):
        told = await writer.exec("UPDATE big SET text = randomblob(300000)")
        if "error" in told:
            break
    assert told["error"] == "database_error"
    assert told["message"].startswith("database or disk is full")
    assert log.stat().st_size < 4 * size
    await reader.exec("COMMIT")
    assert "error" not in await writer.exec("UPDATE big SET text = 'small'")
    assert log.stat().st_size < size


async def test_temporary_tables_have_the_same_limit(make: Make) -> None:
    host = make("temp", limits=Limits(size=64 * 1024))
    await host.exec("CREATE TEMP TABLE big (text TEXT)")
    told = await host.exec("INSERT INTO big VALUES (zeroblob(1000000))")
    assert told == {"error": "database_error", "message": "database or disk is full"}


async def test_more_rows_than_one_answer_holds_are_an_error_and_none_is_dropped_in_silence(
    make: Make,
) -> None:
    host = make("rows", limits=Limits(rows=1000))
    assert len((await host.query(ENDLESS.format("i") + " LIMIT 1000"))["rows"]) == 1000
    told = await host.query(ENDLESS.format("i") + " LIMIT 1001")
    assert told["error"] == "response_too_large"
    assert "more than 1000 rows" in told["message"]


async def test_an_answer_has_a_size_and_no_more(make: Make) -> None:
    host = make("bytes", limits=Limits(bytes=100_000))
    told = await host.query(ENDLESS.format("hex(zeroblob(1000)) AS x") + " LIMIT 100")
    assert told["error"] == "response_too_large"
    assert "larger than 100000 bytes" in told["message"]


@pytest.mark.parametrize("columns", ["count(*)", "i"])
async def test_a_statement_that_takes_too_long_is_stopped(make: Make, columns: str) -> None:
    host = make("time", limits=Limits(seconds=0.05, rows=10**9, bytes=10**9))
    await host.exec("CREATE TABLE t (x)")
    told = await host.query(ENDLESS.format(columns))
    assert told["error"] == "host_timeout"
    told = await host.exec("INSERT INTO t " + ENDLESS.format("i"))
    assert told["error"] == "host_timeout"
    assert (await host.query("SELECT count(*) AS n FROM t"))["rows"] == [{"n": 0}]


async def test_a_statement_of_few_heavy_steps_is_stopped_too(make: Make) -> None:
    host = make("heavy", limits=Limits(seconds=0.05))
    heavy = "SELECT sum(length(hex(zeroblob(20000000 + i)))) FROM n"
    rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1500)"
    told = await asyncio.wait_for(host.query(f"{rows} {heavy}"), PATIENCE)
    assert told["error"] == "host_timeout"
    assert (await host.query("SELECT 1 AS n"))["rows"] == [{"n": 1}]


async def test_a_statement_cannot_take_the_host_s_memory(host: Host) -> None:
    told = await host.query("SELECT length(zeroblob(999000000) || 'x') AS n")
    assert told["error"] == "database_error"


# How it is kept, opened and closed


async def test_nothing_is_opened_before_the_first_statement(make: Make) -> None:
    host = make()
    assert not host.database.file.exists()
    await host.query("SELECT 1")
    assert host.database.file.stat().st_mode & 0o777 == 0o600


async def test_the_file_is_encrypted(host: Host) -> None:
    await host.exec("INSERT INTO notes (title) VALUES ('a very private note')")
    await host.services.close()
    assert b"private" not in host.database.file.read_bytes()
    with pytest.raises(sqlite3.DatabaseError, match="not a database"):
        sqlite3.connect(host.database.file).execute("SELECT * FROM notes")


async def test_what_was_written_is_there_when_it_is_opened_again(host: Host, make: Make) -> None:
    await host.exec("INSERT INTO notes (title) VALUES ('kept')")
    await host.services.close()
    assert (await make().query("SELECT title FROM notes"))["rows"] == [{"title": "kept"}]


async def test_two_processes_may_have_it_open(host: Host, make: Make) -> None:
    await host.exec("INSERT INTO notes (title) VALUES ('one')")
    other = make()
    await other.exec("INSERT INTO notes (title) VALUES ('two')")
    assert len((await host.query("SELECT * FROM notes"))["rows"]) == 2


async def test_each_plugin_has_its_own(host: Host, make: Make) -> None:
    other = make("acme.mail")
    assert (await other.query("SELECT * FROM notes"))["error"] == "database_error"
    assert other.config.database_key() != host.config.database_key()
    assert host.config.database_key() == host.config.database_key()


async def test_a_file_of_another_key_is_told_as_not_open(make: Make) -> None:
    host = make()
    host.database.file.parent.mkdir(parents=True)
    host.database.file.write_bytes(b"not a database, but long enough to be looked at" * 200)
    for _ in range(2):
        told = await host.query("SELECT 1")
        assert told["error"] == "database_error"
        assert told["message"].startswith("Database not open")


async def test_sql_after_the_end_is_refused_as_shutting_down(host: Host) -> None:
    await host.services.close()
    for slot in (slots.DB_EXEC, slots.DB_QUERY):
        told = await host.told(slot, "SELECT 1", None)
        assert told["error"] == "context_unavailable"
        assert "shutting down" in told["message"]
        assert "shutting down" in str(host.services.run(slot, ("SELECT 1", None), host.frame))
    assert not host.database.file.with_name("data.db-wal").exists()


async def test_a_plugin_that_never_used_sql_ends_too(make: Make) -> None:
    host = make()
    await host.services.close()
    assert not host.database.file.exists()


async def test_the_end_waits_for_statements_and_answers_everyone(host: Host) -> None:
    barrier = threading.Barrier(9)

    def work(worker: int) -> list[dict[str, Any]]:
        barrier.wait(PATIENCE)
        told = []
        for number in range(25):
            args = ("INSERT INTO notes (title) VALUES (?)", dumps([f"{worker}-{number}"]))
            if worker % 2:
                told.append(host.services.run(slots.DB_EXEC, args, host.frame))
            else:
                told.append(host.database.submit(False, *args).result(PATIENCE))
        return [loads(str(each)) for each in told]

    def end() -> None:
        barrier.wait(PATIENCE)
        host.database.close()

    with ThreadPoolExecutor(9) as pool:
        working = [pool.submit(work, worker) for worker in range(8)]
        pool.submit(end).result(PATIENCE)
        told = [each for future in working for each in future.result(PATIENCE)]
    assert len(told) == 200
    assert {each.get("error", "done") for each in told} <= {"done", "context_unavailable"}
    written = sum("changes" in each for each in told)
    database = Database("acme.notes", host.database.file, host.config.database_key)
    assert loads(database.query("SELECT count(*) AS n FROM notes"))["rows"] == [{"n": written}]
    database.close()


async def test_the_end_does_not_wait_for_a_function_that_cannot_be_stopped(make: Make) -> None:
    host = make("slow", limits=Limits(seconds=0.05))
    await host.exec("CREATE VIRTUAL TABLE words USING fts5(text)")
    await host.exec("INSERT INTO words VALUES (?)", dumps(["a " * 10_000]))
    slow = "SELECT snippet(words, 0, '[', ']', '', 64) FROM words('a')"
    answer = host.database.submit(True, slow, None)
    await asyncio.to_thread(until, host.database._turn.locked, "The statement did not begin.")
    await asyncio.wait_for(host.services.close(), PATIENCE)
    assert not answer.done()
    assert await asyncio.wait_for(asyncio.wrap_future(answer), PATIENCE)


async def test_statements_run_one_at_a_time_in_the_order_they_came(host: Host) -> None:
    asked = [host.exec("INSERT INTO notes (title) VALUES (?)", dumps([str(n)])) for n in range(50)]
    await asyncio.gather(*asked)
    rows = (await host.query("SELECT title FROM notes ORDER BY id"))["rows"]
    assert [row["title"] for row in rows] == [str(n) for n in range(50)]


async def test_a_database_that_is_not_used_has_no_thread_and_works_on(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "_IDLE", 0.01)
    host = make("idle")
    await host.exec("CREATE TABLE t (x)")
    for number in range(3):
        for thread in threading.enumerate():
            if thread.name == "sql idle":
                await asyncio.to_thread(thread.join, PATIENCE)
        assert "sql idle" not in {thread.name for thread in threading.enumerate()}
        assert (await host.exec("INSERT INTO t VALUES (1)"))["last_insert_rowid"] == number + 1


async def test_what_a_fallen_plugin_left_open_is_undone_however_long_ago(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "_IDLE", 0.01)
    host = make("fallen")
    await host.exec("CREATE TABLE t (x)")
    await host.exec("BEGIN")
    await host.exec("INSERT INTO t VALUES (1)")
    for thread in threading.enumerate():
        if thread.name == "sql fallen":
            await asyncio.to_thread(thread.join, PATIENCE)
    host.services.abandoned()
    assert (await host.query("SELECT count(*) AS n FROM t"))["rows"] == [{"n": 0}]
    assert "error" not in await host.exec("BEGIN")


async def test_a_database_needs_its_package_and_says_so(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "sqlcipher3", None)
    told = await make().query("SELECT 1")
    assert told["error"] == "database_error"
    assert "pip install 'fairlead[plugins]'" in told["message"]
