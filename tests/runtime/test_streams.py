"""A call as a series of events: in order, complete, bounded, the result last and once."""

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from effort import effort
from fairlead import Action, App, Context, Failure, Kind
from fairlead.runtime import Signal
from fairlead.runtime.events import ROOM
from fairlead.testing import FixedClock, collect_stream


def board() -> App:
    app = App("x", clock=FixedClock(0))

    @app.action
    async def work(ctx: Context) -> str:
        """Work."""
        ctx.logger.info("begin", step=1)
        ctx.progress.report(message="Half", percent=50, fields={"rows": 1})
        ctx.artifacts.add(name="report", id="a-1")
        ctx.logger.warn("end")
        return "done"

    @app.action
    async def fail(ctx: Context) -> None:
        """Fail."""
        ctx.logger.info("before")
        raise Failure(Kind.conflict, "password=hunter2hunter2")

    return app


async def test_events_come_in_order_and_the_result_is_last() -> None:
    events = await collect_stream(board().stream("work", invocation_id="i"))
    assert [event["type"] for event in events] == ["log", "progress", "artifact", "log", "result"]
    time = "1970-01-01T00:00:00.000Z"
    assert events[0] == {
        "type": "log",
        "level": "info",
        "message": "begin",
        "time": time,
        "fields": {"step": 1},
    }
    assert events[1] == {
        "type": "progress",
        "message": "Half",
        "percent": 50,
        "fields": {"rows": 1},
        "time": time,
    }
    assert events[2] == {
        "type": "artifact",
        "artifact": {"id": "a-1", "type": "file", "name": "report", "metadata": {}},
    }
    envelope = events[4]["envelope"]
    assert (envelope["ok"], envelope["data"]) == (True, "done")
    assert [entry["message"] for entry in envelope["logs"]] == ["begin", "Half", "end"]
    assert envelope["artifacts"] == [events[2]["artifact"]]


async def test_the_result_is_the_envelope_of_the_same_call() -> None:
    app = board()
    streamed = (await collect_stream(app.stream("work", invocation_id="i")))[-1]["envelope"]
    assert streamed == (await app.invoke("work", invocation_id="i")).to_dict()


async def test_a_failing_action_ends_with_its_failure() -> None:
    events = await collect_stream(board().stream("fail"))
    assert [event["type"] for event in events] == ["log", "result"]
    error = events[-1]["envelope"]["error"]
    assert error["code"] == "CONFLICT"
    assert "hunter2" not in error["message"]


@pytest.mark.parametrize("name", ["nothing", None, {}])
async def test_an_unknown_action_is_one_event(name: Any) -> None:
    events = await collect_stream(board().stream(name))
    assert [event["type"] for event in events] == ["result"]
    assert events[0]["envelope"]["error"]["code"] == "ACTION_NOT_FOUND"


async def test_invalid_input_is_one_event() -> None:
    events = await collect_stream(board().stream("work", {"extra": 1}))
    assert [event["type"] for event in events] == ["result"]


async def test_all_of_a_hundred_thousand_unawaited_logs_are_delivered() -> None:
    app = App("x")

    @app.action
    async def talk(ctx: Context) -> int:
        """Talk."""
        for _ in range(100_000):
            ctx.logger.info("x")
        return 1

    count = 0
    async for _event in app.stream("talk"):
        count += 1
    assert count == 100_001


async def test_too_many_unawaited_events_are_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.runtime.events.LIMIT", 2000)
    app = App("x")
    total = 3000

    @app.action
    async def talk(ctx: Context) -> int:
        """Talk."""
        for _ in range(total):
            ctx.logger.info("x")
        return 1

    count, notices = 0, []
    async for event in app.stream("talk"):
        count += 1
        if event["type"] == "log" and event["fields"]:
            notices.append(event)
    assert len(notices) == 1
    assert notices[0]["level"] == "warn"
    assert notices[0]["time"]
    assert count - 2 + notices[0]["fields"]["dropped"] == total


