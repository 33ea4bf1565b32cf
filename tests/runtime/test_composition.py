"""Actions that call actions, and calls from code without a loop."""

import asyncio
import threading
from typing import Any

import pytest

from fairlead import Action, App, Context, Failure, Kind, s
from fairlead.actions import DefinitionError


async def test_a_call_inside_a_call_carries_the_identity_along() -> None:
    app = App("x", services={"db": 1})

    @app.action(permissions=["inner"])
    async def inner(ctx: Context) -> list[Any]:
        """Look."""
        return [ctx.user, ctx.auth, ctx.env, dict(ctx.metadata), ctx.services.db, ctx.surface]

    @app.action
    async def outer(ctx: Context) -> Any:
        """Ask."""
        return await ctx.invoke("inner")

    auth = {"permissions": ["inner"]}
    result = await app.invoke("outer", user="ann", auth=auth, env="test", metadata={"m": 1}, surface="json")
    assert result.data == ["ann", auth, "test", {"m": 1}, 1, "unknown"]
    refused = await app.invoke("outer", user="ann")
    assert refused.failure is not None
    assert refused.failure.code == "AUTHORIZATION_ERROR"


async def test_the_inner_failure_is_raised_in_the_outer_action() -> None:
    app = App("x")

    @app.action
    async def inner() -> None:
        """Fail."""
        raise Failure(Kind.conflict, "taken", field="name")

    @app.action
    async def passing(ctx: Context) -> None:
        """Let it pass."""
        await ctx.invoke("inner")

    @app.action
    async def catching(ctx: Context) -> str:
        """Catch it."""
        try:
            await ctx.invoke("inner")
        except Failure as failure:
            return failure.code
        return "none"

    result = await app.invoke("passing")
    assert result.failure is not None
    assert (result.failure.code, result.failure.field) == ("CONFLICT", "name")
    assert (await app.invoke("catching")).data == "CONFLICT"


async def test_an_action_object_may_be_called_too() -> None:
    app = App("x")

    async def double(n: int) -> int:
        """Double."""
        return 2 * n

    unregistered = Action(double)

    @app.action
    async def outer(ctx: Context) -> Any:
        """Ask."""
        return await ctx.invoke(unregistered, {"n": 4})

    assert (await app.invoke("outer")).data == 8


async def test_null_is_an_input_like_any_other() -> None:
    app = App("x")

    @app.action(input=s.literal(None))
    async def nothing(value: None) -> str:
        """Take null."""
        return "null"

    @app.action
    async def outer(ctx: Context) -> Any:
        """Ask."""
        return await ctx.invoke("nothing", None)

    assert (await app.invoke("outer")).data == "null"


async def test_cancelling_the_outer_call_stops_the_inner_one() -> None:
    from fairlead.runtime import Signal

    app = App("x")
    words: list[str] = []
    started = asyncio.Event()

    @app.action
    async def inner() -> None:
        """Wait."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            words.append("stopped")

    @app.action
    async def outer(ctx: Context) -> None:
        """Ask."""
        await ctx.invoke("inner")

    signal = Signal()
    call = asyncio.create_task(app.invoke("outer", signal=signal))
    await started.wait()
    signal.cancel()
    result = await call
    assert result.failure is not None
    assert result.failure.code == "CANCELLED"
    assert words == ["stopped"]


async def test_the_outer_time_out_stops_the_inner_call() -> None:
    app = App("x")
    words: list[str] = []

    @app.action
    async def inner() -> None:
        """Wait."""
        try:
            await asyncio.Event().wait()
        finally:
            words.append("stopped")

    @app.action(timeout=0.01)
    async def outer(ctx: Context) -> None:
        """Ask."""
        await ctx.invoke("inner")

    result = await app.invoke("outer")
    assert result.failure is not None
    assert result.failure.code == "TIMEOUT"
    assert words == ["stopped"]


async def test_an_inner_destructive_call_needs_its_own_confirmation() -> None:
    app = App("x")
    app.add(lambda: 1, name="delete", description="Delete.", side_effects="destructive")

    @app.action
    async def outer(confirmed: bool, ctx: Context) -> Any:
        """Ask."""
        return await ctx.invoke("delete", confirm=confirmed)

    refused = await app.invoke("outer", {"confirmed": False}, confirm=True)
    assert refused.failure is not None
    assert refused.failure.code == "CONFIRMATION_REQUIRED"
    assert (await app.invoke("outer", {"confirmed": True})).ok


def test_invoke_sync_gives_the_result() -> None:
    app = App("x")

    @app.action
    async def double(n: int) -> int:
        """Double."""
        await asyncio.sleep(0)
        return 2 * n

    assert app.invoke_sync("double", {"n": 4}).data == 8
    assert app.invoke_sync("double", {"n": "x"}).ok is False
    assert app.invoke_sync(double, {"n": 1}, user="ann").data == 2


def test_invoke_sync_serves_many_threads() -> None:
    app = App("x")
    barrier = threading.Barrier(10, timeout=5)

    @app.action
    def meet(n: int) -> int:
        """Meet."""
        barrier.wait()
        return n

    answers: list[Any] = []
    threads = [
        threading.Thread(target=lambda n=n: answers.append(app.invoke_sync("meet", {"n": n}).data))
        for n in range(10)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(answers) == list(range(10))


async def test_actions_that_call_each_other_in_a_circle_fail_and_end() -> None:
    app = App("x")

    @app.action
    async def there(ctx: Context, left: int) -> int:
        """Go there."""
        return 0 if left == 0 else await ctx.invoke("back", {"left": left - 1})

    @app.action
    def back(ctx: Context, left: int) -> int:
        """Come back."""
        return ctx.invoke_sync("there", {"left": left})  # type: ignore[no-any-return]

    assert (await app.invoke("there", {"left": 40})).data == 0
    endless = (await app.invoke("there", {"left": -1})).failure
    assert endless is not None
    assert "100 deep" in endless.message
    assert (await app.invoke("there", {"left": 40})).data == 0


async def test_invoke_sync_is_refused_where_a_loop_runs() -> None:
    app = App("x")
    app.add(lambda: 1, name="act", description="Act.")
    with pytest.raises(DefinitionError, match="await"):
        app.invoke_sync("act")


async def test_invoke_sync_works_inside_a_sync_action() -> None:
    app = App("x")
    app.add(lambda: 5, name="inner", description="Inner.")

    @app.action
    def outer() -> Any:
        """Ask."""
        return app.invoke_sync("inner").data

    assert (await app.invoke("outer")).data == 5


def test_invoke_sync_starts_services_once() -> None:
    app = App("x")
    words: list[str] = []

    @app.service
    def db() -> Any:
        words.append("up")
        yield 1

    app.add(lambda: 1, name="act", description="Act.")
    for _ in range(3):
        assert app.invoke_sync("act").ok
    assert words == ["up"]
