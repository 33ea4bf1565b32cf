"""Single statements travel on the event loop's own connection, and are as safe there as on the store's threads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from fairlead.failures import Failure, Kind
from fairlead.store import Statement, open_store
from fairlead.store.express import Express
from fairlead.store.postgres import PostgresStore
from fairlead.store.store import ONE, Call, Row, Single, Tx
from servers import PATIENCE

MAKE = Statement.of("CREATE TABLE things (id BIGINT PRIMARY KEY, name TEXT)")
ADD = Statement.of(
    "INSERT INTO things (id, name) VALUES (:id, :name) ON CONFLICT (id) DO UPDATE SET name = :name RETURNING id"
)
NAMED = Statement.of(
    "CREATE TABLE named (id VARCHAR(3) PRIMARY KEY CHECK (length(id) <= 3), way TEXT DEFAULT 'single')"
)
ENTER = Statement.of("INSERT INTO named (id) VALUES (:id) ON CONFLICT DO NOTHING")
ENTER_MANY = Statement.of(
    "INSERT INTO named (id, way) SELECT given.id, 'packed' "
    "FROM json_to_recordset(CAST(:rows AS json)) AS given (id text) ON CONFLICT DO NOTHING"
)
NAMES = Statement.of("SELECT id FROM named ORDER BY id")
WAYS = Statement.of("SELECT DISTINCT way FROM named WHERE id <> '5'")
IDS = Statement.of("SELECT id FROM things ORDER BY id")


@pytest.fixture
def store(postgres_url: str) -> Iterator[PostgresStore]:
    with PostgresStore(postgres_url) as store:
        store.write_now(lambda tx: tx.run(MAKE))
        yield store


def adding(id: int, name: Any = "x", topic: str = "added") -> Single[int]:
    def by_thread(tx: Tx) -> int:
        tx.tell(topic)
        return _id(tx.all(ADD, id=id, name=name))

    return Single(Call(ADD, {"id": id, "name": name}), [topic], _id, by_thread)


def _id(rows: list[Row]) -> int:
    return int(rows[0][0])


async def ids(store: PostgresStore) -> list[int]:
    return [id for (id,) in await store.read(lambda tx: tx.all(IDS))]


async def on_its_own_connection(store: PostgresStore) -> None:
    """Write until the event loop has a connection."""
    async with asyncio.timeout(PATIENCE):
        while store._express is None or not store._express.ready:
            await store.write(adding(0))


def end_all(url: str) -> None:
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


async def test_many_at_once_are_all_done_and_each_hears_of_its_own(store: PostgresStore) -> None:
    await on_its_own_connection(store)
    assert await asyncio.gather(*(store.write(adding(id)) for id in range(1, 300))) == list(range(1, 300))
    assert await ids(store) == list(range(300))


def packing(id: int, topic: str = "added") -> Single[int | None]:
    def by_thread(tx: Tx) -> int | None:
        tx.tell(topic)
        return id if tx.run(ENTER, id=str(id)) else None

    call = Call(ENTER, {"id": str(id)}, ENTER_MANY)
    return Single(call, [topic], lambda entered: id if entered == ONE else None, by_thread)


async def test_many_that_can_be_packed_are_one_statement_and_none_hears_what_is_not_so(
    store_url: str,
) -> None:
    with open_store(url=store_url) as store:
        await store.write(lambda tx: tx.run(NAMED))
        rung: list[int] = []
        stop = store.listen("added", lambda: rung.append(1))
        assert await store.write(packing(5)) == 5
        for first in (0, 40):  # on PostgreSQL, by threads at first, and then by the loop's own connection
            ids = range(first, first + 40)
            found = await asyncio.gather(*(store.write(packing(id)) for id in ids))
            # Those that were packed with one that was there already are told nothing.
            assert all(told in (None, id) for told, id in zip(found, ids, strict=True))
            assert (None in found) == (5 in ids)
            assert 5 not in found
        stop()
        assert rung
        kept = await store.read(lambda tx: tx.all(NAMES))
        assert sorted(int(id) for (id,) in kept) == list(range(80))
        if store.kind == "postgres":
            assert ("packed",) in await store.read(lambda tx: tx.all(WAYS))


async def test_one_that_is_packed_and_fails_takes_no_other_down(store_url: str) -> None:
    with open_store(url=store_url) as store:
        await store.write(lambda tx: tx.run(NAMED))
        works = [packing(id) for id in (1, 1000, 2)]
        one, wrong, two = await asyncio.gather(*map(store.write, works), return_exceptions=True)
        assert (one, two) == (1, 2)
        assert isinstance(wrong, Failure)
        assert await store.read(lambda tx: tx.all(NAMES)) == [("1",), ("2",)]


def test_a_connection_that_its_loop_never_took_is_closed_with_the_store(store: PostgresStore) -> None:
    loop = asyncio.new_event_loop()
    express = Express(store, loop)
    express._connect()
    made = express._made
    assert made is not None
    loop.close()
    express.close()
    assert made.lost
    express._connect()
    assert express._made is None


async def test_a_lost_connection_loses_nothing(store: PostgresStore, postgres_url: str) -> None:
    await on_its_own_connection(store)
    for round in range(3):
        first = 1 + 50 * round
        writing = [asyncio.ensure_future(store.write(adding(id))) for id in range(first, first + 50)]
        await asyncio.sleep(0)
        await asyncio.to_thread(end_all, postgres_url)
        assert await asyncio.gather(*writing) == list(range(first, first + 50))
    assert await ids(store) == list(range(151))


async def test_a_value_that_cannot_be_kept_harms_nobody_else(store: PostgresStore) -> None:
    await on_its_own_connection(store)
    works = [adding(1), adding(2, "nul \x00"), adding(3)]
    one, two, three = await asyncio.gather(*map(store.write, works), return_exceptions=True)
    assert (one, three) == (1, 3)
    assert isinstance(two, Failure)
    assert await store.write(adding(4)) == 4


async def test_one_that_waits_for_a_lock_does_not_hold_up_those_that_come_after_it(
    store: PostgresStore, postgres_url: str
) -> None:
    await on_its_own_connection(store)
    await store.write(adding(1))
    with closing(psycopg.connect(postgres_url)) as other:
        other.execute("SELECT 1 FROM things WHERE id = 1 FOR UPDATE")
        waiting = asyncio.ensure_future(store.write(adding(1, "later")))
        await asyncio.sleep(0)
        assert await asyncio.wait_for(store.write(adding(2)), PATIENCE) == 2
        assert not waiting.done()
        other.rollback()
    assert await waiting == 1


async def test_what_is_large_arrives_whole(store: PostgresStore) -> None:
    await on_its_own_connection(store)
    large = "ü" * 4_000_000
    assert await asyncio.gather(*(store.write(adding(id, large)) for id in (1, 2, 3))) == [1, 2, 3]
    length = Statement.of("SELECT min(length(name)) FROM things WHERE id > 0")
    assert await store.read(lambda tx: tx.one(length)) == (4_000_000,)


async def test_what_is_on_its_way_when_the_store_closes_is_done(
    postgres_url: str, store: PostgresStore
) -> None:
    closing_store = PostgresStore(postgres_url)
    await on_its_own_connection(closing_store)
    writing = [asyncio.ensure_future(closing_store.write(adding(id))) for id in (1, 2)]
    await asyncio.sleep(0)
    closing_store.close()
    assert await asyncio.gather(*writing) == [1, 2]
    with pytest.raises(Failure) as caught:
        await closing_store.write(adding(3))
    assert caught.value.kind is Kind.unavailable
    assert await ids(store) == [0, 1, 2]


def test_the_next_event_loop_gets_a_connection_too(store: PostgresStore) -> None:
    for _ in range(2):
        asyncio.run(on_its_own_connection(store))


async def test_those_who_listen_are_told_and_where_nobody_does_nothing_is_sent(
    store: PostgresStore, postgres_url: str
) -> None:
    await on_its_own_connection(store)
    with (
        closing(psycopg.connect(postgres_url, autocommit=True)) as other,
        PostgresStore(postgres_url) as friend,
    ):
        # One who does not say that he listens: what is sent to others he hears, too.
        other.execute("LISTEN fairlead")
        await store.write(adding(1, topic="one"))
        with friend.listening("three") as bell:
            assert await bell.rung(PATIENCE)  # it listens
            await store.write(adding(3, topic="three"))
            assert await bell.rung(PATIENCE)
        heard = [each.payload.partition("\n")[2] for each in other.notifies(timeout=PATIENCE, stop_after=1)]
        assert heard == ["three"]


async def test_who_has_stopped_listening_hears_again_when_he_listens_again(
    store: PostgresStore, postgres_url: str
) -> None:
    with PostgresStore(postgres_url) as teller:
        for _ in range(20):
            with store.listening("topic") as bell:
                await teller.write(lambda tx: tx.tell("topic"))
                assert await bell.rung(PATIENCE)
            # Nobody wants to hear of this: it is the last that is heard for a while.
            await teller.write(lambda tx: tx.tell("something else"))
