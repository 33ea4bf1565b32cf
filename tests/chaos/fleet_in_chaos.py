"""The app of the fleet that faults happen to.

What it did is told in a folder that no fault reaches. Its clock is the machine's, moved by what the test says there.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import AsyncIterator
from mmap import ACCESS_READ, mmap
from pathlib import Path

from fairlead import App, Context
from fairlead.agents import Agent
from fairlead.agents.models.model import Delta, Reply, Request
from fairlead.agents.models.script import ScriptModel
from fairlead.runtime.clock import Clock
from fairlead.store import DurableIdempotency, open_store

MOVED = struct.Struct("d")


def reply_to(word: str) -> str:
    return "".join(f"{word} {number}. " for number in range(8))


class Halting(ScriptModel):
    """Says each sentence when it comes to it, so that faults happen in between."""

    async def stream(self, request: Request) -> AsyncIterator[Delta | Reply]:
        word = [each.content for each in request.messages if each.role == "user"][-1]
        text = reply_to(word)
        for sentence in text.split(". ")[:-1]:
            yield Delta(f"{sentence}. ")
            await asyncio.sleep(0.03)
        yield Reply(text)


def build(store: str, folder: Path, role: str) -> App:
    moved = folder / f"clock-{role}"
    with moved.open("rb") as file:
        told = mmap(file.fileno(), MOVED.size, access=ACCESS_READ)
    clock = Clock(wall=lambda: time.time() + MOVED.unpack(told)[0])
    opened = open_store("chaos", url=store)
    keys = DurableIdempotency(opened, lease=2.0, name="chaos", clock=clock.time)
    app = App("chaos", store=opened, clock=clock, idempotency=keys)

    def note(file: str, words: str) -> None:
        # One write, which a kill cannot halve.
        with (folder / file).open("ab", buffering=0) as notes:
            notes.write(f"{words}\n".encode())

    @app.action(side_effects="write")
    async def effect(ctx: Context, pause: float = 0.05) -> str:
        """Do something that may be begun again when its worker is lost."""
        assert ctx.idempotency_key is not None
        await asyncio.sleep(pause)
        note("effects", ctx.idempotency_key)
        return ctx.idempotency_key

    @app.action(side_effects="write")
    async def once(ctx: Context, pause: float = 0.05) -> str:
        """Do something that must not be begun twice, as its caller says."""
        assert ctx.idempotency_key is not None
        note("begun", ctx.idempotency_key)
        await asyncio.sleep(pause)
        return ctx.idempotency_key

    @app.action(side_effects="write", idempotency="idempotent")
    async def draw(ctx: Context) -> str:
        """Give something that no other call gives."""
        return ctx.invocation_id

    app.add(
        Agent("echo", model=Halting([], record=False, name="script/echo"), instructions="", loop_tools=False)
    )
    return app
