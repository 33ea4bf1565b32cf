"""Provokes every text that docs/troubleshooting.md explains, and prints it."""

import asyncio
import sys
from collections.abc import Callable
from typing import Any

from fairlead import App, Context
from fairlead.schema import schema_of

provoked: list[str] = []


def define(function: Callable[..., Any], **options: Any) -> None:
    """Define an action that cannot be defined."""
    try:
        App("trouble").add(function, **options)
    except TypeError as error:
        provoked.append(str(error))


def say_hello() -> str:
    """Say hello."""
    return "Hello."


def undescribed() -> None: ...


def greet_all(*names: str) -> None:
    """Greet everybody."""


define(undescribed)
define(greet_all)
define(say_hello, side_effects="destuctive")
define(say_hello, name="Say-Hello")
define(say_hello, name="errors")

app = App("trouble", description="Fail in known ways.")


@app.action(permissions=["door:open"])
async def open_door() -> str:
    """Open the door."""
    return "open"


@app.action(side_effects="destructive")
async def burn_house() -> None:
    """Burn the house down."""


@app.action(side_effects="write")
async def send_money(amount: int) -> int:
    """Send some money."""
    return amount


@app.action(timeout=0.01)
async def sleep_in() -> None:
    """Sleep for too long."""
    await asyncio.sleep(60)


@app.action
async def use_board(ctx: Context) -> Any:
    """Use a service that is not there."""
    return ctx.services.bord


@app.action
async def count_wrong() -> int:
    """Return something else than promised."""
    return "three"  # type: ignore[return-value]


@app.action
async def give_object() -> Any:
    """Return something JSON cannot hold."""
    return object()


async def call(name: str, input: Any = None, **options: Any) -> None:
    """Call an action, and keep what its failure says."""
    failure = (await app.invoke(name, {} if input is None else input, **options)).failure
    if failure is not None:
        provoked.append(failure.message)


async def main() -> None:
    await call("open_dor")
    await call("open_door")
    await call("open_door", user="ada", auth={"permissions": []})
    await call("send_money", {"amount": "much"})
    await call("burn_house")
    await call("send_money", {"amount": 1}, idempotency_key="k")
    await call("send_money", {"amount": 2}, idempotency_key="k")
    await call("send_money", {"amount": 2}, idempotency_key="k", user=object())
    await call("sleep_in")
    await call("use_board")
    await call("count_wrong")
    await call("give_object")
    try:
        app.invoke_sync("open_door")
    except TypeError as error:
        provoked.append(str(error))


asyncio.run(main())

sys.modules["jsonschema_rs"] = None  # type: ignore[assignment]  # as if it were not installed
try:
    schema_of({"type": "object"})
except ModuleNotFoundError as error:
    provoked.append(str(error))

print("\n".join(provoked))
