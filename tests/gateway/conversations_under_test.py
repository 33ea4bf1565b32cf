"""An app with agents to talk with, for tests: served in this process, and run in processes that may be killed."""

from __future__ import annotations

import asyncio
import hashlib
import json
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn

from fairlead import App
from fairlead.agents import Agent
from fairlead.agents.models.model import Reply, Request
from fairlead.agents.models.registry import Models
from fairlead.agents.models.script import ScriptModel, Turn, call
from fairlead.runtime.clock import Clock
from fairlead.store import Tx
from fairlead.store.statements import Statement
from fairlead.surfaces.http import HttpApp

if TYPE_CHECKING:  # for clients: the processes that serve and work do without
    import httpx

KEY = "oag_" + "ab" * 32
OTHER_KEY = "oag_" + "cd" * 32
PATIENCE = 60.0
_CLIENTS: list[httpx.Client] = []
_ADD_KEY = Statement.of(
    "INSERT INTO api_keys (id, hash, prefix, name, owner, permissions, created) "
    "VALUES (:id, :hash, 'oag_', 'test', :owner, '[]', 0) ON CONFLICT DO NOTHING"
)


def build(url: str, folder: str, clock: Clock | None = None) -> App:
    """Agents: `echo` says what it was told and how often; `slow` holds until a file is there; `asker` asks back;
    `careful` needs leave to do something; `broken` fails."""
    models = Models("openai/gpt-test", environ={"OPENAI_API_KEY": "none"})
    app = App("talks", store=url, clock=clock, models=models)

    def echo(request: Request) -> Reply:
        said = [each.content for each in request.messages if each.role == "user"]
        return Reply(f"You said {len(said)}: {said[-1]}")

    def slow(request: Request) -> Turn:
        if request.messages[-1].role == "tool":
            return Turn("It is done now.")
        return Turn("Let me look. ", calls=(call("hold", name=request.messages[-1].content),))

    def asker(request: Request) -> Turn:
        last = request.messages[-1]
        if last.role == "tool":
            return Turn(f"Painted: {last.content}")
        return Turn(calls=(call("clarify", question="Which colour?", options=["red", "blue"]),))

    def careful(request: Request) -> Turn:
        if request.messages[-1].role == "tool":
            return Turn("Burned it." if "burned" in request.messages[-1].content else "Left it.")
        return Turn(calls=(call("burn"),))

    def broken(request: Request) -> Turn:
        raise RuntimeError("no")

    @app.action(side_effects="read")
    async def hold(name: str) -> str:
        """Wait until a file is there."""
        (Path(folder) / f"{name}.began").touch()
        while not (Path(folder) / name).exists():  # noqa: ASYNC110  # other processes make it
            await asyncio.sleep(0.01)
        return "held"

    @app.action(side_effects="destructive")
    async def burn() -> str:
        """Burn it."""
        return "burned"

    def add(name: str, script: Any, **more: Any) -> None:
        model = ScriptModel(script, record=False)
        app.add(Agent(name, model=model, instructions="Talk.", **{"loop_tools": False, **more}))

    add("echo", echo)
    add("slow", slow, tools=["hold"])
    add("asker", asker, loop_tools=True)
    add("careful", careful, tools=["burn"], gates={"burn": "ask"})
    add("broken", broken)
    return app


def add_keys(app: App) -> None:
    """Two keys: one of the app's owner, one of somebody else."""
    for name, key, owner in (("k1", KEY, "local"), ("k2", OTHER_KEY, "other")):
        row = {"id": name, "hash": hashlib.sha256(key.encode()).hexdigest(), "owner": owner}
        app.store.write_now(partial(_add_key, row))


def _add_key(row: dict[str, str], tx: Tx) -> None:
    tx.run(_ADD_KEY, **row)


@contextmanager
def served(app: App, *, worker: bool = True, site: HttpApp | None = None, **gateway: Any) -> Iterator[str]:
    """Serve an app on a thread of its own; gives its address."""
    site = site or app.http(gateway=gateway)
    if worker:
        site.beside.append(app.tasks.worker())
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(site, log_level="warning", timeout_graceful_shutdown=2))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    add_keys(app)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        while _CLIENTS:
            _CLIENTS.pop().close()
        server.should_exit = True
        thread.join(PATIENCE)


class Talk:
    """A caller with one agent, over plain HTTP."""

    def __init__(self, address: str, agent: str = "echo", key: str = KEY) -> None:
        headers = {"Authorization": f"Bearer {key}"}
        import httpx

        self.http = httpx.Client(base_url=address, headers=headers, timeout=PATIENCE)
        _CLIENTS.append(self.http)
        self.base = f"/api/v1/agents/{agent}/conversations"

    def create(self, **body: Any) -> str:
        answer = self.http.post(self.base, json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["data"]["conversation_id"])

    def send(self, id: str, message: str, **more: Any) -> str:
        answer = self.http.post(f"{self.base}/{id}/messages", json={"message": message, **more})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["data"]["message_id"])

    def messages(self, id: str, **query: Any) -> list[dict[str, Any]]:
        answer = self.http.get(f"{self.base}/{id}/messages", params=query)
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["data"]["messages"]
        return found

    def frames(self, id: str, since: int | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
        """Events of a stream as they come, until it ends."""
        query = {} if since is None else {"since": since}
        with self.http.stream("GET", f"{self.base}/{id}/events", params=query) as answer:
            assert answer.status_code == 200, answer.read()
            name = ""
            for line in answer.iter_lines():
                if line.startswith("event: "):
                    name = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    yield name, json.loads(line.removeprefix("data: "))

    def reply(self, id: str, message: str, since: int | None = None) -> dict[str, Any]:
        """The reply to a message, once it has ended."""
        for name, told in self.frames(id, since):
            ended = told.get("state") not in (None, "streaming")
            if name == "message" and told.get("in_reply_to") == message and ended:
                return told
        raise AssertionError("the stream ended before the reply")


async def _work(app: App) -> None:
    async with app.tasks.worker(lease=1.0):
        print("ready", flush=True)
        await asyncio.Event().wait()


def main() -> None:
    """A process of its own: `worker` runs tasks; `server` serves and runs none."""
    role, url, folder = sys.argv[1:]
    app = build(url, folder)
    if role == "worker":
        asyncio.run(_work(app))
    else:
        with served(app, worker=False) as address:
            print(address, flush=True)
            sys.stdin.readline()


if __name__ == "__main__":
    main()
