"""An agent that runs elsewhere, for tests: in this process, or in one of its own that may be killed.

As a program: `python agent_under_test.py URL KEY NAME MODE FOLDER LEASE`. It does what it is told in words, and meets
tests in a folder of marks.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from fairlead import Failure, Kind
from fairlead.gateway import AgentTurn, AgentWorker, Busy, Refused

if TYPE_CHECKING:
    from warm import Warm

LOOK = 0.005


class Handler:
    """Does what the first word says; the second is the name of marks."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def __call__(self, turn: AgentTurn) -> Any:
        word, _, rest = turn.message.partition(" ")
        do = getattr(self, f"on_{word}", None)
        if do is None:
            return f"You said: {turn.message}"
        return await do(turn, rest)

    async def held(self, name: str) -> None:
        """Go on when there is a mark."""
        (self._folder / f"begun-{name}").touch()
        try:
            while not (self._folder / f"go-{name}").exists():  # noqa: ASYNC110  # another process leaves it
                await asyncio.sleep(LOOK)
        except asyncio.CancelledError:
            (self._folder / f"stopped-{name}").touch()
            raise

    async def on_slow(self, turn: AgentTurn, name: str) -> str:
        (self._folder / f"begun-{name}-{turn.attempt}").touch()
        await self.held(name)
        with (self._folder / "done").open("a") as done:
            done.write(f"{name}\n")
        return f"done {name}"

    async def on_stream(self, turn: AgentTurn, name: str) -> AsyncIterator[str]:
        async def pieces() -> AsyncIterator[str]:
            turn.think("Hmm.")
            yield "one "
            await self.held(name)
            yield "two"

        return pieces()

    async def on_many(self, turn: AgentTurn, number: str) -> AsyncIterator[str]:
        async def pieces() -> AsyncIterator[str]:
            for at in range(int(number)):
                yield f"{at} "
                await asyncio.sleep(0)

        return pieces()

    async def on_ask(self, turn: AgentTurn, rest: str) -> str:
        first = turn.ask("Which?", ["red", "blue"])
        return f"{first}, {turn.ask('Sure?')}"

    async def on_auth(self, turn: AgentTurn, rest: str) -> str:
        return f"granted: {turn.ask('May I?', auth=True)}"

    async def on_nul(self, turn: AgentTurn, rest: str) -> dict[str, str]:
        turn.say("a\x00b")
        turn.activity("info", "\x00", **{"\x00": "\x00"})
        return {"a\x00b": "c\x00d"}

    async def on_fail(self, turn: AgentTurn, rest: str) -> str:
        raise Failure(Kind.upstream, "The well is dry.")

    async def on_crash(self, turn: AgentTurn, rest: str) -> str:
        raise ValueError("oops")

    async def on_refuse(self, turn: AgentTurn, rest: str) -> str:
        raise Refused("Not my trade.")

    async def on_later(self, turn: AgentTurn, rest: str) -> str:
        raise Busy

    async def on_waver(self, turn: AgentTurn, name: str) -> str:
        turn.say("Well, ")
        await self.held(name)
        raise Refused("no, after all.")

    async def on_fetch(self, turn: AgentTurn, rest: str) -> str:
        [file] = turn.attachments
        async with httpx.AsyncClient() as client:
            return f"{file['filename']}: {(await client.get(file['url'])).text}"

    async def on_about(self, turn: AgentTurn, rest: str) -> dict[str, Any]:
        told = turn.asked_for
        return {
            "context": told.context_id,
            "message_id": told.message_id,
            "metadata": dict(told.metadata),
            "caller": told.caller,
            "attempt": told.attempt,
        }


def worker(url: str, key: str, name: str, folder: Path, **options: Any) -> AgentWorker:
    return AgentWorker(url, key, name, Handler(folder), **options)


def process(
    warm: Warm, url: str, key: str, name: str, folder: Path, mode: str = "push", lease: float = 2.0
) -> subprocess.Popen[bytes]:
    """The agent in a process of its own, once it is registered."""
    from warm_child import Child

    begun = Child(warm, __file__, url, key, name, mode, str(folder), str(lease), stdout=subprocess.PIPE)
    assert begun.stdout is not None
    assert begun.stdout.readline() == b"ready\n"
    return begun


def main() -> None:
    url, key, name, mode, folder, lease = sys.argv[1:7]

    async def run() -> None:
        made = worker(url, key, name, Path(folder), mode=mode, lease=float(lease))
        begin = made.start

        async def start() -> None:
            await begin()
            sys.stdout.write("ready\n")
            sys.stdout.flush()

        made.start = start  # type: ignore[method-assign]
        await made.run(patience=10.0)

    asyncio.run(run())


if __name__ == "__main__":
    main()
