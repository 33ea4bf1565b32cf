"""The marks of a chart: bars, lines, areas, points and slices, drawn on a canvas within a frame."""

from __future__ import annotations

from collections.abc import Iterator
from math import cos, pi, sin
from typing import Final

from fairlead.tools.charts import Chart, Series
from fairlead.tools.charts_canvas import Canvas, Frame, short, shortened
from fairlead.tools.charts_scale import number

#: Marks that carry a hint each; more would make the drawing heavy.
_MOST_HINTS: Final = 600
#: Points of a line that are drawn as dots.
_MOST_DOTS: Final = 40
_MOST_SAID: Final = 14


def bars(canvas: Canvas, chart: Chart, frame: Frame) -> None:
    count = max(len(series.values) for series in chart.series)
    slot = (frame.right - frame.left) / count
    beside = 1 if chart.stacked else len(chart.series)
    width = min(slot * 0.74, 64.0 * beside) / beside
    said = len(chart.series) == 1 and count <= _MOST_SAID and width >= 22
    for at in range(count):
        middle = frame.place(at, count, banded=True)
        up = down = 0.0
        for index, series in enumerate(chart.series):
            value = series.values[at] if at < len(series.values) else None
            if value is None:
                continue
            base = 0.0 if not chart.stacked else up if value >= 0 else down
            left = middle - width * beside / 2 + (0 if chart.stacked else index * width)
            _bar(canvas, frame, left, width, base, value, index, _hint(chart, series, at, value))
            up, down = (up + value, down) if value >= 0 else (up, down + value)
            if said:
                above = frame.y(value) - 6 if value >= 0 else frame.y(value) + 15
                canvas.text(middle, above, number(value), "fl-text", anchor="middle")


def _bar(
    canvas: Canvas, frame: Frame, left: float, width: float, base: float, value: float, index: int, hint: str
) -> None:
    ends = sorted((frame.y(base), frame.y(base + value)))
    inner = max(width - (2 if width > 8 else 0.4), 0.5)
    height = max(ends[1] - ends[0], 0.5)
    canvas.rect(
        left + (width - inner) / 2,
        ends[0],
        inner,
        height,
        f"fl-f{index % 10}",
        corner=min(3, inner / 4),
        hint=hint,
    )


def lines(canvas: Canvas, chart: Chart, frame: Frame) -> None:
    for index, series in enumerate(chart.series):
        for run in _runs(chart, frame, series):
            canvas.path(_joined(run), f"fl-line fl-s{index % 10}")
            if len(run) == 1:
                canvas.circle(*run[0], 3, f"fl-f{index % 10}")
        _dots(canvas, chart, frame, index, series)


def areas(canvas: Canvas, chart: Chart, frame: Frame) -> None:
    """The area below each line. Stacked, each stands on the one before."""
    if chart.stacked and not chart.numeric:
        _stacked_areas(canvas, chart, frame)
        return
    ground = frame.y(min(max(0.0, frame.y.low), frame.y.high))
    for index, series in enumerate(chart.series):
        for run in _runs(chart, frame, series):
            below = f"L{short(run[-1][0])} {short(ground)}L{short(run[0][0])} {short(ground)}Z"
            canvas.path(_joined(run) + below, f"fl-soft fl-f{index % 10}")
    lines(canvas, chart, frame)


def _stacked_areas(canvas: Canvas, chart: Chart, frame: Frame) -> None:
    count = max(len(series.values) for series in chart.series)
    level = [0.0] * count
    for index, series in enumerate(chart.series):
        under = [(frame.place(at, count, banded=False), frame.y(level[at])) for at in range(count)]
        for at, value in enumerate(series.values):
            level[at] += value or 0.0
        over = [(frame.place(at, count, banded=False), frame.y(level[at])) for at in range(count)]
        body = _joined(over) + "".join(f"L{short(x)} {short(y)}" for x, y in reversed(under)) + "Z"
        canvas.path(body, f"fl-f{index % 10} fl-gap", hint=series.name)


def points(canvas: Canvas, chart: Chart, frame: Frame) -> None:
    for index, series in enumerate(chart.series):
        for at, x, y, value in _places(chart, frame, series):
            canvas.circle(x, y, 4, f"fl-f{index % 10} fl-gap", hint=_hint(chart, series, at, value))


