"""What a store promises, on SQLite and on PostgreSQL alike."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from fairlead.failures import Failure, Kind
from fairlead.store import Statement, Store, Tx, open_store
from fairlead.store.store import EVERYTHING
from others import Other
from servers import PATIENCE, until

MAKE = Statement.of(
    "CREATE TABLE things (id BIGINT PRIMARY KEY, name TEXT, weight DOUBLE PRECISION, raw BYTEA)"
)
ADD = Statement.of("INSERT INTO things (id, name) VALUES (:id, :name)")
FULL = Statement.of("INSERT INTO things (id, name, weight, raw) VALUES (:id, :name, :weight, :raw)")
ALL = Statement.of("SELECT id, name, weight, raw FROM things ORDER BY id")
COUNT = Statement.of("SELECT count(*) FROM things")


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    with open_store(url=store_url, migrate=False) as store:
        store.write_now(lambda tx: tx.run(MAKE))
        yield store


def add(id: int, name: str | None = "thing") -> Callable[[Tx], int]:
    return lambda tx: tx.run(ADD, id=id, name=name)


def count(store: Store) -> int:
    row = store.read_now(lambda tx: tx.one(COUNT))
    assert row is not None
    number: int = row[0]
    return number


@pytest.mark.parametrize(
    "values",
    [
        (1, "plain", 1.5, b"\x00\xff"),
        (-(2**63), "", -0.0, b""),
        (2**63 - 1, "ünï 🚢 \n\t'\"%s $1 :name", 1e308, bytes(range(256)) * 300),
        (7, None, None, None),
        (8, "x" * 200_000, 1_700_000_000.123456, b"\\x41"),
    ],
)
def test_a_value_comes_back_as_it_was(store: Store, values: tuple[Any, ...]) -> None:
    given = dict(zip(("id", "name", "weight", "raw"), values, strict=True))
    assert store.write_now(lambda tx: tx.run(FULL, **given)) == 1
    assert store.read_now(lambda tx: tx.all(ALL)) == [values]


def test_truths_and_sums_are_numbers(store: Store) -> None:
    store.write_now(lambda tx: tx.many(ADD, [{"id": id, "name": "x"} for id in (1, 2)]))
    sql = Statement.of("SELECT sum(id), avg(id), max(id) = 2, count(*) > 5 FROM things")
    assert store.read_now(lambda tx: tx.one(sql)) == (3, 1.5, 1, 0)
    assert store.write_now(lambda tx: tx.run(Statement.of("UPDATE things SET weight = :w"), w=True)) == 2


def test_run_tells_how_many_rows_it_touched_and_one_gives_none_for_nothing(store: Store) -> None:
    store.write_now(lambda tx: tx.many(ADD, [{"id": id, "name": "x"} for id in range(700)]))
    remove = Statement.of("DELETE FROM things WHERE id >= :id RETURNING id")
    assert store.write_now(lambda tx: len(tx.all(remove, id=300))) == 400
    assert store.write_now(lambda tx: tx.one(remove, id=300)) is None
    assert store.write_now(lambda tx: tx.run(Statement.of("DELETE FROM things"))) == 300


def test_rows_that_differ_in_a_few_texts_are_written_together_as_they_were_given(store: Store) -> None:
    hard = ["", "NULL", "{}", "a,b", '"', "\\", '\\"{\\n', "ünï 🚢 \n\t'%s $1 :name", " ", "x" * 50_000]
    names = [*hard, *(f"{number}" for number in range(2500))]
    every = Statement.of(
        "INSERT INTO things (id, name, weight) VALUES (CAST(:id AS BIGINT), :name, :weight)",
        "INSERT INTO things (id, name, weight) SELECT given.id::bigint, given.name, :weight "
        "FROM unnest(:id::text[], :name::text[]) AS given (id, name)",
    )
    columns = {"id": [str(id) for id in range(len(names))], "name": names}
    store.write_now(lambda tx: tx.each(every, columns, weight=1.5))
    rows = [(id, name, 1.5, None) for id, name in enumerate(names)]
    assert store.read_now(lambda tx: tx.all(ALL)) == rows


async def test_what_is_written_is_read_and_awaited(store: Store) -> None:
    assert await store.write(add(1)) == 1
    assert await store.read(lambda tx: tx.one(COUNT)) == (1,)


async def test_work_that_fails_in_a_group_does_not_harm_the_others(store: Store) -> None:
    def broken(tx: Tx) -> int:
        tx.run(ADD, id=1000, name="never")
        raise KeyError("mine")

    works = [broken if id % 7 == 0 else add(id % 100) for id in range(200)]
    outcomes = await asyncio.gather(*map(store.write, works), return_exceptions=True)
    assert outcomes.count(1) == len({id % 100 for id in range(200) if id % 7})
    assert sum(isinstance(each, KeyError) for each in outcomes) == len(range(0, 200, 7))
    clashes = {each.kind for each in outcomes if isinstance(each, Failure)}
    assert clashes == {Kind.conflict}
    assert count(store) == outcomes.count(1)


async def test_what_failed_in_a_group_tells_nobody_and_leaves_nothing(store: Store) -> None:
    def fails(tx: Tx) -> None:
        tx.tell("failed")
        tx.run(ADD, id=7, name="never")
        raise LookupError

    def works(id: int) -> Callable[[Tx], int]:
        def work(tx: Tx) -> int:
            tx.tell("done")
            return tx.run(ADD, id=id, name="x")

        return work

    with store.listening("ready") as ready:
        if store.kind == "postgres":
            # Who listens when the connection for that is made is rung once; those who come later are not.
            assert await ready.rung(PATIENCE)
    with store.listening("failed") as failed, store.listening("done") as done:
        both = [fails if id % 2 else works(id) for id in range(100)]
        outcomes = await asyncio.gather(*map(store.write, both), return_exceptions=True)
        assert outcomes[::2] == [1] * 50
        assert all(isinstance(each, LookupError) for each in outcomes[1::2])
        assert await done.rung(PATIENCE)
        assert not await failed.rung(0.05)
    assert count(store) == 50


@pytest.mark.parametrize("write", [True, False])
async def test_a_failed_statement_leaves_the_store_usable(store: Store, write: bool) -> None:
    wrong = Statement.of("SELECT id FROM nowhere")
    for _ in range(3):
        with pytest.raises(Failure) as caught:
            await asyncio.wrap_future(store.submit(lambda tx: tx.all(wrong), write))
        assert caught.value.kind is Kind.misconfigured
        assert "fairlead store migrate" in caught.value.message
        await store.write(lambda tx: tx.run(Statement.of("DELETE FROM things")))
        assert await store.read(lambda tx: tx.one(COUNT)) == (0,)


async def test_an_error_that_work_swallows_does_not_pass_for_success(store: Store) -> None:
    def work(tx: Tx) -> str:
        tx.run(ADD, id=1, name="a")
        try:
            tx.run(ADD, id=1, name="b")
        except Exception:
            return "swallowed"
        return "?"

    try:
        outcome = await store.write(work)
    except Failure:
        assert count(store) == 0
    else:
        assert (outcome, count(store)) == ("swallowed", 1)


@pytest.mark.parametrize("error", [StopIteration, SystemExit, asyncio.CancelledError])
def test_whatever_work_raises_is_told_and_the_thread_goes_on(
    store: Store, error: type[BaseException]
) -> None:
    def work(tx: Tx) -> None:
        raise error

    for write in (True, False):
        raised = store.submit(work, write).exception(PATIENCE)
        assert raised is not None
        assert isinstance(raised, RuntimeError if error is StopIteration else error)
    assert store.write_now(add(1)) == 1


async def test_stop_iteration_reaches_who_awaits(store: Store) -> None:
    with pytest.raises(RuntimeError):
        await store.write(lambda tx: next(iter([])))


def test_a_read_sees_one_moment(store: Store) -> None:
    begun, written = threading.Event(), threading.Event()

    def look(tx: Tx) -> tuple[Any, Any]:
        before = tx.one(COUNT)
        begun.set()
        assert written.wait(PATIENCE)
        return before, tx.one(COUNT)

    seen = store.submit(look, False)
    assert begun.wait(PATIENCE)
    store.write_now(add(1))
    written.set()
    assert seen.result(PATIENCE) == ((0,), (0,))


def test_a_slow_read_does_not_hold_up_writes_nor_other_reads(store: Store) -> None:
    go = threading.Event()
    slow = store.submit(lambda tx: go.wait(PATIENCE), False)
    assert store.submit(add(1), True).result(PATIENCE) == 1
    assert store.submit(lambda tx: tx.one(COUNT), False).result(PATIENCE) == (1,)
    go.set()
    assert slow.result(PATIENCE)


def test_closing_ends_what_was_begun_and_refuses_what_comes_after(store: Store) -> None:
    begun: list[Future[int]] = [store.submit(add(id), True) for id in range(300)]
    store.close()
    assert [each.result(0) for each in begun] == [1] * 300
    with pytest.raises(Failure) as caught:
        store.write_now(add(1000))
    assert caught.value.kind is Kind.unavailable
    store.close()


def test_an_unclosed_store_does_what_it_accepted_before_the_process_ends(
    store: Store, store_url: str, other: Callable[..., Other]
) -> None:
    process = other(
        """
