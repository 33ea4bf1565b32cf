"""One effect for one key, over all processes on one store, through crashes, stops and lost connections."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import textwrap
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairlead import App, Context, Failure, Kind
from fairlead.runtime import Result
from fairlead.store import DurableIdempotency, Statement, Store, Tx, open_store
from fairlead.store import idempotency as module
from servers import PATIENCE, Postgres, until
from warm import Warm
from warm_child import Child

T = TypeVar("T")
COUNT = Statement.of("SELECT count(*) FROM idempotency")
ROW = Statement.of("SELECT until, record FROM idempotency")
REQUEST = b'{"amount":5}'


class Clock:
    """A time that stands still until it is moved."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Ledger:
    """An app of one process, with one effect to count, which waits at a gate when told to."""

    def __init__(self, keys: DurableIdempotency, effects: list[str], name: str = "a") -> None:
        self.app = App("x", idempotency=keys)
        self.started = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self.failing = False

        @self.app.action(side_effects="write")
        async def pay(amount: int, ctx: Context) -> dict[str, Any]:
            """Pay."""
            effects.append(name)
            self.started.set()
            ctx.logger.info("paying")
            await self.gate.wait()
            if self.failing:
                raise Failure(Kind.upstream, "the bank is closed")
            return {"paid": amount, "by": name}

    async def pay(self, amount: int = 5, key: str = "k") -> Result:
        return await asyncio.wait_for(
            self.app.invoke("pay", {"amount": amount}, idempotency_key=key), PATIENCE
        )

    def begin(self, amount: int = 5) -> asyncio.Task[Result]:
        return asyncio.create_task(self.pay(amount))


class Pair:
    """Two processes on one store, as far as the store can tell."""

    def __init__(self, stores: tuple[Store, Store]) -> None:
        self.effects: list[str] = []
        self.keys = [DurableIdempotency(store, lease=3600.0) for store in stores]
        self.a, self.b = (
            Ledger(keys, self.effects, name) for keys, name in zip(self.keys, "ab", strict=True)
        )


@pytest.fixture
def stores(store_url: str) -> Iterator[tuple[Store, Store]]:
    one, other = open_store(url=store_url), open_store(url=store_url)
    yield one, other
    one.close()
    other.close()


@pytest.fixture
def pair(stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch) -> Pair:
    # Nobody looks by himself: who is woken was told.
    monkeypatch.setattr(module, "_LOOK", 3600.0)
    return Pair(stores)


async def waits(store: Store) -> None:
    """Until somebody waits for a call in another process."""
    awaited = Statement.of("SELECT max(awaited) FROM idempotency")
    await asyncio.to_thread(until, lambda: bool(rows(store, awaited)[0][0]), "nobody waits")


def rows(store: Store, statement: Statement = ROW) -> list[Any]:
    return store.read_now(lambda tx: tx.all(statement))


async def test_the_same_request_gets_the_first_result_in_another_process(pair: Pair) -> None:
    first, second = await pair.a.pay(), await pair.b.pay()
    assert pair.effects == ["a"]
    assert second.data == first.data == {"paid": 5, "by": "a"}
    assert (first.replayed, second.replayed) == (False, True)
    assert second.logs == first.logs


async def test_another_request_with_the_same_key_is_a_conflict_in_every_process(pair: Pair) -> None:
    await pair.a.pay(5)
    for ledger in (pair.a, pair.b):
        result = await ledger.pay(6)
        assert result.failure is not None
        assert result.failure.kind is Kind.conflict
    assert pair.effects == ["a"]


async def test_a_twin_in_another_process_waits_and_is_woken(pair: Pair, stores: tuple[Store, Store]) -> None:
    pair.a.gate.clear()
    leader = pair.a.begin()
    await pair.a.started.wait()
    followers = [pair.b.begin() for _ in range(3)]
    await waits(stores[0])
    other = await pair.b.pay(6)
    assert other.failure is not None
    assert other.failure.kind is Kind.conflict
    pair.a.gate.set()
    results = [await leader, *(await asyncio.gather(*followers))]
    assert pair.effects == ["a"]
    assert [result.replayed for result in results] == [False, True, True, True]


