"""One effect for one key."""

import asyncio
import contextlib
import enum
import sys
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairlead import App, Context, Failure, Kind
from fairlead.runtime import Call, Claim, MemoryIdempotency, Result, Signal
from fairlead.runtime.plan import Next
from fairlead.testing import FixedClock


class Ledger:
    """An app with one effect to count, which waits at a gate when told to."""

    def __init__(self, **options: Any) -> None:
        self.app = App("x", **options)
        self.effects: list[Any] = []
        self.started = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self.failures = 0

        @self.app.action(side_effects="write")
        async def pay(amount: int, ctx: Context, note: str = "") -> dict[str, Any]:
            """Pay."""
            self.effects.append((ctx.user, amount))
            self.started.set()
            ctx.logger.info("paying")
            ctx.artifacts.add(name="receipt", id="r")
            await self.gate.wait()
            if self.failures:
                self.failures -= 1
                raise Failure(Kind.upstream, "the bank is closed")
            return {"paid": amount, "items": [1, 2]}

        @self.app.action
        async def look() -> int:
            """Look."""
            self.effects.append("look")
            return len(self.effects)

    async def pay(self, amount: Any = 5, key: str | None = "k", **options: Any) -> Result:
        return await self.app.invoke("pay", {"amount": amount}, idempotency_key=key, **options)

    def begin(self, amount: Any = 5, key: str | None = "k", **options: Any) -> asyncio.Task[Result]:
        return asyncio.create_task(self.pay(amount, key, **options))


async def test_the_same_request_gets_the_first_result_again() -> None:
    ledger = Ledger()
    first, second = (
        await ledger.pay(invocation_id="i-1"),
        await ledger.pay(invocation_id="i-2", surface="json"),
    )
    assert len(ledger.effects) == 1
    assert second.data == first.data == {"paid": 5, "items": [1, 2]}
    assert (first.replayed, second.replayed) == (False, True)
    assert "idempotent" not in first.meta
    assert second.meta["idempotent"] == "replayed"
    assert (second.meta["invocationId"], second.meta["surface"]) == ("i-2", "json")
    assert second.logs == first.logs
    assert second.artifacts == first.artifacts


async def test_another_request_with_the_same_key_is_a_conflict() -> None:
    ledger = Ledger()
    await ledger.pay(5)
    result = await ledger.pay(6)
    assert result.failure is not None
    assert result.failure.kind is Kind.conflict
    assert len(ledger.effects) == 1
    assert (await ledger.pay(5)).replayed


async def test_the_same_request_may_be_spelled_differently() -> None:
    ledger = Ledger()
    await ledger.app.invoke("pay", {"amount": 5, "note": "x"}, idempotency_key="k")
    again = await ledger.app.invoke("pay", {"note": "x", "amount": "5"}, idempotency_key="k")
    assert again.replayed


async def test_an_empty_optional_text_is_the_same_request() -> None:
    ledger = Ledger()
    await ledger.app.invoke("pay", {"amount": 5}, idempotency_key="k")
    again = await ledger.app.invoke("pay", {"amount": 5, "note": ""}, idempotency_key="k")
    assert again.replayed


@pytest.mark.parametrize("odd", ["half \udcff", {"half \udcff": 1}, "deep"])
async def test_an_input_that_cannot_be_compared_is_refused_and_not_an_error_of_ours(odd: Any) -> None:
    app = App("x")

    @app.action(side_effects="write")
    async def keep(value: Any) -> bool:
        """Keep something."""
        return True

    nested: Any = odd
    for _ in range(300 if odd == "deep" else 0):
        nested = [nested]
    refused = await app.invoke(keep, {"value": nested}, idempotency_key="k")
    assert refused.failure is not None
    assert refused.failure.kind is Kind.invalid_input
    with pytest.raises(Failure) as caught:
        await app.check(keep, {"value": nested})
    assert caught.value.kind is Kind.invalid_input
    named = await app.invoke(keep, {"value": 1}, idempotency_key="k", user={"name": nested})
    assert named.failure is not None
    assert named.failure.kind is Kind.misconfigured


