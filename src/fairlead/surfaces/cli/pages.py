"""Help pages: headings, paragraphs and rows of two columns, coloured where that is wanted."""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.surfaces.cli.console import BOLD, CYAN, Console, Paint
from fairlead.surfaces.cli.render import cells

Row = tuple[str, str]
_WIDEST = 100
_COLUMN = 30


class Page:
    """A page under construction."""

    def __init__(self, console: Console, paint: Paint | None = None) -> None:
        self._paint = paint or console.out
        self._width = max(40, min(console.width, _WIDEST))
        self._blocks: list[str] = []

    def paragraph(self, text: str) -> None:
        self._blocks.append("\n".join(_wrapped(text, self._width)))

    def usage(self, *forms: str) -> None:
        head = "Usage: "
        lines = [(head if not index else " " * len(head)) + form for index, form in enumerate(forms)]
        lines[0] = self._paint(head, BOLD) + lines[0][len(head) :]
        self._blocks.append("\n".join(lines))

    def section(self, title: str, rows: Iterable[Row]) -> None:
        """A heading with rows under it; nothing when there are no rows."""
        listed = list(rows)
        if not listed:
            return
        column = min(_COLUMN, self._width // 3, max(cells(left) for left, _ in listed)) + 4
        lines = [self._paint(f"{title}:", BOLD)]
        for left, right in listed:
            lines += self._row(left, right, column)
        self._blocks.append("\n".join(lines))

    def lines(self, title: str, lines: Iterable[str]) -> None:
        """A heading with lines under it that are not wrapped."""
        self._blocks.append("\n".join([self._paint(f"{title}:", BOLD), *(f"  {line}" for line in lines)]))

    def text(self) -> str:
        return "\n\n".join(self._blocks) + "\n"

    def _row(self, left: str, right: str, column: int) -> list[str]:
        shown = "  " + self._paint(left, CYAN)
        words = _wrapped(right, self._width - column) or [""]
        room = column - 2 - cells(left)
        indent = " " * column
        if room < 2:
            return [shown, *(indent + line for line in words if line)]
        first = shown + " " * room + words[0]
        return [first.rstrip() if not words[0] else first, *(indent + line for line in words[1:])]


def _wrapped(text: str, width: int) -> list[str]:
    import textwrap

    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
