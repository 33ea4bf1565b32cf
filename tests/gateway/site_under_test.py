"""An app with agents that follow scripts, served by a real server, and the clients that tests call it with.

As a program it is a process of its own: `python site_under_test.py serve|work URL FOLDER`. Tests and agents meet in a
folder: an agent that has come somewhere leaves a mark there, and one that is held goes on when it finds one.
"""

from __future__ import annotations

import asyncio
import hashlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn

from fairlead import App, Failure, Kind
from fairlead.agents import Agent
from fairlead.agents.models.model import Reply, Request
from fairlead.agents.models.script import ScriptModel, Turn, call
from fairlead.runtime.clock import Clock
from fairlead.store.statements import Statement

if (
    TYPE_CHECKING
):  # clients and tests: the processes that serve and work start three times as fast without them
    import beeos_sdk
    import httpx
    import pytest

    from warm import Warm

PATIENCE = 45.0
#: Seconds between two looks into the folder.
LOOK = 0.005
OWNER = "oag_" + "ab" * 32
STRANGER = "oag_" + "cd" * 32
SCOPED = "oag_" + "ef" * 32
_KEY = Statement.of(
    "INSERT INTO api_keys (id, hash, prefix, name, owner, per_minute, agents, permissions, created) "
    "VALUES (:id, :hash, :prefix, :name, :owner, 1000000, :agents, '[]', 0) ON CONFLICT DO NOTHING"
)


def said(request: Request) -> list[str]:
    """What the user said so far."""
    return [each.content for each in request.messages if each.role == "user"]


def build(url: str, folder: Path, clock: Clock | None = None) -> App:
    app = App("site", store=url, clock=clock)

    async def seen(name: str) -> None:
        while not (folder / name).exists():  # noqa: ASYNC110  # another process leaves it
            await asyncio.sleep(LOOK)

    async def slow(request: Request) -> Any:
        word = said(request)[-1]
        (folder / f"begun-{word}").touch()
        try:
            await seen(f"go-{word}")
        except asyncio.CancelledError:
            (folder / f"stopped-{word}").touch()
            raise
        return f"done {word}"

    def asking(request: Request) -> Any:
        answers = [each.content for each in request.messages if each.role == "tool"]
        wanted = 2 if said(request)[0] == "twice" else 1
        ask = call("clarify", question="Which?" if not answers else "And then?")
        return f"You chose {' and '.join(answers)}" if len(answers) == wanted else ask

    def burning(request: Request) -> Any:
        last = request.messages[-1]
        return f"It is {last.content}" if last.role == "tool" else call("burn", pier=3)

    def looking(request: Request) -> Any:
        last = request.messages[-1]
        return (
            "Nothing there." if last.role == "tool" else Turn("", (call("look", where="bay"),), "Let me see.")
        )

    @app.action(requires_confirmation=True, side_effects="write")
    async def burn(pier: int) -> str:
        """Burn a pier down."""
        return f"ash {pier}"

    @app.action
    async def look(where: str) -> str:
        """Look around."""
        return f"nothing in the {where}"

    def agent(name: str, script: Callable[[Request], Any], **more: Any) -> None:
        model = ScriptModel(script, record=False, name=f"script/{name}")
        app.add(Agent(name, model=model, instructions="Help.", **{"loop_tools": False, **more}))

    agent("echo", lambda request: Reply(f"You said: {said(request)[-1]}"))
    agent("memory", lambda request: Reply(" | ".join(said(request))))
    agent(
        "talker",
        lambda request: Turn("one two three four five", pieces=("one ", "two ", "three ", "four ", "five")),
    )
    agent("slow", slow)
    agent("asker", asking, loop_tools=True)
    agent("burner", burning, tools=["burn"])
    agent("looker", looking, tools=["look"])
    agent("broken", lambda request: Failure(Kind.upstream, "The model is on strike."))
    agent("nul", lambda request: Reply("a\0b"))
    agent("busy", lambda request: Failure(Kind.busy, "Not now."))
    agent("stumbler", lambda request: Turn("half of", failure=Failure(Kind.timeout, "Too slow.")))
    return app


def add_key(app: App, key: str, id: str, owner: str, agents: str | None = None) -> None:
    _add_keys(app, (key, id, owner, agents))


def _add_keys(app: App, *keys: tuple[str, str, str, str | None]) -> None:
    rows = [
        {
            "id": id,
            "hash": hashlib.sha256(key.encode()).hexdigest(),
            "prefix": key[:12],
            "name": id,
            "owner": owner,
            "agents": agents,
        }
        for key, id, owner, agents in keys
    ]
    app.store.write_now(lambda tx: [tx.run(_KEY, **row) for row in rows])


