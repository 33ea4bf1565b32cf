"""HTTP/1.1 as uvicorn reads it with httptools, with a bound on what comes before a request's body and after it.

httptools itself keeps all of it, however much a stranger sends, and uvicorn takes the fields of a trailer for headers.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

#: Bytes of a request that bring nothing of a body: of its first line and headers, between two chunks, of its trailers.
LONGEST_HEAD = 65_536
_REFUSED = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-type: text/plain; charset=utf-8\r\ncontent-length: 47\r\nconnection: close\r\n\r\n"
    b"The request's headers or trailers are too long."
)
#: A packet that has a part of a body is not counted: who knows where in it that was.
_BODY = -1
_on_body = HttpToolsProtocol.on_body


class _Whole(list[tuple[bytes, bytes]]):
    """Headers that have been read: whatever comes later is no header."""

    def append(self, field: tuple[bytes, bytes]) -> None:
        pass


class BoundedProtocol(HttpToolsProtocol):
    """Hangs up on a request whose headers or trailers do not end. What comes in a trailer is dropped."""

    _head = 0

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
            self._refuse()

    def on_chunk_header(self) -> None:
        # A trailer's field says nothing of who calls (RFC 9110, 6.5.1): it was not there when that was asked, and
        # what stands before this server may have passed it on unseen. Only bodies in chunks have one.
        if self.headers is self.scope["headers"]:
            self.headers = _Whole(self.headers)

    def on_body(self, body: bytes) -> None:
        self._head = _BODY
        _on_body(self, body)

    def _refuse(self) -> None:
        cycle: Any = self.cycle
        if cycle is None:
            answering = False
        elif cycle.scope is self.scope:
            answering = cycle.response_started or bool(self.pipeline)
        else:
            answering = not cycle.response_complete
        # It would stand in the midst of an answer, or be taken for that to another request.
        if not answering:
            self.transport.write(_REFUSED)
        self.transport.close()

    def _hurry(self) -> None:
        """Who was answered and still sends the rest of that request has as long for each part as one who is idle."""
        if self.timeout_keep_alive_task is None and not self.transport.is_closing():
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )
