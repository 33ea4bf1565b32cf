"""A real HTTP server on this machine that keeps what it gets and answers as it is told."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType

PATIENCE = 30.0


@dataclass(frozen=True, slots=True)
class Got:
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    #: The name that TLS was asked for.
    sni: str | None = None


Reply = Callable[[Got], bytes]


def reply(status: int = 200, body: bytes = b"", **headers: str) -> bytes:
    """An answer's bytes. Underscores in the names of headers are dashes."""
    told = {"content-length": str(len(body)), "connection": "close"}
    told |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"HTTP/1.1 {status} Word", *(f"{name}: {value}" for name, value in told.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body


def fine(_: Got) -> bytes:
    return reply()


@dataclass
class Receiver:
    """Listens on a port of this machine."""

    answer: Reply = fine
    tls: ssl.SSLContext | None = None
    host: str = "127.0.0.1"
    got: list[Got] = field(default_factory=list)
    #: Holds answers back while it is not set.
    go: asyncio.Event = field(default_factory=asyncio.Event)
    #: How many requests are being answered, and how many were at most.
    busy: int = 0
    most: int = 0

    async def __aenter__(self) -> Receiver:
        self.go.set()
        self._changed = asyncio.Condition()
        self._sni: str | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[object]] = set()
        if self.tls is not None:
            self.tls.sni_callback = self._named
        self._server = await asyncio.start_server(self._serve, self.host, 0, ssl=self.tls)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.go.set()
        self._server.close()
        for _ in range(5):  # a connection that has just come is nobody's yet
            await asyncio.sleep(0)
        for writer in self._open:
            writer.transport.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        return f"http{'s' if self.tls else ''}://{self.host}:{self.port}"

    async def count(self, size: int) -> list[Got]:
        """What came, once there is so much."""
        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(lambda: len(self.got) >= size)
        return self.got

    def _named(self, _: object, name: str | None, __: object) -> None:
        self._sni = name

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.busy += 1
        self._open.add(writer)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.strip().split("\r\n")
            method, path, _ = first.split(" ")
            pairs = (line.partition(":") for line in lines)
            headers = {name.lower(): value.strip() for name, _, value in pairs}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            got = Got(method, path, headers, body, self._sni)
            self.most = max(self.most, self.busy)
            async with self._changed:
                self.got.append(got)
                self._changed.notify_all()
            await self.go.wait()
            writer.write(self.answer(got))
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.busy -= 1
            writer.close()
            with suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()
            self._open.discard(writer)
            self._tasks.discard(task)
