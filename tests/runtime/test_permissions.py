"""Who may call what. Declared permissions hold by default; a checker of your own replaces that and fails closed."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from fairlead import App, Context, Failure, Kind
from fairlead.runtime import Signal


def board(**options: Any) -> App:
    app = App("x", **options)

    @app.action(permissions=["tasks:write", "tasks:own:edit"])
    async def write() -> str:
        """Write."""
        return "written"

    @app.action
    async def read() -> str:
        """Read."""
        return "read"

    return app


async def code(app: App, action: str = "write", **options: Any) -> str | None:
    result = await app.invoke(action, **options)
    return result.failure.code if result.failure else None


async def test_an_action_without_permissions_is_for_everyone() -> None:
    assert await code(board(), "read") is None


async def test_nobody_is_asked_to_say_who_they_are() -> None:
    result = await board().invoke("write")
    assert result.failure is not None
    assert result.failure.kind is Kind.unauthenticated
    assert "tasks:write" in result.failure.message


@pytest.mark.parametrize(
    "granted",
    [
        ["tasks:write", "tasks:own:edit"],
        ("tasks:write", "tasks:own:edit", "more"),
        {"tasks:write", "tasks:own:edit"},
        ["*"],
        ["tasks:*"],
        ["tasks:write", "tasks:own:*"],
    ],
)
async def test_holding_every_permission_allows(granted: Any) -> None:
    assert await code(board(), auth={"permissions": granted}) is None


@pytest.mark.parametrize(
    "granted",
    [
        [],
        ["tasks:write"],
        ["tasks:own:edit"],
        ["tasks"],
        ["task:*"],
        ["TASKS:*"],
        ["tasks:own:*"],
        ["tasks:writer", "tasks:own:edit"],
        ["tasks*"],
        ["*:write"],
        "**",
        None,
        5,
        [None, 5],
        [["*"]],
    ],
)
async def test_anything_less_refuses(granted: Any) -> None:
    assert await code(board(), auth={"permissions": granted}) == "AUTHORIZATION_ERROR"


async def test_an_identity_without_permissions_is_refused_as_such() -> None:
    identities: list[dict[str, Any]] = [{"user": "ann"}, {"user": {"id": 1}}, {"auth": {}}, {"auth": "token"}]
    for identity in identities:
        assert await code(board(), **identity) == "AUTHORIZATION_ERROR"


@dataclass
class User:
    id: int
    permissions: list[str] = field(default_factory=list)


async def test_permissions_may_stand_on_objects_and_as_oauth_scopes() -> None:
    assert await code(board(), user=User(1, ["*"])) is None
    assert await code(board(), user=User(1)) == "AUTHORIZATION_ERROR"
    assert await code(board(), auth={"scope": "tasks:write tasks:own:edit"}) is None


async def test_identity_is_never_taken_from_input_or_metadata() -> None:
    app = App("x")

    @app.action(permissions=["p"])
    async def act(auth: Any = None, user: Any = None) -> None:
        """Act."""

    claims = {"permissions": ["*"]}
    assert await code(app, "act", input={"auth": claims, "user": claims}) == "AUTHENTICATION_ERROR"
    assert await code(app, "act", metadata={"auth": claims}) == "AUTHENTICATION_ERROR"


@pytest.mark.parametrize("answer", [False, None, 1, 0, "", [], {}, object(), (True,)])
async def test_only_true_allows(answer: Any) -> None:
    app = board(permission_checker=lambda action, given, context: answer)
    result = await app.invoke("read")
    assert result.failure is not None
    assert (result.failure.code, result.failure.message) == (
        "AUTHORIZATION_ERROR",
        "Action is not authorized.",
    )


async def test_a_string_is_the_refusals_message() -> None:
    app = board(permission_checker=lambda action, given, context: "only on Mondays")
    result = await app.invoke("read")
    assert result.failure is not None
    assert (result.failure.code, result.failure.message) == ("AUTHORIZATION_ERROR", "only on Mondays")


async def test_a_checker_may_be_async() -> None:
    async def check(action: Any, input: Any, context: Context) -> bool | str:
        return context.user == "ann" or "who are you?"

    app = board(permission_checker=check)
    assert await code(app, "read", user="ann") is None
    assert await code(app, "read", user="bob") == "AUTHORIZATION_ERROR"


async def test_a_checker_sees_the_action_the_validated_input_and_the_context() -> None:
    seen: list[Any] = []

    def check(action: Any, input: Any, context: Context) -> bool:
        seen.append((action.name, input, context.user))
        return True

    app = App("x", permission_checker=check)

    @app.action
    async def act(n: int) -> int:
        """Act."""
        return n

    assert (await app.invoke("act", {"n": "5"}, user="ann")).data == 5
    assert seen == [("act", {"n": 5}, "ann")]


async def test_a_checker_replaces_the_declared_permissions() -> None:
    assert await code(board(permission_checker=lambda action, given, context: True)) is None


def crash(action: Any, input: Any, context: Context) -> bool:
    raise RuntimeError("cannot reach postgres://admin:hunter2hunter2@db/prod")


async def crash_later(action: Any, input: Any, context: Context) -> bool:
    raise ValueError("password=hunter2hunter2")


def leave(action: Any, input: Any, context: Context) -> bool:
    raise SystemExit(0)


@pytest.mark.parametrize("checker", [crash, crash_later, leave], ids=lambda checker: checker.__name__)
async def test_a_checker_that_fails_refuses_and_tells_no_secret(checker: Any) -> None:
    ran: list[int] = []
    app = App("x", permission_checker=checker)

    @app.action
    async def act() -> None:
        """Act."""
        ran.append(1)

    result = await app.invoke("act")
    assert result.failure is not None
    assert "hunter2" not in str(result.to_dict())
    assert ran == []


async def test_a_checkers_failure_is_told_as_it_is() -> None:
    def check(action: Any, input: Any, context: Context) -> bool:
        raise Failure(Kind.unauthenticated, "sign in first")

    assert await code(board(permission_checker=check), "read") == "AUTHENTICATION_ERROR"


async def test_a_callable_class_may_be_the_checker() -> None:
    class Checker:
        def __call__(self, action: Any, input: Any, context: Context) -> bool:
            return bool(context.user == "ann")

    assert await code(board(permission_checker=Checker()), "read", user="ann") is None


async def test_a_stream_is_permitted_like_a_call() -> None:
    events = [event async for event in board().stream("write")]
    assert [event["type"] for event in events] == ["result"]
    assert events[0]["envelope"]["error"]["code"] == "AUTHENTICATION_ERROR"


@pytest.mark.parametrize("how", ["deadline", "signal"])
async def test_a_checker_that_hangs_does_not_hang_the_call(how: str) -> None:
    asking = asyncio.Event()

    async def check(action: Any, input: Any, context: Context) -> bool:
        asking.set()
        await asyncio.Event().wait()
        return True

    signal = Signal()
    limits: dict[str, Any] = {"signal": signal} if how == "signal" else {"deadline": 0.02}
    call = asyncio.create_task(board(permission_checker=check).invoke("read", **limits))
    await asking.wait()
    if how == "signal":
        signal.cancel()
    async with asyncio.timeout(5):
        result = await call
    assert result.failure is not None
    assert result.failure.kind is (Kind.timeout if how == "deadline" else Kind.cancelled)