def add_keys(app: App) -> None:
    _add_keys(
        app,
        (OWNER, "k-owner", "local", None),
        (STRANGER, "k-stranger", "stranger", None),
        (SCOPED, "k-scoped", "local", '["echo"]'),
    )


def store_away(patch: pytest.MonkeyPatch, app: App) -> None:
    """Nothing can be read from the store until the patch is undone."""

    async def away(*_: Any) -> Any:
        raise Failure(Kind.unavailable, "The database is away.")

    patch.setattr(app.store, "read", away)


@contextmanager
def serving(site: Any) -> Iterator[str]:
    """Serve an ASGI app; gives its URL."""
    at = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(site, log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [at]}, daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.002)
    try:
        yield f"http://127.0.0.1:{at.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        at.close()


def await_server(url: str) -> None:
    import httpx

    with httpx.Client(base_url=url) as client:
        for _ in range(int(PATIENCE / 0.02)):
            with suppress(httpx.TransportError):
                client.get("/healthz")
                return
            threading.Event().wait(0.02)
    raise RuntimeError(f"nobody answers at {url}")


@contextmanager
def working(app: App) -> Iterator[None]:
    """A worker of the app on a thread of its own."""
    ready, stop = threading.Event(), threading.Event()

    async def work() -> None:
        async with app.tasks.worker():
            ready.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=lambda: asyncio.run(work()), daemon=True)
    thread.start()
    assert ready.wait(PATIENCE)
    try:
        yield
    finally:
        stop.set()
        thread.join(PATIENCE)


class Site:
    """What a test has: the address, the folder of marks, and clients."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder

    def raw(self, key: str | None = OWNER) -> httpx.Client:
        import httpx

        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        return httpx.Client(base_url=f"{self.url}/api/v1", headers=headers, timeout=PATIENCE)

    def agents(self, key: str = OWNER) -> Any:
        import beeos_sdk as sdk

        return sdk.AgentsApi(self._client(key))

    def tasks(self, key: str = OWNER) -> Any:
        import beeos_sdk as sdk

        return sdk.TasksApi(self._client(key))

    def _client(self, key: str) -> beeos_sdk.ApiClient:
        import beeos_sdk as sdk

        return sdk.ApiClient(sdk.Configuration(host=self.url, access_token=key, retries=False))

    def leave(self, name: str) -> None:
        (self.folder / name).touch()

    def seen(self, name: str) -> None:
        """Wait for a mark."""
        waiting = threading.Event()
        for _ in range(int(PATIENCE / LOOK)):
            if (self.folder / name).exists():
                return
            waiting.wait(LOOK)
        raise AssertionError(f"no {name} in {PATIENCE} s")

    def create(self, agent: str, message: str = "hello", **body: Any) -> str:
        import beeos_sdk as sdk

        made = self.tasks().create_task(agent, sdk.CreateTaskRequest(message=message, **body))
        assert made is not None
        id: str = made.data.task_id
        return id

    def ended(self, agent: str, id: str, key: str = OWNER) -> Any:
        """The task once its stream has ended."""
        self.tasks(key).stream_task_events(agent, id)
        return self.tasks(key).get_task(agent, id).data

    def until(self, agent: str, id: str, type: str) -> list[dict[str, Any]]:
        """The task's messages up to the first of a type, read as they come."""
        return list(self._until(agent, id, type))

    def _until(self, agent: str, id: str, type: str) -> Iterator[dict[str, Any]]:
        from httpx_sse import connect_sse

        with (
            self.raw() as client,
            connect_sse(client, "GET", f"/agents/{agent}/tasks/{id}/events") as source,
        ):
            for event in source.iter_sse():
                assert event.event == "message", f"{event.event} before {type}"
                yield event.json()
                if event.json()["type"] == type:
                    return


def error(refused: Any) -> Any:
    """What the SDK read of an error that it raised."""
    return refused.value.data.error


def process(warm: Warm, role: str, url: str, folder: Path, port: int = 0) -> subprocess.Popen[bytes]:
    """The app in a process of its own."""
    from warm_child import Child

    return Child(warm, __file__, role, url, str(folder), str(port))


def main() -> None:
    role, url, folder, port = sys.argv[1:5]
    app = build(url, Path(folder))
    if role == "serve":
        uvicorn.run(app.http(), port=int(port), log_level="error", timeout_graceful_shutdown=1)
        return

    async def work() -> None:
        async with app.tasks.worker():
            await asyncio.Event().wait()

    asyncio.run(work())


if __name__ == "__main__":
    main()
