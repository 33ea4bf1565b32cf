"""Shared services and their lives."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead import App, Context, Failure, Kind
from fairlead.actions import DefinitionError


class House:
    """An app with two services that tell what happens to them."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.app = App("x", services={"plain": 5})
        self.broken = False

        @self.app.service
        async def database() -> AsyncIterator[str]:
            await asyncio.sleep(0)
            if self.broken:
                raise ConnectionError("cannot reach postgres://admin:hunter2hunter2@db")
            self.words.append("database up")
            yield "db"
            self.words.append("database down")

        @self.app.service
        def cache() -> Iterator[str]:
            self.words.append("cache up")
            yield "cache"
            self.words.append("cache down")

        @self.app.action
        async def look(ctx: Context) -> list[Any]:
            """Look."""
            return [ctx.services.plain, ctx.services.database, ctx.services["cache"]]


async def test_services_start_before_the_first_call_in_order_and_once() -> None:
    house = House()
    assert house.words == []
    for _ in range(2):
        assert (await house.app.invoke("look")).data == [5, "db", "cache"]
    assert house.words == ["database up", "cache up"]


async def test_services_stop_in_reverse() -> None:
    house = House()
    async with house.app as app:
        assert house.words == ["database up", "cache up"]
        assert (await app.invoke("look")).ok
    assert house.words == ["database up", "cache up", "cache down", "database down"]


async def test_services_can_start_again_after_a_stop() -> None:
    house = House()
    for _ in range(2):
        async with house.app:
            pass
    assert house.words == ["database up", "cache up", "cache down", "database down"] * 2


async def test_many_first_calls_start_services_once() -> None:
    house = House()
    results = await asyncio.gather(*(house.app.invoke("look") for _ in range(10)))
    assert all(result.ok for result in results)
    assert house.words == ["database up", "cache up"]


async def test_a_service_that_does_not_start_is_a_wiring_failure_and_is_tried_again() -> None:
    house = House()
    house.broken = True
    result = await house.app.invoke("look")
    assert result.failure is not None
    assert result.failure.kind is Kind.misconfigured
    assert "database" in result.failure.message
    assert "hunter2" not in str(result.to_dict())
    house.broken = False
    assert (await house.app.invoke("look")).ok


async def test_services_opened_before_the_broken_one_are_closed() -> None:
    app = App("x")
    words: list[str] = []

    @app.service
    def first() -> Iterator[int]:
        words.append("up")
        yield 1
        words.append("down")

    @app.service
    def second() -> Iterator[int]:
        raise RuntimeError("broken")
        yield 1

    app.add(lambda: 1, name="act", description="Act.")
    assert not (await app.invoke("act")).ok
    assert words == ["up", "down"]


async def test_starting_by_hand_tells_the_failure() -> None:
    house = House()
    house.broken = True
    with pytest.raises(Failure) as caught:
        await house.app.start()
    assert caught.value.kind is Kind.misconfigured


async def test_a_service_is_closed_even_if_the_block_fails() -> None:
    house = House()
    with pytest.raises(ZeroDivisionError):
        async with house.app:
            raise ZeroDivisionError
    assert house.words[-2:] == ["cache down", "database down"]


async def test_two_services_of_one_name_are_refused() -> None:
    app = App("x", services={"db": 1})
    with pytest.raises(DefinitionError, match="db"):

        @app.service
        def db() -> Iterator[int]:
            yield 1


def test_a_service_that_is_returned_and_not_yielded_is_refused_with_the_way_out() -> None:
    app = App("x")

    def database() -> dict[str, int]:
        return {}

    async def queue() -> list[int]:
        return []

    for function in (database, queue):
        with pytest.raises(DefinitionError, match="Yield the service instead of returning it"):
            app.service(function)