async def test_surface_metadata_and_invocation_do_not_matter() -> None:
    ledger = Ledger()
    await ledger.pay(surface="json", metadata={"trace": "1"}, invocation_id="a", env="x")
    again = await ledger.pay(surface="http", metadata={"trace": "2"}, invocation_id="b", env="y")
    assert again.replayed


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"user": "ann"}, {"user": "bob"}),
        ({"user": {"id": 1}}, {"user": {"id": 2}}),
        ({"user": "ann"}, {}),
        ({"auth": {"sub": "a"}}, {"auth": {"sub": "b"}}),
        ({"user": "ann"}, {"auth": "ann"}),
        ({"user": {"id": 1}}, {"user": '{"id":1}'}),
        ({"user": 1}, {"user": "1"}),
        ({"user": "a\nb", "key": "c"}, {"user": "a", "key": "b\nc"}),
    ],
)
async def test_another_caller_runs_separately(one: dict[str, Any], other: dict[str, Any]) -> None:
    ledger = Ledger()
    assert not (await ledger.pay(**one)).replayed
    assert not (await ledger.pay(**other)).replayed
    assert len(ledger.effects) == 2


class Opaque:
    """A user without an id."""

    def __init__(self, secret: str) -> None:
        self._secret = secret


@dataclass
class Member:
    id: uuid.UUID
    name: str


class Account:
    def __init__(self, id: Any) -> None:
        self.id = id


async def test_users_that_cannot_be_told_apart_are_never_mixed_up() -> None:
    ledger = Ledger()
    for user in (Opaque("a"), Opaque("b")):
        result = await ledger.pay(user=user)
        assert result.failure is not None
        assert result.failure.kind is Kind.misconfigured
    assert ledger.effects == []
    assert (await ledger.pay(user=Opaque("a"), key=None)).ok


@pytest.mark.parametrize("make", [Account, lambda number: Member(number, "x")], ids=["object", "dataclass"])
@pytest.mark.parametrize("ids", [(1, 2), ("a", "b"), (uuid.UUID(int=1), uuid.UUID(int=2))], ids=str)
async def test_objects_are_told_apart_by_their_id(make: Any, ids: tuple[Any, Any]) -> None:
    ledger = Ledger()
    one, other = ids
    assert (await ledger.pay(user=make(one))).ok
    assert (await ledger.pay(user=make(one))).replayed
    second = await ledger.pay(user=make(other))
    assert second.ok
    assert not second.replayed


async def test_a_refreshed_token_is_the_same_caller() -> None:
    ledger = Ledger()
    await ledger.pay(auth={"sub": "ann", "exp": 1, "token": "t1"})
    assert (await ledger.pay(auth={"sub": "ann", "exp": 2, "token": "t2"})).replayed


async def test_another_action_with_the_same_key_is_another_call() -> None:
    ledger = Ledger()
    ledger.app.add(lambda: "other", name="other", description="Other.", side_effects="write")
    await ledger.pay()
    assert not (await ledger.app.invoke("other", idempotency_key="k")).replayed


async def test_reads_ignore_the_key() -> None:
    ledger = Ledger()
    for expected in (1, 2):
        result = await ledger.app.invoke("look", idempotency_key="k")
        assert (result.data, result.replayed) == (expected, False)


async def test_failures_are_not_kept() -> None:
    ledger = Ledger()
    ledger.failures = 1
    assert not (await ledger.pay()).ok
    again = await ledger.pay()
    assert (again.ok, again.replayed) == (True, False)
    assert len(ledger.effects) == 2


async def test_a_failed_request_leaves_the_key_free_for_another() -> None:
    ledger = Ledger()
    ledger.failures = 1
    await ledger.pay(5)
    assert (await ledger.pay(6)).ok


async def test_output_failures_are_not_kept() -> None:
    app = App("x")
    answers = iter(["text", 5])

    @app.action(side_effects="write", output=int)
    async def act() -> Any:
        """Act."""
        return next(answers)

    assert not (await app.invoke("act", idempotency_key="k")).ok
    assert (await app.invoke("act", idempotency_key="k")).data == 5


async def test_twins_in_flight_share_one_run() -> None:
    ledger = Ledger()
    ledger.gate.clear()
    twins = [ledger.begin() for _ in range(10)]
    await ledger.started.wait()
    await asyncio.sleep(0)
    ledger.gate.set()
    results = await asyncio.gather(*twins)
    assert len(ledger.effects) == 1
    assert all(result.ok for result in results)
    assert sorted(result.replayed for result in results) == [False] + [True] * 9


