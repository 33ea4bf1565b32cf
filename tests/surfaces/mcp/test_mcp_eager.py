"""Calls begin at once, and are tasks like any other."""

import asyncio
from collections.abc import AsyncIterator
from contextvars import ContextVar

import pytest

from fairlead.surfaces.mcp.eager import Starter

who: ContextVar[str] = ContextVar("who", default="nobody")


@pytest.fixture
async def starter() -> AsyncIterator[Starter]:
    """One that has begun something already, as it has after a client's first request."""
    made = Starter()
    first = asyncio.Event()

    async def warm_up() -> None:
        first.set()

    asyncio.get_running_loop().call_soon(made.start, warm_up())
    await first.wait()
    await asyncio.sleep(0)
    yield made
    made.close()
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def from_callback(starter: Starter, *works: object) -> list[asyncio.Task[None] | None]:
    """Start them as the transport does: outside of any task, in one turn of the loop."""
    done: asyncio.Future[list[asyncio.Task[None] | None]] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(
        lambda: done.set_result([starter.start(work) for work in works])  # type: ignore[arg-type]
    )
    return await done


async def test_what_never_waits_has_ended_when_it_is_started(starter: Starter) -> None:
    said: list[object] = []

    async def work() -> None:
        said.append(asyncio.current_task())

    assert await from_callback(starter, work(), work()) == [None, None]
    assert len(said) == 2
    assert None not in said


async def test_what_waits_stays_in_the_task_it_began_in(starter: Starter) -> None:
    seen: list[object] = []

    async def work() -> None:
        seen.append(asyncio.current_task())
        async with asyncio.timeout(5):
            await asyncio.sleep(0)
            seen.append(asyncio.current_task())

    (task,) = await from_callback(starter, work())
    assert task is not None
    await task
    assert seen == [task, task]


async def test_a_time_limit_set_before_the_first_wait_is_kept(starter: Starter) -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        except TimeoutError:
            ended.append("in time")

    (task,) = await from_callback(starter, work())
    assert task is not None
    await asyncio.wait_for(task, 5)
    assert ended == ["in time"]


async def test_contextvars_do_not_leak_from_one_to_the_next(starter: Starter) -> None:
    seen: list[str] = []

    async def work(name: str, turns: int) -> None:
        seen.append(who.get())
        token = who.set(name)
        for _ in range(turns):
            await asyncio.sleep(0)
        assert who.get() == name
        who.reset(token)

    tasks = await from_callback(starter, work("a", 0), work("b", 2), work("c", 1), work("d", 0))
    await asyncio.gather(*(task for task in tasks if task is not None))
    assert seen == ["nobody"] * 4


async def test_a_cancel_in_the_same_turn_reaches_what_is_waited_for(starter: Starter) -> None:
    inner: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    ended: list[str] = []

    async def work() -> None:
        try:
            await inner
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    begun: asyncio.Future[asyncio.Task[None] | None] = asyncio.get_running_loop().create_future()

    def begin() -> None:
        task = starter.start(work())
        assert task is not None
        task.cancel()
        begun.set_result(task)

    asyncio.get_running_loop().call_soon(begin)
    task = await begun
    assert task is not None
    await asyncio.wait((task,), timeout=5)
    assert (task.cancelled(), inner.cancelled(), ended) == (True, True, ["cancelled"])


async def test_one_that_cancels_itself_leaves_the_next_alone(starter: Starter) -> None:
    ended: list[str] = []

    async def rash() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            ended.append("rash")
            raise

    async def calm() -> None:
        await asyncio.sleep(0)
        ended.append("calm")

    tasks = await from_callback(starter, rash(), calm())
    await asyncio.wait([task for task in tasks if task is not None], timeout=5)
    assert sorted(ended) == ["calm", "rash"]


async def test_a_failure_as_it_begins_is_told_and_stops_nothing(starter: Starter) -> None:
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, about: told.append(about["exception"]))
    ended: list[str] = []

    async def fail() -> None:
        raise ValueError

    async def work() -> None:
        ended.append("work")

    await from_callback(starter, fail(), work())
    del work
    for _ in range(3):
        await asyncio.sleep(0)
    import gc

    gc.collect()
    assert [type(each) for each in told] == [ValueError]
    assert ended == ["work"]
