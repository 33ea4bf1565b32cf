"""Backups, restoring and moving: all of it arrives, or nothing has changed."""

from __future__ import annotations

import os
import resource
import sqlite3
import stat
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fairlead.failures import Failure, Kind
from fairlead.store import Statement, Store, open_store
from fairlead.store.migrations import migrations
from fairlead.store.moving import copy, counts, tables
from fairlead.store.sqlite import SqliteStore
from fairlead.store.upkeep import backup, restore, status

EVENT = Statement.of(
    "INSERT INTO task_events (task, number, type, time, data, passing) VALUES (:task, :number, 'log', :time, :data, 0)"
)
EVENTS = Statement.of("SELECT task, number, time, data FROM task_events ORDER BY task, number")
SECRET = Statement.of(
    "INSERT INTO secret_keys (id, master, nonce, value, created) VALUES (:id, 'm', :nonce, :value, 1.5)"
)
SECRETS = Statement.of("SELECT * FROM secret_keys ORDER BY id")
EMPTY = dict.fromkeys(tables(), 0)


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    with open_store(url=store_url) as store:
        yield store


def fill(store: Store, events: int = 2500, task: str = "täsk") -> None:
    rows = [
        {"task": task, "number": number, "time": number / 7, "data": f'{{"n": "{number} 🚢 \\u0000"}}'}
        for number in range(events)
    ]
    store.write_now(lambda tx: tx.many(EVENT, rows))
    keys = [{"id": id, "nonce": os.urandom(12), "value": bytes(range(256))} for id in ("a", "b")]
    store.write_now(lambda tx: tx.many(SECRET, keys))


def content(store: Store) -> tuple[list[Any], list[Any]]:
    return store.read_now(lambda tx: (tx.all(EVENTS), tx.all(SECRETS)))


def test_the_tables_are_those_that_are_there(store: Store) -> None:
    there = Statement.of(
        "SELECT name FROM sqlite_master "
        "WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'message_words%'",
        "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()",
    )
    names = {name for (name,) in store.read_now(lambda tx: tx.all(there))}
    assert names == {*tables(), "migrations"}


def test_status_tells_what_is_in_a_store(store: Store) -> None:
    fill(store, 10)
    told = status(store)
    assert (told.kind, told.name, told.pending) == (store.kind, store.name, [])
    assert told.rows == {**EMPTY, "task_events": 10, "secret_keys": 2}
    assert told.size > 10_000


def test_status_of_a_store_without_tables_tells_what_is_pending(store_url: str) -> None:
    with open_store(url=store_url, migrate=False) as store:
        told = status(store)
    assert told.version == 0
    assert told.pending[0] == "0001_tasks"
    assert told.rows == {}


@pytest.mark.parametrize("way", ["there", "back"])
def test_a_store_moves_to_another_database(store: Store, tmp_path: Path, way: str) -> None:
    with SqliteStore(tmp_path / "file.db") as file:
        open_store(url=f"sqlite:///{file.file}").close()
        source, target = (store, file) if way == "there" else (file, store)
        fill(source)
        told: list[tuple[str, int, int]] = []
        moved = copy(source, target, lambda *progress: told.append(progress))
        assert moved.tables == {**EMPTY, "task_events": 2500, "secret_keys": 2}
        assert content(target) == content(source)
        assert told[-1][1:] == (2502, 2502)
        assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)


def test_a_target_that_is_not_empty_is_refused(store: Store, tmp_path: Path) -> None:
    with open_store(url=f"sqlite:///{tmp_path}/source.db") as source:
        fill(source)
        fill(store, 3, "mine")
        before = content(store)
        with pytest.raises(Failure) as caught:
            copy(source, store)
        assert caught.value.kind is Kind.conflict
        assert "3 in task_events" in caught.value.message
        assert content(store) == before


def test_a_move_that_fails_leaves_nothing_behind(store: Store, tmp_path: Path) -> None:
    def fails(table: str, done: int, total: int) -> None:
        if done >= 2000:
            raise KeyError("now")

    with open_store(url=f"sqlite:///{tmp_path}/source.db") as source:
        fill(source)
        with pytest.raises(KeyError):
            copy(source, store, fails)
        assert store.read_now(counts) == EMPTY
        assert copy(source, store).rows == 2502