async def test_a_twin_in_another_process_hears_of_the_failure(
    pair: Pair, stores: tuple[Store, Store]
) -> None:
    pair.a.gate.clear()
    pair.a.failing = True
    leader = pair.a.begin()
    await pair.a.started.wait()
    follower = pair.b.begin()
    await waits(stores[0])
    pair.a.gate.set()
    results = [await leader, await follower]
    assert [result.failure and result.failure.kind for result in results] == [Kind.upstream] * 2
    assert pair.effects == ["a"]
    assert (await pair.b.pay()).data == {"paid": 5, "by": "b"}


async def test_a_cancelled_call_hands_the_key_on_to_its_twin(pair: Pair, stores: tuple[Store, Store]) -> None:
    pair.a.gate.clear()
    leader = pair.a.begin()
    await pair.a.started.wait()
    follower = pair.b.begin()
    await waits(stores[0])
    leader.cancel()
    assert (await follower).data == {"paid": 5, "by": "b"}
    assert pair.effects == ["a", "b"]


async def test_twins_in_one_process_share_one_run_and_ask_the_store_once(pair: Pair) -> None:
    pair.a.gate.clear()
    twins = [pair.a.begin() for _ in range(10)]
    await pair.a.started.wait()
    pair.a.gate.set()
    results = await asyncio.gather(*twins)
    assert pair.effects == ["a"]
    assert sorted(result.replayed for result in results) == [False] + [True] * 9


async def test_what_failed_may_be_tried_again_with_another_request(pair: Pair) -> None:
    pair.a.failing = True
    assert not (await pair.a.pay(5)).ok
    assert (await pair.b.pay(6)).ok


