"""Calls leave nothing behind."""

import asyncio
import gc
import tracemalloc
import weakref
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import pytest

from fairlead import Action, App, Context, Failure, Kind
from fairlead.runtime import MemoryIdempotency, Signal


def board() -> App:
    app = App(
        "x",
        hooks={"on_invocation_end": lambda invocation: None},
        idempotency=MemoryIdempotency(max_entries=10),
    )

    @app.action(side_effects="write", concurrency=10, rate_limit="1000000/second", retry=1, timeout=5)
    async def work(n: int, ctx: Context) -> int:
        """Work."""
        ctx.logger.info("working", n=n)
        return n

    @app.action
    async def plain(n: int) -> int:
        """Add."""
        return n

    @app.action
    async def fail() -> None:
        """Fail."""
        raise Failure(Kind.conflict, "x")

    @app.action
    def threaded(n: int) -> int:
        """Work in a thread."""
        return n

    return app


async def plain(app: App, n: int) -> None:
    assert (await app.invoke("plain", {"n": n})).data == n


async def everything(app: App, n: int) -> None:
    result = await app.invoke("work", {"n": n}, idempotency_key=str(n), user=f"user {n % 7}", signal=Signal())
    assert result.data == n


async def failing(app: App, n: int) -> None:
    assert not (await app.invoke("fail")).ok
    assert not (await app.invoke("plain", {"n": "x"})).ok
    assert not (await app.invoke(f"unknown {n}")).ok


async def threaded(app: App, n: int) -> None:
    assert (await app.invoke("threaded", {"n": n})).data == n


async def streamed(app: App, n: int) -> None:
    async for _event in app.stream("work", {"n": n}):
        pass


@pytest.mark.parametrize(
    ("use", "calls"),
    [(plain, 10_000), (everything, 2_000), (failing, 800), (threaded, 2_000), (streamed, 1_500)],
    ids=lambda each: each.__name__ if callable(each) else "",
)
async def test_memory_is_flat(use: Callable[[App, int], Awaitable[None]], calls: int) -> None:
    app = board()
    for n in range(300):
        await use(app, n)
    tracemalloc.start()
    try:
        sizes = []
        for part in range(3):
            for n in range(calls // 2):
                await use(app, 300 + part * calls + n)
            await asyncio.sleep(0)
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    # A leak of one small object a call would show as tens of bytes a call, each time. Ids are made, and kept
    # results dropped, by the batch, and other threads of the test run keep things too: that shows once.
    grown = min(later - earlier for earlier, later in pairwise(sizes))
    assert grown < 8 * calls // 2, sizes


async def test_no_tasks_or_threads_are_left_behind() -> None:
    import threading

    app = board()
    for n in range(20):
        await everything(app, n)
        await streamed(app, n)
        await threaded(app, n)
    before = threading.active_count()
    for n in range(20, 60):
        await everything(app, n)
        await streamed(app, n)
        await threaded(app, n)
    assert threading.active_count() <= before + 1
    assert len(asyncio.all_tasks()) == 1


async def test_a_result_can_be_dropped_without_waiting_for_the_collector() -> None:
    app = App("x")

    class Box:
        pass

    boxes: list[Any] = []

    @app.action
    async def keep(ctx: Context) -> int:
        """Keep."""
        box = Box()
        ctx.metadata["box"] = box  # type: ignore[index]
        boxes.append(weakref.ref(box))
        return 1

    gc.collect()
    gc.disable()
    try:
        result = await app.invoke("keep", metadata={})
        assert result.ok
        del result
        assert boxes[0]() is None
    finally:
        gc.enable()


async def test_a_short_result_that_is_kept_takes_little_room() -> None:
    app = App("x", idempotency=MemoryIdempotency(max_entries=1000))

    @app.action(side_effects="write")
    async def work(n: int, ctx: Context) -> int:
        """Work."""
        ctx.logger.info("working", tags=["a", "b"])
        return n

    await app.invoke("work", {"n": 0}, idempotency_key="first")
    tracemalloc.start()
    try:
        for n in range(500):
            await app.invoke("work", {"n": n}, idempotency_key=str(n))
        gc.collect()
        size = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert size < 500 * 2048


async def made_for_one_run(n: int) -> Action[..., Any]:
    async def work() -> int:
        """Work."""
        return n

    return Action(work)


async def test_actions_that_are_called_once_and_in_no_catalogue_are_let_go_of() -> None:
    app, seen = App("x"), []
    for n in range(1500):
        action = await made_for_one_run(n)
        assert (await app.invoke(action)).data == n
        seen.append(weakref.ref(action))
    del action
    gc.collect()
    assert seen[0]() is None
    assert sum(each() is not None for each in seen) < 1100


async def test_actions_that_are_taken_out_are_let_go_of_and_those_that_stay_keep_their_limits() -> None:
    app, leave = App("x"), asyncio.Event()

    @app.action(concurrency={"max": 1, "queue": 0})
    async def stays() -> None:
        """Stay."""
        await leave.wait()

    async def passes() -> None:
        """Pass."""
        await leave.wait()

    # One that is not in the catalogue, and busy, is remembered for as long as it is.
    passing: Action[..., Any] = Action(passes, concurrency={"max": 1, "queue": 0})
    held = [asyncio.create_task(app.invoke(each)) for each in (stays, passing)]
    await asyncio.sleep(0)
    seen = []
    for n in range(1500):
        action = await made_for_one_run(n)
        app.add(action)
        assert (await app.invoke("work")).data == n
        app.catalogue.remove_all([action])
        seen.append(weakref.ref(action))
    del action
    gc.collect()
    assert seen[0]() is None
    for each in (stays, passing):
        failure = (await app.invoke(each)).failure
        assert failure is not None
        assert failure.kind is Kind.busy
    leave.set()
    await asyncio.gather(*held)
