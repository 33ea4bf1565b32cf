"""Sync functions run on worker threads: the loop keeps going, and what belongs to the call comes along."""

import asyncio
import contextvars
import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Awaitable, Iterator
from typing import Any

import pytest

from fairlead import App, Context
from fairlead.runtime import Result, Signal
from servers import until

REQUEST: contextvars.ContextVar[str] = contextvars.ContextVar("request", default="none")


async def test_the_loop_keeps_ticking() -> None:
    app = App("x")
    done = threading.Event()
    ticks: list[int] = []

    @app.action
    def block() -> str:
        """Block."""
        assert done.wait(5)
        return threading.current_thread().name

    call = asyncio.create_task(app.invoke("block"))
    for n in range(10):
        await asyncio.sleep(0.001)
        ticks.append(n)
    assert not call.done()
    done.set()
    result = await call
    assert len(ticks) == 10
    assert result.data != threading.current_thread().name


async def test_context_variables_come_along() -> None:
    app = App("x")

    @app.action
    def read() -> str:
        """Read."""
        seen = REQUEST.get()
        REQUEST.set("changed in the thread")
        return seen

    token = REQUEST.set("r-1")
    try:
        assert (await app.invoke("read")).data == "r-1"
        assert REQUEST.get() == "r-1"
    finally:
        REQUEST.reset(token)
    assert (await app.invoke("read")).data == "none"


async def test_many_run_at_once() -> None:
    app = App("x")
    barrier = threading.Barrier(20, timeout=5)

    @app.action
    def meet() -> int:
        """Meet the others."""
        return barrier.wait()

    for _ in range(20):
        results = await asyncio.gather(*(app.invoke("meet") for _ in range(20)))
        assert sorted(result.data for result in results) == list(range(20))


async def test_threads_are_kept_and_used_again() -> None:
    app = App("x")
    app.add(lambda: threading.get_ident(), name="who", description="Who.")
    seen = {(await app.invoke("who")).data for _ in range(50)}
    assert len(seen) <= 10


async def test_a_thread_given_up_on_does_not_count_against_the_limit() -> None:
    app = App("x", grace=0.001)
    let_go = threading.Event()

    @app.action(timeout=0.001)
    def hang() -> None:
        """Hang."""
        let_go.wait(20)

    @app.action
    def quick() -> int:
        """Be quick."""
        return 1

    try:
        for _ in range(70):
            assert not (await app.invoke("hang")).ok
        async with asyncio.timeout(5):
            assert (await app.invoke("quick")).ok
    finally:
        let_go.set()


@pytest.mark.parametrize("style", ["function", "generator"])
@pytest.mark.parametrize("how", ["time-out", "signal", "task"])
async def test_what_was_stopped_while_it_waited_for_a_thread_never_begins(how: str, style: str) -> None:
    app = App("x", grace=0.001)
    let_go = threading.Event()
    taken: list[None] = []
    begun: list[str] = []

    @app.action
    def hold() -> None:
        """Hold a thread."""
        taken.append(None)
        assert let_go.wait(20)

    def pay() -> str:
        """Pay."""
        begun.append("pay")
        return "paid"

    def pay_bit_by_bit() -> Iterator[str]:
        """Pay."""
        begun.append("pay")
        yield "paid"

    app.add(pay if style == "function" else pay_bit_by_bit, name="pay", side_effects="write")
    held = [asyncio.create_task(app.invoke("hold")) for _ in range(64)]
    try:
        await asyncio.to_thread(until, lambda: len(taken) == 64, "not all threads were taken")
        if how == "time-out":
            assert await code(app.invoke("pay", timeout=0.01)) == "TIMEOUT"
        elif how == "signal":
            signal = Signal()
            call = asyncio.create_task(app.invoke("pay", signal=signal))
            await in_line()
            signal.cancel()
            assert await code(call) == "CANCELLED"
        else:
            call = asyncio.create_task(app.invoke("pay"))
            await in_line()
            call.cancel()
            await asyncio.wait((call,))
            assert call.cancelled()
    finally:
        let_go.set()
    await asyncio.gather(*held)
    # Whatever stood in line before this has had its turn.
    assert (await app.invoke("hold")).ok
    assert begun == []


