"""Nothing escapes the envelope, whatever an action raises."""

import asyncio
import gc
from typing import Any

import pytest

from fairlead import App, Context, Failure, Kind
from fairlead._json import dumps
from fairlead.actions import DefinitionError
from fairlead.runtime import Result


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("even this fails")


class Own(BaseException):
    pass


class QuotaExceeded(Failure, code="TEST_QUOTA_EXCEEDED", kind=Kind.rate_limited):
    """The quota is used up."""


async def ending(error: BaseException, style: str, **options: Any) -> Result:
    app = App("x")

    async def asynchronous() -> None:
        raise error

    def synchronous() -> None:
        raise error

    async def stream() -> Any:
        yield 1
        raise error

    def sync_stream() -> Any:
        yield 1
        raise error

    function = {"async": asynchronous, "sync": synchronous, "stream": stream, "sync stream": sync_stream}[
        style
    ]
    app.add(function, name="act", description="Act.")
    return await app.invoke("act", **options)


STYLES = ["async", "sync", "stream", "sync stream"]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("options", [{}, {"timeout": 5}], ids=["plain", "timed"])
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError("bad"), "INTERNAL_ERROR"),
        (KeyError("k"), "INTERNAL_ERROR"),
        (Exception(), "INTERNAL_ERROR"),
        (Mute(), "INTERNAL_ERROR"),
        (RecursionError("deep"), "INTERNAL_ERROR"),
        (MemoryError(), "INTERNAL_ERROR"),
        (SystemExit(3), "INTERNAL_ERROR"),
        (Own("own"), "INTERNAL_ERROR"),
        (ExceptionGroup("many", [ValueError("a"), ValueError("b")]), "INTERNAL_ERROR"),
        (BaseExceptionGroup("many", [SystemExit(1)]), "INTERNAL_ERROR"),
        (BaseExceptionGroup("many", [asyncio.CancelledError()]), "INTERNAL_ERROR"),
        (StopIteration("x"), "INTERNAL_ERROR"),
        (StopAsyncIteration("x"), "INTERNAL_ERROR"),
        (TimeoutError(), "TIMEOUT"),
        (asyncio.CancelledError(), "CANCELLED"),
        (PermissionError("denied"), "INTERNAL_ERROR"),
        (DefinitionError("the action itself wired something wrongly"), "INTERNAL_ERROR"),
        (Failure(Kind.conflict, "taken"), "CONFLICT"),
        (QuotaExceeded(), "TEST_QUOTA_EXCEEDED"),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, BaseException) else "",
)
async def test_every_exception_ends_in_the_envelope(
    error: BaseException, code: str, style: str, options: Any
) -> None:
    result = await ending(error, style, **options)
    assert result.failure is not None
    assert result.failure.code == code
    assert result.failure.message
    dumps(result.to_dict())


@pytest.mark.parametrize("style", STYLES)
async def test_a_message_is_redacted_and_no_trace_is_told(style: str) -> None:
    error = RuntimeError(
        "cannot connect to postgres://admin:hunter2hunter2@db:5432/prod, Bearer abcdef0123456789"
    )
    result = await ending(error, style)
    told = dumps(result.to_dict())
    assert "hunter2" not in told
    assert "abcdef0123456789" not in told
    assert "Traceback" not in told
    assert "cannot connect" in told


async def test_the_cause_is_kept_for_the_developer() -> None:
    error = ValueError("bad")
    result = await ending(error, "async")
    assert result.failure is not None
    assert result.failure.__cause__ is error


async def test_a_users_own_code_keeps_its_words() -> None:
    result = await ending(QuotaExceeded(field="plan"), "async")
    error = result.to_dict()["error"]
    assert (error["code"], error["message"], error["field"]) == (
        "TEST_QUOTA_EXCEEDED",
        "The quota is used up.",
        "plan",
    )
    assert error["retryable"] is True


async def test_infinite_recursion_in_the_body_is_survived() -> None:
    app = App("x")

    def forever(n: int) -> int:
        return forever(n + 1)

    @app.action
    async def act() -> int:
        """Recurse."""
        return forever(0)

    @app.action
    def threaded() -> int:
        """Recurse in a thread."""
        return forever(0)

    for name in ("act", "threaded"):
        result = await app.invoke(name)
        assert result.failure is not None
        assert result.failure.code == "INTERNAL_ERROR"


@pytest.mark.parametrize(
    "failure",
    [
        lambda: Failure(Kind.conflict, 123),  # type: ignore[arg-type]
        lambda: Failure(Kind.conflict, "m", details={object(): object()}),  # type: ignore[dict-item]
        lambda: Failure(Kind.conflict, "m", field=5),  # type: ignore[arg-type]
        lambda: Failure(Kind.conflict, "m", retry_after="soon"),  # type: ignore[arg-type]
        lambda: Failure(Kind.conflict, "m", retry_after=float("nan")),
        lambda: Failure(Kind.conflict, "m", retryable="yes"),  # type: ignore[arg-type]
        lambda: Failure(Kind.conflict, "m", issues=[("a",)]),  # type: ignore[list-item]
        lambda: Failure(Kind.conflict, "\ud800"),
    ],
)
async def test_a_failure_made_wrongly_is_still_told(failure: Any) -> None:
    app = App("x")

    @app.action(retry=1)
    async def act() -> None:
        """Act."""
        raise failure()

    result = await app.invoke("act")
    assert result.failure is not None
    assert result.failure.code in ("CONFLICT", "INTERNAL_ERROR")
    dumps(result.to_dict())