class Ahead:
    """How far the producer got ahead of the consumer."""

    def __init__(self) -> None:
        self.produced = 0
        self.most = 0
        self.consumed = 0

    def made(self) -> None:
        self.produced += 1
        self.most = max(self.most, self.produced - self.consumed)


async def awaiting(ahead: Ahead, ctx: Context) -> None:
    for _ in range(5000):
        await ctx.logger.info("x")
        ahead.made()


def threaded(ahead: Ahead, ctx: Context) -> None:
    for _ in range(5000):
        ctx.logger.info("x")
        ahead.made()


async def generator(ahead: Ahead, ctx: Context) -> AsyncIterator[int]:
    for n in range(5000):
        yield n
        ahead.made()


def sync_generator(ahead: Ahead, ctx: Context) -> Iterator[int]:
    for n in range(5000):
        yield n
        ahead.made()


@pytest.mark.parametrize(
    "producer", [awaiting, threaded, generator, sync_generator], ids=lambda each: each.__name__
)
async def test_a_producer_waits_for_a_slow_consumer(producer: Any) -> None:
    ahead = Ahead()
    act = Action(functools.partial(producer, ahead), name="act", description="Act.")
    events = 0
    async with asyncio.timeout(20):
        async for _event in App("x").stream(act):
            events += 1
            ahead.consumed += 1
            if events % 500 == 0:
                await asyncio.sleep(0.002)
    assert events == 5001
    assert ahead.most <= ROOM + 2


async def test_a_paused_consumer_holds_the_producer_back() -> None:
    app = App("x")
    ahead = Ahead()

    @app.action
    async def talk(ctx: Context) -> None:
        """Talk."""
        await awaiting(ahead, ctx)

    async with app.stream("talk") as stream:
        await anext(stream)
        for _ in range(50):
            await asyncio.sleep(0)
        assert ahead.produced <= ROOM + 1


def test_time_grows_with_the_number_of_events() -> None:
    app = App("x")

    @app.action
    async def talk(n: int, ctx: Context) -> None:
        """Talk."""
        for _ in range(n):
            ctx.logger.info("x")

    async def heard(n: int) -> None:
        async for _event in app.stream("talk", {"n": n}):
            pass

    def spent(n: int) -> float:
        return min(effort(lambda: asyncio.run(heard(n))) for _ in range(3))

    spent(1000)
    assert spent(40_000) < 8 * spent(10_000)


class Endless:
    """An app whose action talks until it is stopped."""

    def __init__(self) -> None:
        self.app = App("x")
        self.stopped = asyncio.Event()

        @self.app.action
        async def talk(ctx: Context) -> None:
            """Talk."""
            try:
                while True:
                    await ctx.logger.info("x")
                    await asyncio.sleep(0)
            finally:
                self.stopped.set()


async def test_leaving_the_loop_cancels_the_action() -> None:
    endless = Endless()
    async for _event in endless.app.stream("talk"):
        break
    async with asyncio.timeout(5):
        await endless.stopped.wait()


async def test_closing_the_stream_cancels_the_action_before_it_returns() -> None:
    endless = Endless()
    stream = endless.app.stream("talk")
    await anext(stream)
    await stream.aclose()
    assert endless.stopped.is_set()


async def test_leaving_the_block_cancels_the_action_before_it_returns() -> None:
    endless = Endless()
    async with endless.app.stream("talk") as stream:
        async for _event in stream:
            break
    assert endless.stopped.is_set()


async def test_an_error_of_the_consumer_cancels_the_action() -> None:
    endless = Endless()

    async def consume() -> None:
        async with endless.app.stream("talk") as stream:
            async for _event in stream:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await consume()
    assert endless.stopped.is_set()


async def test_cancelling_the_consumer_cancels_the_action() -> None:
    endless = Endless()
    first = asyncio.Event()

    async def consume() -> None:
        async with endless.app.stream("talk") as stream:
            async for _event in stream:
                first.set()

    task = asyncio.create_task(consume())
    await first.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert endless.stopped.is_set()


