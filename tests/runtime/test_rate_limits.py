"""How often: per caller or per action, with the time to wait."""

from typing import Any

import pytest

from effort import effort
from fairlead import App, Kind
from fairlead.testing import FixedClock


def board(clock: FixedClock, rate_limit: Any, **options: Any) -> App:
    app = App("x", clock=clock, **options)
    app.add(lambda: 1, name="act", description="Act.", rate_limit=rate_limit, side_effects="write")
    app.add(lambda: 1, name="other", description="Other.", rate_limit=rate_limit)
    return app


async def spend(app: App, calls: int, action: str = "act", **options: Any) -> int:
    """How many of so many calls were let through."""
    return sum([(await app.invoke(action, **options)).ok for _ in range(calls)])


async def test_a_burst_up_to_the_limit_passes_and_the_next_is_told_when(fixed_clock: FixedClock) -> None:
    app = board(fixed_clock, "3/minute")
    assert await spend(app, 3) == 3
    result = await app.invoke("act")
    assert result.failure is not None
    assert result.failure.kind is Kind.rate_limited
    assert result.failure.retry_after == pytest.approx(20)
    assert result.to_dict()["error"]["retryAfter"] == pytest.approx(20)
    assert result.to_dict()["error"]["retryable"] is True


async def test_waiting_as_told_is_enough(fixed_clock: FixedClock) -> None:
    app = board(fixed_clock, "3/minute")
    await spend(app, 3)
    result = await app.invoke("act")
    assert result.failure is not None
    assert result.failure.retry_after is not None
    fixed_clock.move(result.failure.retry_after - 0.5)
    assert await spend(app, 1) == 0
    fixed_clock.move(0.5)
    assert await spend(app, 2) == 1


async def test_refused_calls_cost_nothing(fixed_clock: FixedClock) -> None:
    app = board(fixed_clock, "1/minute")
    await spend(app, 100)
    fixed_clock.move(60)
    assert await spend(app, 1) == 1


async def test_a_long_rest_allows_one_burst_and_no_more(fixed_clock: FixedClock) -> None:
    app = board(fixed_clock, "5/second")
    await spend(app, 5)
    fixed_clock.move(1000)
    assert await spend(app, 100) == 5


async def test_callers_are_counted_apart(fixed_clock: FixedClock) -> None:
    app = board(fixed_clock, "2/minute")
    assert await spend(app, 5, user="ann") == 2
    assert await spend(app, 5, user="bob") == 2
    assert await spend(app, 5, auth={"sub": "c"}) == 2
    assert await spend(app, 5) == 2


async def test_actions_are_counted_apart(fixed_clock: FixedClock) -> None:
    app = board(fixed_clock, "2/minute")
    assert await spend(app, 5) == 2
    assert await spend(app, 5, "other") == 2


async def test_a_limit_by_action_counts_all_callers_together(fixed_clock: FixedClock) -> None:
    app = board(fixed_clock, {"limit": 2, "per": 60, "by": "action"})
    assert await spend(app, 5, user="ann") == 2
    assert await spend(app, 5, user="bob") == 0


async def test_invalid_and_forbidden_calls_are_not_counted(fixed_clock: FixedClock) -> None:
    app = board(fixed_clock, "1/minute", permission_checker=lambda a, i, c: c.user != "eve")
    await app.invoke("act", {"bad": 1})
    await app.invoke("act", user="eve")
    assert await spend(app, 2) == 1


async def test_attempts_of_one_call_count_once(fixed_clock: FixedClock) -> None:
    from fairlead import Failure

    app = App("x", clock=fixed_clock)
    tries = []

    @app.action(rate_limit="1/minute", retry={"retries": 2, "delay": 0})
    async def act() -> int:
        """Act."""
        tries.append(1)
        if len(tries) < 3:
            raise Failure(Kind.unavailable, "x")
        return 1

    assert (await app.invoke("act")).ok
    assert len(tries) == 3


async def test_a_store_may_be_somewhere_else() -> None:
    class Remote:
        async def take(self, key: str, limit: int, per: float) -> float:
            assert key.startswith("act")
            return 7.0

    app = App("x", rates=Remote())
    app.add(lambda: 1, name="act", description="Act.", rate_limit="1/second")
    result = await app.invoke("act")
    assert result.failure is not None
    assert result.failure.retry_after == 7.0


async def test_a_store_that_fails_stops_the_call() -> None:
    class Broken:
        def take(self, key: str, limit: int, per: float) -> float:
            raise ConnectionError("password=hunter2hunter2")

    app = App("x", rates=Broken())
    app.add(lambda: 1, name="act", description="Act.", rate_limit="1/second")
    result = await app.invoke("act")
    assert result.failure is not None
    assert "hunter2" not in result.failure.message


async def test_a_million_callers_do_not_fill_the_memory(fixed_clock: FixedClock) -> None:
    from fairlead.runtime import MemoryRates

    rates = MemoryRates(fixed_clock.monotonic, max_keys=100)
    app = App("x", clock=fixed_clock, rates=rates)
    app.add(lambda: 1, name="act", description="Act.", rate_limit="1/second")
    for n in range(1000):
        await app.invoke("act", user=f"user {n}")
    assert len(rates._next) <= 100


async def test_a_new_caller_costs_the_same_where_no_more_can_be_remembered(fixed_clock: FixedClock) -> None:
    from fairlead.runtime import MemoryRates

    rates = MemoryRates(fixed_clock.monotonic, max_keys=10_000)

    def come(first: int, last: int) -> None:
        for n in range(first, last):
            fixed_clock.move(0.3601)  # nearly 10 000 an hour: about one is done with for each that comes
            assert rates.take(f"user {n}", 1, 3600) == 0.0

    some = min(effort(lambda first=first: come(first, first + 500)) for first in range(0, 9_500, 500))  # type: ignore[misc]
    come(9_500, 10_100)
    assert effort(lambda: come(10_100, 10_600)) < 20 * some
    assert len(rates._next) <= 10_000


async def test_who_called_lately_is_remembered_where_no_more_can_be(fixed_clock: FixedClock) -> None:
    from fairlead.runtime import MemoryRates

    rates = MemoryRates(fixed_clock.monotonic, max_keys=100)
    assert rates.take("slow", 2, 3600) == 0.0
    for n in range(1000):
        fixed_clock.move(1)
        assert rates.take(f"quick {n}", 1, 60) == 0.0
        # More than half of the callers are done with at any time, and this one never is.
        assert (rates.take("slow", 2, 3600) > 0.0) is (n != 0)
        assert rates.take(f"quick {n}", 1, 60) > 0.0
        assert len(rates._next) <= 100