async def test_twins_in_flight_share_the_failure() -> None:
    ledger = Ledger()
    ledger.gate.clear()
    ledger.failures = 1
    leader, follower = ledger.begin(), ledger.begin()
    await ledger.started.wait()
    await asyncio.sleep(0)
    ledger.gate.set()
    results = [await leader, await follower]
    assert [result.failure.code for result in results if result.failure] == ["EXTERNAL_SERVICE_ERROR"] * 2
    assert len(ledger.effects) == 1


async def test_another_request_conflicts_with_one_in_flight() -> None:
    ledger = Ledger()
    ledger.gate.clear()
    leader = ledger.begin(5)
    await ledger.started.wait()
    result = await ledger.pay(6)
    assert result.failure is not None
    assert result.failure.kind is Kind.conflict
    ledger.gate.set()
    assert (await leader).ok


async def test_a_follower_has_its_own_time_out() -> None:
    ledger = Ledger()
    ledger.gate.clear()
    leader = ledger.begin()
    await ledger.started.wait()
    follower = await ledger.pay(timeout=0.01)
    assert follower.failure is not None
    assert follower.failure.code == "TIMEOUT"
    ledger.gate.set()
    assert (await leader).ok


async def test_a_follower_has_its_own_signal() -> None:
    ledger = Ledger()
    ledger.gate.clear()
    leader = ledger.begin()
    await ledger.started.wait()
    signal = Signal()
    follower = ledger.begin(signal=signal)
    await asyncio.sleep(0)
    signal.cancel()
    result = await follower
    assert result.failure is not None
    assert result.failure.code == "CANCELLED"
    ledger.gate.set()
    assert (await leader).ok
    assert len(ledger.effects) == 1


async def test_a_follower_whose_task_is_cancelled_harms_nobody() -> None:
    ledger = Ledger()
    ledger.gate.clear()
    leader, follower, third = ledger.begin(), ledger.begin(), ledger.begin()
    await ledger.started.wait()
    await asyncio.sleep(0)
    follower.cancel()
    with pytest.raises(asyncio.CancelledError):
        await follower
    ledger.gate.set()
    assert (await leader).ok
    assert (await third).replayed


@pytest.mark.parametrize("how", ["signal", "task", "timeout"])
async def test_when_the_leader_is_stopped_the_follower_runs_itself(how: str) -> None:
    ledger = Ledger()
    ledger.gate.clear()
    signal = Signal()
    leader = ledger.begin(signal=signal, timeout=0.01 if how == "timeout" else None)
    await ledger.started.wait()
    follower = ledger.begin()
    await asyncio.sleep(0)
    if how == "signal":
        signal.cancel()
    elif how == "task":
        leader.cancel()
    outcome = (await asyncio.gather(leader, return_exceptions=True))[0]
    if how == "task":
        assert isinstance(outcome, asyncio.CancelledError)
    else:
        assert isinstance(outcome, Result)
        assert not outcome.ok
    ledger.gate.set()
    async with asyncio.timeout(5):
        result = await follower
    assert (result.ok, result.replayed) == (True, False)
    assert len(ledger.effects) == 2


async def test_a_leader_refused_for_lack_of_a_slot_leaves_no_dead_entry() -> None:
    app = App("x")
    entered, leave = asyncio.Event(), asyncio.Event()

    @app.action(side_effects="write", concurrency=1)
    async def act(n: int) -> int:
        """Act."""
        entered.set()
        await leave.wait()
        return n

    holder = asyncio.create_task(app.invoke("act", {"n": 1}))
    await entered.wait()
    refused = await app.invoke("act", {"n": 2}, idempotency_key="k")
    assert refused.failure is not None
    assert refused.failure.code == "CONCURRENCY_LIMIT"
    leave.set()
    await holder
    async with asyncio.timeout(5):
        assert (await app.invoke("act", {"n": 2}, idempotency_key="k")).data == 2


async def test_a_leader_refused_by_the_rate_leaves_no_dead_entry(fixed_clock: FixedClock) -> None:
    app = App("x", clock=fixed_clock)
    app.add(lambda: 1, name="act", description="Act.", side_effects="write", rate_limit="1/minute")
    assert (await app.invoke("act", idempotency_key="a")).ok
    assert not (await app.invoke("act", idempotency_key="b")).ok
    fixed_clock.move(60)
    async with asyncio.timeout(5):
        assert (await app.invoke("act", idempotency_key="b")).ok


async def test_a_replay_costs_no_slot_and_no_rate() -> None:
    app = App("x")
    app.add(lambda: 1, name="act", description="Act.", side_effects="write", rate_limit="1/hour")
    for _ in range(3):
        assert (await app.invoke("act", idempotency_key="a")).ok


async def test_a_body_that_lingers_keeps_its_key_until_it_has_stopped() -> None:
    app = App("x", grace=0.01)
    running: list[int] = []
    most: list[int] = []
    let_go = asyncio.Event()

    @app.action(side_effects="write")
    async def act() -> int:
        """Act."""
        running.append(1)
        most.append(len(running))
        try:
            await asyncio.Event().wait() if len(most) == 1 else None
        except asyncio.CancelledError:
            await let_go.wait()
        finally:
            running.pop()
        return 1

    first = await app.invoke("act", idempotency_key="k", timeout=0.01)
    assert first.failure is not None
    assert first.failure.code == "TIMEOUT"
    second = asyncio.create_task(app.invoke("act", idempotency_key="k"))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not second.done()
    let_go.set()
    async with asyncio.timeout(5):
        assert (await second).ok
    assert max(most) == 1


@pytest.mark.parametrize("how", ["signal", "task", "timeout", "retry"])
@pytest.mark.parametrize("style", ["sync", "async", "wrapped sync", "wrapped async"])
async def test_a_stopped_write_that_succeeds_within_the_grace_is_not_done_again(how: str, style: str) -> None:
    async def tenfold(call: Call, next: Next) -> Any:
        return 10 * await next()

    wrapped = style.startswith("wrapped")
    app = App("x", grace=5, middleware=[tenfold] if wrapped else [])
    started = asyncio.Event()
    loop = asyncio.get_running_loop()
    done: list[int] = []
    retry = 1 if how == "retry" else 0

    @app.action(name="sync_pay", side_effects="write", retry=retry)
    def sync_pay(ctx: Context) -> int:
        """Pay."""
        loop.call_soon_threadsafe(started.set)
        if not done:
            asyncio.run(ctx.signal.wait())
        done.append(1)
        return len(done)

    @app.action(name="async_pay", side_effects="write", retry=retry)
    async def async_pay() -> int:
        """Pay."""
        started.set()
        if not done:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
        done.append(1)
        return len(done)

    name, signal = "async_pay" if style.endswith("async") else "sync_pay", Signal()
    timeout = 0.05 if how in ("timeout", "retry") else None
    first = asyncio.create_task(app.invoke(name, idempotency_key="k", signal=signal, timeout=timeout))
    await started.wait()
    if how == "signal":
        signal.cancel()
    elif how == "task":
        first.cancel()
    outcome = (await asyncio.gather(first, return_exceptions=True))[0]
    assert isinstance(outcome, asyncio.CancelledError if how == "task" else Result)
    again = await app.invoke(name, idempotency_key="k")
    assert (again.data, again.replayed, len(done)) == (10 if wrapped else 1, True, 1)


async def test_a_write_on_a_thread_that_succeeds_after_the_grace_is_kept_as_middleware_tells_it() -> None:
    async def tenfold(call: Call, next: Next) -> Any:
        return 10 * await next()

    app = App("x", grace=0.01, middleware=[tenfold])
    go_on = threading.Event()
    done: list[int] = []

    @app.action(side_effects="write")
    def pay() -> int:
        """Pay."""
        assert go_on.wait(10)
        done.append(1)
        return len(done)

    assert not (await app.invoke("pay", idempotency_key="k", timeout=0.2)).ok
    again = asyncio.create_task(app.invoke("pay", idempotency_key="k"))
    go_on.set()
    async with asyncio.timeout(10):
        result = await again
    assert (result.data, result.replayed, len(done)) == (10, True, 1)


def test_a_program_ends_although_a_keyed_write_behind_middleware_does_not() -> None:
    async def through(call: Call, next: Next) -> Any:
        return await next()

    app = App("x", grace=0.01, middleware=[through])
    go_on = threading.Event()
    done: list[int] = []

    @app.action(side_effects="write")
    def pay() -> None:
        """Pay."""
        go_on.wait(30)
        done.append(1)

    first = asyncio.run(app.invoke("pay", idempotency_key="k", timeout=0.2))
    assert first.failure is not None
    assert first.failure.code == "TIMEOUT"
    assert not done
    go_on.set()


async def test_a_middlewares_own_time_limit_does_not_wait_for_a_keyed_write_on_a_thread() -> None:
    async def impatient(call: Call, next: Next) -> Any:
        async with asyncio.timeout(0.01):
            return await next()

    app = App("x", middleware=[impatient])
    go_on = threading.Event()

    done: list[int] = []

    @app.action(side_effects="write")
    def pay() -> None:
        """Pay."""
        go_on.wait(30)
        done.append(1)

    result = await app.invoke("pay", idempotency_key="k")
    assert not done
    go_on.set()
    assert result.failure is not None
    assert result.failure.code == "TIMEOUT"


async def test_a_stopped_read_is_tried_again_whatever_it_gave() -> None:
    app = App("x")

    @app.action(retry={"retries": 1, "delay": 0}, timeout=0.05)
    async def look(ctx: Context) -> int:
        """Look."""
        if ctx.attempt == 1:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
        return ctx.attempt

    assert (await app.invoke("look")).data == 2


async def test_a_late_result_of_the_wrong_type_leaves_the_key_free() -> None:
    app = App("x", grace=5)
    runs: list[int] = []

    @app.action(side_effects="write")
    async def act() -> int:
        """Act."""
        runs.append(1)
        if len(runs) > 1:
            return 1
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "nothing"  # type: ignore[return-value]

    assert not (await app.invoke("act", idempotency_key="k", timeout=0.05)).ok
    async with asyncio.timeout(5):
        assert (await app.invoke("act", idempotency_key="k")).data == 1


async def test_kept_results_expire(fixed_clock: FixedClock) -> None:
    ledger = Ledger(idempotency=MemoryIdempotency(ttl=60, monotonic=fixed_clock.monotonic))
    await ledger.pay()
    fixed_clock.move(59)
    assert (await ledger.pay()).replayed
    fixed_clock.move(2)
    assert not (await ledger.pay()).replayed


async def test_the_default_store_keeps_five_minutes(fixed_clock: FixedClock) -> None:
    ledger = Ledger(clock=fixed_clock)
    await ledger.pay()
    fixed_clock.move(299)
    assert (await ledger.pay()).replayed
    fixed_clock.move(2)
    assert not (await ledger.pay()).replayed


async def test_an_expired_key_may_be_used_for_another_request(fixed_clock: FixedClock) -> None:
    ledger = Ledger(clock=fixed_clock)
    await ledger.pay(5)
    fixed_clock.move(301)
    assert (await ledger.pay(6)).ok


async def test_only_the_oldest_key_is_dropped_when_the_store_is_full() -> None:
    ledger = Ledger(idempotency=MemoryIdempotency(max_entries=2))
    for key in ("a", "b", "c"):
        await ledger.pay(key=key)
    assert (await ledger.pay(key="c")).replayed
    assert (await ledger.pay(key="b")).replayed
    assert not (await ledger.pay(key="a")).replayed


async def test_a_replay_makes_a_key_recent() -> None:
    ledger = Ledger(idempotency=MemoryIdempotency(max_entries=2))
    await ledger.pay(key="a")
    await ledger.pay(key="b")
    await ledger.pay(key="a")
    await ledger.pay(key="c")
    assert (await ledger.pay(key="a")).replayed
    assert not (await ledger.pay(key="b")).replayed


async def test_a_full_store_of_running_calls_forgets_none_of_them() -> None:
    ledger = Ledger(idempotency=MemoryIdempotency(max_entries=1))
    ledger.gate.clear()
    leaders = [ledger.begin(key=key) for key in "abc"]
    await ledger.started.wait()
    followers = [ledger.begin(key=key) for key in "abc"]
    await asyncio.sleep(0)
    ledger.gate.set()
    await asyncio.gather(*leaders, *followers)
    assert len(ledger.effects) == 3


def test_a_kept_key_is_never_free_while_others_replay_it() -> None:
    store = MemoryIdempotency()
    store.claim("k", b"request")
    store.settle("k", b"record")
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            states = pool.map(lambda _: store.claim("k", b"request").state, range(20_000), chunksize=5000)
            assert set(states) == {"replay"}
    finally:
        sys.setswitchinterval(interval)


async def test_results_are_copies_in_both_directions() -> None:
    ledger = Ledger()
    first = await ledger.pay()
    first.data["items"].append("changed by the first caller")
    first.data["paid"] = -1
    first.logs.clear()
    first.artifacts[0]["name"] = "changed"
    second = await ledger.pay()
    assert second.data == {"paid": 5, "items": [1, 2]}
    assert (len(second.logs), second.artifacts[0]["name"]) == (1, "receipt")
    second.data["items"].clear()
    third = await ledger.pay()
    assert third.data == {"paid": 5, "items": [1, 2]}


async def test_what_the_body_keeps_of_its_result_cannot_change_the_replay() -> None:
    app = App("x")
    kept: list[dict[str, int]] = []

    @app.action(side_effects="write")
    async def act() -> dict[str, int]:
        """Act."""
        kept.append({"n": 1})
        return kept[0]

    await app.invoke("act", idempotency_key="k")
    kept[0]["n"] = 2
    assert (await app.invoke("act", idempotency_key="k")).data == {"n": 1}


class Broken(MemoryIdempotency):
    """A store that fails at one step."""

    def __init__(self, step: str) -> None:
        super().__init__()
        self.step = step

    def claim(self, key: str, request: bytes) -> Claim:
        if self.step == "claim":
            raise ConnectionError("password=hunter2hunter2")
        return super().claim(key, request)

    def settle(self, key: str, kept: Any, shared: bytes | None = None) -> None:
        if self.step == "settle":
            raise ConnectionError("gone")
        super().settle(key, kept, shared)


async def test_a_store_that_cannot_be_asked_stops_the_call_before_any_effect() -> None:
    ledger = Ledger(idempotency=Broken("claim"))
    result = await ledger.pay()
    assert result.failure is not None
    assert "hunter2" not in result.failure.message
    assert ledger.effects == []


async def test_a_store_that_cannot_keep_does_not_turn_a_success_into_a_failure() -> None:
    ledger = Ledger(idempotency=Broken("settle"))
    assert (await ledger.pay()).data == {"paid": 5, "items": [1, 2]}


class Remote:
    """A store that answers later, as one over a network does."""

    def __init__(self) -> None:
        self.inner = MemoryIdempotency()

    async def claim(self, key: str, request: bytes) -> Claim:
        await asyncio.sleep(0)
        return self.inner.claim(key, request)

    async def settle(self, key: str, kept: Any, shared: bytes | None = None) -> None:
        await asyncio.sleep(0)
        self.inner.settle(key, kept, shared)

    async def wait(self, key: str) -> bytes | None:
        return await self.inner.wait(key)


async def test_a_store_may_answer_later() -> None:
    ledger = Ledger(idempotency=Remote())
    results = await asyncio.gather(*(ledger.pay() for _ in range(5)))
    assert len(ledger.effects) == 1
    assert all(result.ok for result in results)
    assert (await ledger.pay()).replayed
    conflict = await ledger.pay(6)
    assert conflict.failure is not None
    assert conflict.failure.kind is Kind.conflict


async def test_a_replay_asks_for_permission_and_confirmation_again() -> None:
    allowed = [True]
    app = App("x", permission_checker=lambda action, given, context: allowed[0])
    app.add(lambda: 1, name="act", description="Act.", side_effects="destructive")
    assert (await app.invoke("act", idempotency_key="k", confirm=True)).ok
    unconfirmed = await app.invoke("act", idempotency_key="k")
    assert unconfirmed.failure is not None
    assert unconfirmed.failure.code == "CONFIRMATION_REQUIRED"
    allowed[0] = False
    denied = await app.invoke("act", idempotency_key="k", confirm=True)
    assert denied.failure is not None
    assert denied.failure.code == "AUTHORIZATION_ERROR"


async def test_secrets_in_kept_logs_stay_hidden() -> None:
    app = App("x")

    @app.action(side_effects="write")
    async def act(ctx: Context) -> int:
        """Act."""
        ctx.logger.info("password=hunter2hunter2", token="abc")
        return 1

    await app.invoke("act", idempotency_key="k")
    assert "hunter2" not in str((await app.invoke("act", idempotency_key="k")).logs)


