"""Where a message ends: one JSON text a line, or a `Content-Length` header before each. Bytes in, frames out.

It reads nothing and waits for nothing, and what a message says is not its business. However the bytes are cut
into pieces, the same frames come out, in time that grows with the bytes. A mistake costs the frame it is in:
it comes out as a `Refused`, and the next frame is found.
"""

from __future__ import annotations

import re
from typing import Any, Final, Literal, NamedTuple

from fairlead import _json
from fairlead.surfaces.mcp.rpc import INVALID_REQUEST, PARSE_ERROR, RpcError

Framing = Literal["auto", "content-length", "newline"]
FRAMINGS: Final[tuple[Framing, ...]] = ("auto", "content-length", "newline")

#: How many bytes a frame may have unless said otherwise.
LARGEST: Final = 1 << 20

_BOM: Final = b"\xef\xbb\xbf"
#: What may stand before the first frame.
_NOTHING: Final = re.compile(rb"(?:\s|%b)*" % _BOM)
#: How a stream of frames with headers can begin; headers may come in any order.
_HEADS: Final = (b"content-length:", b"content-type:")
_LONGEST_HEAD: Final = max(map(len, _HEADS))
#: How many bytes the headers of one frame may have.
_HEADERS: Final = 8192
#: At the end of a line: what stands before it, if anything, belongs to no frame. A longer number is no length.
_LENGTH: Final = re.compile(rb"content-length:[ \t]*([0-9]{1,18})[ \t\r]*\Z", re.IGNORECASE)


class Refused(NamedTuple):
    """What stands in for a frame that cannot be used: an error that answers no request we know of."""

    code: int
    message: str

    @property
    def answer(self) -> bytes:
        return RpcError(self.code, self.message).encode(None)


Frame = bytes | Refused

_NOT_JSON: Final = Refused(PARSE_ERROR, "Parse error: the message is not JSON.")
_DEEP: Final = Refused(
    PARSE_ERROR, f"Parse error: there are more than {_json.DEEPEST} levels in the message."
)
_CUT_SHORT: Final = Refused(PARSE_ERROR, "Parse error: the input ended within a message.")
_STRAY: Final = Refused(
    INVALID_REQUEST,
    "There are bytes before a Content-Length header that belong to no message: the length before them was wrong.",
)
_NO_LENGTH: Final = Refused(
    INVALID_REQUEST, "A header block has no usable Content-Length. All up to the next such header is skipped."
)
_LONG_HEADERS: Final = Refused(
    INVALID_REQUEST,
    f"A header block exceeds limit: at most {_HEADERS} bytes. The next Content-Length counts.",
)


def decoded(frame: Frame) -> Any:
    """The message in a frame, or a `Refused`."""
    if isinstance(frame, Refused):
        return frame
    try:
        value = _json.loads(frame.removeprefix(_BOM))
    except ValueError:
        return _NOT_JSON
    return _DEEP if _json.is_deep(value, frame) else value


class Framer:
    """Cuts what one peer sends into frames, and puts the answers into frames of the same kind."""

    def __init__(self, framing: Framing = "auto", largest: int = LARGEST) -> None:
        self._largest = largest
        self._cut: _Lines | _Sized | None = None
        self._start = b""
        #: The peer's framing; `auto` as long as nothing tells.
        self.framing: Framing = framing

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that these bytes complete."""
        if self._cut is None:
            data = self._begin(data)
        return [] if self._cut is None else self._cut.feed(data)

    def finish(self) -> list[Frame]:
        """The frame that only the end of the stream completes, such as a last line without a line end."""
        if self._cut is None:
            self._settle()
        assert self._cut is not None
        return [*self._cut.feed(self._start), *self._cut.finish()]

    def wrap(self, body: bytes) -> bytes:
        """A message as it is sent to the peer."""
        if self.framing == "content-length":
            return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        return body + b"\n"

    def _begin(self, data: bytes) -> bytes:
        """Look at the first bytes until they tell the framing; gives what is then to be cut."""
        start = _NOTHING.sub(b"", self._start + data, count=1)
        head = start[:_LONGEST_HEAD].lower()
        if _BOM.startswith(start) or (self.framing == "auto" and _undecided(head)):
            self._start = start
            return b""
        self._start = b""
        self._settle(sized=head.startswith(_HEADS))
        return start

    def _settle(self, *, sized: bool = False) -> None:
        if self.framing == "auto":
            self.framing = "content-length" if sized else "newline"
        self._cut = _Sized(self._largest) if self.framing == "content-length" else _Lines(self._largest)


def _undecided(head: bytes) -> bool:
    return any(known.startswith(head) and known != head for known in _HEADS)


def _too_large(largest: int) -> Refused:
    return Refused(INVALID_REQUEST, f"The message exceeds limit: at most {largest} bytes.")


class _Lines:
    """A message a line. Empty lines are nothing; a line that is too long is refused once and skipped."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._too_large = _too_large(largest)
        #: The beginning of a line whose end has not come.
        self._parts: list[bytes] = []
        self._size = 0
        self._skipping = False

    def feed(self, data: bytes) -> list[Frame]:
        lines = data.split(b"\n")
        rest = lines.pop()
        frames: list[Frame] = []
        for line in lines:
            whole = self._joined(line) if self._size else line
            if len(whole) > self._largest:
                frames.append(self._too_large)
            elif whole and not whole.isspace():
                frames.append(whole)
        if rest and self._keep(rest):
            frames.append(self._too_large)
        return frames

    def finish(self) -> list[Frame]:
        return self.feed(b"\n")

    def _joined(self, end: bytes) -> bytes:
        """The line whose beginning came before; nothing when it has been refused."""
        line = b"" if self._skipping else b"".join([*self._parts, end])
        self._parts.clear()
        self._size = 0
        self._skipping = False
        return line

    def _keep(self, part: bytes) -> bool:
        """Keep the beginning of a line. True when it has just become too long."""
        self._size += len(part)
        if self._skipping:
            return False
        self._parts.append(part)
        if self._size > self._largest:
            self._skipping = True
            self._parts.clear()
        return self._skipping


