"""Charts for terminals: bars of block characters, lines as rows of eighths, points on a grid. No colours."""

from __future__ import annotations

from typing import Final
from unicodedata import combining, east_asian_width

from fairlead.tools.charts import Chart, Series
from fairlead.tools.charts_scale import number, scale

_LEVELS: Final = "▁▂▃▄▅▆▇█"
_PARTS: Final = " ▏▎▍▌▋▊▉█"
_SIGNS: Final = "●○◆◇■□▲△"
_GRID_ROWS: Final = 12
#: Rows of bars; a terminal scrolls, but nobody reads more.
_MOST_BARS: Final = 60


def as_text(chart: Chart, width: int = 72) -> str:
    """The chart as lines of at most `width` columns (at least 30)."""
    width = max(30, width)
    draw = {"bar": _bars, "pie": _shares, "scatter": _points}.get(chart.kind, _lines)
    lines = [*([_cut(chart.title, width)] if chart.title else []), *draw(chart, width)]
    if chart.kind != "pie" and (axes := _axes(chart)):
        lines.append(_cut(axes, width))
    return "\n".join(line.rstrip() for line in lines)


def _bars(chart: Chart, width: int) -> list[str]:
    rows = []
    for index in range(max(len(series.values) for series in chart.series)):
        for series in chart.series:
            if index < len(series.values) and (value := series.values[index]) is not None:
                named = (
                    f"{chart.label(index)} {series.name}".strip()
                    if len(chart.series) > 1
                    else chart.label(index)
                )
                rows.append((named, value, number(value)))
    return _rows(rows, width)


def _shares(chart: Chart, width: int) -> list[str]:
    values = [value or 0.0 for value in chart.series[0].values]
    whole = sum(values)
    return _rows(
        [(chart.label(index), value, f"{value / whole:.1%}") for index, value in enumerate(values)], width
    )


def _rows(rows: list[tuple[str, float, str]], width: int) -> list[str]:
    shown = rows[:_MOST_BARS]
    names = min(max(_columns(name) for name, _, _ in shown), width // 3)
    room = width - names - max(len(said) for _, _, said in shown) - 4
    most = max(abs(value) for _, value, _ in shown) or 1.0
    lines = [f"{_padded(name, names)} │{_bar(value / most, room)} {said}" for name, value, said in shown]
    return lines if len(rows) <= _MOST_BARS else [*lines, f"... and {len(rows) - _MOST_BARS} more"]


def _bar(share: float, room: int) -> str:
    """A bar in eighths of a column; one below zero is hatched."""
    eighths = round(abs(share) * room * 8)
    if share < 0:
        return "▒" * max(1, eighths // 8)
    return "█" * (eighths // 8) + _PARTS[eighths % 8].strip()


def _lines(chart: Chart, width: int) -> list[str]:
    names = min(max(_columns(series.name) for series in chart.series), width // 4)
    every = [value for series in chart.series for value in series.values if value is not None]
    low, high = min(every), max(every)
    facts = [_facts(series) for series in chart.series]
    room = max(8, width - names - max(map(len, facts)) - 2)
    return [
        f"{_padded(series.name, names)} {_spark(series, low, high, room)} {said}".strip()
        for series, said in zip(chart.series, facts, strict=True)
    ]


def _facts(series: Series) -> str:
    values = [value for value in series.values if value is not None]
    return f"min {number(min(values))}  max {number(max(values))}  last {number(values[-1])}"


def _spark(series: Series, low: float, high: float, room: int) -> str:
    values = series.values
    columns = min(room, len(values))
    signs = []
    for column in range(columns):
        part = values[column * len(values) // columns : max((column + 1) * len(values) // columns, 1)]
        known = [value for value in part if value is not None]
        if not known:
            signs.append(" ")
            continue
        share = 0.5 if high == low else (sum(value / len(known) for value in known) - low) / (high - low)
        signs.append(_LEVELS[min(7, max(0, int(share * 8)))])
    return "".join(signs)


def _points(chart: Chart, width: int) -> list[str]:
    pairs = [
        (sign, series.x[at] if series.x is not None else float(at + 1), value)
        for sign, series in zip(_SIGNS * 3, chart.series, strict=False)
        for at, value in enumerate(series.values)
        if value is not None
    ]
    down = scale((value for _, _, value in pairs), _GRID_ROWS - 1, 0)
    edge = max(len(number(down.low, down.step)), len(number(down.high, down.step)))
    across = scale((x for _, x, _ in pairs), 0, width - edge - 3)
    grid = [[" "] * (width - edge - 2) for _ in range(_GRID_ROWS)]
    for sign, x, value in pairs:
        grid[round(down(value))][round(across(x))] = sign
    marks = {0: number(down.high, down.step), _GRID_ROWS - 1: number(down.low, down.step)}
    lines = [f"{marks.get(row, ''):>{edge}} │{''.join(signs)}" for row, signs in enumerate(grid)]
    left, right = number(across.low, across.step), number(across.high, across.step)
    lines.append(f"{'':>{edge}} └{'─' * (width - edge - 2)}")
    lines.append(f"{'':>{edge}}  {left}{right:>{width - edge - 2 - len(left)}}")
    named = [
        f"{sign} {series.name}" for sign, series in zip(_SIGNS * 3, chart.series, strict=False) if series.name
    ]
    return [*lines, _cut("  ".join(named), width)] if named else lines


def _axes(chart: Chart) -> str:
    """What the axes count, and from where to where the labels go where they are not shown."""
    told = []
    if chart.labels and chart.kind in ("line", "area"):
        told.append(f"{chart.labels[0]} to {chart.labels[-1]}")
    told += [f"x: {chart.x_title}"] if chart.x_title else []
    told += [f"y: {chart.y_title}"] if chart.y_title else []
    return "  ".join(told)


def _columns(text: str) -> int:
    return sum(0 if combining(sign) else 2 if east_asian_width(sign) in "WF" else 1 for sign in text)


def _cut(text: str, width: int) -> str:
    if _columns(text) <= width:
        return text
    while _columns(text) > width - 1:
        text = text[:-1]
    return text + "…"


def _padded(text: str, width: int) -> str:
    shown = _cut(text, width)
    return shown + " " * (width - _columns(shown))