def pie(canvas: Canvas, chart: Chart, top: float) -> None:
    """A ring with its slices named beside it."""
    values = [value or 0.0 for value in chart.series[0].values]
    whole = sum(values)
    radius = min((chart.height - top - 20) / 2, chart.width * 0.28)
    x, y = 24 + radius, top + (chart.height - top - 12) / 2
    start = 0.0
    for index, value in enumerate(values):
        share = value / whole
        hint = f"{chart.label(index)}: {number(value)} ({share:.1%})"
        if share > 0:
            canvas.path(_slice(x, y, radius, start, share), f"fl-f{index % 10} fl-gap", hint=hint)
        start += share
    if radius >= 70:
        canvas.text(x, y + 3, number(whole), "fl-big", anchor="middle")
        canvas.text(x, y + 21, shortened(chart.series[0].name or "total", 16), "fl-muted", anchor="middle")
    _pie_legend(canvas, chart, values, whole, x + radius + 32, top)


def _pie_legend(
    canvas: Canvas, chart: Chart, values: list[float], whole: float, left: float, top: float
) -> None:
    rows = max(1, int((chart.height - top - 24) / 22))
    shown = len(values) if len(values) <= rows else rows - 1
    y = top + max(0.0, (chart.height - top - 12 - 22 * min(len(values), rows)) / 2)
    room = max(6, int((chart.width - left - 90) / 6.6))
    widest = max(len(shortened(chart.label(index), room)) for index in range(shown)) if shown else 0
    right = min(chart.width - 24.0, left + 18 + max(widest * 7, 60) + 70)
    for index in range(shown):
        canvas.rect(left, y, 11, 11, f"fl-f{index % 10}", corner=3)
        canvas.text(
            left + 18, y + 10, shortened(chart.label(index), room), "fl-text", whole=chart.label(index)
        )
        canvas.text(right, y + 10, f"{values[index] / whole:.1%}", "fl-muted", anchor="end")
        y += 22
    if shown < len(values):
        canvas.text(left + 18, y + 10, f"and {len(values) - shown} more", "fl-muted")


def _slice(x: float, y: float, radius: float, start: float, share: float) -> str:
    """One part of a ring. A whole ring is two halves, since an arc cannot end where it begins."""
    if share > 0.9999:
        return _slice(x, y, radius, 0, 0.5) + _slice(x, y, radius, 0.5, 0.5)
    inner, large = radius * 0.58, int(share > 0.5)
    first, last = 2 * pi * start - pi / 2, 2 * pi * (start + share) - pi / 2
    a, b = _at(x, y, radius, first), _at(x, y, radius, last)
    c, d = _at(x, y, inner, last), _at(x, y, inner, first)
    r, i = short(radius), short(inner)
    return f"M{a}A{r} {r} 0 {large} 1 {b}L{c}A{i} {i} 0 {large} 0 {d}Z"


def _at(x: float, y: float, radius: float, angle: float) -> str:
    return f"{x + radius * cos(angle):.2f} {y + radius * sin(angle):.2f}"


def _places(chart: Chart, frame: Frame, series: Series) -> Iterator[tuple[int, float, float, float]]:
    """Each value that is there: its number, its place and itself."""
    count = max(len(each.values) for each in chart.series)
    for at, value in enumerate(series.values):
        if value is not None:
            across = (
                frame.x(series.x[at])
                if frame.x is not None and series.x is not None
                else frame.place(at, count, banded=False)
            )
            yield at, across, frame.y(value), value


def _runs(chart: Chart, frame: Frame, series: Series) -> list[list[tuple[float, float]]]:
    """The line's parts between its gaps."""
    runs: list[list[tuple[float, float]]] = []
    before = -2
    for at, x, y, _ in _places(chart, frame, series):
        if at != before + 1:
            runs.append([])
        runs[-1].append((x, y))
        before = at
    return runs


def _joined(run: list[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{short(x)} {short(y)}" for x, y in run)


def _dots(canvas: Canvas, chart: Chart, frame: Frame, index: int, series: Series) -> None:
    if len(series.values) <= _MOST_DOTS:
        for at, x, y, value in _places(chart, frame, series):
            canvas.circle(x, y, 3.2, f"fl-f{index % 10}", hint=_hint(chart, series, at, value))


def _hint(chart: Chart, series: Series, at: int, value: float) -> str:
    if sum(len(each.values) for each in chart.series) > _MOST_HINTS:
        return ""
    place = chart.label(at) if series.x is None else number(series.x[at])
    return f"{series.name}, {place}: {number(value)}" if series.name else f"{place}: {number(value)}"
