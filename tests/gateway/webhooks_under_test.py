"""An app with webhooks, for tests: in this process, and in processes of its own that may be killed."""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import os
from collections.abc import Awaitable, Callable
from functools import partial

from fairlead import App, Context, Failure, Kind
from fairlead.agents import Agent
from fairlead.agents.models.model import Reply
from fairlead.agents.models.script import ScriptModel
from fairlead.gateway.deliveries import Deliverer
from fairlead.outgoing import Guard
from fairlead.runtime.clock import Clock
from fairlead.store import Tx
from fairlead.store.statements import Statement

KEY = "oag_" + "ab" * 32
OTHER_KEY = "oag_" + "cd" * 32
_ADD_KEY = Statement.of(
    "INSERT INTO api_keys (id, hash, prefix, name, owner, permissions, created) "
    "VALUES (:id, :hash, 'oag_', 'test', :owner, '[]', 0) ON CONFLICT DO NOTHING"
)


def build(url: str, clock: Clock | None = None) -> App:
    app = App("hooks", store=url, clock=clock)

    def echo(request: object) -> Reply:
        said = [each for each in request.messages if each.role == "user"]  # type: ignore[attr-defined]
        return Reply(f"You said: {said[-1].content}")

    app.add(Agent("echo", model=ScriptModel(echo, record=False), instructions="Echo.", loop_tools=False))

    @app.action(side_effects="write")
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @app.action(side_effects="write")
    async def ask(ctx: Context) -> list[str]:
        """Ask for a word, and for somebody's permission."""
        assert ctx.task is not None
        return [ctx.task.ask("Which?"), ctx.task.ask("May I?", auth=True)]

    @app.action(side_effects="write")
    async def flaky(ctx: Context) -> int:
        """Fail the first time."""
        assert ctx.task is not None
        if ctx.task.attempt == 1:
            raise Failure(Kind.busy, "Not this time.")
        return ctx.task.attempt

    return app


def add_keys(app: App) -> None:
    """Two keys: one of the app's owner, one of somebody else."""
    for name, key, owner in (("k1", KEY, "local"), ("k2", OTHER_KEY, "other")):
        row = {"id": name, "hash": hashlib.sha256(key.encode()).hexdigest(), "owner": owner}
        app.store.write_now(partial(_add_key, row))


def _add_key(row: dict[str, str], tx: Tx) -> None:
    tx.run(_ADD_KEY, **row)


# The roles of a process.


async def work(app: App, given: argparse.Namespace) -> None:
    """Run tasks, and deliver nothing."""
    async with app.tasks.worker():
        say("ready")
        await asyncio.Event().wait()


async def deliver(app: App, given: argparse.Namespace) -> None:
    """Deliver, and run nothing."""
    async with Deliverer(app, Guard(allow_private=True), lease=given.lease):
        say("ready")
        await asyncio.Event().wait()


async def both(app: App, given: argparse.Namespace) -> None:
    """Run tasks, and deliver."""
    async with app.tasks.worker(lease=2.0), Deliverer(app, Guard(allow_private=True), lease=given.lease):
        say("ready")
        await asyncio.Event().wait()


ROLES: dict[str, Callable[[App, argparse.Namespace], Awaitable[None]]] = {
    "work": work,
    "deliver": deliver,
    "both": both,
}


def say(words: str) -> None:
    os.write(1, f"{words}\n".encode())


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=ROLES)
    parser.add_argument("url")
    parser.add_argument("--lease", type=float, default=30.0)
    given = parser.parse_args()
    await ROLES[given.role](build(given.url), given)


if __name__ == "__main__":
    asyncio.run(main())