async def in_line() -> None:
    """Let a call that was just made come as far as it can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def code(call: Awaitable[Result]) -> str:
    failure = (await call).failure
    return "ok" if failure is None else failure.code


async def test_logs_progress_and_artifacts_work_from_a_thread() -> None:
    app = App("x")

    @app.action
    def work(ctx: Context) -> str:
        """Work."""
        ctx.logger.info("one")
        ctx.progress.report(percent=50)
        ctx.artifacts.add(name="a")
        return ctx.surface

    result = await app.invoke("work", surface="json")
    assert (result.data, len(result.logs), len(result.artifacts)) == ("json", 2, 1)


async def test_the_values_of_a_sync_generator_come_from_its_thread() -> None:
    app = App("x")
    threads: set[int] = set()

    @app.action
    def count(n: int) -> Iterator[int]:
        """Count."""
        for each in range(n):
            threads.add(threading.get_ident())
            yield each

    assert (await app.invoke("count", {"n": 5})).data == [0, 1, 2, 3, 4]
    assert threading.get_ident() not in threads


def run_bounded(coroutine: Any, seconds: float = 10) -> Any:
    """Run a coroutine on a loop in a thread, and give up on it when it blocks its loop."""
    outcome: list[Any] = []
    thread = threading.Thread(target=lambda: outcome.append(asyncio.run(coroutine)), daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "the loop is blocked"
    return outcome[0]


def test_a_plain_function_that_returns_a_coroutine_does_not_block_the_loop() -> None:
    """A decorator that is not async makes every async action one of these."""
    app = App("x")

    def decorated(ctx: Context) -> Any:
        """Talk much."""
        return talk(ctx)

    async def talk(ctx: Context) -> int:
        for n in range(5000):
            await ctx.logger.info(str(n))
        return 5000

    app.add(decorated, name="act", description="Act.")

    async def listen() -> int:
        events = [event async for event in app.stream("act")]
        assert events[-1]["envelope"]["data"] == 5000
        return len(events)

    assert run_bounded(listen()) == 5001


async def test_an_async_action_may_speak_from_threads_of_its_own() -> None:
    app = App("x")

    @app.action
    async def work(ctx: Context) -> int:
        """Work."""

        def blocking() -> None:
            for n in range(50):
                ctx.logger.info(str(n))

        await asyncio.gather(*(asyncio.to_thread(blocking) for _ in range(4)))
        return 1

    events = [event async for event in app.stream("work")]
    assert len(events) == 201
    assert events[-1]["type"] == "result"


def test_a_program_ends_although_a_sync_body_does_not() -> None:
    program = """
        import asyncio, time
        from fairlead import App
        app = App("x", grace=0.01)
        @app.action(timeout=0.2)
        def hang() -> None:
            "Hang."
            time.sleep(60)
        async def main():
            print((await app.invoke("hang")).failure.code)
        asyncio.run(main())
    """
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert done.stdout.strip() == "TIMEOUT", done.stderr
    assert time.perf_counter() - began < 10


async def test_a_loop_that_ends_during_a_sync_call_harms_nobody() -> None:
    app = App("x")
    let_go = threading.Event()
    started = threading.Event()

    @app.action
    def work() -> int:
        """Work."""
        started.set()
        let_go.wait(5)
        return 1

    async def leave() -> None:
        task = asyncio.create_task(app.invoke("work"))
        await asyncio.to_thread(started.wait, 5)
        task.cancel()
        let_go.set()
        await asyncio.gather(task, return_exceptions=True)

    await asyncio.to_thread(asyncio.run, leave())
    assert (await app.invoke("work")).data == 1


async def test_an_async_action_may_report_live_from_a_thread_of_its_own() -> None:
    """`await asyncio.to_thread(import_rows, ctx)` is how async actions do blocking work."""
    app = App("x")
    heard = threading.Event()

    @app.action
    async def work(ctx: Context) -> bool:
        """Work."""

        def blocking() -> bool:
            ctx.progress.report(message="Half", percent=50)
            return heard.wait(5)

        return await asyncio.to_thread(blocking)

    async for event in app.stream("work"):
        if event["type"] == "progress":
            heard.set()
        else:
            assert event["envelope"]["data"] is True, "the report arrived only after the work was done"


async def test_a_job_that_comes_while_a_worker_takes_another_has_a_thread_of_its_own() -> None:
    from queue import SimpleQueue

    from fairlead.runtime.workers import Workers

    class Slow(SimpleQueue[Any]):
        """Widens the moment between taking a job and saying so."""

        def get(self, block: bool = True, timeout: float | None = None) -> Any:
            job = super().get(block, timeout)
            time.sleep(0.02)
            return job

    workers = Workers()
    workers._jobs = Slow()
    await asyncio.wrap_future(workers.submit(lambda: None))
    barrier = threading.Barrier(2, timeout=2)
    first = asyncio.wrap_future(workers.submit(barrier.wait))
    await asyncio.sleep(0.005)
    second = asyncio.wrap_future(workers.submit(barrier.wait))
    assert sorted(await asyncio.gather(first, second)) == [0, 1]


async def test_the_threads_of_an_app_that_is_forgotten_end() -> None:
    async def work() -> int:
        app = App("x")

        @app.action
        def where() -> int:
            """Say on which thread."""
            return threading.get_ident()

        return int((await app.invoke("where")).data)

    worked = await work()

    def ended() -> bool:
        gc.collect()
        return worked not in {each.ident for each in threading.enumerate()}

    until(ended, "a thread of nobody is alive")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_has_workers_of_its_own() -> None:
    """The parent's threads do not live on in the child, which must not wait for them."""
    program = """
        import os, signal, threading
        from fairlead import App

        app = App("x")

        @app.action
        def where() -> int:
            "Say where."
            return os.getpid()

        assert app.invoke_sync("where").data == os.getpid()
        child = os.fork()
        if child == 0:
            os._exit(0 if app.invoke_sync("where").data == os.getpid() else 2)
        threading.Timer(10, os.kill, (child, signal.SIGKILL)).start()
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert app.invoke_sync("where").data == os.getpid()
        os._exit(ended & 0xFF)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], timeout=30)
    assert done.returncode == 0
