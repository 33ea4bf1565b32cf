"""Attacks on who calls what: confirmations, keys and permissions that would serve another call or caller."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from pydantic import BaseModel, Field, SecretStr

from fairlead import App, Kind


class Transfer(BaseModel):
    to: str
    amount: int = Field(exclude=True)


def _bank() -> tuple[App, list[Any]]:
    app = App("bank")
    done: list[Any] = []

    @app.action(side_effects="write", requires_confirmation="token")
    async def set_password(password: SecretStr) -> None:
        """Set."""
        done.append(password.get_secret_value())

    @app.action(side_effects="write", requires_confirmation="token")
    async def transfer(input: Transfer) -> None:
        """Move."""
        done.append(input.amount)

    @app.action(side_effects="write", requires_confirmation="token")
    async def note(value: Any) -> None:
        """Keep."""
        done.append(value)

    return app, done


@pytest.mark.parametrize(
    ("action", "confirmed", "sent"),
    [
        ("set_password", {"password": "mine"}, {"password": "theirs"}),
        ("transfer", {"to": "a", "amount": 1}, {"to": "a", "amount": 1_000_000}),
        ("note", {"value": float("nan")}, {"value": None}),
        ("note", {"value": b"text"}, {"value": "text"}),
        ("note", {"value": {1: "a"}}, {"value": {"1": "a"}}),
    ],
    ids=["secret", "not dumped", "nan", "bytes", "keys"],
)
async def test_a_confirmation_of_one_input_is_none_of_another(
    action: str, confirmed: dict[str, Any], sent: dict[str, Any]
) -> None:
    app, done = _bank()
    asked = await app.invoke(action, confirmed)
    assert asked.failure is not None
    token = asked.failure.details["confirmation"]["code"]
    result = await app.invoke(action, sent, confirm=token)
    assert not result.ok
    assert done == []


async def test_a_key_used_with_another_secret_is_a_conflict() -> None:
    app, seen = App("app"), []

    @app.action(side_effects="write")
    async def login(password: SecretStr) -> str:
        """Log in."""
        seen.append(password.get_secret_value())
        return f"hello {len(seen)}"

    await app.invoke("login", {"password": "right"}, idempotency_key="k", user="u")
    guess = await app.invoke("login", {"password": "wrong"}, idempotency_key="k", user="u")
    assert guess.failure is not None
    assert guess.failure.kind is Kind.conflict


async def test_a_confirmation_of_one_version_is_none_of_another() -> None:
    app, ran = App("app"), []

    @app.action(name="wipe", version="1.0.0", requires_confirmation="token", side_effects="write")
    async def harmless(x: int) -> None:
        """One."""
        ran.append("one")

    @app.action(name="wipe", version="2.0.0", requires_confirmation="token", side_effects="write")
    async def harmful(x: int) -> None:
        """Two."""
        ran.append("two")

    asked = await app.invoke("wipe@1.0.0", {"x": 1})
    assert asked.failure is not None
    result = await app.invoke("wipe@2.0.0", {"x": 1}, confirm=asked.failure.details["confirmation"]["code"])
    assert not result.ok
    assert ran == []


async def test_a_key_of_one_version_does_not_replay_the_result_of_another() -> None:
    app = App("app")

    @app.action(name="make", version="1.0.0", side_effects="write")
    async def first() -> str:
        """One."""
        return "one"

    @app.action(name="make", version="2.0.0", side_effects="write")
    async def second() -> str:
        """Two."""
        return "two"

    await app.invoke("make@1.0.0", {}, idempotency_key="k")
    assert (await app.invoke("make@2.0.0", {}, idempotency_key="k")).data == "two"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"token": "alices"}, {"token": "bobs"}),
        ({"access_token": "alices", "permissions": ["x"]}, {"access_token": "bobs", "permissions": ["x"]}),
        ({"jti": "1", "token": "a"}, {"jti": "2", "token": "b"}),
    ],
)
async def test_callers_known_by_their_token_alone_do_not_hear_each_other(one: Any, other: Any) -> None:
    app, calls = App("app"), []

    @app.action(side_effects="write")
    async def my_data() -> int:
        """Mine."""
        calls.append(1)
        return len(calls)

    await app.invoke("my_data", {}, auth=one, idempotency_key="k")
    heard = await app.invoke("my_data", {}, auth=other, idempotency_key="k")
    assert not heard.replayed
    assert heard.data == 2


async def test_input_that_can_be_read_once_reaches_the_body_of_a_keyed_call() -> None:
    app = App("app")

    @app.action(side_effects="write")
    async def total(numbers: Iterable[int]) -> int:
        """Add."""
        return sum(numbers)

    result = await app.invoke("total", {"numbers": [1, 2, 3]}, idempotency_key="k")
    assert result.data == 6


async def test_a_permission_that_is_denied_by_name_is_not_held() -> None:
    app = App("app")

    @app.action(permissions=["tasks:delete"])
    async def delete() -> None:
        """Delete."""

    result = await app.invoke("delete", {}, auth={"permissions": {"tasks:delete": False}})
    assert result.failure is not None
    assert result.failure.kind is Kind.forbidden


async def test_a_replay_ends_with_the_permission() -> None:
    app = App("app")

    @app.action(permissions=["tasks:write"], side_effects="write")
    async def write() -> str:
        """Write."""
        return "private"

    user = {"id": "u"}
    await app.invoke("write", {}, user=user, auth={"permissions": ["tasks:write"]}, idempotency_key="k")
    later = await app.invoke("write", {}, user=user, auth={"permissions": []}, idempotency_key="k")
    assert not later.ok


async def test_a_checker_that_counts_as_false_still_checks() -> None:
    class Rules(list[str]):
        def __call__(self, action: Any, input: Any, context: Any) -> bool:
            return action.name in self

    app = App("app", permission_checker=Rules())

    @app.action
    async def anything() -> None:
        """Do it."""

    assert not (await app.invoke("anything")).ok
