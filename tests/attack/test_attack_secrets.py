"""Attacks on redaction: secrets in odd containers, in other people's messages, in keys, and after the end."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, wait
from enum import Enum
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel

from fairlead import App, Context, Failure, Kind
from fairlead._json import dumps
from fairlead.failures import action, gateway, host, runtime, tool
from fairlead.failures.redaction import DEFAULT
from fairlead.runtime.workers import Workers

SECRET = "hunter2hunter2"


class Field(Enum):
    password = "password"  # the name of one


class Login(NamedTuple):
    user: str
    password: str


@pytest.mark.parametrize(
    "value",
    [
        {b"password": SECRET},
        {Field.password: SECRET},
        {("db", "password"): SECRET},
        Login("ann", SECRET),
        [("x-api-key", SECRET)],
        [(b"x-api-key", SECRET.encode())],
        {"name": "API_KEY", "value": SECRET},
        OrderedDict(password=SECRET).items(),
        f"<soap:password>{SECRET}</soap:password>",
    ],
    ids=["bytes", "enum", "tuple", "named", "pairs", "headers", "listed", "items", "xml"],
)
def test_a_secret_is_hidden_whatever_holds_it(value: Any) -> None:
    failure = Failure(Kind.conflict, "No.", details={"sent": value})
    told = [wire.render(failure) for wire in (action, tool, host, gateway, runtime)]
    assert SECRET not in dumps(told)


def test_lists_of_words_stay_readable() -> None:
    required = {"required": ["password", "email"], "value": {"value": 1}}
    assert DEFAULT.value(required) == required


async def test_what_another_validator_refused_is_not_repeated() -> None:
    class Account(BaseModel):
        pin: int

    app = App("app")

    @app.action
    async def open_account(pin: str) -> None:
        """Open."""
        Account.model_validate({"pin": pin})

    result = await app.invoke("open_account", {"pin": SECRET})
    assert SECRET not in dumps(result.to_dict())


async def test_a_key_that_is_a_secret_is_not_named_in_warnings() -> None:
    app = App("app")

    @app.action
    async def count(by: dict[str, int]) -> int:
        """Count."""
        return len(by)

    result = await app.invoke("count", {"by": {"sk-live-0123456789abcdef": "5", "k" * 10_000: "6"}})
    assert result.ok
    assert "0123456789" not in dumps(result.to_dict())
    assert len(dumps(result.meta)) < 2_000


class _Watched(Workers):
    """Workers whose last job can be waited for."""

    def submit(self, function: Callable[[], Any]) -> Future[Any]:
        self.last = super().submit(function)
        return self.last


async def test_what_a_stopped_body_raises_later_is_not_spilled() -> None:
    app, go = App("app", grace=0.01), threading.Event()
    app.workers = workers = _Watched()
    spilled: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: spilled.append(context["message"]))

    @app.action(timeout=0.2)  # a thread may take a while to begin
    def slow(ctx: Context) -> None:
        """Wait."""
        go.wait(5)
        raise RuntimeError(f"could not log in as {SECRET}")

    assert not (await app.invoke("slow")).ok
    go.set()
    await asyncio.to_thread(wait, [workers.last])
    del workers.last
    for _ in range(5):
        await asyncio.sleep(0)
    gc.collect()
    assert spilled == []


def test_a_wait_too_long_to_count_can_still_be_told() -> None:
    failure = Failure(Kind.rate_limited, "Later.", retry_after=1e308)
    assert host.parse(host.render(failure)).kind is Kind.rate_limited
