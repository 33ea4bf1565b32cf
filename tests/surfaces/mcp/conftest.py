"""A real `fairlead mcp --stdio` process, spoken to byte by byte."""

from __future__ import annotations

import asyncio
import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from httpx_sse import EventSource
from mcp_types import methods
from mcp_types.jsonrpc import JSONRPCError

from warm import Warm

PATIENCE = 20.0
HEAD = "from __future__ import annotations\nimport asyncio, os, sys\nfrom fairlead import App, Context\n"


class Peer:
    """The client's end of the pipes. Messages are one a line unless bytes are written by hand."""

    def __init__(self, command: list[str], errors: Path, **options: Any) -> None:
        self._errors = errors
        with errors.open("wb") as err:
            pipe = subprocess.PIPE
            settings: dict[str, Any] = {"stdin": pipe, "stdout": pipe, "stderr": err, "bufsize": 0, **options}
            self.process = subprocess.Popen(command, **settings)
        self._kept = bytearray()
        #: Messages that came while the answer to another was awaited.
        self.heard: list[Any] = []
        self._last = 0

    @property
    def err(self) -> str:
        """What the process has said on stderr so far."""
        return self._errors.read_text()

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)

    def send(self, method: str, params: Any = None, *, id: Any = None) -> None:
        """A request if it has an id, else a notification."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if id is not None:
            message["id"] = id
        if params is not None:
            message["params"] = params
        self.write(json.dumps(message).encode() + b"\n")

    def read(self) -> Any:
        """The next message."""
        return json.loads(self.read_until(b"\n"))

    def read_until(self, end: bytes) -> bytes:
        start = 0
        while (at := self._kept.find(end, start)) < 0:
            start = max(0, len(self._kept) - len(end))
            self._more()
        return self._taken(at + len(end))

    def read_bytes(self, size: int) -> bytes:
        while len(self._kept) < size:
            self._more()
        return self._taken(size)

    def ask(self, method: str, params: Any = None) -> Any:
        """Send a request and wait for its answer: the result, or the error."""
        self._last += 1
        self.send(method, params, id=self._last)
        return self.answer(self._last)

    def answer(self, id: Any) -> Any:
        while (message := self.read()).get("id") != id or "method" in message:
            self.heard.append(message)
        return message["result"] if "result" in message else message["error"]

    def call(self, name: str, **arguments: Any) -> Any:
        return self.ask("tools/call", {"name": name, "arguments": arguments})

    def initialize(self, **capabilities: Any) -> Any:
        told = self.ask(
            "initialize",
            {
                "protocolVersion": "2025-11-25",
                "capabilities": capabilities,
                "clientInfo": {"name": "test", "version": "1"},
            },
        )
        self.send("notifications/initialized")
        return told

    def wait_for_error(self, text: str) -> None:
        """Wait until the process has said something on stderr."""
        end = time.monotonic() + PATIENCE
        while text not in self.err:
            assert time.monotonic() < end, f"{text!r} did not appear in {self.err!r}"
            time.sleep(0.005)

    def hang_up(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def finish(self) -> tuple[int, bytes]:
        """End the input; gives the exit code, and what was still to come on stdout."""
        self.hang_up()
        return self.end()

    def end(self) -> tuple[int, bytes]:
        """Wait for the process to end by itself; gives the exit code, and what was still to come on stdout."""
        while data := self._read():
            self._kept += data
        return self.process.wait(PATIENCE), bytes(self._kept)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()

    def _more(self) -> None:
        data = self._read()
        assert data, f"stdout ended after {bytes(self._kept)!r}; stderr: {self.err}"
        self._kept += data

    def _taken(self, size: int) -> bytes:
        taken = bytes(self._kept[:size])
        del self._kept[:size]
        return taken

    def _read(self) -> bytes:
        stdout = self.process.stdout
        assert stdout is not None
        ready, _, _ = select.select([stdout], [], [], PATIENCE)
        assert ready, f"nothing more came after {bytes(self._kept)!r}; stderr: {self.err}"
        return os.read(stdout.fileno(), 1 << 16)


Serve = Callable[..., Peer]


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory, warm_python: Warm) -> Iterator[Serve]:
    """Serve an app, given as the source of its module, with options of `mcp --stdio`."""
    started: list[Peer] = []
    fairlead = warm_python.command(str(Path(sys.executable).with_name("fairlead")))

    def start(source: str, *options: str, **settings: Any) -> Peer:
        folder = tmp_path_factory.mktemp("app")
        path = folder / "served.py"
        path.write_text(HEAD + source)
        command = [*fairlead, "--app", f"{path}:app", "mcp", "--stdio", *options]
        peer = Peer(command, folder / "stderr", **settings)
        started.append(peer)
        return peer

    yield start
    for peer in started:
        peer.close()


VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
NEWEST = "2026-07-28"


class Refused(Exception):
    """The server answered with an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.code: int = error["code"]
        self.data: Any = error.get("data")


