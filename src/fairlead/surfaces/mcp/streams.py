"""Answers that come as a stream of server-sent events, which a client may leave and come back to.

A stream numbers its events and keeps the newest, so that a client that was cut off can have those that it missed.
It is written by whoever has something to say; no task waits for that.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from fairlead._json import packed
from fairlead.surfaces.http.asgi import Send

Headers = list[tuple[bytes, bytes]]

_SSE: Final[Headers] = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]
#: How many events, and how many bytes of them, one stream keeps for a client that was cut off.
_KEPT: Final = 256
_KEPT_BYTES: Final = 1 << 20
#: With this many still to be written, or this many bytes, whoever says more has to wait.
_FULL: Final = 64
_FULL_BYTES: Final = 1 << 20
_KEEP_ALIVE: Final = b": keep-alive\n\n"


class Stream:
    """One stream of events, with at most one client reading it."""

    def __init__(self, *, resumable: bool, primes: bool = False, away: bool = False) -> None:
        #: Names the stream in its events' ids; empty where it cannot be resumed.
        self.name = secrets.token_urlsafe(9) if resumable else ""
        self._primes = primes
        self._events: deque[tuple[int, bytes]] = deque()
        #: How many bytes are kept, and how many of them are still to be written.
        self.size = 0
        self._waiting = 0
        self._last = 0
        #: The number of the last event that was written to the present client.
        self._written = 0
        self._send: Send | None = None
        #: Whether no client is there or about to be: then nobody is kept waiting for it.
        self._away = away
        self._writer: asyncio.Task[None] | None = None
        self._room: list[asyncio.Future[None]] = []
        self._idle = False
        #: Whether nothing more will be said.
        self.ended = False

    @property
    def live(self) -> bool:
        return self._send is not None

    async def attach(self, send: Send, headers: Headers, after: int | None = None) -> None:
        """Begin the answer to a client, after the event that it had last; without that, with all it has not had."""
        await send({"type": "http.response.start", "status": 200, "headers": [*_SSE, *headers]})
        primes = self._primes and after is None
        first = b"id: %b\ndata: \n\n" % self._id(self._written) if primes else _KEEP_ALIVE
        # A first piece of the body makes servers and proxies send the head at once.
        await send({"type": "http.response.body", "body": first, "more_body": True})
        while self._send is not None:
            await self._hang_up()
        self._send = send
        self._away = False
        if after is not None:
            self._written = after
        self._wake()

    def detach(self, send: Send) -> None:
        """The client is gone; what is said from now on is kept for its return."""
        if self._send is None or self._send is send:
            self._send = None
            self._away = True
            self._release()

    def put(self, data: bytes) -> Awaitable[None] | None:
        """Add a message. Where many are still to be written, it gives something to await."""
        self._last += 1
        self._events.append((self._last, packed(data)))
        self.size += len(data)
        self._waiting += len(data)
        self._trim()
        self._wake()
        if self._away or (self._last - self._written < _FULL and self._waiting < _FULL_BYTES):
            return None
        waiter = asyncio.get_running_loop().create_future()
        self._room.append(waiter)
        return waiter

    def end(self) -> None:
        """Say nothing more: what is there is written, then the answer ends."""
        self.ended = True
        self._wake()

    def keep_alive(self) -> None:
        """Show the client, if it has heard nothing since the last time, that the stream is still there."""
        if self._idle:
            self._wake()
        self._idle = True

    async def written(self) -> None:
        """Wait until the client has all that there is, or is gone."""
        while self._writer is not None and not self._writer.done():
            await asyncio.wait((self._writer,))

    def _trim(self) -> None:
        """Keep the newest; what a client that is there has still to get is not given up."""
        events = self._events
        while len(events) > 1 and (len(events) > _KEPT or self.size > _KEPT_BYTES):
            if not self._away and events[0][0] > self._written:
                return
            self.size -= len(events.popleft()[1])

    def _wake(self) -> None:
        if self._send is not None and (self._writer is None or self._writer.done()):
            self._writer = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        while (send := self._send) is not None:
            body = b"".join(map(self._event, self._unwritten()))
            over = self.ended and not body
            if over:
                self._send = None
                self._release()
            try:
                piece = b"" if over else body or _KEEP_ALIVE
                await send({"type": "http.response.body", "body": piece, "more_body": not over})
            except Exception:
                # Servers differ in what they do when the client is gone.
                self.detach(send)
                return
            self._idle = False
            self._release()
            if self._written == self._last and not self.ended:
                return

    def _unwritten(self) -> list[tuple[int, bytes]]:
        waiting = [event for event in self._events if event[0] > self._written]
        self._written = self._last
        self._waiting = 0
        self._trim()
        return waiting

    def _event(self, event: tuple[int, bytes]) -> bytes:
        number, data = event
        if not self.name:
            return b"event: message\ndata: %b\n\n" % data
        return b"event: message\nid: %b\ndata: %b\n\n" % (self._id(number), data)

    def _id(self, number: int) -> bytes:
        return f"{self.name}.{number}".encode()

    def _release(self) -> None:
        waiting, self._room = self._room, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    async def _hang_up(self) -> None:
        """End the answer to the client that was reading so far."""
        send, self._send = self._send, None
        await self.written()
        if send is not None:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


class Pulse:
    """Keeps the streams that are open from looking dead, with one timer for all of them."""

    def __init__(self, every: float) -> None:
        self._every = every
        self._streams: set[Stream] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, stream: Stream) -> Callable[[], None]:
        """Look after a stream; gives the way to stop."""
        self._streams.add(stream)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._every, self._beat)
        return lambda: self._remove(stream)

    def _remove(self, stream: Stream) -> None:
        self._streams.discard(stream)
        if not self._streams and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _beat(self) -> None:
        for stream in self._streams:
            stream.keep_alive()
        self._timer = asyncio.get_running_loop().call_later(self._every, self._beat)
