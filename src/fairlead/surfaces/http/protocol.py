"""HTTP/1.1 as uvicorn reads it with httptools, with a bound on what comes before a request's body and after it.

httptools itself keeps all of it, however much a stranger sends, and uvicorn takes the fields of a trailer for headers.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

#: Bytes of a request's first line and headers.
LONGEST_HEAD = 65_536
_REFUSED = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-type: text/plain; charset=utf-8\r\ncontent-length: 35\r\nconnection: close\r\n\r\n"
    b"The request's headers are too long."
)


class _Whole(list[tuple[bytes, bytes]]):
    """Headers that have been read: whatever comes later is no header."""

    def append(self, field: tuple[bytes, bytes]) -> None:
        pass


class BoundedProtocol(HttpToolsProtocol):
    """Hangs up on a request whose headers do not end. What comes in a trailer is dropped."""

    _head = 0

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        scope: Any = self.scope
        cycle: Any = self.cycle
        # Of a request that is known, uvicorn has made a cycle.
        if cycle is not None and cycle.scope is scope:
            self._head = 0
            return
        self._head += len(data)
        if self._head > LONGEST_HEAD and not self.transport.is_closing():
            self.transport.write(_REFUSED)
            self.transport.close()

    def on_chunk_header(self) -> None:
        # A trailer's field says nothing of who calls (RFC 9110, 6.5.1): it was not there when that was asked, and
        # what stands before this server may have passed it on unseen. Only bodies in chunks have one.
        if self.headers is self.scope["headers"]:
            self.headers = _Whole(self.headers)