class Talk:
    """A client of a server in this process. Each message from it is held against the official wire types."""

    def __init__(
        self, server: Any, revision: str, capabilities: dict[str, Any], identity: dict[str, Any]
    ) -> None:
        from fairlead.surfaces.mcp import Connection

        self.revision = revision
        self.capabilities = capabilities
        self.connection = Connection(server, self._hear, **identity)
        #: Notifications, in the order they came.
        self.heard: list[dict[str, Any]] = []
        #: What was asked of the client, and what it says: by method, a function of the parameters.
        self.asked: list[dict[str, Any]] = []
        self.says: dict[str, Callable[[dict[str, Any]], Any]] = {}
        #: Further keys of each request's `_meta`.
        self.meta: dict[str, Any] = {}
        self._waiting: dict[Any, tuple[str, asyncio.Future[Any]]] = {}
        self._changed = asyncio.Event()
        self._last = 0
        #: What the wire types have against messages that came.
        self.wrong: list[Exception] = []

    async def initialize(self) -> Any:
        hello = {
            "protocolVersion": self.revision,
            "capabilities": self.capabilities,
            "clientInfo": {"name": "test", "version": "1"},
        }
        return await self.ask("initialize", hello)

    def send(self, method: str, params: dict[str, Any] | None = None) -> asyncio.Future[Any]:
        """Send a request; gives its result when awaited, or raises Refused."""
        self._last += 1
        id = self._last
        future = asyncio.get_running_loop().create_future()
        self._waiting[id] = (method, future)
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": id, "method": method}
        meta = {**self.meta, **(params or {}).get("_meta", {})}
        if self.revision == NEWEST:
            meta = {VERSION: NEWEST, CAPABILITIES: self.capabilities, **meta}
        told = {**(params or {}), **({"_meta": meta} if meta else {})}
        if told:
            message["params"] = told
        self.connection.take(message)
        return future

    async def ask(self, method: str, params: dict[str, Any] | None = None) -> Any:
        return await asyncio.wait_for(self.send(method, params), PATIENCE)

    async def call(self, name: str, arguments: Any = None, **params: Any) -> Any:
        return await self.ask("tools/call", {"name": name, "arguments": arguments or {}, **params})

    def tell(self, method: str, params: dict[str, Any] | None = None) -> None:
        self.connection.take({"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})})

    def of(self, method: str) -> list[Any]:
        """The parameters of all notifications of a kind."""
        return [message.get("params") for message in self.heard if message["method"] == method]

    async def until(self, true: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not true():
                self._changed.clear()
                await self._changed.wait()

    def _hear(self, data: bytes) -> None:
        try:
            self._take(json.loads(data))
        except Exception as exc:
            self.wrong.append(exc)
        self._changed.set()

    def _take(self, message: dict[str, Any]) -> None:
        if "method" not in message:
            self._answered(message)
        elif "id" in message:
            methods.parse_server_request(message["method"], self.revision, message.get("params"))
            self.asked.append(message)
            if message["method"] in self.says:
                said = self.says[message["method"]](message["params"])
                reply = {"jsonrpc": "2.0", "id": message["id"], **said}
                asyncio.get_running_loop().call_soon(self.connection.take, reply)
        else:
            methods.parse_server_notification(message["method"], self.revision, message.get("params"))
            self.heard.append(message)

    def _answered(self, message: dict[str, Any]) -> None:
        method, future = self._waiting.pop(message["id"])
        if "error" in message:
            future.set_exception(Refused(message["error"]))
            JSONRPCError.model_validate(message)
        else:
            future.set_result(message["result"])
            methods.validate_server_result(method, self.revision, message["result"])


@pytest.fixture
async def talk() -> AsyncIterator[Callable[..., Any]]:
    """A connected client of an app or a server: `await talk(app, revision, capabilities={}, **identity)`."""
    talks: list[Talk] = []

    async def connect(
        of: Any, revision: str = "2025-11-25", *, capabilities: dict[str, Any] | None = None, **identity: Any
    ) -> Talk:
        server = of.mcp() if hasattr(of, "catalogue") else of
        client = Talk(server, revision, capabilities or {}, identity)
        talks.append(client)
        if revision != NEWEST:
            told = await client.initialize()
            assert told["protocolVersion"] == revision
            client.tell("notifications/initialized")
        return client

    yield connect
    for client in talks:
        await client.connection.close()
        assert not client.wrong


class Site:
    """An endpoint on a real server, and a client's way to it."""

    def __init__(self, url: str, http: httpx.AsyncClient) -> None:
        self.url = url
        self.http = http

    async def post(self, message: Any, headers: dict[str, str] | None = None) -> httpx.Response:
        return await self.http.post(self.url, json=message, headers=headers)

    async def stateless(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        id: Any = 1,
    ) -> httpx.Response:
        """A request of the newest revision, with the headers it needs."""
        message, needed = stateless(method, params, id)
        return await self.post(message, {**needed, **(headers or {})})

    def visit(self, headers: dict[str, str]) -> Visit:
        """A way to send requests with these headers."""
        return Visit(self, headers)

    async def session(
        self, revision: str = "2025-11-25", capabilities: Any = None, headers: dict[str, str] | None = None
    ) -> Visit:
        """A session, with the handshake behind it."""
        hello = {
            "protocolVersion": revision,
            "capabilities": capabilities or {},
            "clientInfo": {"name": "test", "version": "1"},
        }
        said = await self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}, headers)
        assert said.status_code == 200, said.text
        known = {"mcp-session-id": said.headers["mcp-session-id"], "mcp-protocol-version": revision}
        visit = Visit(self, {**known, **(headers or {})})
        assert (await visit.tell("notifications/initialized")).status_code == 202
        return visit


class Visit:
    """One session."""

    def __init__(self, site: Site, headers: dict[str, str]) -> None:
        self.site = site
        self.headers = headers
        self._last = 0

    def message(self, method: str, params: Any = None) -> dict[str, Any]:
        self._last += 1
        return {
            "jsonrpc": "2.0",
            "id": self._last,
            "method": method,
            **({"params": params} if params else {}),
        }

    async def ask(self, method: str, params: Any = None, **headers: str) -> httpx.Response:
        return await self.site.post(self.message(method, params), {**self.headers, **headers})

    async def call(self, name: str, arguments: Any = None, **params: Any) -> httpx.Response:
        return await self.ask("tools/call", {"name": name, "arguments": arguments or {}, **params})

    async def tell(self, method: str, params: Any = None) -> httpx.Response:
        told = {"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})}
        return await self.site.post(told, self.headers)

    @asynccontextmanager
    async def stream(self, message: Any = None, **headers: str) -> AsyncIterator[Events]:
        """The events of a request, or without one of the session."""
        how: Any = {"method": "GET"} if message is None else {"method": "POST", "json": message}
        told = {"accept": "application/json, text/event-stream", **self.headers, **headers}
        async with self.site.http.stream(url=self.site.url, headers=told, **how) as response:
            assert response.status_code == 200
            assert response.headers["content-type"] == "text/event-stream"
            yield Events(response)


class Events:
    """Server-sent events, one by one."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._events = EventSource(response).aiter_sse()

    async def next(self) -> Any:
        """The next message, with the event's id as `event_id`; raises StopAsyncIteration at the end."""
        async with asyncio.timeout(PATIENCE):
            event = await anext(self._events)
        return {"event_id": event.id, **(json.loads(event.data) if event.data else {})}

    async def rest(self) -> list[Any]:
        said = []
        while True:
            try:
                said.append(await self.next())
            except StopAsyncIteration:
                return said


def stateless(
    method: str, params: dict[str, Any] | None = None, id: Any = 1
) -> tuple[dict[str, Any], dict[str, str]]:
    """A request of the newest revision, and its headers."""
    given = params or {}
    meta = {VERSION: NEWEST, CAPABILITIES: {}, **given.get("_meta", {})}
    message = {"jsonrpc": "2.0", "id": id, "method": method, "params": {**given, "_meta": meta}}
    headers = {"mcp-protocol-version": NEWEST, "mcp-method": method}
    name = given.get("uri") if method == "resources/read" else given.get("name")
    if isinstance(name, str):
        headers["mcp-name"] = name
    return message, headers


@pytest.fixture
async def site() -> AsyncIterator[Callable[..., Any]]:
    """Serve an endpoint, or a whole app, with uvicorn, in this loop: `await site(app.mcp().http())`."""
    async with AsyncExitStack() as stack:

        async def start(endpoint: Any) -> Site:
            listening = socket.socket()
            listening.bind(("127.0.0.1", 0))
            listening.listen()
            url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
            server = uvicorn.Server(uvicorn.Config(endpoint, log_level="critical", lifespan="off"))
            serving = asyncio.ensure_future(server._serve([listening]))

            async def stop() -> None:
                await (endpoint.close() if hasattr(endpoint, "close") else endpoint.drain(0))
                server.should_exit = server.force_exit = True
                await serving

            http = httpx.AsyncClient(timeout=PATIENCE)
            stack.push_async_callback(stop)
            await stack.enter_async_context(http)
            return Site(url, http)

        yield start
