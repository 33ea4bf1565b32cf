"""An app whose actions do what tests need, and the roles it plays in processes of its own.

Tests and actions meet in a folder, so that they do it in the same way in one process and across several: an action
that has come somewhere leaves a mark there, and one that is held goes on when it finds one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from fairlead import App, Context, Failure, Kind
from fairlead.runtime.clock import Clock
from fairlead.store import open_store
from fairlead.tasks import Tasks

#: Seconds between two looks into the folder.
LOOK = 0.005


class Marks:
    """A folder of marks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def leave(self, name: str, words: str = "") -> None:
        unfinished = self.folder / f".{name}.{os.getpid()}"
        unfinished.write_text(words)
        unfinished.rename(self.folder / name)

    def there(self, name: str) -> bool:
        return (self.folder / name).exists()

    async def seen(self, name: str, patience: float = 45.0) -> str:
        """Wait for a mark; gives its words."""
        async with asyncio.timeout(patience):
            while not self.there(name):  # noqa: ASYNC110  # another process leaves it
                await asyncio.sleep(LOOK)
        return (self.folder / name).read_text()

    def effect(self, key: str) -> None:
        """Something that must happen once: counted by its key, in a file of its own."""
        with closing(sqlite3.connect(self.folder / "effects.db", timeout=30, isolation_level=None)) as file:
            # What a killed process has written is there; only a machine that fails could lose it.
            file.execute("PRAGMA synchronous = OFF")
            file.execute("CREATE TABLE IF NOT EXISTS effects (key TEXT PRIMARY KEY)")
            file.execute("INSERT OR IGNORE INTO effects VALUES (?)", (key,))

    def effects(self) -> list[str]:
        with closing(sqlite3.connect(self.folder / "effects.db", timeout=30)) as file:
            return [key for (key,) in file.execute("SELECT key FROM effects")]


def build(folder: Path, clock: Clock | None = None) -> App:
    marks = Marks(folder)
    app = App("under test", clock=clock)

    @app.action(side_effects="write")
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @app.action
    async def echo(value: Any = None) -> Any:
        """Give back what was given."""
        return value

    @app.action(side_effects="write", idempotency="idempotent")
    async def effect(ctx: Context, pause: float = 0.0) -> str:
        """Do something that must happen once."""
        assert ctx.idempotency_key is not None
        await asyncio.sleep(pause)
        await asyncio.to_thread(marks.effect, ctx.idempotency_key)
        return ctx.idempotency_key

    @app.action(side_effects="write")
    async def once(ctx: Context) -> str:
        """Give something that no other call gives."""
        return ctx.invocation_id

    @app.action(side_effects="write")
    async def hold(name: str, ctx: Context) -> str:
        """Wait for a mark."""
        assert ctx.task is not None
        marks.leave(f"held-{name}", f"{os.getpid()} {ctx.task.attempt}")
        marks.leave(f"held-{name}-{ctx.task.attempt}")
        try:
            while not marks.there(f"go-{name}"):  # noqa: ASYNC110
                await asyncio.sleep(LOOK)
        except asyncio.CancelledError:
            marks.leave(f"stopped-{name}")
            raise
        return name

    @app.action(side_effects="write")
    def hold_thread(name: str, ctx: Context) -> str:
        """Wait for a mark, in code that is not async."""
        marks.leave(f"held-{name}", str(os.getpid()))
        try:
            while not marks.there(f"go-{name}"):
                ctx.signal.sleep(LOOK)
        except Failure:
            marks.leave(f"stopped-{name}")
            raise
        return name

    @app.action(side_effects="write")
    async def ask_two(ctx: Context) -> list[Any]:
        """Ask two questions."""
        assert ctx.task is not None
        first = ctx.task.ask("Which?", ["tea", "coffee"])
        second = ctx.task.ask("How many?", details={"of": first})
        return [first, second]

    @app.action
    async def ask_many(ctx: Context) -> Any:
        """Ask for several of some."""
        assert ctx.task is not None
        return ctx.task.ask("Which?", ["tea", "coffee", "milk"], allow_multiple=True)

    @app.action
    async def ask_auth(ctx: Context) -> Any:
        """Ask for somebody's permission."""
        assert ctx.task is not None
        return ctx.task.ask("May I?", auth=True)

    @app.action(side_effects="write")
    async def steps(ctx: Context, total: int = 5, crash_at: int = -1) -> dict[str, Any]:
        """Go step by step, keeping where it is; the first try is killed at one of them."""
        assert ctx.task is not None
        start = ctx.task.state or 0
        for step in range(start, total):
            if step == crash_at and ctx.task.attempt == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            await ctx.checkpoint(step + 1)
        return {"from": start, "attempt": ctx.task.attempt}

    @app.action
    def steps_thread(ctx: Context) -> Any:
        """Keep a state from code that is not async."""
        assert ctx.task is not None
        ctx.checkpoint({"half": "way"})
        return ctx.task.state

    @app.action(side_effects="write")
    async def flaky(kind: str, times: int, ctx: Context) -> int:
        """Fail so many times."""
        assert ctx.task is not None
        if ctx.task.attempt <= times:
            raise Failure(Kind(kind), "Not this time.")
        return ctx.task.attempt

    @app.action
    async def stammer() -> None:
        """Fail with words that are no text."""
        raise Failure(Kind.internal, "Half a \ud800 and \x00.")

    @app.action
    async def poison() -> None:
        """Take the whole process down."""
        os._exit(9)

    @app.action
    async def flaky_poison(times: int, ctx: Context) -> None:
        """Fail so many times, then take the whole process down."""
        assert ctx.task is not None
        if ctx.task.attempt <= times:
            raise Failure(Kind.busy, "Not this time.")
        os._exit(9)

    @app.action
    async def talk(words: int) -> AsyncIterator[str]:
        """Say many words."""
        for number in range(words):
            yield f"{number} "

    @app.action
    async def dictate(words: int) -> AsyncIterator[str]:
        """Say words slowly, so that each is heard by itself."""
        for number in range(words):
            yield f"{number} "
            await asyncio.sleep(0.05)

    @app.action
    async def mutter(words: int, ctx: Context) -> AsyncIterator[str]:
        """Say words, and tell how far it has come at the same moment."""
        for number in range(words):
            yield f"{number} "
            await ctx.progress.report("on", number)
            await asyncio.sleep(0.05)

    @app.action
    async def count(to: int) -> AsyncIterator[dict[str, int]]:
        """Count, in pieces that cannot be joined."""
        for number in range(to):
            yield {"number": number}

    @app.action
    async def pour(sizes: list[int]) -> AsyncIterator[dict[str, str]]:
        """Give pieces of so many characters, without a pause."""
        for number, size in enumerate(sizes):
            yield {"text": f"{number}".ljust(size)}

    @app.action
    async def speak(lines: int, ctx: Context) -> int:
        """Log many lines, and everything else there is to say once."""
        assert ctx.task is not None
        for number in range(lines):
            await ctx.logger.info("line", number=number)
        await ctx.progress.report("half", 50)
        ctx.artifacts.add("report.txt", uri="file:///report.txt")
        ctx.task.activity("search", "Looking", "everywhere")
        ctx.task.draft({"text": "so far"})
        ctx.task.output("done")
        return lines

    @app.action
    async def mumble(ctx: Context) -> str:
        """Say what no log can hold, and half a character, which one can."""
        assert ctx.task is not None
        await ctx.logger.info("\ud800")
        try:
            ctx.task.activity("thing", object())  # type: ignore[arg-type]
        except Failure as failure:
            return failure.kind.value
        return "nothing"

    @app.action
    async def part(ctx: Context) -> None:
        """Say something when it is stopped."""
        try:
            await asyncio.sleep(3600)
        finally:
            assert ctx.task is not None
            ctx.task.output("fare")
            for _ in range(3):  # until that is being written
                await asyncio.sleep(0)
            ctx.task.output("well")

    @app.action
    async def whoami(ctx: Context) -> dict[str, Any]:
        """Tell who is calling."""
        return {"user": ctx.user, "auth": ctx.auth, "key": ctx.idempotency_key}

    @app.action(permissions=["shop:buy"], side_effects="write")
    async def buy(ctx: Context) -> Any:
        """Buy something."""
        return ctx.user

    @app.action(side_effects="destructive", requires_confirmation="token")
    async def destroy(what: str) -> str:
        """Destroy something."""
        return what

    return app


