"""HTTP/1.1 as uvicorn reads it with httptools, with bounds on how much comes beside a request's body, and how slowly.

httptools itself keeps all headers and trailers, however much a stranger sends, and uvicorn takes the fields of a
trailer for headers. It also waits for the rest of a request for as long as something, or nothing at all, is sent, and
for whoever reads nothing of an answer, also once it has closed the connection.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from contextlib import suppress
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if sys.platform != "win32":
    from fcntl import ioctl
    from termios import TIOCOUTQ

#: Bytes of a request that bring nothing of a body: of its first line and headers, between two chunks, of its trailers.
LONGEST_HEAD = 65_536
#: Seconds between two looks at what a connection waits for: if that is the same part of a request, it is hung up on.
PATIENCE = 30.0
#: Bytes of a body that have to come, and of an answer that have to be read, in each second, taken over that time.
SLOWEST = 1_024
_REFUSED = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-type: text/plain; charset=utf-8\r\ncontent-length: 47\r\nconnection: close\r\n\r\n"
    b"The request's headers or trailers are too long."
)
_TOO_SLOW = (
    b"HTTP/1.1 408 Request Timeout\r\n"
    b"content-type: text/plain; charset=utf-8\r\ncontent-length: 32\r\nconnection: close\r\n\r\n"
    b"The request came in too slowly.\n"
)
#: A packet that has a part of a body is not counted: who knows where in it that was.
_BODY = -1
_on_body = HttpToolsProtocol.on_body
#: What a connection waits for that has brought nothing yet.
_FIRST = object()


class _Whole(list[tuple[bytes, bytes]]):
    """Headers that have been read: whatever comes later is no header."""

    def append(self, field: tuple[bytes, bytes]) -> None:
        pass


class BoundedProtocol(HttpToolsProtocol):
    """Hangs up on a request whose headers or trailers do not end, or that comes in too slowly, and on whoever does not
    read the answer.

    What comes in a trailer is dropped.
    """

    _head = 0
    #: Bytes of bodies since the last look, and what the connection waited for then.
    _brought = 0
    _awaited: object = None
    #: Bytes that were held up at the last look, by a client that has not read what came before them.
    _unread = 0
    _looking: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._awaited = _FIRST
        self._looking = self.loop.call_later(PATIENCE, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._looking is not None:
            self._looking.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        scope: Any = self.scope
        cycle: Any = self.cycle
        # Of a request whose headers are known, uvicorn has made a cycle.
        if cycle is not None and cycle.scope is scope:
            if not cycle.more_body:
                self._head = 0
                return
            if cycle.response_complete:
                self._hurry()
        if self._head == _BODY:
            self._head = 0
            return
        self._head += len(data)
        if self._head > LONGEST_HEAD and not self.transport.is_closing():
            self._refuse(_REFUSED)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unread = 0

    def on_chunk_header(self) -> None:
        # A trailer's field says nothing of who calls (RFC 9110, 6.5.1): it was not there when that was asked, and
        # what stands before this server may have passed it on unseen. Only bodies in chunks have one.
        if self.headers is self.scope["headers"]:
            self.headers = _Whole(self.headers)

    def on_body(self, body: bytes) -> None:
        self._head = _BODY
        self._brought += len(body)
        _on_body(self, body)

    def _look(self) -> None:
        """Hang up if the same is waited for as at the last look: part of a request, and nothing that we have to do."""
        # What was upgraded is another protocol's.
        if self not in self.connections:
            return
        if self._is_unread():
            self._reset()
            return
        if not self.transport.is_closing():
            self._look_for_more()
        self._looking = self.loop.call_later(PATIENCE, self._look)

    def _is_unread(self) -> bool:
        """Whether an answer is held up as it was at the last look, and hardly anything of it was read since."""
        held_up = self.flow.write_paused or self.transport.is_closing()
        before, self._unread = self._unread, self._waiting_bytes() if held_up else 0
        # Nothing is added to what is held up: whatever is missing was read.
        return self._unread > 0 and 0 < before < self._unread + SLOWEST * PATIENCE

    def _waiting_bytes(self) -> int:
        """What was written and not taken by the client, with what the system holds of it.

        The system holds megabytes, and takes more when a third of that is free: whoever reads slowly would seem to
        read nothing for a minute.
        """
        size = self.transport.get_write_buffer_size()
        at = self.transport.get_extra_info("socket")
        if sys.platform != "win32" and at is not None:
            with suppress(OSError):
                size += int.from_bytes(ioctl(at.fileno(), TIOCOUTQ, bytes(4)), sys.byteorder)
        return size

    def _reset(self) -> None:
        """End the connection at once, and have the system forget what it holds of the answer, too."""
        at = self.transport.get_extra_info("socket")
        if at is not None:
            with suppress(OSError):  # it is spelled otherwise, or there is none
                at.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def _look_for_more(self) -> None:
        awaited, brought = self._waiting(), self._brought
        if awaited is not None and awaited is self._awaited and brought < SLOWEST * PATIENCE:
            if awaited is _FIRST:
                self.transport.close()
            else:
                self._refuse(_TOO_SLOW)
            return
        self._awaited, self._brought = awaited, 0

    def _waiting(self) -> object:
        """The request that a client is to send the rest of; None where it is not the client that is waited for."""
        scope: Any = self.scope
        cycle: Any = self.cycle
        if scope is None:
            return _FIRST
        if cycle is None:
            return scope
        if cycle.scope is not scope:
            return scope if cycle.response_complete else None
        if not cycle.more_body:
            # Idle: uvicorn has a time for that, unless something comes that begins no request.
            return scope if cycle.response_complete and self.timeout_keep_alive_task is None else None
        held_up = self.pipeline or self.flow.read_paused or cycle.waiting_for_100_continue
        return None if held_up else scope

    def _refuse(self, told: bytes) -> None:
        cycle: Any = self.cycle
        if cycle is None:
            answering = False
        elif cycle.scope is self.scope:
            answering = cycle.response_started or bool(self.pipeline)
        else:
            answering = not cycle.response_complete
        # It would stand in the midst of an answer, or be taken for that to another request.
        if not answering:
            self.transport.write(told)
        self.transport.close()

    def _hurry(self) -> None:
        """Who was answered and still sends the rest of that request has as long for each part as one who is idle."""
        if self.timeout_keep_alive_task is None and not self.transport.is_closing():
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )
