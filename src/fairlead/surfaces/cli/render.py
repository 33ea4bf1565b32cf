"""Data as people read it: a table for a list of objects, lines for an object, text for the rest."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from fairlead.surfaces.cli.console import BOLD, CYAN, DIM, Console, harmless, harmless_json

_GAP = "  "
_NARROWEST = 6


def for_people(data: Any, console: Console) -> str:
    """The rendering for someone at a terminal who asked for nothing else."""
    if is_table(data):
        return table(data, console)
    if isinstance(data, dict):
        return _pairs(data, console)
    return text(data, console) if data != [] else console.out("(nothing)", DIM)


def table(data: Any, console: Console, whole: Collection[str] = ()) -> str:
    """Rows and columns. A list of anything else has one column, an object two; one value stays alone.

    Rows with more columns than a terminal has room for are shown one below the other. The columns in `whole` are
    never cut, because people copy what is in them.
    """
    if isinstance(data, dict):
        rows = [[_cell(str(key)), _cell(value)] for key, value in data.items()]
        return _grid(["field", "value"], rows, console)
    if not isinstance(data, list):
        return text(data, console)
    if not data:
        return console.out("(nothing)", DIM)
    if not is_table(data):
        return _grid(["value"], [[_cell(item)] for item in data], console)
    names = list(dict.fromkeys(name for row in data for name in row))
    rows = [[_cell(row.get(name)) for name in names] for row in data]
    if console.out_tty and _least(names, rows, whole) > console.width:
        return "\n\n".join(_pairs(row, console) for row in data)
    return _grid(names, rows, console, whole)


def text(data: Any, console: Console) -> str:
    """One line for each item of a list, `key: value` lines for an object, one value as it is."""
    if isinstance(data, list):
        return "\n".join(line(item, console) for item in data)
    if isinstance(data, dict):
        return "\n".join(f"{_name(key, console)}: {line(value, console)}" for key, value in data.items())
    return line(data, console)


def is_table(data: Any) -> bool:
    return isinstance(data, list) and bool(data) and all(isinstance(row, dict) and row for row in data)


def line(value: Any, console: Console) -> str:
    """A value on one line of its own."""
    if value is None:
        return ""
    if isinstance(value, str):
        return harmless(value) if console.out_tty else value
    return console.json(value)


def _name(key: Any, console: Console) -> str:
    return _cell(str(key)) if console.out_tty else str(key)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    shown = value if isinstance(value, str) else harmless_json(value)
    return harmless(" ".join(shown.split()) if "\n" in shown or "\t" in shown else shown)


def _pairs(data: dict[str, Any], console: Console) -> str:
    if not data:
        return console.out("(nothing)", DIM)
    names = [_cell(str(key)) for key in data]
    wide = min(max(map(cells, names)), console.width // 2)
    lines = []
    for name, value in zip(names, data.values(), strict=True):
        shown = harmless(value if isinstance(value, str) else "" if value is None else _nested(value))
        indent = " " * (wide + len(_GAP))
        lines.append(console.out(_padded(name, wide), CYAN) + _GAP + shown.replace("\n", "\n" + indent))
    return "\n".join(line.rstrip() for line in lines)


def _nested(value: Any) -> str:
    flat = harmless_json(value)
    return flat if len(flat) <= 60 else harmless_json(value, indent=True)


def _grid(names: list[str], rows: list[list[str]], console: Console, whole: Collection[str] = ()) -> str:
    headings = [_cell(name) for name in names]
    widths = [max(map(cells, column)) for column in zip(headings, *rows, strict=True)]
    if console.out_tty:
        cut = [index for index, name in enumerate(names) if name not in whole]
        taken = sum(widths[index] + len(_GAP) for index in range(len(names)) if index not in cut)
        fitted = _fitted([widths[index] for index in cut], console.width - taken)
        for index, width in zip(cut, fitted, strict=True):
            widths[index] = width
    lines = [console.out(_row(headings, widths), BOLD), *(_row(row, widths) for row in rows)]
    return "\n".join(lines)


def _least(names: list[str], rows: list[list[str]], whole: Collection[str]) -> int:
    """The narrowest that a table can be made."""
    columns = zip(names, *rows, strict=True)
    widths = [max(map(cells, column)) if column[0] in whole else _NARROWEST for column in columns]
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _row(row: list[str], widths: list[int]) -> str:
    return _GAP.join(_padded(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _fitted(widths: list[int], width: int) -> list[int]:
    """Take from the widest columns until the table fits."""
    room = width - len(_GAP) * (len(widths) - 1)
    while widths and sum(widths) > room and max(widths) > _NARROWEST:
        widest = max(widths)
        next_widest = max((each for each in widths if each < widest), default=_NARROWEST)
        wide = [index for index, each in enumerate(widths) if each == widest]
        share = -(-(sum(widths) - room) // len(wide))
        for index in wide:
            widths[index] = max(next_widest, widest - share, _NARROWEST)
    return widths


def _padded(text: str, width: int) -> str:
    if cells(text) > width:
        text = _cut(text, width)
    return text + " " * (width - cells(text))


def _cut(text: str, width: int) -> str:
    while text and cells(text) > width - 1:
        text = text[: -max(1, (cells(text) - width + 1) // 2)]
    return text + "…"


def cells(text: str) -> int:
    """How many cells of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from unicodedata import category, east_asian_width

    return sum(
        0 if category(char) in ("Mn", "Me", "Cf") else 2 if east_asian_width(char) in "WF" else 1
        for char in text
    )
