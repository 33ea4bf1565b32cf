"""`Answer`: the answer to one HTTP request. A JSON text, or a stream as soon as something is said before the result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from fairlead.surfaces.http.asgi import JSON, Receive, Send, disconnected, respond
from fairlead.surfaces.mcp import rpc
from fairlead.surfaces.mcp.rpc import RpcError
from fairlead.surfaces.mcp.streams import Headers, Pulse, Stream

if TYPE_CHECKING:
    from fairlead.surfaces.mcp.sessions import Session

_CONTENT_TYPE: Final = (b"content-type", JSON)


class Refusal(Exception):
    """A request that is not answered by the protocol, but by HTTP."""

    def __init__(
        self, status: int, error: RpcError, headers: Headers | None = None, id: rpc.Id | None = None
    ) -> None:
        super().__init__(error.message)
        self.status = status
        self.error = error
        self.headers = headers or []
        self.id = id


class Answer:
    """What is sent to the client. Whoever works on the request speaks through `sink`, and ends with `finish`."""

    #: The session that the request belongs to; its streams can be resumed.
    session: Session | None = None
    _stream: Stream | None = None
    _begun: asyncio.Task[None] | None = None
    _watcher: asyncio.Task[None] | None = None
    _forget: Callable[[], None] | None = None

    def __init__(self, send: Send, receive: Receive, pulse: Pulse) -> None:
        self.send = send
        self._receive = receive
        self._pulse = pulse

    def sink(self, data: bytes) -> Awaitable[None] | None:
        """Take a message that comes before the result."""
        stream = self._stream
        if stream is None:
            session = self.session
            stream = self._stream = Stream(resumable=False) if session is None else session.open_stream()
            self._begun = asyncio.get_running_loop().create_task(self._begin(stream))
        return stream.put(data)

    async def finish(self, data: bytes, status: int = 200) -> None:
        """Send the result."""
        if self._stream is None:
            head = [_CONTENT_TYPE, (b"content-length", b"%d" % len(data))]
            if self.session is not None:
                head.append(self.session.header)
            await self.send({"type": "http.response.start", "status": status, "headers": head})
            await self.send({"type": "http.response.body", "body": data})
        else:
            self._stream.put(data)
            await self.close()

    async def accept(self) -> None:
        """Say that a message was taken that has no answer."""
        head = [(b"content-length", b"0"), *self._headers()]
        await self.send({"type": "http.response.start", "status": 202, "headers": head})
        await self.send({"type": "http.response.body", "body": b""})

    async def drop(self) -> None:
        """End without a result."""
        await (self.accept() if self._stream is None else self.close())

    async def refuse(self, refusal: Refusal) -> None:
        if self._stream is None:
            await respond(self.send, refusal.status, refusal.error.encode(refusal.id), JSON, refusal.headers)
        else:
            self._stream.put(refusal.error.encode(refusal.id))
            await self.close()

    async def follow(self, stream: Stream, after: int | None) -> None:
        """Send a stream for as long as the client is there."""
        forget = self._pulse.add(stream)
        try:
            await stream.attach(self.send, self._headers(), after)
            await disconnected(self._receive)
        finally:
            forget()
            stream.detach(self.send)

    async def close(self) -> None:
        """End the stream, if there is one: what was said is sent to whoever is still there."""
        if self._stream is None:
            return
        self._stream.end()
        if self._begun is not None:
            await self._begun
        await self._stream.written()
        self._stop()
        if self.session is not None:
            self.session.close_stream(self._stream)

    def leave(self) -> None:
        """The client is gone, for good."""
        if self._stream is not None:
            if self._begun is not None:
                self._begun.cancel()
            self._stream.detach(self.send)
            self._stop()

    def _stop(self) -> None:
        if self._forget is not None:
            self._forget()
        if self._watcher is not None:
            self._watcher.cancel()

    async def _begin(self, stream: Stream) -> None:
        try:
            await stream.attach(self.send, self._headers())
        except Exception:
            # Servers differ in what they do when the client is gone.
            stream.detach(self.send)
            return
        self._forget = self._pulse.add(stream)
        if self.session is not None:
            self._watcher = asyncio.get_running_loop().create_task(self._watch(stream))

    async def _watch(self, stream: Stream) -> None:
        """Notice that a session's client is gone: the stream is kept for its return."""
        await disconnected(self._receive)
        stream.detach(self.send)

    def _headers(self) -> Headers:
        return [] if self.session is None else [self.session.header]
