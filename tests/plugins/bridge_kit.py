"""An app with agents and the plugin of `c/bridge.c`, which asks its host for what a test says."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pytest

from fairlead import App
from fairlead.agents import Agent
from fairlead.agents.models import Model
from fairlead.plugins import sessions, slots
from fairlead.plugins.identity import agent_uuid
from fairlead.plugins.plugin import Plugin
from fairlead.plugins.services import Shared
from plugins.installed_kit import macro

ID = "test.bridge"
_NUMBERS = count()
COMPLETED, FAILED, CANCELLED = 4, 5, 6


def bridge_manifest(**more: Any) -> dict[str, Any]:
    """The plugin's manifest; capabilities by their names."""
    known = ("tools", "routes", "web", "config", "artifact_handler")
    capabilities = {key: more.pop(key) for key in known if key in more}
    return {"plugin_id": ID, "version": "1.2.0", "capabilities": capabilities, **more}


def tool(id: str, policy: str | None = "auto", **more: Any) -> dict[str, Any]:
    """A tool as manifests have it."""
    told = {"id": id, "description": f"The tool {id}.", **more}
    return told if policy is None else {**told, "permission_policy": policy}


#: A tool of agents that makes one host call.
ASK = tool(
    "ask", parameters={"type": "object", "properties": {"lines": {"type": "string"}}, "required": ["lines"]}
)


class Bridge:
    """The plugin in an app, as tests use it."""

    def __init__(self, app: App, plugin: Plugin) -> None:
        self.app = app
        self.plugin = plugin

    def agent(self, name: str = "ann") -> str:
        """The id of an agent of the app."""
        return agent_uuid(self.app.name, name)

    async def host(self, slot: int, *args: Any, agent: str | None = "ann", elsewhere: bool = False) -> Any:
        """What the plugin gets for a host call, read as JSON; None for nothing."""
        lines = [
            str(slot),
            *(
                "(null)" if each is None else each if isinstance(each, str) else json.dumps(each)
                for each in args
            ),
        ]
        bound = self.agent(agent) if agent in ("ann", "bob") else agent
        way = "host_elsewhere" if elsewhere else "host"
        said = await self.plugin.invoke("tool", way, "\n".join(lines), agent=bound, timeout=60)
        return None if said == "(null)" else json.loads(said)

    async def stream(
        self, request: Mapping[str, Any], cancel: str = "", at: str = "", agent: str | None = "ann"
    ) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """The pieces and the answer of `complete_stream`; cancelled by the plugin at a piece that holds a word."""
        lines = [json.dumps(request), *([cancel, at] if cancel else [])]
        bound = self.agent(agent) if agent in ("ann", "bob") else agent
        said = json.loads(
            await self.plugin.invoke("tool", "stream", "\n".join(lines), agent=bound, timeout=60)
        )
        return said["chunks"], said["answer"]

    async def dispatch(self, prompt: str = "Go.", agent: str | None = "ann", **more: Any) -> dict[str, Any]:
        told: dict[str, Any] = await self.host(slots.DISPATCH, {"prompt": prompt, **more}, agent=agent)
        return told

    async def seen(self, task: str | None = None) -> list[tuple[int, dict[str, Any]]]:
        """The events that the plugin was told, of one task."""
        said = await self.plugin.invoke("tool", "seen", "", agent=None, timeout=60)
        rows = [line.split(" ", 3) for line in said.splitlines()]
        return [
            (int(kind), json.loads(payload))
            for kind, about, _, payload in rows
            if kind.isdigit() and (task is None or about == task)
        ]

    async def lines(self) -> list[list[str]]:
        """All that the plugin wrote down: kind, what it is about, agent, payload."""
        said = await self.plugin.invoke("tool", "seen", "", agent=None, timeout=60)
        return [line.split(" ", 3) for line in said.splitlines()]

    async def until(self, event: int, task: str, times: int = 1) -> list[tuple[int, dict[str, Any]]]:
        """Wait until the plugin was told of an event so often; gives all it was told of the task."""
        with self.app.store.listening(sessions.plugin_topic(ID)) as bell:
            while True:
                seen = await self.seen(task)
                if sum(number == event for number, _ in seen) >= times:
                    return seen
                await bell.rung(10)

    async def told_all(self, task: str) -> list[tuple[int, dict[str, Any]]]:
        """Wait until the plugin knows how a task ended; gives all it was told of it."""
        with self.app.store.listening(sessions.plugin_topic(ID)) as bell:
            while await self.app.store.read(lambda tx: sessions.next_run(tx, task)) is not None:
                await bell.rung(10)
        return await self.seen(task)

    def warnings(self) -> list[str]:
        """The keys of what the plugin's author was warned of."""
        return [each.key for each in Shared.of(self.app).warnings.all()]


def content(path: str) -> str:
    """What is in a file."""
    return Path(path).read_text()


@asynccontextmanager
async def bridged(
    library: Path,
    folder: Path,
    model: Model | None = None,
    *,
    agents: Mapping[str, Mapping[str, Any]] | None = None,
    build: Callable[[App], object] = lambda app: None,
    worker: bool = True,
    store: str | None = None,
    in_process: bool = False,
    **options: Any,
) -> AsyncIterator[Bridge]:
    """An app `harbour` with two agents, the plugin and a worker, until the block ends."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAIRLEAD_DATA", str(Path(folder) / "data"))
        app = App("harbour", store=store or f"sqlite:///{folder}/store.db", models=model, **options)
        build(app)
        for name, about in (agents or {"ann": {}, "bob": {}}).items():
            app.add(
                Agent(name, **{"instructions": f"You are {name}.", "description": f"Agent {name}.", **about})
            )
        if in_process:
            # The same file would be the same library, with the same variables.
            library = Path(shutil.copy(library, Path(folder) / f"{next(_NUMBERS)}-{library.name}"))
        plugin = app.add_plugin(library, in_process=in_process)
    assert plugin is not None, app.plugins.failed
    async with app:
        if worker:
            async with app.tasks.worker():
                yield Bridge(app, plugin)
        else:
            yield Bridge(app, plugin)


class Reply(NamedTuple):
    """What a request was answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def message(self) -> str:
        told: str = self.json()["error"]["message"]
        return told


async def fetch(
    site: Any,
    method: str,
    path: str,
    *,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    agent: str | None = None,
    host: str = "127.0.0.1:8000",
    client: tuple[str, int] | None = ("127.0.0.1", 50000),
    repeated: Sequence[tuple[str, str]] = (),
) -> Reply:
    """One request to an ASGI app, for an agent."""
    given = [("host", host), *(headers or {}).items(), *repeated]
    if agent is not None:
        given.append(("X-Osaurus-Agent-Id", agent))
    raw, _, query = path.partition("?")
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(raw),
        "raw_path": raw.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in given],
        "client": client,
        "server": ("127.0.0.1", 8000),
    }
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await site(scope, receive, send)
    told = {name.decode(): value.decode("latin-1") for name, value in sent[0]["headers"]}
    return Reply(sent[0]["status"], told, b"".join(each.get("body", b"") for each in sent[1:]))


__all__ = [
    "ASK",
    "CANCELLED",
    "COMPLETED",
    "FAILED",
    "ID",
    "Bridge",
    "bridge_manifest",
    "bridged",
    "content",
    "fetch",
    "macro",
    "tool",
]