class _Sized:
    """A `Content-Length` header before each message. A body that is too long is refused, and skipped precisely.

    After headers without a length nobody can know where the next frame begins: the next line that ends in a
    length is taken for its header.
    """

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._too_large = _too_large(largest)
        #: The end of the header line that is being read.
        self._line = bytearray()
        #: How many bytes the header block has so far, and whether there is a header among them.
        self._size = 0
        self._begun = False
        self._lengths: set[int] = set()
        self._stray = False
        self._lost = False
        self._body: list[bytes] = []
        #: How much of the body is still to come; None while headers are read.
        self._missing: int | None = None
        self._skipping = False

    def feed(self, data: bytes) -> list[Frame]:
        frames: list[Frame] = []
        at = 0
        while at < len(data):
            if self._missing is not None:
                part = data[at : at + self._missing]
                at += len(part)
                self._take(part, self._missing - len(part), frames)
                continue
            end = data.find(b"\n", at) + 1
            self._read(data[at : end or None], frames)
            if not end:
                break
            at = end
            self._end_line(frames)
        return frames

    def finish(self) -> list[Frame]:
        refused, inside = self._skipping, True
        if self._missing is None:
            refused, inside = self._lost, self._begun or bool(self._line.strip())
        return [_CUT_SHORT] if inside and not refused else []

    def _read(self, part: bytes, frames: list[Frame]) -> None:
        """Read a piece of a header line. Of a long one only the end can matter."""
        self._line += part
        if len(self._line) > 2 * _HEADERS:
            del self._line[:-_HEADERS]
        self._size += len(part)
        if self._size > _HEADERS and not self._lost:
            self._lost = True
            self._lengths.clear()
            frames.append(_LONG_HEADERS)

    def _end_line(self, frames: list[Frame]) -> None:
        line = bytes(self._line[-_HEADERS:]).rstrip(b"\n")
        self._line.clear()
        if not line.strip():
            self._end_block(frames)
            return
        self._begun = True
        found = _LENGTH.search(line)
        if found is None:
            return
        if self._lost:
            self._lengths.clear()
        self._lengths.add(int(found[1]))
        self._stray |= found.start() > 0

    def _end_block(self, frames: list[Frame]) -> None:
        begun, lengths, stray = self._begun, self._lengths, self._stray
        self._size, self._begun, self._lengths, self._stray = 0, False, set(), False
        if not begun:
            return
        if len(lengths) != 1:
            if not self._lost:
                frames.append(_NO_LENGTH)
            self._lost = True
            return
        if stray and not self._lost:
            frames.append(_STRAY)
        self._lost = False
        self._begin_body(lengths.pop(), frames)

    def _begin_body(self, length: int, frames: list[Frame]) -> None:
        self._skipping = length > self._largest
        if self._skipping:
            frames.append(self._too_large)
        self._take(b"", length, frames)

    def _take(self, part: bytes, missing: int, frames: list[Frame]) -> None:
        if not self._skipping:
            self._body.append(part)
        self._missing = missing
        if missing:
            return
        if not self._skipping:
            frames.append(b"".join(self._body))
        self._body.clear()
        self._missing = None
