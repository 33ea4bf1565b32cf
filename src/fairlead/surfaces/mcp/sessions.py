"""Sessions over HTTP: a connection that outlives its requests, known by an id that nobody can guess.

A session belongs to the caller who began it. It ends when its client says so, when nobody has used it for a while,
or when there are too many and it is the one that was used least recently.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from fairlead.surfaces.mcp.connection import Connection
from fairlead.surfaces.mcp.server import Server
from fairlead.surfaces.mcp.streams import Stream

#: How many bytes of streams that have ended are kept, of all sessions together, for clients that were cut off.
_KEPT_BYTES: Final = 64 << 20
#: And how many of them.
_KEPT: Final = 10_000


class Session:
    """One client's connection and streams."""

    def __init__(self, server: Server, owner: str, ended: Ended) -> None:
        self.id = secrets.token_urlsafe(24).encode()
        #: Goes with every answer.
        self.header = (b"mcp-session-id", self.id)
        self.owner = owner
        self.used = 0.0
        #: How many requests are being answered; a session with any is in use.
        self.busy = 0
        #: What belongs to no request is told here.
        self.news = Stream(resumable=True, away=True)
        self.connection = Connection(server, self.news.put)
        self._streams = {self.news.name: self.news}
        self._ended = ended

    def open_stream(self) -> Stream:
        """A stream for one request."""
        stream = Stream(resumable=True, primes=self.connection.peer.revision.primes)
        self._streams[stream.name] = stream
        return stream

    def close_stream(self, stream: Stream) -> None:
        """Keep a stream that has ended for a while: its client may have been cut off from it."""
        self._ended.add(self, stream)

    def forget(self, stream: Stream) -> None:
        self._streams.pop(stream.name, None)

    def find_stream(self, event_id: str) -> tuple[Stream, int] | None:
        """The stream that an event belongs to, and the event's number."""
        name, _, number = event_id.rpartition(".")
        stream = self._streams.get(name)
        if stream is None or not number.isdecimal() or len(number) > 15:
            return None
        return stream, int(number)

    async def close(self) -> None:
        for stream in self._streams.values():
            stream.end()
            self._ended.discard(stream)
        self._streams.clear()
        await self.connection.close()


class Ended:
    """The streams that have ended, of all sessions: the newest, within bounds."""

    def __init__(self) -> None:
        self._streams: OrderedDict[Stream, Session] = OrderedDict()
        self._size = 0

    def add(self, session: Session, stream: Stream) -> None:
        self._streams[stream] = session
        self._size += stream.size
        while self._size > _KEPT_BYTES or len(self._streams) > _KEPT:
            oldest, owner = self._streams.popitem(last=False)
            self._size -= oldest.size
            owner.forget(oldest)

    def discard(self, stream: Stream) -> None:
        if self._streams.pop(stream, None) is not None:
            self._size -= stream.size


class Sessions:
    """All sessions of an endpoint, the least recently used first."""

    def __init__(self, server: Server, most: int, ttl: float, monotonic: Callable[[], float]) -> None:
        self._server = server
        self._most = most
        self._ttl = ttl
        self._now = monotonic
        self._sessions: OrderedDict[bytes, Session] = OrderedDict()
        self._ended = Ended()

    def __len__(self) -> int:
        return len(self._sessions)

    async def open(self, owner: str) -> Session | None:
        """A new session; None where there is no room for one more, because all are in use."""
        await self._expire()
        if len(self._sessions) >= self._most:
            idle = next((session for session in self._sessions.values() if not _in_use(session)), None)
            if idle is None:
                return None
            await self.end(idle)
        session = Session(self._server, owner, self._ended)
        session.used = self._now()
        self._sessions[session.id] = session
        return session

    def find(self, id: bytes, owner: str) -> Session | None:
        """The caller's session of this id. That of somebody else is not told apart from none."""
        session = self._sessions.get(id)
        if session is None or session.owner != owner:
            return None
        now = self._now()
        if now - session.used > self._ttl and not _in_use(session):
            return None
        session.used = now
        self._sessions.move_to_end(id)
        return session

    async def end(self, session: Session) -> None:
        self._sessions.pop(session.id, None)
        await session.close()

    async def close(self) -> None:
        while self._sessions:
            await self.end(next(iter(self._sessions.values())))

    async def _expire(self) -> None:
        """Let go of those whose time has passed."""
        oldest = self._now() - self._ttl
        for session in list(self._sessions.values()):
            if session.used >= oldest:
                return
            if not _in_use(session):
                await self.end(session)


def _in_use(session: Session) -> bool:
    return session.busy > 0 or session.news.live
