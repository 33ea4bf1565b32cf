"""How much runs at once: a limit, a queue with a bound, and slots that are held until the work has really stopped."""

import asyncio
import threading
import time
from collections import deque
from typing import Any

import pytest

from fairlead import App, Kind
from fairlead.runtime import Result, Signal


class Room:
    """An app whose one action waits until it is let go, and counts how many are inside."""

    def __init__(self, concurrency: Any, **options: Any) -> None:
        self.app = App("x", grace=0.01)
        self.inside = 0
        self.most = 0
        self.order: list[int] = []
        self.entered = asyncio.Event()
        self.let_go = asyncio.Event()

        @self.app.action(concurrency=concurrency, **options)
        async def act(n: int = 0) -> int:
            """Act."""
            self.inside += 1
            self.most = max(self.most, self.inside)
            self.order.append(n)
            self.entered.set()
            try:
                await self.let_go.wait()
            finally:
                self.inside -= 1
            return n

    def begin(self, n: int = 0, **options: Any) -> asyncio.Task[Result]:
        return asyncio.create_task(self.app.invoke("act", {"n": n}, **options))

    async def call(self, n: int = 0, **options: Any) -> Result:
        return await self.app.invoke("act", {"n": n}, **options)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_past_the_limit_a_call_is_refused_and_the_first_finishes() -> None:
    room = Room(1)
    first = room.begin()
    await room.entered.wait()
    second = await room.call()
    assert second.failure is not None
    assert second.failure.kind is Kind.busy
    assert second.to_dict()["error"]["retryable"] is True
    room.let_go.set()
    assert (await first).ok
    assert (await room.call()).ok


async def test_no_limit_lets_all_in() -> None:
    room = Room(0)
    tasks = [room.begin(n) for n in range(50)]
    await settle()
    assert room.inside == 50
    room.let_go.set()
    assert all(result.ok for result in await asyncio.gather(*tasks))


async def test_the_limit_is_for_each_action() -> None:
    room = Room(1)
    room.app.add(lambda: 1, name="other", description="Other.", concurrency=1)
    first = room.begin()
    await room.entered.wait()
    assert (await room.app.invoke("other")).ok
    room.let_go.set()
    await first


async def test_a_queue_lets_calls_wait_in_order() -> None:
    room = Room({"max": 1, "queue": 3})
    tasks = []
    for n in range(4):
        tasks.append(room.begin(n))
        await settle()
    room.let_go.set()
    results = await asyncio.gather(*tasks)
    assert [result.data for result in results] == room.order == [0, 1, 2, 3]
    assert room.most == 1


async def test_a_full_queue_refuses() -> None:
    room = Room({"max": 1, "queue": 1})
    first, second = room.begin(0), room.begin(1)
    await settle()
    third = await room.call(2)
    assert third.failure is not None
    assert third.failure.kind is Kind.busy
    room.let_go.set()
    assert (await first).ok
    assert (await second).ok


async def test_waiting_has_a_limit() -> None:
    room = Room({"max": 1, "queue": 1, "wait": 0.01})
    first = room.begin(0)
    await room.entered.wait()
    second = await room.call(1)
    assert second.failure is not None
    assert second.failure.kind is Kind.busy
    assert second.failure.details["limit"] == "wait"
    room.let_go.set()
    assert (await first).ok
    assert (await room.call(2)).ok


async def test_the_deadline_covers_waiting() -> None:
    room = Room({"max": 1, "queue": 1})
    first = room.begin(0)
    await room.entered.wait()
    second = await room.call(1, deadline=0.01)
    assert second.failure is not None
    assert second.failure.kind is Kind.timeout
    assert second.failure.details["limit"] == "deadline"
    room.let_go.set()
    assert (await first).ok


async def test_the_time_out_of_an_attempt_does_not_run_while_waiting() -> None:
    room = Room({"max": 1, "queue": 1})
    first = room.begin(0)
    await room.entered.wait()
    second = room.begin(1, timeout=0.02)
    await asyncio.sleep(0.04)
    room.let_go.set()
    assert (await first).ok
    assert (await second).ok


@pytest.mark.parametrize("how", ["signal", "task"])
async def test_one_who_leaves_the_queue_frees_the_place(how: str) -> None:
    room = Room({"max": 1, "queue": 1})
    first = room.begin(0)
    await room.entered.wait()
    signal = Signal()
    second = room.begin(1, signal=signal)
    await settle()
    if how == "signal":
        signal.cancel()
        result = await second
        assert result.failure is not None
        assert result.failure.code == "CANCELLED"
    else:
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
    third = room.begin(2)
    await settle()
    room.let_go.set()
    assert (await first).ok
    assert (await third).ok
    assert room.order == [0, 2]


async def test_a_slot_that_comes_as_its_waiter_leaves_is_not_lost() -> None:
    room = Room({"max": 1, "queue": 5})
    first = room.begin(0)
    await room.entered.wait()
    second = room.begin(1)
    await settle()
    room.let_go.set()
    # The slot is handed over and the waiter cancelled in the same breath.
    await first
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    async with asyncio.timeout(5):
        assert (await room.call(2)).ok


