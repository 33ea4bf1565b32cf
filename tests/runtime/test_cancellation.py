"""Cancelling stops the work and is told as what it is, never as success."""

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from fairlead import App, Context, Failure, Kind
from fairlead.runtime import Invocation, Result, Signal


class Waiter:
    """An app whose action waits for ever, and says what became of it."""

    def __init__(self, **options: Any) -> None:
        self.words: list[str] = []
        self.started = asyncio.Event()
        self.app = App("x", hooks={"on_invocation_end": self._ended})

        @self.app.action(**options)
        async def wait() -> str:
            """Wait."""
            self.started.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.words.append("stopped")
                raise
            return "never"

    def _ended(self, invocation: Invocation) -> None:
        assert invocation.result is not None
        assert invocation.result.failure is not None
        self.words.append(invocation.result.failure.code)


def cancelled(result: Result) -> bool:
    return result.failure is not None and result.failure.kind is Kind.cancelled


async def test_a_signal_that_was_cancelled_before_runs_nothing() -> None:
    waiter = Waiter()
    signal = Signal()
    signal.cancel()
    assert cancelled(await waiter.app.invoke("wait", signal=signal))
    assert not waiter.started.is_set()


async def test_a_signal_stops_the_work() -> None:
    waiter = Waiter()
    signal = Signal()
    call = asyncio.create_task(waiter.app.invoke("wait", signal=signal))
    await waiter.started.wait()
    signal.cancel()
    result = await call
    assert cancelled(result)
    assert waiter.words == ["stopped", "CANCELLED"]
    assert result.to_dict()["error"]["retryable"] is False


async def test_the_reason_is_told() -> None:
    waiter = Waiter()
    signal = Signal()
    call = asyncio.create_task(waiter.app.invoke("wait", signal=signal))
    await waiter.started.wait()
    signal.cancel("The user pressed stop; password=hunter2hunter2")
    result = await call
    assert result.failure is not None
    assert "pressed stop" in result.failure.message
    assert "hunter2" not in result.failure.message


async def test_a_signal_may_be_cancelled_from_another_thread() -> None:
    waiter = Waiter()
    signal = Signal()
    call = asyncio.create_task(waiter.app.invoke("wait", signal=signal))
    await waiter.started.wait()
    threading.Thread(target=signal.cancel).start()
    async with asyncio.timeout(5):
        assert cancelled(await call)


async def test_one_signal_stops_many_calls() -> None:
    waiter = Waiter()
    signal = Signal()
    calls = [asyncio.create_task(waiter.app.invoke("wait", signal=signal)) for _ in range(5)]
    await waiter.started.wait()
    await asyncio.sleep(0)
    signal.cancel()
    assert all(cancelled(result) for result in await asyncio.gather(*calls))


async def test_a_cancel_during_the_pause_ends_it_at_once() -> None:
    app = App("x")
    signal = Signal()
    tries: list[int] = []
    failed = asyncio.Event()

    @app.action(retry={"retries": 3, "delay": 60, "max_delay": 60})
    async def fail() -> None:
        """Fail."""
        tries.append(1)
        failed.set()
        raise Failure(Kind.unavailable, "x")

    call = asyncio.create_task(app.invoke("fail", signal=signal))
    await failed.wait()
    await asyncio.sleep(0)
    began = time.perf_counter()
    signal.cancel()
    assert cancelled(await call)
    assert time.perf_counter() - began < 15
    assert tries == [1]


@pytest.mark.parametrize("options", [{}, {"timeout": 60}, {"concurrency": 1}, {"retry": 2}], ids=str)
async def test_cancelling_the_awaiting_task_ends_the_call_in_order_and_goes_on(options: Any) -> None:
    waiter = Waiter(**options)
    call = asyncio.create_task(waiter.app.invoke("wait"))
    await waiter.started.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert waiter.words == ["stopped", "CANCELLED"]


async def cancelled_outright(app: App) -> bool:
    """Whether the cancel of a task that awaits a call goes on through the call."""
    call = asyncio.create_task(app.invoke("wait"))
    await asyncio.sleep(0)
    call.cancel()
    await asyncio.wait([call])
    return call.cancelled()


def test_a_thread_that_runs_one_loop_after_another_hears_the_cancels_of_each() -> None:
    app = App("x")

    @app.action
    async def wait() -> None:
        """Wait."""
        await asyncio.Event().wait()

    first, second = asyncio.new_event_loop(), asyncio.new_event_loop()
    try:
        for loop in (first, second, first):
            assert loop.run_until_complete(cancelled_outright(app))
    finally:
        first.close()
        second.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_process_that_was_forked_inside_a_loop_hears_the_cancels_of_its_own() -> None:
    program = """
import asyncio, os, sys
from fairlead import App
app = App("x")
@app.action
async def wait() -> None:
    "Wait."
    await asyncio.Event().wait()
@app.action
async def nothing() -> None:
    "Do nothing."
async def cancelled_outright():
    call = asyncio.create_task(app.invoke("wait"))
    await asyncio.sleep(0)
    call.cancel()
    await asyncio.wait([call])
    return call.cancelled()
async def main():
    await app.invoke("nothing")
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    os._exit(not asyncio.run(cancelled_outright()))
sys.exit(os.waitstatus_to_exitcode(asyncio.run(main())))
"""
    ended = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


async def test_a_time_out_around_a_call_works_as_for_any_coroutine() -> None:
    waiter = Waiter()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await waiter.app.invoke("wait")
    assert waiter.words == ["stopped", "CANCELLED"]


@pytest.mark.parametrize("options", [{}, {"timeout": 60}, {"deadline": 60}], ids=str)
async def test_a_body_that_swallows_the_cancel_of_its_task_is_no_success(options: Any) -> None:
    told: list[bool] = []
    app = App("x", hooks={"on_invocation_end": lambda i: told.append(i.result.ok)})  # type: ignore[union-attr]
    started = asyncio.Event()

    @app.action(**options)
    async def stubborn() -> str:
        """Swallow."""
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "nothing happened"
        return "never"

    call = asyncio.create_task(app.invoke("stubborn"))
    await started.wait()
    call.cancel()
    outcome = (await asyncio.gather(call, return_exceptions=True))[0]
    assert isinstance(outcome, asyncio.CancelledError) or (isinstance(outcome, Result) and cancelled(outcome))
    assert told == [False]


@pytest.mark.parametrize("style", ["async", "sync"])
async def test_a_body_that_ignores_the_signal_is_no_success(style: str) -> None:
    app = App("x", grace=1)
    signal = Signal()

    @app.action
    async def polite() -> str:
        """Ignore."""
        signal.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        return "done"

    @app.action
    def blocking() -> str:
        """Ignore."""
        signal.cancel()
        return "done"

    result = await app.invoke("polite" if style == "async" else "blocking", signal=signal)
    assert cancelled(result)
    assert result.data is None


async def test_a_signal_cancelled_while_the_body_ends_is_no_success() -> None:
    app = App("x")
    signal = Signal()

    @app.action
    async def act() -> str:
        """Cancel and return."""
        signal.cancel()
        return "done"

    assert cancelled(await app.invoke("act", signal=signal))


async def test_a_body_that_cancels_itself_is_told_as_cancelled() -> None:
    app = App("x")

    @app.action
    async def leave() -> None:
        """Leave."""
        raise asyncio.CancelledError

    assert cancelled(await app.invoke("leave"))
    assert cancelled(await app.invoke("leave", timeout=5))


async def test_a_call_made_while_cleaning_up_after_a_cancel_still_works() -> None:
    app = App("x")
    results: list[Result] = []
    started = asyncio.Event()

    @app.action
    async def undo() -> str:
        """Undo."""
        await asyncio.sleep(0)
        return "undone"

    async def work() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            results.append(await app.invoke("undo"))
            results.append(await app.invoke("undo", timeout=5))

    task = asyncio.create_task(work())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [result.data for result in results] == ["undone", "undone"]


async def test_a_sync_body_hears_of_the_cancel_of_its_caller() -> None:
    app = App("x")
    started, stopped = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    @app.action
    def work(ctx: Context) -> None:
        """Work."""
        loop.call_soon_threadsafe(started.set)
        try:
            ctx.signal.sleep(30)
        finally:
            stopped.set()

    call = asyncio.create_task(app.invoke("work"))
    await started.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert stopped.wait(5)


@pytest.mark.parametrize("options", [{}, {"timeout": 60}, {"concurrency": 1}, {"retry": 2}], ids=str)
async def test_what_an_async_body_has_on_a_thread_hears_of_the_cancel_of_its_caller(options: Any) -> None:
    app = App("x")
    started, stopped = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def wait(signal: Signal) -> None:
        loop.call_soon_threadsafe(started.set)
        with contextlib.suppress(Failure):
            signal.sleep(30)
        stopped.set()

    @app.action(**options)
    async def work(ctx: Context) -> None:
        """Work."""
        await asyncio.to_thread(wait, ctx.signal)

    call = asyncio.create_task(app.invoke("work"))
    await started.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert stopped.wait(5)


async def test_cancelling_twice_changes_nothing() -> None:
    signal = Signal()
    calls: list[int] = []
    signal.subscribe(lambda: calls.append(1))
    signal.cancel("first")
    signal.cancel("second")
    assert (signal.reason, calls) == ("first", [1])


async def test_a_listener_that_comes_late_is_called_at_once_and_one_that_left_is_not() -> None:
    signal = Signal()
    calls: list[str] = []
    signal.subscribe(lambda: calls.append("left"))()
    signal.cancel()
    signal.subscribe(lambda: calls.append("late"))
    assert calls == ["late"]


async def test_a_listener_that_fails_does_not_keep_the_others_from_hearing() -> None:
    signal = Signal()
    calls: list[str] = []

    def fail() -> None:
        raise RuntimeError("x")

    signal.subscribe(fail)
    signal.subscribe(lambda: calls.append("heard"))
    with contextlib.suppress(RuntimeError):
        signal.cancel()
    assert calls == ["heard"]


async def test_async_code_can_wait_for_the_signal() -> None:
    signal = Signal()
    waiting = asyncio.create_task(signal.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    signal.cancel()
    async with asyncio.timeout(5):
        await waiting
        await signal.wait()


async def test_signals_of_finished_calls_hold_nothing() -> None:
    app = App("x")
    signal = Signal()

    @app.action
    async def act() -> int:
        """Act."""
        return 1

    for _ in range(100):
        assert (await app.invoke("act", signal=signal)).ok
    assert not signal._listeners