store = open_store(url=url, migrate=False)
add = Statement.of("INSERT INTO things (id, name) VALUES (:id, 'x')")
for id in range(500):
    store.submit(lambda tx, id=id: tx.run(add, id=id), True)
""",
        store_url,
        cold=True,
    )
    assert process.end() == 0
    assert count(store) == 500


def test_a_forked_child_is_told_to_open_its_own(
    store: Store, store_url: str, other: Callable[..., Other]
) -> None:
    process = other(
        """
import warnings
warnings.simplefilter("ignore")
store = open_store(url=url, migrate=False)
look = lambda tx: tx.one(Statement.of("SELECT count(*) FROM things"))[0]
child = os.fork()
if not child:
    try:
        store.write_now(look)
    except Failure as failure:
        say(failure.kind)
    store.close()
    with open_store(url=url, migrate=False) as own:
        say(own.write_now(look))
    sys.exit()
os.waitpid(child, 0)
say(store.write_now(look))
""",
        store_url,
    )
    assert [process.hear() for _ in range(3)] == ["misconfigured", "0", "0"]
    assert process.end() == 0


def test_two_processes_that_write_at_once_lose_nothing(
    store: Store, store_url: str, other: Callable[..., Other]
) -> None:
    program = """
first = int(sys.argv[2])
add = Statement.of("INSERT INTO things (id, name) VALUES (:id, 'x')")
more = Statement.of("UPDATE things SET weight = weight + 1 WHERE id = 0")
with open_store(url=url, migrate=False) as store:
    say("ready")
    hear()
    def both(tx, id):
        tx.run(add, id=id)
        tx.run(more)
    futures = []
    for id in range(first, first + 300):
        futures.append(store.submit(lambda tx, id=id: both(tx, id), True))
        if id % 3 == 0:
            futures[-1].result()
    for each in futures:
        each.result()
say("done")
"""
    store.write_now(lambda tx: tx.run(FULL, id=0, name="sum", weight=0.0, raw=None))
    processes = [other(program, store_url, first) for first in ("1000", "2000")]
    for process in processes:
        assert process.hear() == "ready"
    for process in processes:
        process.say("go")
    for process in processes:
        assert process.hear() == "done"
    assert count(store) == 601
    assert store.read_now(lambda tx: tx.one(ALL)) == (0, "sum", 600.0, None)


TELLER = """
with open_store(url=url, migrate=False) as store:
    say("ready")
    while topic := hear():
        store.write_now(lambda tx: tx.tell(topic))
        say("told")
"""


async def test_a_wake_reaches_another_process(
    store: Store, store_url: str, other: Callable[..., Other]
) -> None:
    with store.listening("here") as bell, store.listening("elsewhere") as quiet:
        process = other(TELLER, store_url)
        assert process.hear() == "ready"
        await heard(store, process)
        await quiet.rung(0)
        await bell.rung(0)
        process.say("here")
        assert await bell.rung(PATIENCE)
        process.say(EVERYTHING)
        assert await quiet.rung(PATIENCE)
        assert await bell.rung(PATIENCE)


async def heard(store: Store, process: Other) -> None:
    """Wait until the other process is heard: who begins to listen is told of everything, a little later."""
    with store.listening("beginning") as bell:
        while True:
            process.say("beginning")
            if await bell.rung(1):
                # What came before it has come too, then.
                await bell.rung(0.05)
                return


async def test_a_wake_of_ones_own_comes_at_once_and_only_after_the_commit(store: Store) -> None:
    with store.listening("topic") as bell:
        if store.kind == "postgres":
            assert await bell.rung(PATIENCE)  # it listens

        def fails(tx: Tx) -> None:
            tx.tell("topic")
            raise LookupError

        with pytest.raises(LookupError):
            await store.write(fails)
        assert not await bell.rung(0.05)
        await store.write(lambda tx: tx.tell("topic"))
        assert await bell.rung(PATIENCE)
        assert not await bell.rung(0.05)


async def test_many_topics_at_once_wake_everybody(
    store: Store, store_url: str, other: Callable[..., Other]
) -> None:
    with store.listening("any") as bell:
        process = other(
            """
with open_store(url=url, migrate=False) as store:
    hear()
    store.write_now(lambda tx: [tx.tell(f"topic {number}") for number in range(5000)])
    hear()
""",
            store_url,
        )
        if store.kind == "postgres":
            assert await bell.rung(PATIENCE)
        process.say("go")
        assert await bell.rung(PATIENCE)


def test_a_listener_that_fails_harms_nobody(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    rung = threading.Event()

    def fails() -> None:
        raise ValueError("mine")

    stops = [store.listen("topic", fails), store.listen("topic", rung.set)]
    store.write_now(lambda tx: tx.tell("topic"))
    assert rung.wait(PATIENCE)
    until(lambda: "listener" in caplog.text, "the failure is not logged")
    assert store.write_now(add(1)) == 1
    for stop in stops:
        stop()


async def test_a_bell_rings_once_for_many_and_not_when_it_was_looked_at(store: Store) -> None:
    with store.listening("topic") as bell:
        if store.kind == "postgres":
            assert await bell.rung(PATIENCE)
        for _ in range(5):
            await store.write(lambda tx: tx.tell("topic"))
        assert await bell.rung(0)
        # The wakes that were scheduled meanwhile are of no account.
        assert not await bell.rung(0.05)


def test_nothing_is_left_open(store_url: str) -> None:
    def open_files() -> int:
        return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0

    def use() -> None:
        with open_store(url=store_url) as store:
            store.listen("topic", lambda: None)
            store.write_now(lambda tx: tx.tell("topic"))

    def grown() -> tuple[int, int]:
        gc.collect()
        before, threads = open_files(), threading.active_count()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(3):
                use()
            gc.collect()
        return open_files() - before, threading.active_count() - threads

    use()
    # What others do in this process comes and goes; what is left open is left open each time.
    assert any(max(grown()) <= 0 for _ in range(5))
