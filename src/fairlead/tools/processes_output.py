"""What a process prints, within bounds: decoded, masked, and kept by its ends or in a log of limited size.

Everything here is called from one thread at a time. It does not know processes.
"""

from __future__ import annotations

import codecs
import contextlib
import os
from typing import Final, Protocol

from fairlead.failures.tool import truncate
from fairlead.tools.masking import Mask

#: The share of a text's beginning in what is kept of it.
HEAD: Final = 0.4
#: Characters of the end that whoever looks on sees.
TAIL: Final = 600
_DROPPED: Final = b"[the older part of this log was dropped]\n"


class Kept:
    """The beginning and the end of a text of any length, in memory that does not grow with it."""

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._start: list[str] = []
        self._room = cap
        self._end = ""
        self.total = 0

    def add(self, text: str) -> None:
        self.total += len(text)
        if self._room:
            first = text[: self._room]
            self._start.append(first)
            self._room -= len(first)
            text = text[len(first) :]
        if text:
            self._end = (self._end + text)[-self._cap :]

    def text(self, *, trim: bool = False) -> str:
        """The text, or what a model is shown of a long one; `trim` takes blanks from both ends."""
        start = "".join(self._start)
        if self.total <= 2 * self._cap:
            whole = start + self._end
            return truncate(whole.strip() if trim else whole, self._cap, head=HEAD)
        end = self._end
        if trim:
            start, end = start.lstrip(), end.rstrip()
        first = int(self._cap * HEAD)
        omitted = f"\n... [{self.total - self._cap} of {self.total} characters omitted] ...\n"
        return start[:first] + omitted + end[-(self._cap - first) :]


class Tail:
    """The end of what was printed lately, for whoever looks on. Another thread may read it."""

    def __init__(self) -> None:
        self.text = ""
        #: Grows with each piece, so that a reader sees whether there is something new.
        self.pieces = 0

    def add(self, text: str) -> None:
        self.text = (self.text + text)[-TAIL:]
        self.pieces += 1

    @property
    def line(self) -> str:
        """The last line that says something; a line that was drawn over counts as its last drawing."""
        for line in reversed(self.text.replace("\r", "\n").split("\n")):
            if line.strip():
                return line.strip()[-200:]
        return ""


class Target(Protocol):
    """Where decoded, masked text goes."""

    def add(self, text: str) -> None: ...


class Printed:
    """One stream of a process: bytes in, masked text out. What is no UTF-8 becomes a replacement character."""

    def __init__(self, mask: Mask, *targets: Target) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pieces = mask.pieces()
        self._targets = targets

    def feed(self, data: bytes) -> None:
        self._tell(self._pieces.feed(self._decoder.decode(data)))

    def close(self) -> None:
        self._tell(self._pieces.feed(self._decoder.decode(b"", final=True)) + self._pieces.close())

    def _tell(self, text: str) -> None:
        if text:
            for target in self._targets:
                target.add(text)


class Log:
    """A file of at most `limit` bytes: when it is full, its older half makes room. Owns the descriptor."""

    def __init__(self, descriptor: int, limit: int) -> None:
        self._file = descriptor
        self._limit = limit
        self._size = 0

    def add(self, text: str) -> None:
        data = text.encode(errors="replace")[-self._limit // 2 :]
        # A disk that is full must not stop the process that prints.
        with contextlib.suppress(OSError):
            if self._size + len(data) > self._limit:
                self._shrink()
            self._write(data)

    def _shrink(self) -> None:
        kept = self._limit // 2 - len(_DROPPED)
        newer = os.pread(self._file, kept, max(0, self._size - kept))
        os.ftruncate(self._file, 0)
        self._size = 0
        self._write(_DROPPED + newer[newer.find(b"\n") + 1 :])

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            written = os.pwrite(self._file, view, self._size)
            self._size += written
            view = view[written:]

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._file)
