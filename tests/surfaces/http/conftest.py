"""A real server on a free port, in a thread of its own, for the tests of this folder."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
import uvicorn

from fairlead import App, Context, Failure, Kind, s
from fairlead.surfaces.auth import Caller

PATIENCE = 20.0


class Harbour:
    """An app with something for every promise of the surface."""

    def __init__(self) -> None:
        self.app = App("harbour", description="Berth ships.")
        self.effects: list[Any] = []
        #: Set when `wait` runs, and when it was cancelled.
        self.waiting = threading.Event()
        self.cancelled = threading.Event()
        app = self.app

        @app.action
        async def add(a: int, b: int = 1) -> dict[str, int]:
            """Add two numbers."""
            return {"sum": a + b}

        @app.action(input=s.literal(None))
        async def nothing(value: None) -> str:
            """Take null."""
            return "null"

        @app.action
        async def who(ctx: Context) -> dict[str, Any]:
            """Say who calls."""
            return {"user": ctx.user, "auth": ctx.auth, "metadata": dict(ctx.metadata)}

        @app.action(side_effects="write", permissions=["ships:sink"])
        async def sink(name: str) -> str:
            """Sink a ship."""
            self.effects.append(name)
            return name

        @app.action(side_effects="write")
        async def pay(amount: int) -> int:
            """Pay a fee."""
            self.effects.append(amount)
            return len(self.effects)

        @app.action(side_effects="destructive")
        async def raze() -> str:
            """Raze the harbour."""
            self.effects.append("razed")
            return "gone"

        @app.action(visibility="local")
        async def near() -> int:
            """Be near."""
            return 1

        @app.action(visibility="private")
        async def hidden() -> int:
            """Be hidden."""
            return 1

        @app.action
        async def fail(code: str) -> None:
            """Fail as asked."""
            raise Failure(Kind(code), "As asked.", retry_after=1.2)

        @app.action
        async def leak() -> None:
            """Fail with a secret."""
            raise RuntimeError("password=hunter2hunter2")

        @app.action
        async def wait(ctx: Context) -> None:
            """Wait until cancelled."""
            self.waiting.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.set()

        @app.action
        async def work(ctx: Context, steps: int = 2) -> int:
            """Work and tell of it."""
            if steps < 0:
                ctx.logger.info("giving up")
                raise Failure(Kind.conflict, "There is nothing to do.")
            for step in range(steps):
                ctx.logger.info("step", n=step)
                await ctx.progress.report(message="working", percent=100 * (step + 1) / steps)
            ctx.artifacts.add("log.txt", data="done", mime_type="text/plain")
            return steps

        @app.action
        async def count(n: int) -> Any:
            """Count up."""
            for each in range(n):
                yield each

        @app.action
        async def large(size: int) -> str:
            """Give a long text."""
            return "x" * size


@contextmanager
def serving(site: Any) -> Iterator[str]:
    """Serve an ASGI app; gives its URL."""
    at = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(site, log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [at]}, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{at.getsockname()[1]}"
    with httpx.Client(base_url=url) as client:
        for _ in range(200):
            try:
                client.get("/healthz")
                break
            except httpx.TransportError:
                threading.Event().wait(0.02)
    try:
        yield url
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        at.close()


def known(request: Any) -> Caller | None:
    """A caller by a header that the edge would set."""
    name = request.headers.get("x-caller")
    if name is None:
        return None
    if name == "broken":
        raise RuntimeError("postgres://admin:hunter2hunter2@db")
    return Caller(
        {"id": name}, {"permissions": request.headers.get("x-permissions", "").split()}, {"edge": "yes"}
    )


@pytest.fixture
def harbour() -> Harbour:
    return Harbour()


@pytest.fixture
def open_site(harbour: Harbour) -> Iterator[Callable[..., httpx.Client]]:
    """Serves the harbour with options of the test's own; gives a client of it."""
    from contextlib import ExitStack

    with ExitStack() as stack:

        def start(**options: Any) -> httpx.Client:
            site = harbour.app.http(**{"resolve_context": known, **options})
            url = stack.enter_context(serving(site))
            return stack.enter_context(httpx.Client(base_url=url, timeout=PATIENCE))

        yield start
