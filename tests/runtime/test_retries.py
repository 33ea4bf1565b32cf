"""Trying again: only what may succeed, after a pause that is bounded."""

import asyncio
import threading
import uuid
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from fairlead import App, Context, Failure, Kind
from fairlead.actions import Retry


class Flaky:
    """An app whose action fails a number of times, and the pauses it took."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, failure: Any, times: int, retry: Any) -> None:
        self.tries = 0
        self.pauses: list[float] = []
        real, here = asyncio.sleep, threading.get_ident()

        async def sleep(seconds: float, result: Any = None) -> Any:
            if threading.get_ident() != here:  # a server that other tests share
                return await real(seconds, result)
            self.pauses.append(seconds)
            return await real(0, result)

        monkeypatch.setattr(asyncio, "sleep", sleep)
        self.app = App("x")

        @self.app.action(retry=retry)
        async def act() -> str:
            """Act."""
            self.tries += 1
            if self.tries <= times:
                raise failure
            return "done"


UNAVAILABLE = Failure(Kind.unavailable, "not yet")


async def test_a_retryable_failure_is_tried_again_and_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    flaky = Flaky(monkeypatch, UNAVAILABLE, 1, {"retries": 2, "delay": 0.1})
    result = await flaky.app.invoke("act")
    assert (result.data, flaky.tries) == ("done", 2)
    entry = result.logs[0]
    assert (entry["level"], entry["message"]) == ("warn", "Retrying action after retryable failure.")
    assert entry["fields"] == {"attempt": 1, "code": "EXTERNAL_SERVICE_ERROR", "delayMs": 100}


async def test_the_last_failure_is_told_when_the_tries_are_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    flaky = Flaky(monkeypatch, UNAVAILABLE, 99, 2)
    result = await flaky.app.invoke("act")
    assert result.failure is not None
    assert (result.failure.kind, flaky.tries) == (Kind.unavailable, 3)


async def test_pauses_grow_linearly_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    flaky = Flaky(monkeypatch, UNAVAILABLE, 3, {"retries": 3, "delay": 0.02})
    await flaky.app.invoke("act")
    assert flaky.pauses == pytest.approx([0.02, 0.04, 0.06])


async def test_pauses_may_double_up_to_a_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    retry = {"retries": 5, "delay": 1, "backoff": "exponential", "max_delay": 5}
    flaky = Flaky(monkeypatch, UNAVAILABLE, 5, retry)
    await flaky.app.invoke("act")
    assert flaky.pauses == pytest.approx([1, 2, 4, 5, 5])


async def test_jitter_stays_below_the_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    flaky = Flaky(monkeypatch, UNAVAILABLE, 50, {"retries": 50, "delay": 1, "max_delay": 1, "jitter": True})
    await flaky.app.invoke("act")
    assert all(0 <= pause <= 1 for pause in flaky.pauses)
    assert len(set(flaky.pauses)) > 10


async def test_what_the_failure_says_about_waiting_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    failure = Failure(Kind.rate_limited, "later", retry_after=7)
    flaky = Flaky(monkeypatch, failure, 1, {"retries": 1, "delay": 0.1})
    assert (await flaky.app.invoke("act")).ok
    assert flaky.pauses == [7]


async def test_no_delay_means_no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    flaky = Flaky(monkeypatch, UNAVAILABLE, 2, {"retries": 2, "delay": 0})
    assert (await flaky.app.invoke("act")).ok
    assert flaky.pauses == []


@pytest.mark.parametrize(
    "failure",
    [
        Failure(Kind.rate_limited, "x"),
        Failure(Kind.busy, "x"),
        Failure(Kind.timeout, "x"),
        Failure(Kind.upstream, "x"),
        Failure(Kind.unavailable, "x"),
        Failure(Kind.internal, "x", retryable=True),
        Failure(Kind.conflict, "x", retryable=True),
        TimeoutError(),
    ],
    ids=repr,
)
async def test_these_are_tried_again(monkeypatch: pytest.MonkeyPatch, failure: Any) -> None:
    flaky = Flaky(monkeypatch, failure, 1, 1)
    assert (await flaky.app.invoke("act")).ok


class Liar(Exception):
    retryable = True


@pytest.mark.parametrize(
    "failure",
    [
        Failure(Kind.conflict, "x"),
        Failure(Kind.internal, "x"),
        Failure(Kind.invalid_input, "x"),
        Failure(Kind.cancelled, "x"),
        Failure(Kind.unavailable, "x", retryable=False),
        ValueError("x"),
        Liar(),
        SystemExit(1),
    ],
    ids=repr,
)
async def test_these_are_not(monkeypatch: pytest.MonkeyPatch, failure: Any) -> None:
    flaky = Flaky(monkeypatch, failure, 1, 3)
    assert not (await flaky.app.invoke("act")).ok
    assert flaky.tries == 1


async def test_a_call_may_set_its_own_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    flaky = Flaky(monkeypatch, UNAVAILABLE, 1, False)
    assert (await flaky.app.invoke("act", retry=True)).ok
    flaky = Flaky(monkeypatch, UNAVAILABLE, 1, True)
    assert not (await flaky.app.invoke("act", retry=False)).ok


async def test_wrong_retries_are_the_callers_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    flaky = Flaky(monkeypatch, UNAVAILABLE, 0, False)
    for wrong in (-1, "x", {"tries": 1}, 1.5):
        result = await flaky.app.invoke("act", retry=wrong)  # type: ignore[arg-type]
        assert result.failure is not None
        assert result.failure.code == "VALIDATION_ERROR"
    assert flaky.tries == 0


async def test_logs_of_all_attempts_are_told_in_order() -> None:
    from fairlead import Context

    app = App("x")

    @app.action(retry={"retries": 1, "delay": 0})
    async def act(ctx: Context) -> None:
        """Act."""
        ctx.logger.info(f"attempt {ctx.attempt}")
        if ctx.attempt == 1:
            raise UNAVAILABLE

    messages = [entry["message"] for entry in (await app.invoke("act")).logs]
    assert messages == ["attempt 1", "Retrying action after retryable failure.", "attempt 2"]


class Order(BaseModel):
    dishes: list[str]
    id: uuid.UUID = Field(default_factory=uuid.uuid4)


@pytest.mark.parametrize("options", [{}, {"timeout": 5}, {"retry": {"retries": 2, "delay": 0}}])
async def test_each_attempt_gets_the_input_as_it_was_sent(options: Any) -> None:
    app = App("x")

    @app.action(retry={"retries": 0 if "retry" in options else 2, "delay": 0})
    async def collect(items: list[int], when: date, ctx: Context) -> list[int]:
        """Collect."""
        items.append(ctx.attempt)
        if ctx.attempt < 3:
            raise Failure(Kind.unavailable, "x")
        return items

    sent = {"items": ["0"], "when": "2024-01-02"}
    assert (await app.invoke("collect", sent, **options)).data == [0, 3]


async def test_all_attempts_have_the_same_id_that_was_made_for_the_call() -> None:
    app = App("x")
    ids: list[uuid.UUID] = []

    @app.action(retry={"retries": 1, "delay": 0})
    async def order(order: Order) -> None:
        """Order."""
        ids.append(order.id)
        raise Failure(Kind.unavailable, "x")

    await app.invoke("order", {"dishes": ["soup"]})
    assert len(ids) == 2
    assert len(set(ids)) == 1


async def test_sync_functions_are_tried_again_too() -> None:
    app = App("x")
    tries: list[int] = []

    @app.action(retry={"retries": 1, "delay": 0})
    def act() -> int:
        """Act."""
        tries.append(1)
        if len(tries) == 1:
            raise UNAVAILABLE
        return len(tries)

    assert (await app.invoke("act")).data == 2


@given(
    attempt=st.integers(1, 10_000),
    delay=st.floats(0, 1e6),
    cap=st.floats(0, 1e6),
    random=st.floats(0, 1, exclude_max=True),
    backoff=st.sampled_from(["linear", "exponential"]),
    jitter=st.booleans(),
)
def test_a_pause_is_never_negative_and_never_above_the_cap(
    attempt: int, delay: float, cap: float, random: float, backoff: Any, jitter: bool
) -> None:
    pause = Retry(1, delay, backoff, cap, jitter).pause(attempt, random)
    assert 0 <= pause <= cap
