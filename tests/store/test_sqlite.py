"""The embedded store in trouble: it says what is wrong, harms nothing, and goes on when the trouble is over."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fairlead.failures import Failure, Kind
from fairlead.store import Statement, Tx
from fairlead.store.sqlite import SqliteStore
from others import Other

MAKE = Statement.of("CREATE TABLE IF NOT EXISTS things (id INTEGER PRIMARY KEY, name TEXT)")
ADD = Statement.of("INSERT INTO things (name) VALUES (:name)")
COUNT = Statement.of("SELECT count(*) FROM things")

needs_a_user = pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "store.db"


@pytest.fixture
def store(file: Path) -> Iterator[SqliteStore]:
    with SqliteStore(file, patience=0.2) as store:
        store.write_now(lambda tx: tx.run(MAKE))
        yield store


def add(tx: Tx, name: str = "x") -> int:
    return tx.run(ADD, name=name)


def count(store: SqliteStore) -> int:
    return int(store.read_now(lambda tx: tx.all(COUNT))[0][0])


def is_sound(file: Path) -> bool:
    with closing(sqlite3.connect(file)) as connection:
        return bool(connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok")


def test_the_file_and_its_folder_are_for_the_user_alone(store: SqliteStore) -> None:
    assert stat.S_IMODE(store.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.file.parent.stat().st_mode) == 0o700


def test_permissions_that_somebody_chose_are_kept(file: Path) -> None:
    file.parent.mkdir(mode=0o755)
    file.touch(mode=0o640)
    os.chmod(file, 0o640)
    os.chmod(file.parent, 0o755)
    with SqliteStore(file) as store:
        store.write_now(lambda tx: tx.run(MAKE))
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o755


def test_a_folder_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "folder").write_text("not a folder")
    with pytest.raises(Failure) as caught:
        SqliteStore(tmp_path / "folder" / "store.db")
    assert caught.value.kind is Kind.misconfigured
    assert "FAIRLEAD_DATA" in caught.value.message


def test_a_path_that_is_a_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(Failure) as caught:
        SqliteStore(tmp_path)
    assert caught.value.kind is Kind.misconfigured


READ_ONLY = """
from pathlib import Path
from fairlead.store.sqlite import SqliteStore
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
count = lambda tx: tx.all(Statement.of("SELECT count(*) FROM things"))[0][0]
add = lambda tx: tx.run(Statement.of("INSERT INTO things (name) VALUES ('other')"))
store = None
while True:
    try:
        store = store or SqliteStore(Path(url), patience=1)
        say("read", store.read_now(count))
        store.write_now(add)
        say("wrote")
    except Failure as failure:
        say(failure.kind, "FAIRLEAD_DATA" in failure.message)
    if not hear():
        break
"""


def reachable(path: Path) -> None:
    """Let every user look into the folders above: the other process is not root."""
    for each in path.parents:
        if each.stat().st_uid == os.geteuid() and each != Path("/"):
            each.chmod(each.stat().st_mode | 0o055)


def test_a_read_only_folder_is_told_and_work_goes_on_when_it_is_not(
    tmp_path: Path, other: Callable[..., Other]
) -> None:
    file = tmp_path / "store.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT)")
    reachable(file)
    file.chmod(0o444)
    tmp_path.chmod(0o555)
    process = other(READ_ONLY, str(file))
    assert process.hear() == "misconfigured True"
    file.chmod(0o666)
    tmp_path.chmod(0o777)
    process.say("again")
    assert process.hear() == "read 0"
    assert process.hear() == "wrote"


def test_a_file_locked_by_another_process_is_told_and_work_goes_on(
    store: SqliteStore, other: Callable[..., Other]
) -> None:
    process = other(
        """
