"""Time-outs stop the work, answer promptly, and say which limit it was."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from fairlead import App, Context, Failure, Kind


async def test_an_async_body_is_stopped_and_cleans_up() -> None:
    app = App("x")
    words: list[str] = []

    @app.action(timeout=0.01)
    async def wait() -> None:
        """Wait."""
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            words.append("cleaned")

    result = await app.invoke("wait")
    assert result.failure is not None
    assert (result.failure.kind, result.failure.code) == (Kind.timeout, "TIMEOUT")
    assert result.to_dict()["error"]["retryable"] is True
    assert result.failure.details == {"limit": "timeout", "milliseconds": 10}
    assert words == ["cleaned"]


async def test_a_call_may_set_its_own_limit() -> None:
    app = App("x")

    @app.action(timeout=60)
    async def wait() -> None:
        """Wait."""
        await asyncio.Event().wait()

    result = await app.invoke("wait", timeout=0.01)
    assert result.failure is not None
    assert result.failure.code == "TIMEOUT"


@pytest.mark.parametrize("wrong", [0, -1, "5", True, float("nan"), float("inf"), object()])
@pytest.mark.parametrize("name", ["timeout", "deadline"])
async def test_a_wrong_limit_is_the_callers_mistake(name: str, wrong: Any) -> None:
    app = App("x")
    ran: list[int] = []

    @app.action
    async def act() -> None:
        """Act."""
        ran.append(1)

    result = await app.invoke("act", **{name: wrong})
    assert result.failure is not None
    assert result.failure.code == "VALIDATION_ERROR"
    assert ran == []


async def test_a_quick_call_is_not_disturbed() -> None:
    app = App("x")

    @app.action(timeout=5, deadline=5)
    async def quick() -> int:
        """Be quick."""
        return 1

    assert (await app.invoke("quick")).data == 1


async def test_a_sync_body_sees_the_signal() -> None:
    app = App("x")
    seen: list[str | None] = []

    @app.action(timeout=0.2)  # a thread may take a while to begin
    def work(ctx: Context) -> None:
        """Work."""
        while not ctx.signal.cancelled:
            time.sleep(0.001)
        seen.append("cancelled")

    result = await app.invoke("work")
    assert result.failure is not None
    assert result.failure.code == "TIMEOUT"
    assert seen == ["cancelled"]


@pytest.mark.parametrize("call", ["logger", "progress", "artifacts", "check", "sleep"])
async def test_what_a_stopped_sync_body_asks_of_its_context_raises(call: str) -> None:
    app = App("x")
    caught: list[str] = []

    @app.action(timeout=0.2)  # a thread may take a while to begin
    def work(ctx: Context) -> None:
        """Work."""
        try:
            for _ in range(10_000):
                if call == "logger":
                    ctx.logger.info("x")
                elif call == "progress":
                    ctx.progress.report(percent=1)
                elif call == "artifacts":
                    ctx.artifacts.add(name="x")
                elif call == "check":
                    ctx.signal.check()
                else:
                    ctx.signal.sleep(10)
                time.sleep(0.001)
        except Failure as failure:
            caught.append(failure.code)
            raise

    began = time.perf_counter()
    result = await app.invoke("work")
    assert time.perf_counter() - began < 5
    assert result.failure is not None
    assert result.failure.code == "TIMEOUT"
    assert caught == ["CANCELLED"]


async def test_the_answer_is_prompt_for_an_async_body_that_will_not_stop() -> None:
    app = App("x", grace=0.02)
    let_go = asyncio.Event()

    @app.action(timeout=0.01)
    async def stubborn() -> None:
        """Stay."""
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue

    began = time.perf_counter()
    result = await app.invoke("stubborn")
    assert time.perf_counter() - began < 15
    assert result.failure is not None
    assert result.failure.code == "TIMEOUT"
    let_go.set()


async def test_the_answer_is_prompt_for_a_sync_body_that_will_not_stop() -> None:
    app = App("x", grace=0.02)
    let_go = threading.Event()

    @app.action(timeout=0.01)
    def stubborn() -> None:
        """Stay."""
        let_go.wait(30)

    began = time.perf_counter()
    result = await app.invoke("stubborn")
    assert time.perf_counter() - began < 15
    assert result.failure is not None
    assert result.failure.code == "TIMEOUT"
    let_go.set()


async def test_each_attempt_has_the_whole_time_out_and_a_fresh_signal() -> None:
    app = App("x")
    signals: list[Any] = []

    @app.action(timeout=0.02, retry={"retries": 1, "delay": 0})
    async def flaky(ctx: Context) -> str:
        """Hang once."""
        signals.append(ctx.signal)
        if len(signals) == 1:
            await asyncio.Event().wait()
        assert not ctx.signal.cancelled
        return "second"

    result = await app.invoke("flaky")
    assert result.data == "second"
    assert signals[0] is not signals[1]
    assert signals[0].cancelled


async def test_the_pause_between_attempts_is_not_part_of_an_attempt() -> None:
    app = App("x")
    tries: list[int] = []

    @app.action(timeout=0.02, retry={"retries": 1, "delay": 0.04})
    async def flaky() -> str:
        """Hang once."""
        tries.append(1)
        if len(tries) == 1:
            await asyncio.Event().wait()
        return "second"

    assert (await app.invoke("flaky")).data == "second"


async def test_the_deadline_ends_the_whole_call() -> None:
    app = App("x")
    tries: list[int] = []

    @app.action(timeout=0.02, deadline=0.05, retry={"retries": 100, "delay": 0})
    async def hang() -> None:
        """Hang."""
        tries.append(1)
        await asyncio.Event().wait()

    result = await app.invoke("hang")
    assert result.failure is not None
    assert result.failure.code == "TIMEOUT"
    assert 1 <= len(tries) <= 4


async def test_a_call_may_set_its_own_deadline() -> None:
    app = App("x")

    @app.action
    async def hang() -> None:
        """Hang."""
        await asyncio.Event().wait()

    result = await app.invoke("hang", deadline=0.01)
    assert result.failure is not None
    assert result.failure.details["limit"] == "deadline"


async def test_no_pause_is_begun_that_the_deadline_would_cut() -> None:
    app = App("x")

    @app.action(deadline=30, retry={"retries": 5, "delay": 60, "max_delay": 60})
    async def fail() -> None:
        """Fail."""
        raise Failure(Kind.unavailable, "closed")

    began = time.perf_counter()
    result = await app.invoke("fail")
    assert time.perf_counter() - began < 15
    assert result.failure is not None
    assert result.failure.kind is Kind.unavailable


async def test_a_time_out_inside_the_body_is_a_time_out() -> None:
    app = App("x")

    @app.action
    async def inner() -> None:
        """Time out."""
        async with asyncio.timeout(0.001):
            await asyncio.Event().wait()

    result = await app.invoke("inner")
    assert result.failure is not None
    assert result.failure.code == "TIMEOUT"


async def test_a_generator_is_stopped_and_closed() -> None:
    app = App("x")
    closed: list[str] = []

    @app.action(timeout=0.01)
    async def numbers() -> AsyncIterator[int]:
        """Count, then hang."""
        try:
            yield 1
            await asyncio.Event().wait()
        finally:
            closed.append("closed")

    result = await app.invoke("numbers")
    assert result.failure is not None
    assert result.failure.code == "TIMEOUT"
    assert closed == ["closed"]


async def test_a_failure_on_the_way_out_does_not_hide_the_time_out() -> None:
    app = App("x")

    @app.action(timeout=0.01)
    async def wait() -> None:
        """Wait."""
        try:
            await asyncio.Event().wait()
        finally:
            raise RuntimeError("while cleaning up")

    result = await app.invoke("wait")
    assert result.failure is not None
    assert result.failure.code == "TIMEOUT"