async def test_a_failure_that_skipped_its_own_init_is_still_told() -> None:
    class Hollow(Failure, code="TEST_HOLLOW", kind=Kind.conflict):
        """Hollow."""

        def __init__(self) -> None:
            pass

    result = await ending(Hollow(), "async")
    assert result.failure is not None
    dumps(result.to_dict())


async def test_the_same_failure_object_may_be_raised_again_and_again() -> None:
    failure = Failure(Kind.conflict, "shared")
    for _ in range(3):
        result = await ending(failure, "async")
        assert result.failure is not None
        assert result.failure.message == "shared"


async def test_a_keyboard_interrupt_is_the_programs_own_business() -> None:
    app = App("x")

    @app.action
    async def act() -> None:
        """Act."""
        raise KeyboardInterrupt

    coroutine = app.invoke("act")
    with pytest.raises(KeyboardInterrupt):
        coroutine.send(None)
    coroutine.close()


async def test_the_input_validator_may_fail_in_any_way() -> None:
    from typing import Annotated

    from pydantic import AfterValidator

    def explode(value: str) -> str:
        raise RuntimeError("password=hunter2hunter2")

    def refuse(value: str) -> str:
        raise ValueError("password=hunter2hunter2")

    app = App("x")

    @app.action
    async def exploding(name: Annotated[str, AfterValidator(explode)]) -> None:
        """Explode."""

    @app.action
    async def refusing(name: Annotated[str, AfterValidator(refuse)]) -> None:
        """Refuse."""

    for action, code in (("exploding", "INTERNAL_ERROR"), ("refusing", "VALIDATION_ERROR")):
        result = await app.invoke(action, {"name": "x"})
        assert result.failure is not None
        assert result.failure.code == code
        assert "hunter2" not in dumps(result.to_dict())


async def test_no_task_is_left_with_an_exception_nobody_saw() -> None:
    loop = asyncio.get_running_loop()
    seen: list[Any] = []
    loop.set_exception_handler(lambda loop, context: seen.append(context))
    for style in STYLES:
        for error in (ValueError("x"), Failure(Kind.conflict, "x"), asyncio.CancelledError()):
            await ending(error, style)
            await ending(error, style, timeout=5)
    gc.collect()
    await asyncio.sleep(0)
    assert seen == []


@pytest.mark.parametrize("odd", [10**5000, [10**5000]], ids=["number", "list"])
async def test_details_that_cannot_be_written_are_told_by_their_type(odd: Any) -> None:
    app = App("x")

    @app.action
    async def act() -> None:
        """Act."""
        raise Failure(Kind.conflict, "No.", details={"odd": odd, "even": 2})

    error = (await app.invoke("act")).to_dict()["error"]
    assert error["details"] == {"odd": f"<{type(odd).__name__}>", "even": "2"}
    dumps(error)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("options", [{}, {"timeout": 5}], ids=["plain", "timed"])
@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ExceptionGroup("one", [Failure(Kind.conflict, "taken")]), "CONFLICT", "taken"),
        (
            ExceptionGroup("x", [ExceptionGroup("y", [QuotaExceeded()])]),
            "TEST_QUOTA_EXCEEDED",
            "The quota is used up.",
        ),
        (ExceptionGroup("two", [Failure(Kind.conflict, "a"), Failure(Kind.not_found, "b")]), "CONFLICT", "a"),
        (ExceptionGroup("x", [TimeoutError("late")]), "TIMEOUT", "late"),
        (ExceptionGroup("x", [ValueError("bad")]), "INTERNAL_ERROR", "bad"),
        (
            ExceptionGroup("x", [Failure(Kind.conflict, "a"), ValueError("b")]),
            "INTERNAL_ERROR",
            "x (2 sub-exceptions)",
        ),
    ],
    ids=lambda each: str(each) if isinstance(each, BaseException) else "",
)
async def test_what_a_group_of_tasks_raises_is_told_as_what_it_is(
    error: BaseException, code: str, message: str, style: str, options: Any
) -> None:
    failure = (await ending(error, style, **options)).failure
    assert failure is not None
    assert (failure.code, failure.message) == (code, message)


async def test_the_failure_of_an_action_called_beside_others_is_the_callers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = App("x")
    tries: list[None] = []

    @app.action
    async def find() -> None:
        """Find."""
        tries.append(None)
        raise Failure(Kind.unavailable, "Not now.")

    @app.action(retry={"retries": 1, "delay": 0})
    async def both(ctx: Context) -> None:
        """Find two."""
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.invoke("find"))
            group.create_task(asyncio.sleep(60))

    failure = (await app.invoke("both")).failure
    assert failure is not None
    assert (failure.kind, failure.message, len(tries)) == (Kind.unavailable, "Not now.", 2)
    assert not [record for record in caplog.records if record.name == "fairlead"]