# The roles of a process.


async def work(tasks: Tasks, given: argparse.Namespace) -> None:
    """Run tasks until told to stop."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with tasks.worker(concurrency=given.concurrency, lease=given.lease):
        say("ready")
        await stop.wait()


async def submit(tasks: Tasks, given: argparse.Namespace) -> None:
    """Submit tasks, each under a key that is told before, and an id that is told after."""

    async def one(key: str) -> None:
        say(f"asked {key}")
        task = await tasks.submit(given.action, given.input, key=key, max_attempts=1000)
        say(f"accepted {key} {task.id}")

    say("ready")
    again = json.loads(await asyncio.to_thread(sys.stdin.readline))
    keys = [*again, *(f"{given.name}-{number}" for number in range(given.count))]
    for start in range(0, len(keys), 4):
        await asyncio.gather(*(one(key) for key in keys[start : start + 4]))


async def same(tasks: Tasks, given: argparse.Namespace) -> None:
    """Submit the same thing many times at once."""
    say("ready")
    await asyncio.to_thread(sys.stdin.readline)
    many = (tasks.submit("effect", key=given.name) for _ in range(given.count))
    for task in await asyncio.gather(*many):
        say(task.id)


async def tail(tasks: Tasks, given: argparse.Namespace) -> None:
    """Tell a task's events as they come."""
    say("ready")
    async for event in tasks.events(given.name):
        say(json.dumps(event.to_dict()))


async def lock(tasks: Tasks, given: argparse.Namespace) -> None:
    """Lock the file until told to let go."""
    with closing(sqlite3.connect(tasks.store.name, isolation_level=None, timeout=30)) as file:
        file.execute("BEGIN IMMEDIATE")
        say("ready")
        await asyncio.to_thread(sys.stdin.readline)
        file.execute("COMMIT")


ROLES: dict[str, Callable[[Tasks, argparse.Namespace], Awaitable[None]]] = {
    "worker": work,
    "submit": submit,
    "same": same,
    "tail": tail,
    "lock": lock,
}


def say(words: str) -> None:
    # One write: whole lines, whoever kills us.
    os.write(1, f"{words}\n".encode())


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=ROLES)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--url")
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--lease", type=float, default=30.0)
    parser.add_argument("--name", default="")
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--action", default="effect")
    parser.add_argument("--input", type=json.loads, default={})
    given = parser.parse_args()
    app = build(given.folder)
    store = open_store(app.name, url=given.url, data=given.folder)
    try:
        await ROLES[given.role](Tasks(app, store), given)
    finally:
        store.close()


if __name__ == "__main__":
    asyncio.run(main())
