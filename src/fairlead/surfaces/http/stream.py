"""A call's events as they happen: server-sent events, or one JSON object a line.

Events that are ready are sent together, so that a busy stream costs few sends and a quiet one has no delay. A
client that reads slowly holds the action back; one that goes away cancels it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Any

from fairlead._json import encode
from fairlead.runtime import Event
from fairlead.surfaces.http.accept import best
from fairlead.surfaces.http.asgi import Disconnected
from fairlead.surfaces.http.disconnect import Watch, carried_on
from fairlead.surfaces.http.exchange import Exchange, ServerStopping
from fairlead.surfaces.refusal import refusal

SSE = "text/event-stream"
NDJSON = "application/x-ndjson"
#: Once this many bytes are ready they are sent.
_FULL = 65_536
_SSE_FRAME = b"event: %b\nid: %d\ndata: %b\n\n"
#: Seconds after which a stream is opened that has said nothing: until then it may still be refused as a whole.
_OPENING = 0.5
_KEEP_ALIVE = b": keep-alive\n\n"
_HEADERS = ((b"cache-control", b"no-store"), (b"x-accel-buffering", b"no"))
_SSE_HEADERS = ((b"content-type", SSE.encode()), *_HEADERS)
_NDJSON_HEADERS = ((b"content-type", NDJSON.encode()), *_HEADERS)

Finish = Callable[[Event], bytes]


async def send_events(
    exchange: Exchange, action: str, events: AsyncGenerator[Event, None], finish: Finish, every: float
) -> dict[str, Any] | None:
    """Send what the call says until it has ended; `finish` writes the last event, the result.

    A call that fails at once, before it says anything, is no stream: its envelope is given back, to be answered.

    Raises:
        Disconnected: the client went away, and the call has been cancelled.
    """
    lines = best(exchange.headers.get(b"accept"), (SSE, NDJSON)) == NDJSON
    watch = Watch(exchange.receive)
    outlet = Outlet(exchange, lines, every)
    ready: list[bytes] = []
    size = number = 0
    try:
        while True:
            step: Any = anext(events)
            try:
                try:
                    waiting = step.send(None)
                except StopIteration as done:
                    event: Event = done.value
                else:
                    # Nothing more is ready: what is goes out before the wait.
                    if ready:
                        await outlet.flush(ready)
                        size = 0
                    event = await carried_on(step, waiting)
                    del step, waiting
            except StopAsyncIteration:
                break
            number += 1
            kind = event["type"]
            if number == 1 and kind == "result" and not exchange.started and not event["envelope"]["ok"]:
                failed: dict[str, Any] = event["envelope"]
                return failed
            data = encode(event) if kind != "result" else finish(event)
            ready += (data, b"\n") if lines else (_SSE_FRAME % (kind.encode(), number, data),)
            size += len(data)
            # The next event may be long in coming, and orjson gives even the shortest text in 4 KiB.
            del event, data
            if size >= _FULL:
                await outlet.flush(ready)
                size = 0
        await outlet.end(b"".join(ready))
    except asyncio.CancelledError:
        if watch.gone:
            raise Disconnected from None
        if exchange.started:
            # The server is stopping. Whoever reads is told, as far as the server still sends.
            runtime, surface, _ = exchange.host
            data = finish({"type": "result", "envelope": refusal(ServerStopping(), surface, runtime, action)})
            ready += (data, b"\n") if lines else (_SSE_FRAME % (b"result", number + 1, data),)
            with suppress(OSError, RuntimeError):
                await outlet.end(b"".join(ready))
        raise
    finally:
        outlet.stop()
        # From here on nobody is cancelled for a client that leaves: the call is being ended anyway.
        watch.stop()
        await events.aclose()
    return None


class Outlet:
    """Where a stream's bytes go.

    The answer begins with the first of them, or when the call has said nothing for a moment. When it has said
    nothing for long, a comment keeps those on the way from taking the connection for dead.
    """

    __slots__ = ("_beat", "_every", "_exchange", "_lines", "_quiet", "_timer")

    def __init__(self, exchange: Exchange, lines: bool, every: float) -> None:
        self._exchange = exchange
        self._lines = lines
        self._every = every
        #: Whether nothing was sent since the last look.
        self._quiet = False
        self._beat: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(_OPENING, self._open)

    def send(self, body: bytes, more: bool = True) -> Awaitable[None]:
        self._quiet = False
        if not self._exchange.started:
            return self._begin(body, more)
        return self._exchange.send({"type": "http.response.body", "body": body, "more_body": more})

    def flush(self, ready: list[bytes]) -> Awaitable[None]:
        """Send what is ready."""
        body = b"".join(ready)
        ready.clear()
        return self.send(body)

    async def end(self, body: bytes) -> None:
        """Send the last of it; what is being said just now is said to its end first."""
        self._timer.cancel()
        if self._beat is not None:
            await asyncio.wait((self._beat,))
        await self.send(body, more=False)

    def stop(self) -> None:
        self._timer.cancel()
        if self._beat is not None:
            self._beat.cancel()

    async def _begin(self, body: bytes, more: bool) -> None:
        exchange = self._exchange
        exchange.started = True
        headers = [*(_NDJSON_HEADERS if self._lines else _SSE_HEADERS), (b"x-request-id", exchange.id)]
        await exchange.send({"type": "http.response.start", "status": 200, "headers": headers})
        await exchange.send({"type": "http.response.body", "body": body, "more_body": more})

    def _open(self) -> None:
        if not self._exchange.started:
            self._say(b"")
        self._wait()

    def _look(self) -> None:
        if self._quiet and self._beat is None:
            self._say(_KEEP_ALIVE)
        self._quiet = True
        self._wait()

    def _wait(self) -> None:
        if not self._lines:
            self._timer = asyncio.get_running_loop().call_later(self._every, self._look)

    def _say(self, words: bytes) -> None:
        self._beat = asyncio.ensure_future(self._speak(words))

    async def _speak(self, words: bytes) -> None:
        # A connection that is gone is noticed by whoever watches it.
        with suppress(OSError, RuntimeError):
            await self.send(words)
        self._beat = None