def test_a_move_is_of_one_moment(store: Store, tmp_path: Path) -> None:
    with open_store(url=f"sqlite:///{tmp_path}/target.db") as target:
        fill(store)

        def interfere(table: str, done: int, total: int) -> None:
            if done == 1000:
                writer = threading.Thread(target=fill, args=(store, 500, "late"), kwargs={})
                writer.start()
                writer.join()

        with pytest.raises(Failure):  # the second secrets are not new
            fill(store, 1)
        before = content(store)
        store.write_now(lambda tx: tx.run(Statement.of("DELETE FROM secret_keys")))
        copy(store, target, interfere)
        assert content(target) == (before[0], [])
        assert len(content(store)[0]) == len(before[0]) + 500


def test_a_backup_is_one_private_file_and_is_restored(store: Store, tmp_path: Path) -> None:
    fill(store)
    file = tmp_path / "backups" / "monday.db"
    assert backup(store, file).rows == 2502
    assert os.listdir(file.parent) == ["monday.db"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("SELECT count(*) FROM task_events").fetchone() == (2500,)
    before = content(store)
    store.write_now(lambda tx: tx.run(Statement.of("DELETE FROM task_events WHERE number > 10")))
    store.write_now(lambda tx: tx.run(Statement.of("UPDATE secret_keys SET master = 'x'")))
    with pytest.raises(Failure) as caught:
        restore(file, store)
    assert caught.value.kind is Kind.conflict
    assert restore(file, store, replace=True).rows == 2502
    assert content(store) == before


def test_a_backup_does_not_write_over_a_file(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text("mine")
    with pytest.raises(Failure) as caught:
        backup(store, file)
    assert caught.value.kind is Kind.conflict
    assert file.read_text() == "mine"
    backup(store, file, replace=True)
    assert file.read_bytes().startswith(b"SQLite format 3")


@pytest.mark.parametrize("what", ["folder", "pipe", "long"])
def test_a_backup_to_where_no_file_can_be_is_refused_and_replaces_nothing(
    store: Store, tmp_path: Path, what: str
) -> None:
    file = tmp_path / ("x" * 300 if what == "long" else what)
    if what == "folder":
        file.mkdir()
    elif what == "pipe":
        os.mkfifo(file)
    there = os.listdir(tmp_path)
    with pytest.raises(Failure) as caught:
        backup(store, file, replace=True)
    assert caught.value.kind in (Kind.invalid_input, Kind.misconfigured)
    assert os.listdir(tmp_path) == there
    assert what == "long" or not file.is_file()


def test_a_backup_that_fails_leaves_nothing(store: Store, tmp_path: Path) -> None:
    def fails(*about: Any) -> None:
        raise KeyError("now")

    fill(store)
    folder = tmp_path / "backups"
    with pytest.raises(KeyError):
        backup(store, folder / "b.db", fails)
    assert os.listdir(folder) == []


def test_a_store_is_not_backed_up_onto_itself(tmp_path: Path) -> None:
    with open_store(url=f"sqlite:///{tmp_path}/s.db") as store:
        fill(store)
        with pytest.raises(Failure) as caught:
            backup(store, tmp_path / "s.db", replace=True)
        assert caught.value.kind is Kind.invalid_input
        assert store.read_now(counts)["task_events"] == 2500


def test_a_backup_is_made_while_others_write(store: Store, store_url: str, tmp_path: Path) -> None:
    fill(store)
    stop, written = threading.Event(), threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            row = {"task": "busy", "number": number, "time": 1.0, "data": "{}"}
            store.write_now(lambda tx, row=row: tx.many(EVENT, [row]))  # type: ignore[misc]
            written.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert written.wait(30)
        backup(store, tmp_path / "b.db")
    finally:
        stop.set()
        writer.join()
    with open_store(url=f"sqlite:///{tmp_path}/restored.db") as target:
        restore(tmp_path / "b.db", target)
        numbers = [row[1] for row in content(target)[0] if row[0] == "busy"]
    assert numbers == list(range(1, len(numbers) + 1))
    assert numbers


@pytest.mark.parametrize("what", ["missing", "text", "damaged", "other", "newer"])
def test_what_is_no_good_backup_is_refused_and_changes_nothing(
    store: Store, tmp_path: Path, what: str
) -> None:
    fill(store)
    before = content(store)
    file = tmp_path / "backup.db"
    if what == "text":
        file.write_text("not a database" * 1000)
    elif what == "damaged":
        backup(store, file)
        data = bytearray(file.read_bytes())
        data[8192:-8192] = os.urandom(len(data) - 16384)
        file.write_bytes(data)
    elif what == "other":
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("CREATE TABLE other (id)")
    elif what == "newer":
        backup(store, file)
        with closing(sqlite3.connect(file, isolation_level=None)) as connection:
            connection.execute("INSERT INTO migrations VALUES (9999, 'future', 0)")
    with pytest.raises(Failure) as caught:
        restore(file, store, replace=True)
    assert caught.value.kind in (Kind.not_found, Kind.invalid_input, Kind.misconfigured)
    assert content(store) == before


def test_folders_that_a_backup_and_a_restore_make_are_for_the_user_alone(
    store: Store, tmp_path: Path
) -> None:
    file = tmp_path / "backups" / "backup.db"
    backup(store, file)
    restore(file, tmp_path / "data" / "s.db")
    for name in ("backups", "data"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o700


def test_a_backup_of_a_newer_version_is_named_when_it_is_refused(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "backup.db"
    backup(store, file)
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("INSERT INTO migrations VALUES (9999, 'future', 0)")
    with pytest.raises(Failure) as caught:
        restore(file, store)
    assert str(file) in caught.value.message
    assert "9999" in caught.value.message


def test_a_restore_without_room_on_the_disk_is_told_and_changes_nothing(tmp_path: Path) -> None:
    """The limit of a file's size is the nearest thing to a full disk that a test can have."""
    file = tmp_path / "backup.db"
    with open_store(url=f"sqlite:///{tmp_path}/s.db") as store:
        fill(store)
        before = content(store)
        backup(store, file)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        try:
            with pytest.raises(Failure) as caught:
                restore(file, tmp_path / "s.db", replace=True)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert caught.value.kind is Kind.unavailable
        assert content(store) == before


def test_an_old_backup_is_brought_up_to_date(store: Store, tmp_path: Path) -> None:
    fill(store)
    file = tmp_path / "backup.db"
    backup(store, file)
    first = "".join(statement.sqlite for statement in migrations()[0].statements)
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("DROP TABLE message_words")
        for name in tables():
            if f"CREATE TABLE {name} " not in first:
                connection.execute(f"DROP TABLE {name}")
        connection.execute("ALTER TABLE tasks DROP COLUMN lost")
        connection.execute("DELETE FROM migrations WHERE number > 1")
    made = file.read_bytes()
    restored = restore(file, store, replace=True)
    assert restored.tables == {**EMPTY, "task_events": 2500}
    assert file.read_bytes() == made


def test_a_damaged_store_is_set_aside_and_restored_under_programs_that_use_it(tmp_path: Path) -> None:
    place = tmp_path / "s.db"
    with open_store(url=f"sqlite:///{place}") as store:
        fill(store)
        before = content(store)
        backup(store, tmp_path / "b.db")
    data = bytearray(place.read_bytes())
    whole = len(data) * 3 // 4  # what comes first is the schema, without which nothing opens the file
    data[whole:] = os.urandom(len(data) - whole)
    place.write_bytes(data)
    with SqliteStore(place) as running:
        with pytest.raises(Failure):
            content(running)
        with pytest.raises(Failure):
            restore(tmp_path / "b.db", place)
        restore(tmp_path / "b.db", place, replace=True)
        assert content(running) == before
    assert [name for name in os.listdir(tmp_path) if "damaged" in name]


def test_vacuum_gives_room_back(store: Store) -> None:
    # Random: PostgreSQL would press the rest together.
    big = [os.urandom(2500).hex() for _ in range(2000)]
    rows = [{"task": "big", "number": number, "time": 0.0, "data": data} for number, data in enumerate(big)]
    store.write_now(lambda tx: tx.many(EVENT, rows))
    store.write_now(lambda tx: tx.run(Statement.of("DELETE FROM task_events")))
    before = status(store).size
    store.vacuum()
    assert status(store).size < before / 2
    fill(store, 5)
    assert len(content(store)[0]) == 5
