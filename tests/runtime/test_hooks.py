"""Hooks watch: they are told before and after each call, and can neither break nor change it."""

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr

from fairlead import App, Failure, Kind
from fairlead._json import dumps
from fairlead.runtime import Invocation


def board(**hooks: Any) -> App:
    app = App("x", hooks={f"on_invocation_{name}": hook for name, hook in hooks.items()})

    @app.action
    async def add(a: int, password: str = "") -> int:
        """Add one."""
        if a == 13:
            raise Failure(Kind.conflict, "unlucky")
        return a + 1

    return app


async def test_start_then_end_with_the_result() -> None:
    told: list[tuple[Any, ...]] = []

    def note(i: Invocation) -> None:
        told.append((i.action, i.surface, i.invocation_id, i.input, i.result))

    app = board(start=note, end=note)
    result = await app.invoke("add", {"a": 1}, surface="json", invocation_id="i-1")
    start, end = told
    assert start == (app.get("add"), "json", "i-1", {"a": 1}, None)
    assert end == (app.get("add"), "json", "i-1", {"a": 1}, result)


async def test_the_end_hook_fires_once_for_a_failure_of_any_step() -> None:
    told: list[bool] = []
    app = board(end=lambda i: told.append(i.result.ok))
    for input, options in (
        ({"a": 13}, {}),
        ({"a": "x"}, {}),
        ({"a": 1}, {"surface": "pigeon"}),
        ({"a": 1}, {"timeout": "x"}),
    ):
        await app.invoke("add", input, **options)  # type: ignore[arg-type]
    assert told == [False] * 4


async def test_async_hooks_are_awaited() -> None:
    told: list[str] = []

    async def start(invocation: Invocation) -> None:
        await asyncio.sleep(0)
        told.append("start")

    async def end(invocation: Invocation) -> None:
        await asyncio.sleep(0)
        told.append("end")

    app = board(start=start, end=end)
    assert (await app.invoke("add", {"a": 1})).data == 2
    assert told == ["start", "end"]


async def test_several_hooks_are_told_in_order() -> None:
    told: list[int] = []
    app = board(start=[lambda i: told.append(1), lambda i: told.append(2)])
    await app.invoke("add", {"a": 1})
    assert told == [1, 2]


def crash(invocation: Invocation) -> None:
    raise RuntimeError("hook")


async def reject(invocation: Invocation) -> None:
    raise RuntimeError("hook")


def refuse(invocation: Invocation) -> None:
    raise Failure(Kind.forbidden, "hook")


def leave(invocation: Invocation) -> None:
    raise SystemExit(3)


async def cancel(invocation: Invocation) -> None:
    raise asyncio.CancelledError


@pytest.mark.parametrize("hook", [crash, reject, refuse, leave, cancel], ids=lambda hook: hook.__name__)
@pytest.mark.parametrize("moment", ["start", "end"])
async def test_a_hook_that_fails_changes_nothing(hook: Any, moment: str) -> None:
    told: list[int] = []
    app = board(**{moment: [hook, lambda i: told.append(1)]})
    assert (await app.invoke("add", {"a": 1})).data == 2
    assert (await app.invoke("add", {"a": 13})).failure is not None
    assert told == [1, 1]


async def test_the_input_a_hook_sees_is_redacted() -> None:
    told: list[Invocation] = []
    app = board(start=told.append, end=told.append)
    await app.invoke("add", {"a": 1, "password": "hunter2"})
    assert [invocation.input["password"] for invocation in told] == ["[REDACTED]", "[REDACTED]"]


class Login(BaseModel):
    name: str
    password: str
    note: str


async def test_a_models_secrets_are_redacted_too() -> None:
    told: list[Invocation] = []
    app = App("x", hooks={"on_invocation_start": told.append, "on_invocation_end": told.append})

    @app.action
    async def login(login: Login) -> None:
        """Log in."""

    await app.invoke(
        "login", {"name": "ann", "password": "hunter2 with spaces", "note": "Bearer abcdef123456"}
    )
    for invocation in told:
        assert "hunter2" not in str(invocation.input)
        assert "abcdef123456" not in str(invocation.input)
        assert "ann" in str(invocation.input)


async def test_what_the_schema_declares_secret_is_hidden_from_a_hook() -> None:
    told: list[Invocation] = []
    app = App("x", hooks={"on_invocation_start": told.append, "on_invocation_end": told.append})

    class Door(BaseModel):
        code: SecretStr

    @app.action
    async def enter(name: str, doors: list[Door]) -> None:
        """Enter."""

    await app.invoke("enter", {"name": "ann", "doors": [{"code": "hunter2"}]})
    expected = {"name": "ann", "doors": [{"code": "[REDACTED]"}]}
    assert [invocation.input for invocation in told] == [expected, expected]


async def test_a_hook_cannot_change_the_input() -> None:
    def meddle(invocation: Invocation) -> None:
        invocation.input["a"] = 99

    assert (await board(start=meddle).invoke("add", {"a": 1})).data == 2


async def test_an_input_that_cannot_be_redacted_harms_nobody() -> None:
    class Hostile(dict[str, Any]):
        def items(self) -> Any:
            raise RuntimeError("no")

    told: list[Invocation] = []
    app = board(start=told.append, end=told.append)
    result = await app.invoke("add", Hostile(a=1))
    dumps(result.to_dict())
    assert len(told) == 2


async def test_hooks_hear_of_replays() -> None:
    told: list[bool] = []
    app = App("x", hooks={"on_invocation_end": lambda i: told.append(i.result.replayed)})  # type: ignore[union-attr]
    app.add(lambda: 1, name="act", description="Act.", side_effects="write")
    await app.invoke("act", idempotency_key="k")
    await app.invoke("act", idempotency_key="k")
    assert told == [False, True]


async def test_a_streams_hooks_are_told_too() -> None:
    told: list[str] = []
    app = board(start=lambda i: told.append("start"), end=lambda i: told.append("end"))
    async for _ in app.stream("add", {"a": 1}):
        pass
    assert told == ["start", "end"]


async def test_a_hook_that_is_added_between_two_calls_is_told_of_the_second() -> None:
    app, told = App("x"), []

    @app.action
    async def add(a: int) -> int:
        """Add."""
        return a

    await app.invoke("add", {"a": 1})
    app.add_hook("on_invocation_end", lambda event: told.append(event.result))
    second = await app.invoke("add", {"a": 2})
    assert told == [second]


async def test_a_hook_that_is_added_during_a_call_lets_no_more_in_than_there_is_room_for() -> None:
    app, leave = App("x"), asyncio.Event()
    began: list[None] = []

    @app.action(concurrency={"max": 1, "queue": 0})
    async def work() -> None:
        """Work."""
        began.append(None)
        await leave.wait()

    first = asyncio.create_task(app.invoke("work"))
    await asyncio.sleep(0)
    app.add_hook("on_invocation_end", lambda event: None)
    refused = asyncio.create_task(app.invoke("work"))
    await asyncio.sleep(0)
    leave.set()
    assert (await first).ok
    failure = (await refused).failure
    assert failure is not None
    assert failure.kind is Kind.busy
    assert len(began) == 1
