"""The harbour app and servers for it, and servers that say exactly what a test wants them to say."""

from __future__ import annotations

import asyncio
import importlib.util
import socket
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest
import uvicorn

HERE = Path(__file__).parent
PATIENCE = 10.0

KEYS = ["a", "b-c", "class", "1", "ü", "__x", "then", "self", "__proto__", 'odd "key"', "new\nline"]
VALUES: list[Any] = ["a", "", 'q"', "x\ny", "\u2028", 1, 1.5, -3, True, None, [1, "a"], {"k": [None]}, {}]
LEAVES: list[Any] = [
    *(True, False, {}, {"$ref": "#"}, {"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}),
    *(
        {"type": kind}
        for kind in ("string", "integer", "number", "boolean", "null", ["string", "null", "array"])
    ),
    *({"const": value} for value in VALUES),
]


@pytest.fixture(scope="session")
def schemas() -> list[Any]:
    """Schemas that nobody would write, always the same."""
    random = Random(7)

    def schema(depth: int) -> Any:
        if depth == 0 or random.random() < 0.2:
            return random.choice(LEAVES)
        inner = [schema(depth - 1) for _ in range(random.randint(1, 3))]
        kind = random.choice(["object", "object", "array", "tuple", "anyOf", "oneOf", "allOf", "enum"])
        made: dict[str, Any] = {"description": random.choice(["", "*/ x", 'multi\n\n \\ """ line'])}
        if kind == "object":
            made["properties"] = dict(zip(random.sample(KEYS, len(inner)), inner, strict=True))
            made["required"] = random.sample(KEYS, random.randint(0, 3))
            made["additionalProperties"] = random.choice([False, True, inner[0]])
        elif kind == "array":
            made["items"] = inner[0]
        elif kind == "tuple":
            made |= {
                "prefixItems": inner,
                "minItems": random.randint(0, 3),
                "items": random.choice([False, inner[0]]),
            }
        elif kind == "enum":
            made["enum"] = random.sample(VALUES, 3)
        else:
            made |= {kind: inner, "nullable": random.random() < 0.2}
        return made

    return [{"allOf": [schema(3)], "$defs": {"A": schema(2), "B": schema(1)}} for _ in range(150)]


@pytest.fixture(scope="session")
def harbour() -> ModuleType:
    spec = importlib.util.spec_from_file_location("harbour", HERE / "harbour.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["harbour"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def harbour_url(harbour: ModuleType) -> Iterator[str]:
    """The harbour, served by uvicorn on a thread of this process."""
    with running(harbour.app.http()) as url:
        yield url


class running:
    """Serves an ASGI app on a free port for as long as it is entered."""

    def __init__(self, asgi: Any, **settings: Any) -> None:
        config = uvicorn.Config(asgi, port=0, log_level="error", access_log=False, **settings)
        self._server = uvicorn.Server(config)
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self._thread = threading.Thread(target=lambda: self._server.run(sockets=[self._socket]))

    def __enter__(self) -> str:
        self._socket.listen()
        self._thread.start()
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        self._socket.close()


Answer = Callable[["Exchange"], Awaitable[None]]
Scripted = Callable[..., AbstractAsyncContextManager["Script"]]


class Exchange:
    """One request as raw bytes, and the way to answer it with any bytes."""

    def __init__(self, script: Script, head: bytes, body: bytes, writer: asyncio.StreamWriter) -> None:
        self.script = script
        self.head = head.decode("latin-1")
        self.body = body
        self._writer = writer

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def respond(
        self, status: int, body: bytes, kind: str = "application/json", headers: str = ""
    ) -> None:
        length = f"content-length: {len(body)}\r\ncontent-type: {kind}\r\n"
        await self.send(f"HTTP/1.1 {status} Whatever\r\n{length}{headers}\r\n".encode() + body)

    def hang_up(self) -> None:
        self._writer.close()


class Script:
    """A server that answers as it was told, one answer a request, and remembers the requests."""

    def __init__(self, answers: tuple[Answer, ...]) -> None:
        self._answers = list(answers)
        self.requests: list[Exchange] = []
        self.connections = 0
        self.begun = asyncio.Event()
        #: A client went away.
        self.gone = asyncio.Event()
        self.url = ""
        self.serving: set[asyncio.Task[Any]] = set()

    async def serve(self, reader: Incoming, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.serving.add(task)
        self.connections += 1
        try:
            while not writer.is_closing():
                await self._exchange(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            return
        finally:
            self.gone.set()
            self.serving.discard(task)
            writer.close()

    async def _exchange(self, reader: Incoming, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
        exchange = Exchange(self, head, await reader.readexactly(length), writer)
        self.requests.append(exchange)
        self.begun.set()
        answering = asyncio.ensure_future(self._answers.pop(0)(exchange))
        watching = asyncio.ensure_future(self._left(reader, writer))
        try:
            await asyncio.wait({answering, watching}, return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                await answering
        finally:
            watching.cancel()
            answering.cancel()

    async def _left(self, reader: Incoming, writer: asyncio.StreamWriter) -> None:
        await reader.ended.wait()
        writer.close()


class Incoming(asyncio.StreamReader):
    """A reader that tells the end also to those who do not read."""

    def __init__(self) -> None:
        super().__init__()
        self.ended = asyncio.Event()

    def feed_eof(self) -> None:
        super().feed_eof()
        self.ended.set()

    def set_exception(self, exc: BaseException) -> None:
        super().set_exception(exc)  # type: ignore[arg-type]
        self.ended.set()


@pytest.fixture
def scripted() -> Scripted:
    @asynccontextmanager
    async def serve(*answers: Answer) -> AsyncIterator[Script]:
        script = Script(answers)
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: asyncio.StreamReaderProtocol(Incoming(), script.serve),  # type: ignore[arg-type]
            "127.0.0.1",
            0,
        )
        script.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield script
        finally:
            server.close()
            for task in list(script.serving):
                task.cancel()
            await asyncio.gather(*script.serving, return_exceptions=True)

    return serve
