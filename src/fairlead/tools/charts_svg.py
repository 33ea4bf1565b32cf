"""Charts as SVG: readable in light and dark, with words for those who do not see them, and no script in it.

Every text goes through one escape. Colours are classes with plain values, since not every reader of SVG knows
variables; a media rule turns them dark. Lines, bars and the like are in `charts_marks`; here is the frame around them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from unicodedata import east_asian_width

from fairlead.tools.charts import Chart
from fairlead.tools.charts_canvas import Canvas, Frame, shortened
from fairlead.tools.charts_marks import areas, bars, lines, pie, points
from fairlead.tools.charts_scale import Scale, number, scale

_COLOURS: Final = (
    "#4269d0 #f0a202 #e4572e #2a9d8f #8d5fd3 #3ca951 #e377a8 #5fa8d3 #9c6b4e #8a8f98".split()  # noqa: SIM905
)
_STYLE: Final = "".join(
    [
        ".fairlead-chart{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}",
        ".fl-bg{fill:#fff}.fl-title{fill:#1c2230;font-size:17px;font-weight:600}",
        ".fl-text{fill:#3a4252;font-size:12px}.fl-muted{fill:#667085;font-size:12px}",
        ".fl-big{fill:#1c2230;font-size:20px;font-weight:600}",
        ".fl-grid{stroke:#e7e9ee;stroke-width:1}.fl-axis{stroke:#aab1bd;stroke-width:1}",
        ".fl-line{fill:none;stroke-width:2.25;stroke-linejoin:round;stroke-linecap:round}",
        ".fl-soft{fill-opacity:.2}.fl-gap{stroke:#fff;stroke-width:1.5}",
        *(f".fl-f{at}{{fill:{colour}}}.fl-s{at}{{stroke:{colour}}}" for at, colour in enumerate(_COLOURS)),
        "@media (prefers-color-scheme:dark){",
        ".fl-bg{fill:#15181e}.fl-title,.fl-big{fill:#eef0f5}.fl-text{fill:#c9cfda}.fl-muted{fill:#98a1b1}",
        ".fl-grid{stroke:#2a2f39}.fl-axis{stroke:#525b6b}.fl-gap{stroke:#15181e}",
        ".fl-f0{fill:#6c8ef2}.fl-s0{stroke:#6c8ef2}}",
    ]
)
_MARGIN: Final = 20
#: Pixels of a column of 12-pixel text, about.
_COLUMN: Final = 6.6
_MOST_TURNED: Final = 24


@dataclass(frozen=True, slots=True)
class Layout:
    """How the labels of the x axis lie: every how many of them, how long, and whether they are turned."""

    every: int = 1
    longest: int = 22
    turned: bool = False


def svg(chart: Chart) -> str:
    """The chart as one SVG document."""
    canvas = Canvas()
    top = _head(canvas, chart)
    if chart.kind == "pie":
        pie(canvas, chart, top)
    else:
        _plot(canvas, chart, top)
    return _document(chart, canvas)


def _document(chart: Chart, canvas: Canvas) -> str:
    width, height = chart.width, chart.height
    named = Canvas.escaped(chart.title or f"{chart.kind.capitalize()} chart")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="fairlead-chart" role="img" width="{width}" '
        f'height="{height}" viewBox="0 0 {width} {height}"><title>{named}</title>'
        f"<desc>{Canvas.escaped(chart.described())}</desc><style>{_STYLE}</style>"
        f'<rect class="fl-bg" width="{width}" height="{height}" rx="8"/>{canvas}</svg>'
    )


def _head(canvas: Canvas, chart: Chart) -> float:
    """The title and the legend; gives where the rest begins."""
    top = float(_MARGIN)
    if chart.title:
        room = int((chart.width - 2 * _MARGIN) / 9)
        canvas.text(_MARGIN, top + 15, shortened(chart.title, room), "fl-title", whole=chart.title)
        top += 32
    if chart.kind != "pie" and any(series.name for series in chart.series) and len(chart.series) > 1:
        top = _legend(canvas, chart, top)
    return top


def _legend(canvas: Canvas, chart: Chart, top: float) -> float:
    x = float(_MARGIN)
    for index, series in enumerate(chart.series):
        name = shortened(series.name or f"Series {index + 1}", 28)
        needed = 18 + _wide(name) + 16
        if x > _MARGIN and x + needed > chart.width - _MARGIN:
            x, top = float(_MARGIN), top + 20
        canvas.rect(x, top + 1, 11, 11, f"fl-f{index % 10}", corner=3)
        canvas.text(x + 17, top + 11, name, "fl-text", whole=series.name)
        x += needed
    return top + 28


def _plot(canvas: Canvas, chart: Chart, top: float) -> None:
    if chart.y_title:
        canvas.text(_MARGIN, top + 10, shortened(chart.y_title, 60), "fl-muted")
        top += 22
    layout = _x_layout(chart)
    below = (74.0 if layout.turned else 26.0) + (20 if chart.x_title else 0)
    bottom = chart.height - _MARGIN / 2 - below
    y = _y_scale(chart, max(bottom, top + 40), top + 6)
    marks = [number(tick, y.step) for tick in y.ticks]
    left = max(_MARGIN + max(_wide(mark) for mark in marks) + 8, 72 if layout.turned else 0)
    right = chart.width - _MARGIN
    frame = Frame(left, right, y, _x_scale(chart, left, right))
    for tick, mark in zip(y.ticks, marks, strict=True):
        canvas.line(left, y(tick), right, y(tick), "fl-axis" if tick == 0 else "fl-grid")
        canvas.text(left - 8, y(tick) + 4, mark, "fl-muted", anchor="end")
    _x_axis(canvas, chart, frame, layout)
    if chart.x_title:
        middle = (left + right) / 2
        canvas.text(middle, chart.height - 12, shortened(chart.x_title, 60), "fl-muted", anchor="middle")
    {"bar": bars, "line": lines, "area": areas, "scatter": points}[chart.kind](canvas, chart, frame)


def _x_layout(chart: Chart) -> Layout:
    """How the labels of the x axis lie. Turned ones are for many bars; lines leave labels out."""
    if chart.numeric:
        return Layout()
    count = max(len(series.values) for series in chart.series)
    slot = (chart.width - 90) / count
    widest = max(_wide(chart.label(index)) for index in range(count))
    if widest + 10 <= slot or slot >= 76:
        return Layout(longest=max(6, int((slot - 10) / _COLUMN)))
    if chart.kind == "bar" and count <= _MOST_TURNED and slot >= 16:
        return Layout(turned=True, longest=14)
    return Layout(every=max(1, -int(-(min(widest, 120) + 14) // slot)), longest=18)


def _x_axis(canvas: Canvas, chart: Chart, frame: Frame, layout: Layout) -> None:
    floor = frame.y(frame.y.low)
    canvas.line(frame.left, floor, frame.right, floor, "fl-axis")
    if frame.x is not None:
        for tick in frame.x.ticks:
            canvas.line(frame.x(tick), floor, frame.x(tick), floor + 4, "fl-axis")
            canvas.text(frame.x(tick), floor + 19, number(tick, frame.x.step), "fl-muted", anchor="middle")
        return
    count = max(len(series.values) for series in chart.series)
    for index in range(0, count, layout.every):
        whole = chart.label(index)
        at = frame.place(index, count, banded=chart.kind == "bar")
        name = shortened(whole, layout.longest)
        if not layout.turned:
            # The outermost labels stay inside the drawing.
            half = _wide(name) / 2
            at = min(max(at, half + 4), chart.width - half - 4)
            canvas.text(at, floor + 19, name, "fl-muted", anchor="middle", whole=whole)
        else:
            canvas.text(at + 4, floor + 15, name, "fl-muted", anchor="end", turned=-38, whole=whole)


def _y_scale(chart: Chart, bottom: float, top: float) -> Scale:
    marks = 4 if bottom - top < 160 else 5
    values = [value for series in chart.series for value in series.values if value is not None]
    if chart.stacked:
        values += _sums(chart)
    return scale(values, bottom, top, zero=chart.kind in ("bar", "area"), marks=marks)


def _sums(chart: Chart) -> list[float]:
    """How far stacks reach, up and down."""
    count = max(len(series.values) for series in chart.series)
    columns = [
        [series.values[at] or 0.0 for series in chart.series if at < len(series.values)]
        for at in range(count)
    ]
    ups = [sum(value for value in column if value > 0) for column in columns]
    downs = [sum(value for value in column if value < 0) for column in columns]
    return ups + downs


def _x_scale(chart: Chart, left: float, right: float) -> Scale | None:
    if not chart.numeric:
        return None
    places = [place for series in chart.series for place in series.x or ()]
    return scale(places, left + 6, right - 6, marks=max(2, int((right - left) / 110)))


def _wide(text: str) -> float:
    return sum(2 if east_asian_width(sign) in "WF" else 1 for sign in text) * _COLUMN
