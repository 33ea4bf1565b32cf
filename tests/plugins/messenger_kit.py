"""A messenger on loopback whose bots work like Telegram's, and an app with the bridge to it."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from fairlead import App
from fairlead.agents import Agent
from fairlead.agents.models import Model, Request
from fairlead.outgoing import Guard, Outgoing
from fairlead.plugins.config import Config
from fairlead.plugins.identity import agent_uuid
from fairlead.plugins.services import Shared

ID = "acme.bridge"
CHAT = 4711
SECRET = "s3cret-of-the-hook"
TOKEN = re.compile(r"reply token is (\w{8})")


class Messenger:
    """Takes what bots send."""

    def __init__(self) -> None:
        #: Each call as (method, body), in the order in which it came.
        self.calls: list[tuple[str, dict[str, Any]]] = []
        #: Statuses that are answered next instead of 200.
        self.refusals: list[int] = []
        self.url = ""
        #: The most calls of one conversation that were open at once.
        self.most_at_once = 0
        self._open: Counter[str] = Counter()
        self._came = asyncio.Condition()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Messenger]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server:
            yield self

    @property
    def texts(self) -> list[str]:
        """What people were told."""
        return [body["text"] for method, body in self.calls if method == "sendMessage"]

    async def until(self, calls: int) -> None:
        """Wait until so many calls have come."""
        async with self._came:
            await self._came.wait_for(lambda: len(self.calls) >= calls)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
        body = json.loads(await reader.readexactly(int(length[1]) if length else 0) or "{}")
        path = head.split(" ", 2)[1]
        chat = str(body.get("chat_id"))
        self._open[chat] += 1
        self.most_at_once = max(self.most_at_once, self._open[chat])
        assert path.startswith("/bot777:token/"), path
        status = self.refusals.pop(0) if self.refusals else 200
        async with self._came:
            if status == 200:
                self.calls.append((path.rpartition("/")[2], body))
            self._came.notify_all()
        self._open[chat] -= 1
        answer = b'{"ok":true}' if status == 200 else b'{"ok":false,"description":"blocked by the user"}'
        writer.write(
            b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s"
            % (status, len(answer), answer)
        )
        await writer.drain()
        writer.close()


class Talk:
    """People at the messenger, and the app behind the bridge."""

    def __init__(self, app: App, messenger: Messenger, client: httpx.AsyncClient) -> None:
        self.app = app
        self.messenger = messenger
        self.client = client
        self.agent = agent_uuid(app.name, "ann")
        self._updates = count(1)

    async def write(
        self, text: str, *, chat: int = CHAT, update: int | None = None, **more: Any
    ) -> httpx.Response:
        """A person writes something: the messenger posts it to the bridge."""
        number = next(self._updates) if update is None else update
        return await self.post({"update_id": number, "message": {"chat": {"id": chat}, "text": text}}, **more)

    async def post(self, body: Any, *, secret: str | None = SECRET, agent: str | None = "") -> httpx.Response:
        headers = {} if secret is None else {"X-Telegram-Bot-Api-Secret-Token": secret}
        bound = self.agent if agent == "" else agent
        params = {} if bound is None else {"osr_agent": bound}
        return await self.client.post(f"/plugins/{ID}/webhook", json=body, headers=headers, params=params)


@asynccontextmanager
async def talking(folder: Path, plugin: Path, model: Model, **options: Any) -> AsyncIterator[Talk]:
    """An app with an agent and the bridge, served on loopback, and a messenger beside it."""
    app = App("harbour", store=f"sqlite:///{folder}/store.db", models=model)
    app.add(Agent("ann", description="Ann.", instructions="You are Ann.", **options))
    shared = Shared.of(app)
    shared.outgoing = Outgoing(Guard(allow=["127.0.0.1/32"]))
    added = app.add_plugin(plugin)
    assert added is not None, app.plugins.failed
    async with Messenger().running() as messenger:
        config = Config(ID, app.store, shared.secrets, shared.warnings)
        values: dict[str, str | None] = {
            "bot_token": "777:token",
            "webhook_secret": SECRET,
            "api_url": messenger.url,
        }
        await config.save(agent_uuid(app.name, "ann"), values)
        async with app, app.tasks.worker(), _served(app) as url, _client(url) as client:
            yield Talk(app, messenger, client)


def _client(url: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=url, timeout=30)


@asynccontextmanager
async def _served(app: App) -> AsyncIterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app.http(), log_level="error", lifespan="on", ws="none"))
    serving = asyncio.ensure_future(server.serve([listener]))
    while not server.started:
        assert not serving.done()
        await asyncio.wait([serving], timeout=0.01)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving
        listener.close()


def token_in(request: Request) -> str:
    """The reply token that a model was given last."""
    found = [TOKEN.search(each.content) for each in request.messages if each.role == "user"]
    return [each[1] for each in found if each is not None][-1]
