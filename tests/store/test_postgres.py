"""The shared store in trouble: it says what is wrong, harms nothing, and goes on when the trouble is over."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

import fairlead
from fairlead.failures import Failure, Kind
from fairlead.store import Statement, Tx, migrate, open_store
from fairlead.store import postgres as module
from fairlead.store.postgres import PostgresStore
from others import Other
from servers import PATIENCE, Postgres, free_port, until

MAKE = Statement.of("CREATE TABLE things (id BIGINT PRIMARY KEY, name TEXT)")
#: Done again it changes nothing, as all work in a store must be.
ADD = Statement.of("INSERT INTO things (id, name) VALUES (:id, 'x') ON CONFLICT (id) DO NOTHING")
COUNT = Statement.of("SELECT count(*) FROM things")
PIDS = Statement.of("", "SELECT pg_backend_pid()")


@pytest.fixture
def store(postgres_url: str) -> Iterator[PostgresStore]:
    with PostgresStore(postgres_url) as store:
        store.write_now(lambda tx: tx.run(MAKE))
        yield store


def add(id: int) -> Callable[[Tx], int]:
    return lambda tx: tx.run(ADD, id=id)


def count(store: PostgresStore) -> int:
    return int(store.read_now(lambda tx: tx.all(COUNT))[0][0])


class Load:
    """Threads that write one row after another, and know which were accepted."""

    def __init__(self, store: PostgresStore, threads: int = 4) -> None:
        self.done: list[int] = []
        self.errors: list[BaseException] = []
        self._store = store
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(number * 1_000_000,)) for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def more(self, rows: int = 40) -> None:
        """Wait until so many more were written."""
        goal = len(self.done) + rows
        until(lambda: len(self.done) >= goal or bool(self.errors), "the load stands still")

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, id: int) -> None:
        while not self._stop.is_set():
            id += 1
            try:
                self._store.write_now(add(id))
            except BaseException as exc:
                self.errors.append(exc)
                return
            self.done.append(id)


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_work_goes_on_when_the_server_is_restarted_under_load(own_postgres: Postgres, how: str) -> None:
    with PostgresStore(own_postgres.url()) as store:
        store.write_now(lambda tx: tx.run(MAKE))
        load = Load(store)
        try:
            for _ in range(2):
                load.more()
                getattr(own_postgres, how)()
                own_postgres.start()
            load.more()
        finally:
            load.stop()
        assert load.errors == []
        there = {id for (id,) in store.read_now(lambda tx: tx.all(Statement.of("SELECT id FROM things")))}
        assert set(load.done) <= there


async def test_after_a_restart_everybody_is_woken_and_wakes_come_again(own_postgres: Postgres) -> None:
    url = own_postgres.url()
    with PostgresStore(url) as store, PostgresStore(url) as teller, store.listening("topic") as bell:
        assert await bell.rung(PATIENCE)
        await asyncio.to_thread(own_postgres.restart)
        assert await bell.rung(PATIENCE)
        await teller.write(lambda tx: tx.tell("topic"))
        assert await bell.rung(PATIENCE)


def test_a_server_that_stays_away_is_told_and_taken_up_when_it_is_back(own_postgres: Postgres) -> None:
    with PostgresStore(own_postgres.url(), patience=0.3) as store:
        store.write_now(lambda tx: tx.run(MAKE))
        own_postgres.stop()
        for write in (True, False):
            error = store.submit(lambda tx: tx.all(COUNT), write).exception(PATIENCE)
            assert isinstance(error, Failure)
            assert error.kind is Kind.unavailable
            assert store.name in error.message
        own_postgres.start()
        assert store.write_now(add(1)) == 1
        own_postgres.stop()


def test_closing_does_not_wait_for_a_server_that_is_away(own_postgres: Postgres) -> None:
    store = PostgresStore(own_postgres.url(), patience=3600)
    store.listen("topic", lambda: None)
    store.write_now(lambda tx: tx.run(MAKE))
    own_postgres.stop()
    begun = store.submit(add(1), True)
    closer = threading.Thread(target=store.close)
    closer.start()
    closer.join(PATIENCE)
    assert not closer.is_alive()
    error = begun.exception(0)
    assert isinstance(error, Failure)
    assert error.kind is Kind.unavailable


def test_a_connection_that_an_administrator_ends_is_made_again(
    store: PostgresStore, postgres_url: str
) -> None:
    def end_all() -> None:
        with closing(psycopg.connect(postgres_url, autocommit=True)) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )

    def ended(tx: Tx) -> int:
        done = tx.run(ADD, id=1)
        if not rounds:
            rounds.append(1)
            end_all()
        return done + tx.run(ADD, id=2)

    rounds: list[int] = []
    assert count(store) == 0
    end_all()
    assert count(store) == 0
    assert store.write_now(ended) == 2
    assert count(store) == 2


async def test_two_that_wait_for_each_other_both_end(store: PostgresStore) -> None:
    store.write_now(lambda tx: tx.many(ADD, [{"id": 1}, {"id": 2}]))
    change = Statement.of("UPDATE things SET name = name || :name WHERE id = :id")
    met = threading.Barrier(2)

    def crossing(first: int, second: int) -> Callable[[Tx], None]:
        def work(tx: Tx) -> None:
            tx.run(change, id=first, name=str(first))
            with suppress(threading.BrokenBarrierError):
                met.wait(1)
            tx.run(change, id=second, name=str(first))

        return work

    with PostgresStore(store._url) as other:
        await asyncio.gather(store.write(crossing(1, 2)), other.write(crossing(2, 1)))
    names = store.read_now(lambda tx: tx.all(Statement.of("SELECT name FROM things")))
    assert {len(name) for (name,) in names} == {3}


def test_a_row_that_another_holds_does_not_hold_up_a_group(store: PostgresStore, postgres_url: str) -> None:
    store.write_now(add(1))
    change = Statement.of("UPDATE things SET name = 'y' WHERE id = :id")
    with closing(psycopg.connect(postgres_url)) as holder:
        holder.execute("SELECT * FROM things WHERE id = 1 FOR UPDATE")
        begun = threading.Event()
        go = threading.Event()

        def busy(tx: Tx) -> None:
            begun.set()
            assert go.wait(PATIENCE)

        blockers = [store.submit(busy, True) for _ in range(4)]
        assert begun.wait(PATIENCE)
        held: Future[int] = store.submit(lambda tx: tx.run(change, id=1), True)
        others = [store.submit(add(id), True) for id in range(10, 40)]
        go.set()
        assert [each.result(PATIENCE) for each in others] == [1] * 30
        assert [each.result(PATIENCE) for each in blockers] == [None] * 4
        assert not held.done()
        holder.rollback()
    assert held.result(PATIENCE) == 1


def test_tables_that_change_while_statements_are_prepared_do_no_harm(store: PostgresStore) -> None:
    whole = Statement.of("SELECT * FROM things")
    store.write_now(add(1))
    for _ in range(3):
        assert store.write_now(lambda tx: tx.all(whole)) == [(1, "x")]
    with PostgresStore(store._url) as other:
        other.write_now(
            lambda tx: tx.run(Statement.of("ALTER TABLE things ADD COLUMN weight BIGINT DEFAULT 3"))
        )
    assert store.write_now(lambda tx: tx.all(whole)) == [(1, "x", 3)]


def test_very_many_different_statements_are_prepared_no_more_than_is_good(store: PostgresStore) -> None:
    for number in range(1000):
        sql = Statement.of(f"SELECT {number}")
        assert store.write_now(lambda tx, sql=sql: tx.all(sql)) == [(number,)]  # type: ignore[misc]
    prepared = store.write_now(lambda tx: tx.all(Statement.of("SELECT count(*) FROM pg_prepared_statements")))
    assert prepared[0][0] < 500


def test_a_large_batch_and_large_answers_pass(store: PostgresStore) -> None:
    named = Statement.of("INSERT INTO things (id, name) VALUES (:id, :name)")
    rows = [{"id": id, "name": "x" * 20_000} for id in range(1000)]
    store.write_now(lambda tx: tx.many(named, rows))
    whole = store.read_now(lambda tx: tx.all(Statement.of("SELECT id, name FROM things ORDER BY id")))
    assert whole == [(row["id"], row["name"]) for row in rows]


@pytest.mark.parametrize("text", ["nul \x00", "half \ud800"])
def test_a_text_that_cannot_be_kept_is_told(store: PostgresStore, text: str) -> None:
    sql = Statement.of("INSERT INTO things (id, name) VALUES (1, :name)")
    with pytest.raises(Failure) as caught:
        store.write_now(lambda tx: tx.run(sql, name=text))
    assert caught.value.kind is Kind.invalid_input
    assert store.write_now(add(1)) == 1


def refused(url: str, **settings: Any) -> Failure:
    with pytest.raises(Failure) as caught:
        PostgresStore(url, **settings).close()
    return caught.value


def test_a_missing_database_is_told(postgres: Postgres) -> None:
    failure = refused(postgres.url("nowhere"))
    assert failure.kind is Kind.misconfigured
    assert "createdb" in failure.message


def test_a_wrong_password_is_told_and_not_shown(own_postgres: Postgres) -> None:
    own_postgres.run("CREATE ROLE me LOGIN PASSWORD 'right'", "CREATE DATABASE mine OWNER me")
    hba = own_postgres.data / "pg_hba.conf"
    hba.write_text("local all all trust\nhost all me all scram-sha-256\n")
    own_postgres.run("SELECT pg_reload_conf()")
    url = f"postgresql://me:{{}}@127.0.0.1:{own_postgres.port}/mine"
    until(lambda: _refuses(url.format("wrong")), "the server takes any password")
    failure = refused(url.format("hunter2"))
    assert failure.kind is Kind.misconfigured
    assert "password" in failure.message
    assert "hunter2" not in failure.message
    with PostgresStore(url.format("right")) as store:
        assert "right" not in store.name
        assert store.write_now(lambda tx: tx.run(MAKE)) == 0
    assert refused(url.format("x").replace("me:", "nobody:")).kind is Kind.misconfigured


def _refuses(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return True
    return False


def test_a_server_that_is_not_there_is_told_at_once() -> None:
    failure = refused(f"postgresql://me@127.0.0.1:{free_port()}/db", patience=3600)
    assert failure.kind is Kind.unavailable
    assert "Check that PostgreSQL runs" in failure.message


def test_a_read_only_database_is_told(store: PostgresStore, postgres_url: str) -> None:
    name = postgres_url.partition("@/")[2].partition("?")[0]
    store.write_now(
        lambda tx: tx.run(Statement.of(f"ALTER DATABASE {name} SET default_transaction_read_only = on"))
    )
    with PostgresStore(postgres_url) as later:
        with pytest.raises(Failure) as caught:
            later.write_now(add(1))
        assert caught.value.kind is Kind.misconfigured
        assert "read-only" in caught.value.message
        free = Statement.of(f"ALTER DATABASE {name} RESET default_transaction_read_only")
        store.write_now(lambda tx: tx.run(free))
        assert later.write_now(add(1)) == 1


def test_a_user_who_may_not_make_tables_is_told(postgres: Postgres, postgres_url: str) -> None:
    name = postgres_url.partition("@/")[2].partition("?")[0]
    role = f"guest_{name}"
    postgres.run(f"CREATE ROLE {role} LOGIN", database=name)
    postgres.run("REVOKE CREATE ON SCHEMA public FROM PUBLIC", database=name)
    try:
        with PostgresStore(postgres_url.replace("postgres@", f"{role}@")) as store:
            with pytest.raises(Failure) as caught:
                migrate(store, 0.0)
            assert caught.value.kind is Kind.misconfigured
            assert "Grant" in caught.value.message
    finally:
        postgres.run(f"DROP ROLE {role}")


def test_too_many_connections_are_waited_for_then_told(postgres: Postgres, postgres_url: str) -> None:
    name = postgres_url.partition("@/")[2].partition("?")[0]
    role = f"few_{name}"
    postgres.run(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 1", database=name)
    url = postgres_url.replace("postgres@", f"{role}@")
    try:
        with PostgresStore(url, patience=0.2) as store:
            assert store.write_now(lambda tx: tx.all(Statement.of("SELECT 1"))) == [(1,)]
            failure = refused(url)
            assert failure.kind is Kind.unavailable
            assert "connections" in failure.message
            with pytest.raises(Failure) as caught:
                store.read_now(lambda tx: tx.all(Statement.of("SELECT 1")))
            assert caught.value.kind is Kind.unavailable
    finally:
        postgres.run(f"DROP OWNED BY {role}", f"DROP ROLE {role}", database=name)


@contextmanager
def line(port: int) -> Iterator[Line]:
    cut = Line(port)
    try:
        yield cut
    finally:
        cut.close()


class Line:
    """A network between a client and a server, which can be cut: nothing passes, and nobody is told."""

    def __init__(self, port: int) -> None:
        self._server = ("127.0.0.1", port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._sockets: list[socket.socket] = []
        self.cut = False
        threading.Thread(target=self._accept, daemon=True).start()

    def drop(self) -> None:
        """Cut it for good: both sides are told."""
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self._sockets.clear()

    def close(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.drop()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                if self.cut:
                    client.close()
                    continue
                server = socket.create_connection(self._server)
                self._sockets += [client, server]
                for one, two in ((client, server), (server, client)):
                    threading.Thread(target=self._carry, args=(one, two), daemon=True).start()

    def _carry(self, one: socket.socket, two: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(65536):
                two.sendall(data)
        for each in (one, two):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


def test_a_network_that_is_cut_and_mended_under_load_loses_nothing(
    postgres: Postgres, postgres_url: str
) -> None:
    name = postgres_url.partition("@/")[2].partition("?")[0]
    url = f"postgresql://postgres@127.0.0.1:{{}}/{name}"
    with line(postgres.port) as network, PostgresStore(url.format(network.port)) as store:
        store.write_now(lambda tx: tx.run(MAKE))
        load = Load(store)
        try:
            for _ in range(3):
                load.more(20)
                network.cut = True
                network.drop()
                network.cut = False
            load.more(20)
        finally:
            load.stop()
        assert load.errors == []
        assert count(store) >= len(load.done)


def test_threads_and_connections_are_made_as_they_are_needed(store: PostgresStore, postgres_url: str) -> None:
    def connections() -> int:
        with closing(psycopg.connect(postgres_url, autocommit=True)) as connection:
            row = connection.execute(
                "SELECT count(*) FROM pg_stat_activity "
                "WHERE datname = current_database() AND application_name = 'fairlead'"
            ).fetchone()
            assert row is not None
            return int(row[0])

    for id in range(20):
        store.write_now(add(id))
    assert connections() == 1
    go = threading.Event()
    slow = [store.submit(lambda tx: go.wait(PATIENCE), False) for _ in range(20)]
    until(lambda: connections() == 5, "no more connections are made")
    go.set()
    assert all(each.result(PATIENCE) for each in slow)
    assert connections() == 5


def test_connections_that_nobody_needs_are_let_go(
    store: PostgresStore, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Other stores of this process may have threads, too.
    others = readers()
    monkeypatch.setattr(module, "_IDLE", 0.05)
    go = threading.Event()
    slow = [store.submit(lambda tx: go.wait(PATIENCE), False) for _ in range(20)]
    until(lambda: len(readers() - others) >= 3, "no more threads are made")
    made = readers() - others
    go.set()
    assert all(each.result(PATIENCE) for each in slow)
    until(lambda: len(readers() & made) <= 1, "threads with nothing to do stay")
    assert count(store) == 0


def readers() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "fairlead-read"}


def test_what_was_accepted_is_done_when_the_store_closes_on_a_lost_connection(
    store: PostgresStore, postgres_url: str
) -> None:
    closing_store = PostgresStore(postgres_url)
    closing_store.write_now(add(1))
    with closing(psycopg.connect(postgres_url, autocommit=True)) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    last = closing_store.submit(add(2), True)
    closing_store.close()
    assert last.result(0) == 1
    assert count(store) == 2


def test_a_killed_process_leaves_what_it_had_committed(
    store: PostgresStore, other: Callable[..., Other]
) -> None:
    process = other(
        """
store = open_store(url=url, migrate=False)
add = Statement.of("INSERT INTO things (id) VALUES (:id)")
id = 0
while True:
    id += 1
    store.write_now(lambda tx: tx.run(add, id=id))
    say(id)
""",
        store._url,
    )
    seen = 0
    while seen < 50:
        seen = int(process.hear())
    process.kill()
    assert count(store) >= seen


def test_a_server_that_starts_up_is_waited_for(own_postgres: Postgres) -> None:
    own_postgres.kill()
    own_postgres.begin()
    opened: list[str] = []

    def try_to_open() -> bool:
        with suppress(Failure):
            open_store(url=own_postgres.url(), migrate=False).close()
            opened.append("yes")
        return bool(opened)

    until(try_to_open, "the store is not opened")


def test_a_lock_of_the_whole_store_has_one_owner() -> None:
    package = Path(fairlead.__file__).parent
    owners: dict[str, set[str]] = {}
    for file in (*package.rglob("*.py"), *package.rglob("*.sql")):
        for number in re.findall(r"advisory\w*\((\d+)\)", file.read_text()):
            owners.setdefault(number, set()).add(str(file.relative_to(package)))
    assert len(owners) >= 4
    assert [owned for owned in owners.values() if len(owned) > 1] == []
