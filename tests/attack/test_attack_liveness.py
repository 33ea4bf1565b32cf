"""Attacks on progress: what could block for ever, or keep a slot, a key or a thread."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from fairlead import App, Context, Failure, Kind
from fairlead.runtime.idempotency import Claim, MemoryIdempotency
from fairlead.runtime.workers import Workers


async def test_sync_actions_that_call_sync_actions_do_not_starve_each_other() -> None:
    app = App("app", grace=0.01)
    app.workers = Workers(limit=2)

    @app.action
    def down(ctx: Context, n: int) -> int:
        """Go down."""
        return 0 if n == 0 else 1 + int(ctx.invoke_sync("down", {"n": n - 1}))

    assert (await app.invoke("down", {"n": 5}, timeout=2)).data == 5


@pytest.mark.parametrize("wait", [1e9, float("inf")])
async def test_a_service_that_asks_for_ages_does_not_hold_its_caller(wait: float) -> None:
    app = App("app")

    @app.action(retry=1, side_effects="read")
    async def fetch() -> None:
        """Fetch."""
        raise Failure(Kind.unavailable, "Down.", retry_after=wait)

    result = await asyncio.wait_for(app.invoke("fetch"), 2)
    assert result.failure is not None
    assert result.failure.kind is Kind.unavailable


def test_a_stopped_body_does_not_wait_for_a_loop_that_stands_still() -> None:
    app, go, ended = App("app", grace=0.01), threading.Event(), threading.Event()

    @app.action
    async def other() -> None:
        """Other."""

    @app.action(concurrency=1)
    def stubborn(ctx: Context) -> None:
        """Wait."""
        go.wait(5)
        try:
            ctx.invoke_sync("other")
        finally:
            ended.set()

    loop = asyncio.new_event_loop()
    try:
        assert not loop.run_until_complete(app.invoke("stubborn", timeout=0.2)).ok
        go.set()
        assert ended.wait(1)
    finally:
        loop.run_until_complete(asyncio.sleep(0.01))
        loop.close()


class SlowStore:
    """A store elsewhere: each answer takes a few turns of the loop, and its own side goes on when nobody waits."""

    def __init__(self) -> None:
        self.inner = MemoryIdempotency()

    async def claim(self, key: str, request: bytes) -> Claim:
        answer = self.inner.claim(key, request)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return answer

    async def settle(self, key: str, record: bytes | None, shared: bytes | None = None) -> None:
        await asyncio.sleep(0)
        self.inner.settle(key, record, shared)
        await asyncio.sleep(0)

    async def wait(self, key: str) -> bytes | None:
        return await self.inner.wait(key)


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.parametrize("turns", range(16))
async def test_a_cancel_at_any_moment_leaves_neither_slot_nor_key_behind(
    turns: int, remote: bool, limited: bool
) -> None:
    store: Any = SlowStore() if remote else None
    app = App("app", idempotency=store, permission_checker=_allow, hooks={"on_invocation_end": _hear})

    @app.action(concurrency=1, side_effects="write")
    async def work() -> str:
        """Work."""
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return "done"

    options: dict[str, Any] = {"idempotency_key": "k", **({"timeout": 5} if limited else {})}
    first = asyncio.ensure_future(app.invoke("work", {}, **options))
    for _ in range(turns):
        await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait({first})
    again = await asyncio.wait_for(app.invoke("work", {}, **options), 1)
    assert again.data == "done"
    assert (await asyncio.wait_for(app.invoke("work", {}), 1)).ok


async def _allow(action: Any, input: Any, context: Context) -> bool:
    await asyncio.sleep(0)
    return True


async def _hear(invocation: Any) -> None:
    await asyncio.sleep(0)


async def test_twins_on_many_threads_have_one_effect() -> None:
    app, effects, ready = App("app"), [], threading.Barrier(4)

    @app.action(side_effects="write")
    def once() -> int:
        """Once."""
        effects.append(1)
        return len(effects)

    def call() -> Any:
        ready.wait(5)
        return asyncio.run(app.invoke("once", {}, idempotency_key="k")).data

    async with asyncio.timeout(10):
        answers = await asyncio.gather(*(asyncio.to_thread(call) for _ in range(4)))
    assert answers == [1] * 4
    assert effects == [1]