class Color(enum.Enum):
    red = "red"


async def test_inputs_of_every_type_can_be_keyed() -> None:
    from datetime import date
    from decimal import Decimal

    app = App("x")

    @app.action(side_effects="write")
    async def act(
        tags: set[str], day: date, price: Decimal, color: Color, id: uuid.UUID, raw: bytes, big: int
    ) -> int:
        """Act."""
        return len(tags)

    given = {
        "day": "2024-01-01",
        "price": "1.50",
        "color": "red",
        "id": str(uuid.UUID(int=5)),
        "raw": "abc",
        "big": 10**30,
    }
    tags = [str(n) for n in range(50)]
    first = await app.invoke("act", {"tags": tags, **given}, idempotency_key="k")
    again = await app.invoke("act", {"tags": tags[::-1], **given}, idempotency_key="k")
    assert first.failure is None, first.to_dict()
    assert again.failure is None, again.to_dict()
    assert again.replayed


def test_of_two_threads_that_find_an_expired_key_one_is_first(fixed_clock: FixedClock) -> None:
    store = MemoryIdempotency(ttl=1, monotonic=fixed_clock.monotonic)
    states: list[str] = []

    class Contended:
        """The store's lock, which a second thread gets while the first one waits for it."""

        def __init__(self, lock: Any) -> None:
            self._lock = lock
            self._second: Any = lambda: states.append(store.claim("k", b"request").state)

        def __enter__(self) -> None:
            second, self._second = self._second, lambda: None
            second()
            self._lock.acquire()

        def __exit__(self, *_: object) -> None:
            self._lock.release()

    assert store.claim("k", b"request").state == "fresh"
    store.settle("k", b"kept")
    fixed_clock.move(2)
    store._lock = Contended(store._lock)  # type: ignore[assignment]
    states.append(store.claim("k", b"request").state)
    assert states == ["fresh", "in_flight"]


async def test_many_threads_with_one_key_have_one_effect() -> None:
    import threading

    app = App("x")
    effects: list[int] = []
    lock = threading.Lock()

    @app.action(side_effects="write")
    def act() -> int:
        """Act."""
        with lock:
            effects.append(1)
        return 1

    def run() -> None:
        asyncio.run(call())

    async def call() -> None:
        assert (await app.invoke("act", idempotency_key="k")).ok

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join, 10)
    assert not any(thread.is_alive() for thread in threads)
    assert effects == [1]


STEP = st.sampled_from(["tick", "cancel signal", "cancel task", "open", "advance"])


@given(
    calls=st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from([1, 2]), st.sampled_from(["ann", "bob"]), STEP),
        min_size=1,
        max_size=12,
    ),
    failures=st.integers(0, 2),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
async def test_any_interleaving_keeps_the_promise(
    calls: list[tuple[str, int, str, str]], failures: int
) -> None:
    """A success is given for each (caller, key) once, whatever is cancelled or fails in between."""
    ledger = Ledger()
    ledger.failures = failures
    ledger.gate.clear()
    tasks: list[asyncio.Task[Result]] = []
    for key, amount, user, step in calls:
        signal = Signal()
        tasks.append(ledger.begin(amount, key, user=user, signal=signal))
        if step == "open":
            ledger.gate.set()
        elif step == "cancel signal":
            signal.cancel()
        elif step == "cancel task":
            await asyncio.sleep(0)
            tasks[-1].cancel()
        elif step == "advance":
            for _ in range(5):
                await asyncio.sleep(0)
        await asyncio.sleep(0)
    ledger.gate.set()
    async with asyncio.timeout(10):
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    first: dict[tuple[str, str], Any] = {}
    fresh: dict[tuple[str, str], int] = {}
    for (key, amount, user, _), outcome in zip(calls, outcomes, strict=True):
        if isinstance(outcome, asyncio.CancelledError):
            continue
        assert isinstance(outcome, Result)
        if not outcome.ok:
            continue
        assert outcome.data["paid"] == amount
        assert first.setdefault((user, key), outcome.data) == outcome.data
        fresh[user, key] = fresh.get((user, key), 0) + (not outcome.replayed)
    # A cancelled leader may have had its effect without telling anyone; a told success is never told twice as new.
    assert all(count <= 1 for count in fresh.values())