async def test_a_failed_call_gives_its_slot_back() -> None:
    app = App("x")

    @app.action(concurrency=1)
    async def fail() -> None:
        """Fail."""
        raise ValueError

    for _ in range(3):
        result = await app.invoke("fail")
        assert result.failure is not None
        assert result.failure.code == "INTERNAL_ERROR"


async def test_a_stopped_body_holds_its_slot_until_it_has_stopped() -> None:
    app = App("x", grace=0.01)
    let_go = asyncio.Event()
    stopped = asyncio.Event()

    @app.action(concurrency=1)
    async def stubborn() -> None:
        """Linger."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await let_go.wait()
        finally:
            stopped.set()

    first = await app.invoke("stubborn", timeout=0.01)
    assert first.failure is not None
    assert first.failure.code == "TIMEOUT"
    second = await app.invoke("stubborn", timeout=0.01)
    assert second.failure is not None
    assert second.failure.code == "CONCURRENCY_LIMIT"
    let_go.set()
    await stopped.wait()
    await settle()
    third = await app.invoke("stubborn", timeout=0.01)
    assert third.failure is not None
    assert third.failure.code == "TIMEOUT"


async def test_a_sync_body_holds_its_slot_until_its_thread_has_stopped() -> None:
    app = App("x", grace=0.01)
    let_go = threading.Event()
    running = []
    most = []

    @app.action(concurrency=1)
    def stubborn() -> None:
        """Linger."""
        running.append(1)
        most.append(len(running))
        let_go.wait(5)
        running.pop()

    first = await app.invoke("stubborn", timeout=0.2)
    assert first.failure is not None
    assert first.failure.code == "TIMEOUT"
    for _ in range(3):
        refused = await app.invoke("stubborn", timeout=0.01)
        assert refused.failure is not None
        assert refused.failure.code == "CONCURRENCY_LIMIT"
    let_go.set()
    async with asyncio.timeout(5):
        while not (await app.invoke("stubborn")).ok:
            await asyncio.to_thread(time.sleep, 0.001)
    assert max(most) == 1


async def test_a_stubborn_sync_body_passes_its_slot_on_to_the_queue() -> None:
    app = App("x", grace=0.01)
    let_go = threading.Event()

    @app.action(concurrency={"max": 1, "queue": 1})
    def stubborn() -> int:
        """Linger."""
        let_go.wait(5)
        return 1

    first = await app.invoke("stubborn", timeout=0.2)
    assert not first.ok
    second = asyncio.create_task(app.invoke("stubborn"))
    await settle()
    assert not second.done()
    let_go.set()
    async with asyncio.timeout(5):
        assert (await second).ok


async def test_the_gate_holds_across_loops() -> None:
    app = App("x")
    lock = threading.Lock()
    inside: list[int] = []
    most: list[int] = []

    @app.action(concurrency={"max": 2, "queue": 100})
    async def act() -> None:
        """Act."""
        with lock:
            inside.append(1)
            most.append(len(inside))
        await asyncio.sleep(0.001)
        with lock:
            inside.pop()

    async def many() -> None:
        results = await asyncio.gather(*(app.invoke("act") for _ in range(10)))
        assert all(result.ok for result in results)

    async with asyncio.timeout(10):
        await asyncio.gather(*(asyncio.to_thread(asyncio.run, many()) for _ in range(3)))
    assert max(most) <= 2


async def test_a_slot_that_another_thread_takes_first_costs_nobody_a_place_in_the_queue() -> None:
    room = Room({"max": 1, "queue": 1})
    taken: list[None] = []

    class Contended(deque[None]):
        """Free slots, the first of which another thread takes in the moment in which it is given on."""

        def pop(self) -> None:  # type: ignore[override]
            slot = super().pop()
            if not taken:
                taken.append(slot)
                raise IndexError

    first = room.begin(1)
    await room.entered.wait()
    plan = room.app._plan("act")
    assert plan is not None
    gate = plan.gate
    assert gate is not None
    gate.slots = Contended(gate.slots)
    second = room.begin(2)
    await asyncio.sleep(0)
    assert gate.waiters
    room.let_go.set()
    assert (await first).failure is None
    assert taken
    gate.leave()  # the other thread's call
    async with asyncio.timeout(5):
        assert (await second).data == 2


async def test_a_slot_and_a_key_come_back_although_the_loop_of_their_call_is_gone() -> None:
    """`asyncio.run(app.invoke(...))`, again and again, is how scripts call actions."""
    app = App("x", grace=0.01)
    let_go = threading.Event()
    stopped = threading.Event()

    @app.action(concurrency=1, side_effects="write")
    def stubborn() -> int:
        """Linger."""
        try:
            let_go.wait(5)
            return 1
        finally:
            stopped.set()

    async def once() -> Result:
        return await app.invoke("stubborn", timeout=0.2, idempotency_key="k")

    first = await asyncio.to_thread(lambda: asyncio.run(once()))
    assert first.failure is not None
    assert first.failure.code == "TIMEOUT"
    let_go.set()
    await asyncio.to_thread(stopped.wait, 5)
    async with asyncio.timeout(5):
        while (again := await app.invoke("stubborn", idempotency_key="k", timeout=1)).failure is not None:
            assert again.failure.code == "CONCURRENCY_LIMIT", "the key is held for ever"
            await asyncio.to_thread(time.sleep, 0.001)