async def test_a_service_that_is_not_there_is_told_with_the_near_miss_and_those_that_are() -> None:
    app = App("x", services={"database": 1, "cache": 2})
    bare = App("y")

    @app.action
    async def item(name: str, ctx: Context) -> Any:
        """Look, as in a dict."""
        return ctx.services[name]

    @app.action
    async def attribute(name: str, ctx: Context) -> Any:
        """Look, as at an object."""
        return getattr(ctx.services, name)

    bare.add([item, attribute])
    for action in ("item", "attribute"):
        assert (await app.invoke(action, {"name": "cache"})).data == 2
        failure = (await app.invoke(action, {"name": "data"})).failure
        assert failure is not None
        assert failure.kind is Kind.misconfigured
        assert "Did you mean 'database'? Known services: cache, database." in failure.message
        failure = (await bare.invoke(action, {"name": "data"})).failure
        assert failure is not None
        assert failure.kind is Kind.misconfigured


async def test_a_service_added_later_starts_alone() -> None:
    house = House()
    await house.app.invoke("look")

    @house.app.service
    def late() -> Iterator[str]:
        house.words.append("late up")
        yield "late"
        house.words.append("late down")

    assert (await house.app.invoke("look")).ok
    assert house.words == ["database up", "cache up", "late up"]
    await house.app.stop()
    assert sorted(house.words[3:]) == ["cache down", "database down", "late down"]


async def test_generator_functions_given_as_services_live_too() -> None:
    words: list[str] = []

    def db() -> Iterator[int]:
        words.append("up")
        yield 7
        words.append("down")

    app = App("x", services={"db": db})

    @app.action
    async def look(ctx: Context) -> Any:
        """Look."""
        return ctx.services.db

    async with app:
        assert (await app.invoke("look")).data == 7
    assert words == ["up", "down"]


async def test_stopping_what_never_started_does_nothing() -> None:
    house = House()
    await house.app.stop()
    assert house.words == []


async def test_a_service_may_be_shut_down_in_another_task_than_it_started_in() -> None:
    house = House()
    await asyncio.create_task(house.app.start())
    await asyncio.create_task(house.app.stop())
    assert house.words[-1] == "database down"


def test_loops_that_begin_at_once_start_services_once() -> None:
    app = App("x")
    words: list[str] = []
    failures: list[Any] = []
    barrier = threading.Barrier(4, timeout=5)

    @app.service
    async def database() -> AsyncIterator[str]:
        words.append("up")
        await asyncio.sleep(0.01)
        yield "db"

    app.add(lambda: 1, name="act", description="Act.")

    async def call() -> None:
        barrier.wait()
        failures.append((await app.invoke("act")).failure)

    threads = [threading.Thread(target=lambda: asyncio.run(call()), daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    assert failures == [None] * 4
    assert words == ["up"]


@pytest.mark.parametrize("how", ["deadline", "signal"])
async def test_a_service_that_hangs_while_starting_does_not_hang_the_call(how: str) -> None:
    from fairlead.runtime import Signal

    app = App("x")
    starting = asyncio.Event()

    @app.service
    async def database() -> AsyncIterator[str]:
        starting.set()
        await asyncio.Event().wait()
        yield "db"

    app.add(lambda: 1, name="act", description="Act.")
    signal = Signal()
    call = asyncio.create_task(app.invoke("act", signal=signal, deadline=0.02 if how == "deadline" else None))
    await starting.wait()
    if how == "signal":
        signal.cancel()
    async with asyncio.timeout(5):
        result = await call
    assert result.failure is not None
    assert result.failure.kind is (Kind.timeout if how == "deadline" else Kind.cancelled)


def test_services_of_invoke_sync_are_stopped_when_the_program_ends(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        """
from fairlead import App, Context

app = App("x")

@app.service
def database():
    yield 1
    print("stopped", flush=True)

@app.action
async def act(ctx: Context) -> int:
    "Act."
    return ctx.services.database

print(app.invoke_sync("act").data)
"""
    )
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.split() == ["1", "stopped"]