async def test_a_call_that_ran_out_of_time_holds_its_key_until_it_has_really_ended(
    stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOOK", 3600.0)
    going = threading.Event()
    effects: list[str] = []
    apps = [App("x", idempotency=DurableIdempotency(store, lease=3600.0), grace=0.01) for store in stores]
    for app in apps:

        @app.action(side_effects="write", timeout=0.3)
        def pay() -> str:
            """Pay."""
            effects.append("paid")
            going.wait(PATIENCE)
            return "paid"

    late = await apps[0].invoke("pay", idempotency_key="k")
    assert late.failure is not None
    assert late.failure.kind is Kind.timeout
    twin = asyncio.create_task(apps[1].invoke("pay", idempotency_key="k", timeout=PATIENCE))
    await waits(stores[0])
    going.set()
    told = await twin
    assert (told.data, told.replayed) == ("paid", True)
    assert effects == ["paid"]


async def test_apps_of_other_names_do_not_share_keys(stores: tuple[Store, Store]) -> None:
    one, other = (DurableIdempotency(store, name=name) for store, name in zip(stores, "xy", strict=True))
    assert (await one.claim("k", REQUEST)).state == "fresh"
    assert (await other.claim("k", REQUEST)).state == "fresh"


async def test_a_cancelled_claim_is_given_back(stores: tuple[Store, Store]) -> None:
    keys = [DurableIdempotency(store, lease=3600.0) for store in stores]
    asking = asyncio.create_task(keys[0].claim("k", REQUEST))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    while (await keys[1].claim("k", REQUEST)).state != "fresh":
        await asyncio.wait_for(keys[1].wait("k"), PATIENCE)


async def test_a_key_may_hold_any_text(stores: tuple[Store, Store]) -> None:
    keys = DurableIdempotency(stores[0])
    for key in ("\x00", "\ud800", "k" * 100_000, "", "'; DROP TABLE idempotency; --"):
        assert (await keys.claim(key, b"\x00\xff")).state == "fresh"


def test_threads_with_loops_of_their_own_share_one_run(stores: tuple[Store, Store]) -> None:
    keys = [DurableIdempotency(store) for store in stores]
    effects: list[str] = []
    results: list[Result] = []

    def call(number: int) -> None:
        async def pay() -> Result:
            return await Ledger(keys[number % 2], effects).pay()

        results.append(asyncio.run(pay()))

    threads = [threading.Thread(target=call, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert effects == ["a"]
    assert sorted(result.replayed for result in results) == [False] + [True] * 7


async def test_a_record_is_kept_for_its_time_and_no_longer(stores: tuple[Store, Store]) -> None:
    clock = Clock()
    keys = DurableIdempotency(stores[0], ttl=100.0, lease=10.0, clock=clock)
    await keys.claim("k", REQUEST)
    await _settled(keys, b"done")
    clock.now += 99
    assert await keys.claim("k", REQUEST) == ("replay", b"done")
    assert (await keys.claim("k", b"other")).state == "conflict"
    clock.now += 1
    assert (await keys.claim("k", b"other")).state == "fresh"


async def _settled(keys: DurableIdempotency, record: bytes | None, shared: bytes | None = None) -> None:
    settling = keys.settle("k", record, shared)
    assert settling is not None
    await settling


@pytest.mark.parametrize("late", ["before", "after"])
@pytest.mark.parametrize("record", [b"late", None])
async def test_who_was_overtaken_does_not_overwrite_the_one_that_took_over(
    stores: tuple[Store, Store], late: str, record: bytes | None
) -> None:
    clock = Clock()
    slow, quick = (DurableIdempotency(store, lease=600.0, clock=clock) for store in stores)
    assert (await slow.claim("k", REQUEST)).state == "fresh"
    clock.now += 601
    assert (await quick.claim("k", REQUEST)).state == "fresh"
    if late == "before":
        await _settled(slow, record, b"shared")
        assert (await slow.claim("k", REQUEST)).state == "in_flight"
    await _settled(quick, b"taken over")
    if late == "after":
        await _settled(slow, record, b"shared")
    for keys in (slow, quick):
        assert await keys.claim("k", REQUEST) == ("replay", b"taken over")


async def test_a_late_success_is_kept_where_nobody_took_over(stores: tuple[Store, Store]) -> None:
    clock = Clock()
    slow, other = (DurableIdempotency(store, lease=600.0, clock=clock) for store in stores)
    await slow.claim("k", REQUEST)
    clock.now += 6000
    # As if it had been pruned.
    stores[1].write_now(lambda tx: tx.run(Statement.of("DELETE FROM idempotency")))
    await _settled(slow, b"late")
    assert await other.claim("k", REQUEST) == ("replay", b"late")


async def test_a_key_that_is_held_here_is_not_taken_over_here(stores: tuple[Store, Store]) -> None:
    clock = Clock()
    keys = DurableIdempotency(stores[0], lease=600.0, clock=clock)
    await keys.claim("k", REQUEST)
    clock.now += 6000
    assert (await keys.claim("k", REQUEST)).state == "in_flight"
    assert (await keys.claim("k", b"other")).state == "conflict"


async def test_a_lease_is_renewed_while_the_call_runs_though_its_loop_is_busy(
    stores: tuple[Store, Store],
) -> None:
    clock = Clock()
    busy, other = (DurableIdempotency(store, lease=0.6, clock=clock) for store in stores)
    await busy.claim("k", REQUEST)
    for _ in range(5):
        clock.now += 0.5
        # This loop runs nothing meanwhile.
        until(lambda: bool(rows(stores[1])[0][0] >= clock.now + 0.6), "the lease is not renewed")
    assert (await other.claim("k", REQUEST)).state == "in_flight"


class Cable:
    """The way to a store, which can be cut."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cut = False
        self._submit = store.submit
        monkeypatch.setattr(store, "submit", self.submit)

    def submit(self, work: Callable[[Any], T], write: bool) -> Future[T]:
        if self.cut:
            raise Failure(Kind.unavailable, "The store cannot be reached.")
        return self._submit(work, write)


async def test_a_result_that_could_not_be_kept_is_kept_when_the_store_is_back(
    stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    cable = Cable(stores[0], monkeypatch)
    effects: list[str] = []
    clock = Clock()
    ledger = Ledger(DurableIdempotency(stores[0], lease=0.3, clock=clock), effects)
    ledger.gate.clear()
    leader = ledger.begin()
    await ledger.started.wait()
    cable.cut = True
    ledger.gate.set()
    assert (await leader).ok
    assert (await ledger.pay()).replayed
    cable.cut = False
    until(lambda: rows(stores[1])[0][1] is not None, "the result is not kept")
    other = Ledger(DurableIdempotency(stores[1], clock=clock), effects, "b")
    assert (await other.pay()).replayed
    assert effects == ["a"]


async def test_a_store_that_cannot_be_reached_refuses_the_call_before_its_effect(
    stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    cable = Cable(stores[0], monkeypatch)
    cable.cut = True
    effects: list[str] = []
    ledger = Ledger(DurableIdempotency(stores[0]), effects)
    result = await ledger.pay()
    assert result.failure is not None
    assert result.failure.kind is Kind.unavailable
    assert effects == []
    cable.cut = False
    assert (await ledger.pay()).ok


async def test_a_restart_of_the_database_under_a_call_loses_neither_its_key_nor_its_result(
    own_postgres: Postgres,
) -> None:
    effects: list[str] = []
    with open_store(url=own_postgres.url()) as one, open_store(url=own_postgres.url()) as other:
        leader, follower = (Ledger(DurableIdempotency(store), effects) for store in (one, other))
        leader.gate.clear()
        first = leader.begin()
        await leader.started.wait()
        second = follower.begin()
        await waits(one)
        await asyncio.to_thread(own_postgres.restart)
        leader.gate.set()
        assert (await first).ok
        assert (await second).replayed
    assert effects == ["a"]


async def test_what_has_expired_is_pruned(stores: tuple[Store, Store]) -> None:
    clock = Clock()
    keys = DurableIdempotency(stores[0], ttl=10.0, lease=10.0, clock=clock)
    for number in range(100):
        await keys.claim(str(number), REQUEST)
        settling = keys.settle(str(number), b"x")
        assert settling is not None
        await settling
    clock.now += 1000
    for number in range(200, 330):
        await keys.claim(str(number), REQUEST)
    until(lambda: bool(rows(stores[0], COUNT)[0][0] == 130), "what has expired is there")


def test_neither_the_request_nor_the_caller_is_on_disk(tmp_path: Path) -> None:
    store = open_store(url=f"sqlite:///{tmp_path}/s.db")
    app = App("x", idempotency=DurableIdempotency(store))

    @app.action(side_effects="write")
    async def pay(card: str) -> str:
        """Pay."""
        return "paid"

    call: dict[str, Any] = {"idempotency_key": "key-of-ada", "user": "user-ada"}
    assert asyncio.run(app.invoke("pay", {"card": "card-4711"}, **call)).ok
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    store.close()
    assert b"paid" in written
    assert not any(text in written for text in (b"card-4711", b"key-of-ada", b"user-ada"))


#: Claims `k`, says so, waits for a line, and settles; the words it says are what it found.
HOLDER = """
import asyncio, os, sys
from fairlead.store import DurableIdempotency, open_store

async def main():
    keys = DurableIdempotency(open_store(url=sys.argv[1]), lease=float(sys.argv[2]))
    print((await keys.claim("k", b"r")).state, flush=True)
    sys.stdin.readline()
    await keys.settle("k", b"late")
    print("settled", flush=True)
    sys.stdin.readline()

asyncio.run(main())
"""


def process(warm: Warm, code: str, *arguments: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return Child(warm, "-c", textwrap.dedent(code), *arguments, stdin=pipe, stdout=pipe, text=True)


def said(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def tell(child: subprocess.Popen[str]) -> None:
    assert child.stdin is not None
    child.stdin.write("\n")
    child.stdin.flush()


async def taken(keys: DurableIdempotency) -> None:
    """Until the key is ours, after whoever has it now."""
    while (await keys.claim("k", b"r")).state != "fresh":
        await asyncio.wait_for(keys.wait("k"), PATIENCE)


async def test_kill_9_of_the_holder_frees_the_key_after_its_lease(
    stores: tuple[Store, Store], store_url: str, warm_python: Warm
) -> None:
    keys = DurableIdempotency(stores[0], lease=600.0)
    with process(warm_python, HOLDER, store_url, "1.0") as holder:
        assert said(holder) == "fresh"
        holder.kill()
    await taken(keys)
    await _settled(keys, b"done")
    assert await keys.claim("k", b"r") == ("replay", b"done")


async def test_a_holder_that_was_stopped_for_longer_than_its_lease_is_fenced(
    stores: tuple[Store, Store], store_url: str, warm_python: Warm
) -> None:
    keys = DurableIdempotency(stores[0], lease=600.0)
    with process(warm_python, HOLDER, store_url, "1.0") as holder:
        assert said(holder) == "fresh"

        def stop(tx: Tx) -> None:
            # While we hold the row it does not, and cannot be stopped with it.
            tx.run(Statement.of("UPDATE idempotency SET owner = owner"))
            os.kill(holder.pid, signal.SIGSTOP)
            os.waitid(os.P_PID, holder.pid, os.WSTOPPED)

        stores[0].write_now(stop)
        await taken(keys)
        os.kill(holder.pid, signal.SIGCONT)
        tell(holder)
        assert said(holder) == "settled"
        assert (await keys.claim("k", b"r")).state == "in_flight"
        await _settled(keys, b"done")
        tell(holder)
    assert await DurableIdempotency(stores[1]).claim("k", b"r") == ("replay", b"done")


async def test_a_call_that_takes_longer_than_its_lease_keeps_the_key(
    stores: tuple[Store, Store], store_url: str, warm_python: Warm
) -> None:
    with process(warm_python, HOLDER, store_url, "3.0") as holder:
        assert said(holder) == "fresh"
        begun = rows(stores[0])[0][0]
        until(lambda: bool(rows(stores[0])[0][0] >= begun + 3.0), "the lease is not renewed")
        tell(holder)
        assert said(holder) == "settled"
        tell(holder)
    assert await DurableIdempotency(stores[0]).claim("k", b"r") == ("replay", b"late")


CALLER = """
import asyncio, os, sys
from fairlead import App
from fairlead.store import DurableIdempotency, open_store

app = App("x", idempotency=DurableIdempotency(open_store(url=sys.argv[1])))

@app.action(side_effects="write")
async def pay(amount: int) -> int:
    "Pay."
    with open(sys.argv[2], "a") as effects:
        effects.write(f"{os.getpid()}\\n")
    return os.getpid()

print("ready", flush=True)
sys.stdin.readline()
print(asyncio.run(app.invoke("pay", {"amount": 5}, idempotency_key="k")).data, flush=True)
"""


def test_of_many_processes_at_once_one_has_the_effect(
    store_url: str, tmp_path: Path, warm_python: Warm
) -> None:
    open_store(url=store_url).close()
    effects = tmp_path / "effects"
    children = [process(warm_python, CALLER, store_url, str(effects)) for _ in range(4)]
    assert [said(child) for child in children] == ["ready"] * 4
    for child in children:
        tell(child)
    answers = {said(child) for child in children}
    for child in children:
        child.communicate()
    assert answers == set(effects.read_text().split())
    assert len(answers) == 1


Step = tuple[str, int, int]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("claim"), st.integers(0, 2), st.integers(0, 1)),
        st.tuples(st.sampled_from(["keep", "forget"]), st.integers(0, 2), st.just(0)),
        st.tuples(st.just("pass"), st.just(0), st.sampled_from([1, 5, 10, 100])),
    ),
    max_size=25,
)


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Store]]:
    path = tmp_path_factory.mktemp("trio") / "s.db"
    stores = [open_store(url=f"sqlite:///{path}") for _ in range(3)]
    yield stores
    for store in stores:
        store.close()


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=STEPS)
def test_whatever_the_order_a_live_claim_is_alone_and_what_is_kept_stays(
    trio: list[Store], steps: list[Step]
) -> None:
    """Leases of 10 seconds, records for 100, three processes, and a model that is a few lines."""
    asyncio.run(_held_to_the_model(trio, steps))


#: Of all examples: what one leaves to be pruned may be pruned while the next one runs, and by its time.
ONWARD = Clock()


async def _held_to_the_model(stores: list[Store], steps: list[Step]) -> None:
    clock = ONWARD
    clock.now += 10_000
    everyone = [
        DurableIdempotency(store, ttl=100.0, lease=10.0, clock=clock, name=str(id(steps))) for store in stores
    ]
    stores[0].write_now(lambda tx: tx.run(Statement.of("DELETE FROM idempotency")))
    running: dict[int, int] = {}
    # Who has the key, with which request, until when, and the record.
    row: tuple[int, int, float, bytes | None] | None = None
    for number, (what, who, value) in enumerate(steps):
        if what == "pass":
            clock.now += value
            continue
        if row is not None and row[2] <= clock.now:
            row = None  # free for all, though the one that held it may not know
        if what == "claim":
            claim = await everyone[who].claim("k", str(value).encode())
            if who in running:
                assert claim.state == ("in_flight" if running[who] == value else "conflict")
            elif row is None:
                assert claim.state == "fresh"
                running[who], row = value, (who, value, clock.now + 10, None)
            elif row[1] != value:
                assert claim.state == "conflict"
            else:
                assert claim == (("in_flight", None) if row[3] is None else ("replay", row[3]))
        elif who in running:
            record = str(number).encode() if what == "keep" else None
            settling = everyone[who].settle("k", record)
            assert settling is not None
            await settling
            mine = row is None or (row[0] == who and row[3] is None)
            if mine:
                row = None if record is None else (who, running[who], clock.now + 100, record)
            del running[who]
        else:
            assert everyone[who].settle("k", b"nobody asked") is None