async def test_closing_stops_a_thread_that_waits_for_room() -> None:
    app = App("x")
    stopped = threading.Event()

    @app.action
    def talk(ctx: Context) -> None:
        """Talk."""
        try:
            while True:
                ctx.logger.info("x")
        finally:
            stopped.set()

    async with app.stream("talk") as stream:
        await anext(stream)
    assert await asyncio.to_thread(stopped.wait, 5)


@pytest.mark.parametrize("style", ["async", "sync"])
async def test_closing_closes_a_generator(style: str) -> None:
    app = App("x")
    stopped = threading.Event()

    @app.action(name="async_numbers")
    async def numbers() -> AsyncIterator[int]:
        """Count."""
        try:
            n = 0
            while True:
                yield n
                n += 1
        finally:
            stopped.set()

    @app.action(name="sync_numbers")
    def sync_numbers() -> Iterator[int]:
        """Count."""
        try:
            n = 0
            while True:
                yield n
                n += 1
        finally:
            stopped.set()

    async with app.stream(f"{style}_numbers") as stream:
        assert (await anext(stream))["type"] == "chunk"
    assert await asyncio.to_thread(stopped.wait, 5)


async def test_a_stream_that_was_never_read_runs_nothing() -> None:
    endless = Endless()
    stream = endless.app.stream("talk")
    await stream.aclose()
    assert not endless.stopped.is_set()


async def test_a_signal_ends_a_stream_as_cancelled() -> None:
    endless = Endless()
    signal = Signal()
    events: list[Any] = []
    async for event in endless.app.stream("talk", signal=signal):
        events.append(event)
        signal.cancel()
    assert events[-1]["envelope"]["error"]["code"] == "CANCELLED"
    assert sum(event["type"] == "result" for event in events) == 1
    assert endless.stopped.is_set()


async def test_a_time_out_ends_a_stream() -> None:
    endless = Endless()
    last: Any = None
    async for event in endless.app.stream("talk", timeout=0.01):
        last = event
    assert last["envelope"]["error"]["code"] == "TIMEOUT"


@pytest.mark.parametrize("style", ["async", "sync"])
async def test_chunks_are_told_as_they_come_and_the_result_says_how_many(style: str) -> None:
    app = App("x")

    @app.action(name="async_words")
    async def async_words() -> AsyncIterator[str]:
        """Speak."""
        yield "a"
        yield "b"

    @app.action(name="sync_words")
    def sync_words() -> Iterator[str]:
        """Speak."""
        yield "a"
        yield "b"

    events = await collect_stream(app.stream(f"{style}_words"))
    assert [event["type"] for event in events] == ["chunk", "chunk", "result"]
    assert [event["data"] for event in events[:2]] == ["a", "b"]
    envelope = events[-1]["envelope"]
    assert envelope["ok"] is True, envelope
    assert envelope["meta"]["chunks"] == 2


async def test_a_wrong_chunk_ends_the_stream() -> None:
    app = App("x")

    @app.action
    async def numbers() -> AsyncIterator[int]:
        """Count."""
        yield 1
        yield "two"  # type: ignore[misc]
        yield 3

    events = await collect_stream(app.stream("numbers"))
    assert [event["type"] for event in events] == ["chunk", "result"]
    assert events[-1]["envelope"]["error"]["code"] == "OUTPUT_VALIDATION_ERROR"


async def test_logs_and_chunks_keep_their_order() -> None:
    app = App("x")

    @app.action
    async def mixed(ctx: Context) -> AsyncIterator[int]:
        """Mix."""
        for n in range(3):
            ctx.logger.info(str(n))
            yield n

    events = await collect_stream(app.stream("mixed"))
    told = [event["message"] if event["type"] == "log" else event["data"] for event in events[:-1]]
    assert told == ["0", 0, "1", 1, "2", 2]


async def test_a_replayed_generator_gives_its_items() -> None:
    app = App("x")
    runs: list[int] = []

    @app.action(side_effects="write")
    async def numbers() -> AsyncIterator[int]:
        """Count."""
        runs.append(1)
        yield 1
        yield 2

    first = await collect_stream(app.stream("numbers", idempotency_key="k"))
    again = await app.invoke("numbers", idempotency_key="k")
    assert first[-1]["envelope"]["ok"] is True, first[-1]
    assert (again.data, again.replayed, len(runs)) == ([1, 2], True, 1)


@pytest.mark.parametrize("style", ["async", "sync"])
async def test_a_replayed_stream_tells_its_chunks_again(style: str) -> None:
    app = App("x")

    @app.action(name="async_words", side_effects="write")
    async def async_words() -> AsyncIterator[str]:
        """Speak."""
        yield "a"
        yield "b"

    @app.action(name="sync_words", side_effects="write")
    def sync_words() -> Iterator[str]:
        """Speak."""
        yield "a"
        yield "b"

    for replayed in (False, True):
        events = await collect_stream(app.stream(f"{style}_words", idempotency_key="k"))
        assert [event.get("data") for event in events] == ["a", "b", None]
        envelope = events[-1]["envelope"]
        assert (envelope["data"], envelope["meta"]["chunks"]) == (["a", "b"], 2)
        assert ("idempotent" in envelope["meta"]) is replayed


@pytest.mark.parametrize("style", ["async", "sync"])
async def test_a_generator_is_tried_again_only_while_nobody_has_heard_of_it(style: str) -> None:
    app = App("x")

    @app.action(name="async_numbers", retry={"retries": 1, "delay": 0})
    async def async_numbers(ctx: Context, early: bool) -> AsyncIterator[int]:
        """Count."""
        if early and ctx.attempt == 1:
            raise Failure(Kind.unavailable, "x")
        yield 1
        if ctx.attempt == 1:
            raise Failure(Kind.unavailable, "x")
        yield 2

    @app.action(name="sync_numbers", retry={"retries": 1, "delay": 0})
    def sync_numbers(ctx: Context, early: bool) -> Iterator[int]:
        """Count."""
        if early and ctx.attempt == 1:
            raise Failure(Kind.unavailable, "x")
        yield 1
        if ctx.attempt == 1:
            raise Failure(Kind.unavailable, "x")
        yield 2

    name = f"{style}_numbers"
    events = await collect_stream(app.stream(name, {"early": True}))
    assert [event["type"] for event in events] == ["log", "chunk", "chunk", "result"]
    events = await collect_stream(app.stream(name, {"early": False}))
    assert [event["type"] for event in events] == ["chunk", "result"]
    assert events[-1]["envelope"]["error"]["code"] == "EXTERNAL_SERVICE_ERROR"
    collected = await app.invoke(name, {"early": False})
    assert (collected.data, collected.meta["chunks"]) == ([1, 2], 2)


async def test_the_consumer_may_change_events_without_changing_the_envelope() -> None:
    events: list[Any] = []
    async for event in board().stream("work"):
        if event["type"] == "log":
            event["message"] = "changed"
            event["fields"].clear()
        elif event["type"] == "artifact":
            event["artifact"].clear()
        events.append(event)
    envelope = events[-1]["envelope"]
    assert (envelope["logs"][0]["message"], envelope["logs"][0]["fields"]) == ("begin", {"step": 1})
    assert envelope["artifacts"][0]["name"] == "report"


async def test_events_of_nested_calls_stay_their_own() -> None:
    app = App("x")

    @app.action
    async def inner(ctx: Context) -> int:
        """Be inside."""
        ctx.logger.info("inner")
        return 1

    @app.action
    async def outer(ctx: Context) -> int:
        """Be outside."""
        ctx.logger.info("outer")
        value: int = await ctx.invoke("inner")
        return value

    events = await collect_stream(app.stream("outer"))
    assert [event.get("message") for event in events[:-1]] == ["outer"]


async def test_several_streams_run_side_by_side() -> None:
    app = board()
    streams = await asyncio.gather(*(collect_stream(app.stream("work")) for _ in range(20)))
    assert all(len(events) == 5 for events in streams)