import sqlite3
connection = sqlite3.connect(url, isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
say("locked")
hear()
connection.execute("COMMIT")
say("free")
hear()
""",
        str(store.file),
    )
    assert process.hear() == "locked"
    waiting = [store.submit(add, True) for _ in range(20)]
    errors = [each.exception(30) for each in waiting]
    assert {error.kind for error in errors if isinstance(error, Failure)} == {Kind.unavailable}
    assert all(isinstance(error, Failure) and "locked" in error.message for error in errors)
    assert count(store) == 0
    process.say("go on")
    assert process.hear() == "free"
    assert store.write_now(add) == 1


def test_a_lock_that_is_released_in_time_is_waited_for(file: Path, other: Callable[..., Other]) -> None:
    with SqliteStore(file, patience=30) as store:
        store.write_now(lambda tx: tx.run(MAKE))
        process = other(
            """
import sqlite3
connection = sqlite3.connect(url, isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
say("locked")
hear()
connection.execute("COMMIT")
hear()
""",
            str(file),
        )
        assert process.hear() == "locked"
        waiting = store.submit(add, True)
        assert count(store) == 0
        process.say("go on")
        assert waiting.result(30) == 1


def test_a_full_disk_is_told_and_work_goes_on_when_there_is_room(
    store: SqliteStore, other: Callable[..., Other]
) -> None:
    """The limit of a file's size is the nearest thing to a full disk that a test can have."""
    process = other(
        """
import resource
from pathlib import Path
from fairlead.store.sqlite import SqliteStore
add = Statement.of("INSERT INTO things (name) VALUES (:name)")
with SqliteStore(Path(url)) as store:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, hard))
    futures = [store.submit(lambda tx: tx.run(add, name="x" * 20_000), True) for _ in range(100)]
    errors = [each.exception() for each in futures]
    kinds = {error.kind for error in errors if error}
    done = sum(error is None for error in errors)
    say(*kinds, done, store.read_now(lambda tx: tx.all(Statement.of("SELECT count(*) FROM things")))[0][0])
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    say(store.write_now(lambda tx: tx.run(add, name="x" * 20_000)))
""",
        str(store.file),
    )
    kind, done, there = process.hear().split()
    assert kind == "unavailable"
    assert done == there
    assert int(done) < 100
    assert process.hear() == "1"
    assert process.end() == 0
    assert count(store) == int(done) + 1
    assert is_sound(store.file)


def test_a_database_that_may_not_grow_is_told(store: SqliteStore) -> None:
    def limited(tx: Tx) -> None:
        tx.all(Statement.of("PRAGMA max_page_count = 5"))
        tx.run(ADD, name="x" * 100_000)

    with pytest.raises(Failure) as caught:
        store.write_now(limited)
    assert caught.value.kind is Kind.unavailable
    assert "full" in caught.value.message
    store.write_now(lambda tx: tx.all(Statement.of("PRAGMA max_page_count = 1000000")))
    assert store.write_now(add) == 1


def test_a_file_that_is_no_database_is_told(file: Path) -> None:
    file.parent.mkdir()
    file.write_bytes(b"something else " * 1000)
    with pytest.raises(Failure) as caught:
        SqliteStore(file)
    assert caught.value.kind is Kind.misconfigured
    assert "fairlead store restore" in caught.value.message


def test_a_damaged_file_is_told_and_a_restored_one_is_taken_up(file: Path) -> None:
    with SqliteStore(file) as store:
        store.write_now(lambda tx: tx.run(MAKE))
        store.write_now(lambda tx: tx.many(ADD, [{"name": "x" * 500}] * 2000))
    shutil.copy(file, file.with_name("backup"))
    damaged = bytearray(file.read_bytes())
    damaged[4096:-4096] = os.urandom(len(damaged) - 8192)
    file.write_bytes(damaged)
    whole = Statement.of("SELECT sum(length(name)) FROM things")
    with SqliteStore(file) as store:
        with pytest.raises(Failure) as caught:
            store.read_now(lambda tx: tx.all(whole))
        assert caught.value.kind is Kind.misconfigured
        os.replace(file.with_name("backup"), file)
        assert store.read_now(lambda tx: tx.all(whole)) == [(1_000_000,)]
        assert store.write_now(add) == 1
    assert is_sound(file)


def test_a_file_that_was_replaced_is_opened_again(store: SqliteStore) -> None:
    store.write_now(add)
    fresh = store.file.with_name("fresh.db")
    with SqliteStore(fresh) as made:
        made.write_now(lambda tx: tx.run(MAKE))
        made.write_now(lambda tx: tx.many(ADD, [{"name": "fresh"}] * 5))
    for ending in ("-wal", "-shm"):
        store.file.with_name(store.file.name + ending).unlink()
    os.replace(fresh, store.file)
    assert count(store) == 5
    assert store.write_now(add) == 1
    assert count(store) == 6
    assert is_sound(store.file)


def test_a_file_that_was_removed_is_told_and_not_made_anew(store: SqliteStore) -> None:
    saved = store.file.with_name("saved")
    os.rename(store.file, saved)
    for write in (True, False):
        with pytest.raises(Failure) as caught:
            store.submit(add, write).result()
        assert caught.value.kind is Kind.misconfigured
    assert not store.file.exists()
    os.rename(saved, store.file)
    assert store.write_now(add) == 1


def test_the_log_of_changes_does_not_grow_for_ever(store: SqliteStore) -> None:
    for _ in range(60):
        store.write_now(lambda tx: tx.many(ADD, [{"name": "x" * 1000}] * 200))
    log = store.file.with_name(store.file.name + "-wal")
    assert log.stat().st_size < store.file.stat().st_size


def test_a_store_that_was_closed_is_whole_in_its_file_alone(file: Path) -> None:
    """Of connections that closed at once each left this to the others; one time in seven nobody did it."""
    met = threading.Barrier(2, timeout=10)
    for _ in range(80):
        with SqliteStore(file) as store:
            store.write_now(lambda tx: tx.run(MAKE))
            reads = [store.submit(lambda tx: (met.wait(), tx.all(COUNT)), False) for _ in range(2)]
            assert len([read.result() for read in reads]) == 2
        assert os.listdir(file.parent) == [file.name]


def test_a_new_file_is_opened_by_many_processes_at_once(file: Path, other: Callable[..., Other]) -> None:
    program = """
from pathlib import Path
from fairlead.store.sqlite import SqliteStore
hear()
with SqliteStore(Path(url)) as store:
    make = Statement.of("CREATE TABLE IF NOT EXISTS things (id INTEGER PRIMARY KEY, name TEXT)")
    store.write_now(lambda tx: tx.run(make))
    say("open")
"""
    processes = [other(program, str(file)) for _ in range(4)]
    for process in processes:
        process.say("go")
    assert [process.hear() for process in processes] == ["open"] * 4


def test_a_store_serves_what_a_killed_process_had_committed(
    store: SqliteStore, other: Callable[..., Other]
) -> None:
    process = other(
        """
from pathlib import Path
from fairlead.store.sqlite import SqliteStore
store = SqliteStore(Path(url))
add = Statement.of("INSERT INTO things (name) VALUES ('x')")
number = 0
while True:
    store.write_now(lambda tx: tx.run(add))
    number += 1
    say(number)
""",
        str(store.file),
    )
    seen = 0
    while seen < 50:
        seen = int(process.hear())
    process.kill()
    assert count(store) >= seen
    assert store.write_now(add) == 1
    assert is_sound(store.file)
