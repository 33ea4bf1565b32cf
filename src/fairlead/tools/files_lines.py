"""Some lines of an open file, bounded in what is read and what is shown, however large the file is.

It knows descriptors and text, and no tool.
"""

from __future__ import annotations

import codecs
from typing import Final, NamedTuple

from fairlead.tools.fence import chunks

#: Bytes that are looked through, at most, to count lines.
SCANNED: Final = 64 * 1024 * 1024
#: From this share of unreadable characters on, text is none.
_NOISE: Final = 0.3
_WIDEST: Final = 4


class Binary(ValueError):
    """The content is not text."""


class Slice(NamedTuple):
    """The lines from `first` to `last`, both counted from 1; `last` is one less than `first` if there is none."""

    text: str
    first: int
    last: int
    total: int
    #: Whether the file was read to its end, so that `total` is all lines.
    exact: bool
    #: Whether lines that were asked for are left out.
    truncated: bool
    #: Whether the last line is cut.
    partial: bool
    #: Whether some of the bytes were not UTF-8.
    damaged: bool
    read: int

    @property
    def whole(self) -> bool:
        """Whether this is all there is in the file."""
        return self.exact and self.first == 1 and self.last >= self.total and not self.truncated


def lines_of(handle: int, first: int, last: int | None, cap: int) -> Slice:
    """Lines of an open file, at most `cap` characters of them; a line is cut only if it is too long alone.

    Raises:
        Binary: what was looked at is not text.
    """
    taken = _Taken(first, last, cap)
    for chunk in chunks(handle, SCANNED):
        if b"\0" in chunk:
            raise Binary
        taken.add(chunk)
    exact = taken.read < SCANNED or not list(chunks(handle, 1))
    text, damaged = _decoded(bytes(taken.kept), taken.full)
    shown, partial = _within(text, cap)
    count = shown.count("\n") + (not shown.endswith("\n") if shown else 0)
    truncated = len(shown) < len(text) or taken.full
    end = first + count - 1
    return Slice(
        shown.removeprefix("\ufeff"), first, end, taken.total, exact, truncated, partial, damaged, taken.read
    )


class _Taken:
    """What was taken of the chunks so far."""

    def __init__(self, first: int, last: int | None, cap: int) -> None:
        self.kept = bytearray()
        self.full = False
        self.read = 0
        self._skip = first - 1
        self._left = None if last is None else last - first + 1
        self._most = cap * _WIDEST
        self._newlines = 0
        self._end = b"\n"

    def add(self, chunk: bytes) -> None:
        self.read += len(chunk)
        self._end = chunk[-1:]
        newlines = chunk.count(b"\n")
        self._newlines += newlines
        if self._skip > newlines:
            self._skip -= newlines
            return
        start = _after(chunk, self._skip)
        self._skip = 0
        self._keep(chunk[start:])

    def _keep(self, chunk: bytes) -> None:
        if self._left == 0 or not chunk:
            return
        if self._left is not None:
            newlines = chunk.count(b"\n")
            if newlines >= self._left:
                chunk = chunk[: _after(chunk, self._left)]
                newlines = self._left
            self._left -= newlines
        room = self._most - len(self.kept)
        self.full |= len(chunk) > room
        self.kept += chunk[:room]

    @property
    def total(self) -> int:
        return self._newlines + (self._end != b"\n")


def _after(chunk: bytes, newlines: int) -> int:
    """Where the text after so many newlines begins."""
    at = 0
    for _ in range(newlines):
        at = chunk.index(b"\n", at) + 1
    return at


def _decoded(data: bytes, cut: bool) -> tuple[str, bool]:
    decoder = codecs.getincrementaldecoder("utf-8")
    try:
        # What is cut may end inside a character.
        return decoder().decode(data, final=not cut), False
    except UnicodeDecodeError:
        text = decoder(errors="replace").decode(data, final=not cut)
    if text.count("\ufffd") > _NOISE * len(text):
        raise Binary
    return text, True


def _within(text: str, cap: int) -> tuple[str, bool]:
    """The beginning of a text that fits, in whole lines if that is possible; whether it ends inside a line."""
    if len(text) <= cap:
        return text, False
    whole = text.rfind("\n", 0, cap) + 1
    return (text[:whole], False) if whole else (text[:cap], True)
