"""Rates that hold over all processes on one store: spread as in memory, or counted in a window."""

from __future__ import annotations

import asyncio
import subprocess
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairlead import App, Kind
from fairlead.runtime import MemoryRates
from fairlead.store import DurableRates, Statement, Store, Tx, open_store
from fairlead.store.rates import window
from servers import PATIENCE, until
from warm import Warm
from warm_child import Child

RATES = Statement.of("SELECT count(*) FROM rates")
TAKES = Statement.of("SELECT count(*) FROM rate_takes")


class Clock:
    """A time that stands still until it is moved."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def stores(store_url: str) -> Iterator[tuple[Store, Store]]:
    one, other = open_store(url=store_url), open_store(url=store_url)
    yield one, other
    one.close()
    other.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One for many rounds, each with keys of its own."""
    store = open_store(url=f"sqlite:///{tmp_path_factory.mktemp('rates')}/s.db")
    yield store
    store.close()


def count(store: Store, statement: Statement) -> int:
    return int(store.read_now(lambda tx: tx.all(statement))[0][0])


def take(store: Store, key: str, limit: int, per: float, now: float) -> float:
    return store.write_now(lambda tx: window(tx, key, limit, per, now))


NAPS = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, 3.0, 7.5, 60.0, 1000.0]), max_size=40)
LIMITS = st.tuples(st.integers(1, 30), st.sampled_from([0.5, 1.0, 7.0, 60.0, 3600.0]))
ROUNDS = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@ROUNDS
@given(naps=NAPS, limits=LIMITS)
def test_the_store_counts_as_memory_does(file: Store, naps: list[float], limits: tuple[int, float]) -> None:
    clock = Clock(1000.0)
    rounds = DurableRates(file, clock=clock, name=f"{time.monotonic_ns()}"), MemoryRates(clock)

    async def compare() -> None:
        for nap in naps:
            clock.now += nap
            stored, remembered = await rounds[0].take("k", *limits), rounds[1].take("k", *limits)
            assert stored == pytest.approx(remembered, abs=1e-5)
            assert (stored == 0.0) == (remembered == 0.0)

    asyncio.run(compare())


async def test_processes_share_one_limit(stores: tuple[Store, Store]) -> None:
    clock = Clock()
    one, other = (DurableRates(store, clock=clock) for store in stores)
    assert [await each.take("k", 4, 60.0) for each in (one, other, one, other)] == [0.0] * 4
    assert await one.take("k", 4, 60.0) == await other.take("k", 4, 60.0) == 15.0
    assert await one.take("another", 4, 60.0) == 0.0
    clock.now += 15
    assert await other.take("k", 4, 60.0) == 0.0
    assert await one.take("k", 4, 60.0) == 15.0


def test_of_many_at_once_exactly_the_limit_goes_on(stores: tuple[Store, Store]) -> None:
    clock = Clock()
    rates = [DurableRates(store, clock=clock) for store in stores]
    waits: list[float] = []

    async def takes(number: int) -> list[float]:
        return await asyncio.gather(*(rates[number % 2].take("k", 10, 60.0) for _ in range(10)))

    def call(number: int) -> None:
        waits.extend(asyncio.run(takes(number)))

    threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(waits) == 40
    assert waits.count(0.0) == 10


async def test_a_large_burst_is_not_short_of_one(file: Store) -> None:
    rates = DurableRates(file, clock=Clock(1_800_000_000.123456))
    waits = await asyncio.gather(*(rates.take("burst", 997, 13.0) for _ in range(998)))
    assert waits.count(0.0) == 997


async def test_a_clock_that_is_set_back_does_not_shut_everybody_out(stores: tuple[Store, Store]) -> None:
    clock = Clock()
    rates = DurableRates(stores[0], clock=clock)
    # A prune that began before the clock was set back, and ends after it, would take what comes then.
    rates._takes = 1
    await rates.take("k", 1, 60.0)
    take(stores[0], "k", 1, 60.0, clock.now)
    clock.now -= 86400
    assert await rates.take("k", 1, 60.0) == 0.0
    assert await rates.take("k", 1, 60.0) == 60.0
    assert take(stores[0], "k", 1, 60.0, clock.now) == 0.0
    assert take(stores[0], "k", 1, 60.0, clock.now) == 60.0


async def test_a_limit_of_an_app_holds_over_its_processes(stores: tuple[Store, Store]) -> None:
    apps = [App("x", rates=DurableRates(store)) for store in stores]
    for app in apps:
        app.add(lambda: "done", name="act", description="Act.", rate_limit={"limit": 2, "per": 3600})
    results = [await app.invoke("act", user="ada") for app in (*apps, *apps)]
    assert [result.ok for result in results] == [True, True, False, False]
    failure = results[2].failure
    assert failure is not None
    assert failure.kind is Kind.rate_limited
    assert failure.retry_after is not None
    assert 0 < failure.retry_after <= 1800


async def test_rows_that_say_nothing_any_more_are_pruned(stores: tuple[Store, Store]) -> None:
    clock = Clock()
    rates = DurableRates(stores[0], clock=clock)
    for number in range(100):
        await rates.take(str(number), 1, 60.0)
    clock.now += 61
    for number in range(200, 330):
        await rates.take(str(number), 1, 60.0)
    until(lambda: count(stores[0], RATES) <= 130, "rows that say nothing are there")


async def test_any_text_is_a_key(stores: tuple[Store, Store]) -> None:
    rates = DurableRates(stores[0])
    for key in ("\x00", "\ud800", "k" * 100_000, ""):
        assert await rates.take(key, 1, 60.0) == 0.0
        assert take(stores[0], key, 1, 60.0, 0.0) == 0.0


async def test_the_longest_periods_and_largest_limits_are_counted(stores: tuple[Store, Store]) -> None:
    rates = DurableRates(stores[0])
    assert await rates.take("long", 1, 1e18) == 0.0
    assert await rates.take("long", 1, 1e18) > 1e9
    assert await rates.take("many", 10**15, 1.0) == 0.0


def test_the_eleventh_within_a_minute_is_refused(stores: tuple[Store, Store]) -> None:
    waits = [take(stores[number % 2], "k", 10, 60.0, 100.0 + number) for number in range(11)]
    assert waits == [0.0] * 10 + [50.0]
    assert take(stores[0], "k", 10, 60.0, 159.0) == 1.0
    assert take(stores[0], "k", 10, 60.0, 160.0) == 0.0
    assert take(stores[0], "k", 10, 60.0, 160.0) == 1.0


@ROUNDS
@given(naps=NAPS, limits=LIMITS)
def test_a_window_counts_what_went_on_in_the_last_seconds(
    file: Store, naps: list[float], limits: tuple[int, float]
) -> None:
    limit, per = limits
    key, now, went = f"{time.monotonic_ns()}", 0.0, list[float]()
    for nap in naps:
        now += nap
        counted = [moment for moment in went if moment + per > now]
        expected = 0.0 if len(counted) < limit else went[-limit] + per - now
        assert take(file, key, limit, per, now) == expected
        if not expected:
            went.append(now)


def test_a_window_keeps_no_more_than_its_limit(stores: tuple[Store, Store]) -> None:
    for number in range(50):
        assert take(stores[0], "k", 5, 1.0, float(number)) == 0.0
        assert count(stores[0], TAKES) <= 5


def test_a_window_may_be_given_another_limit(stores: tuple[Store, Store]) -> None:
    assert [take(stores[0], "k", 5, 60.0, 1.0) for _ in range(6)] == [0.0] * 5 + [60.0]
    assert take(stores[0], "k", 3, 60.0, 2.0) == 59.0
    assert take(stores[0], "k", 7, 60.0, 2.0) == 0.0
    assert take(stores[0], "k", 1, 60.0, 2.0) == 60.0


def test_keys_that_nobody_uses_any_more_leave_nothing(stores: tuple[Store, Store]) -> None:
    for number in range(40):
        take(stores[0], f"caller {number}", 5, 60.0, 0.0)
    for number in range(12):
        take(stores[0], "k", 5, 60.0, 1000.0 + number * 100)
    assert count(stores[0], TAKES) <= 5


def test_a_take_counts_only_if_its_transaction_does(stores: tuple[Store, Store]) -> None:
    def rolled_back(tx: Tx) -> None:
        assert window(tx, "k", 1, 60.0, 0.0) == 0.0
        raise ValueError

    with pytest.raises(ValueError):
        stores[0].write_now(rolled_back)
    assert take(stores[1], "k", 1, 60.0, 0.0) == 0.0
    assert take(stores[0], "k", 1, 60.0, 0.0) == 60.0


def test_of_many_windows_at_once_exactly_the_limit_goes_on(stores: tuple[Store, Store]) -> None:
    def work(tx: Tx) -> float:
        return window(tx, "k", 10, 60.0, 0.0)

    asked = [stores[number % 2].submit(work, True) for number in range(60)]
    assert [each.result(PATIENCE) for each in asked].count(0.0) == 10


TAKER = """
import sys
from fairlead.store import open_store
from fairlead.store.rates import window
store = open_store(url=sys.argv[1])
print([store.write_now(lambda tx: window(tx, "k", 10, 60.0, 0.0)) for _ in range(8)].count(0.0))
store.close()
"""


def test_real_processes_share_a_window_which_a_restart_does_not_forget(
    store_url: str, warm_python: Warm
) -> None:
    def run() -> int:
        with Child(warm_python, "-c", TAKER, store_url, stdout=subprocess.PIPE, text=True) as process:
            return int(process.communicate()[0])

    assert [run() for _ in range(3)] == [8, 2, 0]
