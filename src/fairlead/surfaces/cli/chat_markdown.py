"""Markdown as it is written, for a terminal with colours: fences, headings, lists, bold and code.

A piece of it is held back only until it is known what it is, so that nothing has to be taken back. What turns out to
be no markup stays as it was written. It knows nothing of terminals but how text is coloured.
"""

from __future__ import annotations

import re
from typing import Final

from fairlead.surfaces.cli.console import BOLD, CYAN, DIM, Paint

#: The beginning of a line of which cannot be said yet what it will be.
_UNDECIDED: Final = re.compile(r"[ \t]*(?:`{0,2}|~{0,2}|(?:#{1,6}|[-*+]|\d{1,9}[.)]?)[ \t]*|>)?")
_FENCE: Final = re.compile(r"[ \t]*(`{3,}|~{3,})")
_HEADING: Final = re.compile(r"(#{1,6})[ \t]+")
_BULLET: Final = re.compile(r"([ \t]*)[-*+][ \t]+")
_NUMBER: Final = re.compile(r"([ \t]*)(\d{1,9}[.)])([ \t]+)")
_QUOTE: Final = re.compile(r"([ \t]*)>[ \t]?")
_MARK: Final = re.compile(r"\n|`+|\*+")
#: Characters that are waited for until a mark is closed.
_LONGEST: Final = 400


class Markdown:
    """Styles one text, piece by piece."""

    def __init__(self, paint: Paint, bullet: str = "•", bar: str = "│") -> None:
        self._paint = paint
        self._bullet = bullet
        self._bar = bar
        self._held = ""
        #: Whether what is held begins a line.
        self._fresh = True
        #: The fence that would close the code that is being written.
        self._fence = ""
        self._style: tuple[str, ...] = ()

    def feed(self, text: str) -> str:
        """Add a piece; gives what can be shown by now."""
        self._held += text
        return self._decided(final=False)

    def end(self) -> str:
        """Whatever is still held back."""
        shown = self._decided(final=True)
        self._fresh, self._fence, self._style = True, "", ()
        return shown

    def _decided(self, *, final: bool) -> str:
        shown = []
        while self._held:
            step = self._line_begin if self._fresh else self._code if self._fence else self._inline
            piece = step(final)
            if piece is None:
                break
            shown.append(piece)
        return "".join(shown)

    def _take(self, length: int) -> str:
        taken, self._held = self._held[:length], self._held[length:]
        return taken

    def _line_begin(self, final: bool) -> str | None:
        held = self._held
        if held[0] == "\n":
            return self._take(1)
        whole = final or "\n" in held
        fence = _FENCE.match(held)
        if fence is not None and (not self._fence or fence[1].startswith(self._fence)):
            return self._fence_line(fence[1]) if whole else None
        if not whole and _UNDECIDED.fullmatch(held):
            return None
        self._fresh = False
        return "" if self._fence else self._opening(held)

    def _fence_line(self, mark: str) -> str:
        line = self._take((self._held + "\n").index("\n"))
        if not self._fence:
            self._fence = mark
        elif line.strip() == mark:
            self._fence = ""
        self._fresh = False
        self._style = ()
        return self._paint(line, DIM)

    def _opening(self, held: str) -> str:
        if found := _HEADING.match(held):
            self._style = (BOLD,)
            self._take(found.end())
            return ""
        if found := _BULLET.match(held):
            self._take(found.end())
            return f"{found[1]}{self._paint(self._bullet, CYAN)} "
        if found := _NUMBER.match(held):
            self._take(found.end())
            return f"{found[1]}{self._paint(found[2], CYAN)}{found[3]}"
        if found := _QUOTE.match(held):
            self._take(found.end())
            return f"{found[1]}{self._paint(self._bar, DIM)} "
        return ""

    def _code(self, final: bool) -> str:
        end = self._held.find("\n")
        if end == 0:
            return self._newline()
        return self._paint(self._take(len(self._held) if end < 0 else end), CYAN)

    def _newline(self) -> str:
        self._fresh = True
        self._style = ()
        return self._take(1)

    def _inline(self, final: bool) -> str | None:
        found = _MARK.search(self._held)
        if found is None:
            return self._plain(len(self._held))
        if found.start():
            return self._plain(found.start())
        mark = found[0]
        if mark == "\n":
            return self._newline()
        if not final and len(mark) == len(self._held):
            return None  # it may become longer
        if mark != "**" and mark[0] == "*":
            return self._plain(len(mark))
        return self._span(mark, final)

    def _plain(self, length: int) -> str:
        return self._paint(self._take(length), *self._style)

    def _span(self, mark: str, final: bool) -> str | None:
        """Bold text or code, once it is known to be closed on its line."""
        held, size = self._held, len(mark)
        if len(held) == size or (mark == "**" and held[size].isspace()):
            return self._plain(size)
        line_end = held.find("\n")
        limit = line_end if line_end >= 0 else len(held)
        close = _closing(held, mark, limit)
        if close >= 0 and (close + size < len(held) or final):
            text = self._take(close + size)[size:-size]
            return self._paint(text, BOLD if mark == "**" else CYAN, *self._style)
        if final or line_end >= 0 or len(held) > _LONGEST:
            return self._plain(size)
        return None


def _closing(held: str, mark: str, limit: int) -> int:
    """Where the mark is closed by one of the same length, or -1."""
    for found in _MARK.finditer(held, len(mark), limit):
        if found[0] == mark and not (mark == "**" and held[found.start() - 1].isspace()):
            return found.start()
    return -1
