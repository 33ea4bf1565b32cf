"""The order of the steps inside a call: which refusal wins, who is told, and what runs when."""

import asyncio
from typing import Any

from fairlead import App, Context, Failure, Kind
from fairlead.runtime import Call, Claim, Invocation, MemoryIdempotency, Signal


class Story:
    """An app whose every step leaves a word."""

    def __init__(self) -> None:
        self.words: list[str] = []
        say = self.words.append

        class Store(MemoryIdempotency):
            def claim(self, key: str, request: bytes) -> Claim:
                say("claim")
                return super().claim(key, request)

            def settle(self, key: str, kept: Any, shared: bytes | None = None) -> None:
                say("keep" if kept is not None else "forget")
                super().settle(key, kept, shared)

        class Rates:
            async def take(self, key: str, limit: int, per: float) -> float:
                say("rate")
                return 0.0

        def check(action: Any, input: Any, context: Context) -> bool:
            say("permit")
            return True

        async def around(call: Call, next: Any) -> Any:
            say("around<")
            try:
                return await next()
            finally:
                say("around>")

        def start(invocation: Invocation) -> None:
            say("start")

        def end(invocation: Invocation) -> None:
            assert invocation.result is not None
            say("end ok" if invocation.result.ok else "end failed")

        self.app = App(
            "story",
            permission_checker=check,
            middleware=[around],
            hooks={"on_invocation_start": start, "on_invocation_end": end},
            idempotency=Store(),
            rates=Rates(),
        )

        @self.app.action(
            side_effects="destructive",
            supported_surfaces=["json"],
            concurrency=1,
            rate_limit="1000/second",
            deprecated=True,
        )
        async def act(n: int, ctx: Context) -> int:
            """Act."""
            say(f"run {len(ctx.action.name)} logs")
            if n == 13:
                raise Failure(Kind.conflict, "unlucky")
            return n

        self.act = act

    async def call(self, input: Any, **options: Any) -> str | None:
        self.words.clear()
        given = {"surface": "json", "confirm": True, **options}
        result = await self.app.invoke("act", input, **given)
        return result.failure.code if result.failure else None


async def test_a_keyed_call_passes_every_step_in_order() -> None:
    story = Story()
    assert await story.call({"n": 1}, idempotency_key="k") is None
    assert story.words == [
        "start",
        "permit",
        "claim",
        "rate",
        "around<",
        "run 3 logs",
        "around>",
        "keep",
        "end ok",
    ]


async def test_a_replay_stops_after_permission_and_tells_the_hooks() -> None:
    story = Story()
    await story.call({"n": 1}, idempotency_key="k")
    assert await story.call({"n": 1}, idempotency_key="k") is None
    assert story.words == ["start", "permit", "claim", "end ok"]


async def test_a_failure_is_not_kept_and_ends_the_call_in_order() -> None:
    story = Story()
    assert await story.call({"n": 13}, idempotency_key="k") == "CONFLICT"
    assert story.words[-3:] == ["around>", "forget", "end failed"]


async def test_an_unknown_action_fires_the_end_hook_only() -> None:
    told: list[Invocation] = []
    app = App("x", hooks={"on_invocation_start": told.append, "on_invocation_end": told.append})
    result = await app.invoke("nothing", {"a": 1})
    assert result.failure is not None
    assert result.failure.code == "ACTION_NOT_FOUND"
    assert len(told) == 1
    assert told[0].action is None
    assert told[0].result is result


async def test_the_surface_is_checked_before_the_input() -> None:
    story = Story()
    assert await story.call({"n": "x"}, surface="http") == "UNSUPPORTED_SURFACE"
    assert story.words == ["start", "end failed"]


async def test_the_input_is_checked_before_an_aborted_signal() -> None:
    story = Story()
    signal = Signal()
    signal.cancel()
    assert await story.call({"n": "x"}, signal=signal) == "VALIDATION_ERROR"


async def test_an_aborted_signal_is_seen_before_confirmation() -> None:
    story = Story()
    signal = Signal()
    signal.cancel()
    assert await story.call({"n": 1}, signal=signal, confirm=None) == "CANCELLED"
    assert "permit" not in story.words


async def test_the_input_is_checked_before_confirmation() -> None:
    story = Story()
    assert await story.call({"n": "x"}, confirm=None) == "VALIDATION_ERROR"


async def test_confirmation_comes_before_permission() -> None:
    story = Story()
    assert await story.call({"n": 1}, confirm=None) == "CONFIRMATION_REQUIRED"
    assert story.words == ["start", "end failed"]


async def test_permission_comes_before_the_replay() -> None:
    story = Story()
    story.app._checker = lambda action, given, context: "no"
    assert await story.call({"n": 1}, idempotency_key="k") == "AUTHORIZATION_ERROR"
    assert "claim" not in story.words


async def test_the_rate_is_taken_before_a_slot() -> None:
    app = App("x")
    entered = asyncio.Event()
    leave = asyncio.Event()

    @app.action(concurrency=1, rate_limit={"limit": 2, "per": 60})
    async def hold() -> None:
        """Hold the slot."""
        entered.set()
        await leave.wait()

    holder = asyncio.create_task(app.invoke("hold"))
    await entered.wait()
    second, third = await app.invoke("hold"), await app.invoke("hold")
    leave.set()
    assert (await holder).ok
    assert second.failure is not None
    assert third.failure is not None
    assert [second.failure.code, third.failure.code] == ["CONCURRENCY_LIMIT", "RATE_LIMITED"]


async def test_a_deprecation_warning_is_the_first_log_and_not_given_to_refused_calls() -> None:
    app = App("x")

    @app.action(deprecation={"message": "Old.", "since": "1.0", "replacement": "other"}, side_effects="write")
    async def old(ctx: Context) -> int:
        """Be old."""
        ctx.logger.info("hello")
        return 1

    result = await app.invoke("old", idempotency_key="k")
    assert [entry["message"] for entry in result.logs] == ["Action is deprecated.", "hello"]
    assert result.logs[0]["level"] == "warn"
    assert result.logs[0]["fields"] == {"message": "Old.", "since": "1.0", "replacement": "other"}
    refused = await app.invoke("old", {"extra": 1})
    assert refused.logs == []
    replayed = await app.invoke("old", idempotency_key="k")
    assert [entry["message"] for entry in replayed.logs] == ["Action is deprecated.", "hello"]


async def test_output_is_checked_after_all_attempts_and_not_retried() -> None:
    runs = []
    app = App("x")

    @app.action(retry={"retries": 3, "delay": 0}, output=int)
    async def spoil() -> Any:
        """Spoil."""
        runs.append(1)
        return "text"

    result = await app.invoke("spoil")
    assert result.failure is not None
    assert result.failure.code == "OUTPUT_VALIDATION_ERROR"
    assert len(runs) == 1


async def test_services_are_not_started_for_a_call_that_is_refused() -> None:
    app = App("x")
    started = []

    @app.service
    def database() -> Any:
        started.append(1)
        yield 1

    @app.action(supported_surfaces=["cli"])
    async def act(n: int) -> int:
        """Act."""
        return n

    assert not (await app.invoke("act", {"n": "x"})).ok
    assert not (await app.invoke("act", {"n": 1}, surface="http")).ok
    assert started == []
