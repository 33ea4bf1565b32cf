"""Reading server-sent events as they arrive, in whatever pieces, with bounded memory.

It follows the event stream format of the HTML standard. It knows nothing of actions or connections.
"""

from __future__ import annotations

from typing import NamedTuple

#: Bytes that one event may have: the result of a call comes as one.
LARGEST = 64 * 1024 * 1024
_MARK = b"\xef\xbb\xbf"


class TooLong(ValueError):
    """One event is larger than the reader is ready to hold."""


class Message(NamedTuple):
    """One event: its type, its data, and the last id that was told."""

    type: str
    data: str
    id: str


class Reader:
    """Feed it bytes, and it gives the events that are complete."""

    def __init__(self, largest: int = LARGEST) -> None:
        self._largest = largest
        #: The line that has begun.
        self._line = bytearray()
        self._after_return = False
        self._begun = False
        self._data: list[bytes] = []
        self._data_size = 0
        self._type = b""
        self._id = b""

    def feed(self, piece: bytes) -> list[Message]:
        """The events that this piece completes. Raises TooLong."""
        if not piece:
            return []
        if self._after_return and piece.startswith(b"\n"):
            piece = piece[1:]
        self._after_return = piece.endswith(b"\r")
        messages: list[Message] = []
        for part in piece.splitlines(keepends=True):
            line = part.rstrip(b"\r\n")
            self._line += line
            if len(self._line) + self._data_size > self._largest:
                raise TooLong(f"One event of the stream is longer than {self._largest} bytes.")
            if len(line) < len(part):
                self._end_line(messages)
        return messages

    def _end_line(self, messages: list[Message]) -> None:
        line = bytes(self._line)
        self._line.clear()
        if not self._begun:
            self._begun = True
            line = line.removeprefix(_MARK)
        if line:
            self._field(line)
        else:
            self._dispatch(messages)

    def _field(self, line: bytes) -> None:
        # A comment has the empty name, and leaves nothing behind.
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._data_size += len(value) + 1
        elif name == b"event":
            self._type = value
        elif name == b"id" and b"\0" not in value:
            self._id = value

    def _dispatch(self, messages: list[Message]) -> None:
        if self._data:
            told = (self._type or b"message", b"\n".join(self._data), self._id)
            messages.append(Message(*(part.decode(errors="replace") for part in told)))
        self._data.clear()
        self._data_size = 0
        self._type = b""
