"""Middleware: an onion around each attempt."""

from collections.abc import Awaitable, Callable
from typing import Any

from fairlead import App, Context, Failure, Kind
from fairlead.runtime import Call, Middleware

Next = Callable[[], Awaitable[Any]]


def named(name: str, words: list[str]) -> Middleware:
    async def layer(call: Call, next: Next) -> Any:
        words.append(f"{name}<")
        answer = await next()
        words.append(f"{name}>")
        return answer

    return layer


async def test_the_first_is_outermost_and_all_run_again_for_each_attempt() -> None:
    words: list[str] = []
    app = App("x", middleware=[named("A", words), named("B", words)])

    @app.action(retry={"retries": 1, "delay": 0})
    async def act() -> str:
        """Act."""
        words.append("run")
        if words.count("run") == 1:
            raise Failure(Kind.unavailable, "not yet")
        return "done"

    assert (await app.invoke("act")).data == "done"
    assert words == ["A<", "B<", "run", "A<", "B<", "run", "B>", "A>"]


async def test_one_needs_no_list() -> None:
    words: list[str] = []
    app = App("x", middleware=named("A", words))

    @app.action
    async def act() -> str:
        """Act."""
        return "done"

    assert (await app.invoke("act")).data == "done"
    assert words == ["A<", "A>"]


async def test_it_sees_the_action_the_validated_input_and_the_context() -> None:
    seen: list[Call] = []

    async def look(call: Call, next: Next) -> Any:
        seen.append(call)
        return await next()

    app = App("x", middleware=[look])

    @app.action
    async def act(n: int, m: int = 2) -> int:
        """Act."""
        return n

    await app.invoke("act", {"n": "5"}, user="ann")
    call = seen[0]
    assert call.action is app.get("act")
    assert call.input == {"n": 5}
    assert call.context.user == "ann"


async def test_it_may_answer_without_the_action() -> None:
    async def short(call: Call, next: Next) -> Any:
        return 42

    app = App("x", middleware=[short])
    ran = []

    @app.action
    async def act() -> int:
        """Act."""
        ran.append(1)
        return 1

    assert (await app.invoke("act")).data == 42
    assert ran == []


async def test_its_answer_passes_the_output_checks() -> None:
    async def short(call: Call, next: Next) -> Any:
        return {"not": "a number"}

    app = App("x", middleware=[short])

    @app.action
    async def act() -> int:
        """Act."""
        return 1

    result = await app.invoke("act")
    assert result.failure is not None
    assert result.failure.code == "OUTPUT_VALIDATION_ERROR"


async def test_it_may_change_the_answer() -> None:
    async def double(call: Call, next: Next) -> Any:
        return 2 * await next()

    app = App("x", middleware=[double])

    @app.action
    async def act() -> int:
        """Act."""
        return 21

    @app.action
    def sync() -> int:
        """Act in a thread."""
        return 4

    assert (await app.invoke("act")).data == 42
    assert (await app.invoke("sync")).data == 8


async def test_next_may_be_called_once_only() -> None:
    async def twice(call: Call, next: Next) -> Any:
        await next()
        return await next()

    app = App("x", middleware=[twice])
    ran = []

    @app.action
    async def act() -> int:
        """Act."""
        ran.append(1)
        return 1

    result = await app.invoke("act")
    assert result.failure is not None
    assert result.failure.code == "INTERNAL_ERROR"
    assert ran == [1]


async def test_what_it_raises_ends_in_the_envelope() -> None:
    async def refuse(call: Call, next: Next) -> Any:
        raise Failure(Kind.too_large, "token=abcdef0123456789abcdef")

    async def crash(call: Call, next: Next) -> Any:
        raise RuntimeError("password=hunter2hunter2")

    for layer, code in ((refuse, "PAYLOAD_TOO_LARGE"), (crash, "INTERNAL_ERROR")):
        app = App("x", middleware=[layer])
        app.add(lambda: 1, name="act", description="Act.")
        result = await app.invoke("act")
        assert result.failure is not None
        assert result.failure.code == code
        assert "hunter2" not in result.failure.message
        assert "abcdef" not in result.failure.message


async def test_one_that_is_not_async_is_answered_with_a_failure() -> None:
    def plain(call: Call, next: Next) -> Any:
        return 1

    app = App("x", middleware=[plain])
    app.add(lambda: 1, name="act", description="Act.")
    result = await app.invoke("act")
    assert result.ok is False or result.data == 1


async def test_it_can_catch_a_failure_and_answer() -> None:
    async def soften(call: Call, next: Next) -> Any:
        try:
            return await next()
        except Failure as failure:
            return failure.code

    app = App("x", middleware=[soften])

    @app.action
    async def act() -> Any:
        """Act."""
        raise Failure(Kind.conflict, "x")

    assert (await app.invoke("act")).data == "CONFLICT"


async def test_it_can_log_through_the_context() -> None:
    async def note(call: Call, next: Next) -> Any:
        call.context.logger.info("before")
        return await next()

    app = App("x", middleware=[note])

    @app.action
    async def act(ctx: Context) -> None:
        """Act."""
        ctx.logger.info("inside")

    assert [entry["message"] for entry in (await app.invoke("act")).logs] == ["before", "inside"]
