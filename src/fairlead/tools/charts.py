"""Charts: data in, a checked `Chart` out, and the tool `render_chart` that draws it.

    app.add(charts())

A chart is plain data. `charts_svg` draws it for screens, `charts_text` for terminals; neither decides what is allowed.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Annotated, Any, Final, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from fairlead import _json
from fairlead.actions import Action
from fairlead.failures.tool import InvalidArgs, Unavailable
from fairlead.runtime.context import Context

__all__ = ["charts"]

Kind = Literal["line", "bar", "area", "scatter", "pie"]

#: What one chart may hold; more cannot be read, and would make a drawing of any size.
MOST_SERIES: Final = 20
MOST_POINTS: Final = 10_000
MOST_BARS: Final = 400
MOST_SLICES: Final = 40
LONGEST_TEXT: Final = 200
#: Beyond this, differences of values are no longer numbers.
LARGEST: Final = 1e300
START: Final = "---CHART_START---"
END: Final = "---CHART_END---"
#: Characters of data that the text repeats; a model had them in its call.
_REPEATED: Final = 4_000
#: Characters of a drawing that the result carries; a larger one is in the artifact only.
LONGEST_SVG: Final = 40_000
WIDTHS: Final = (240, 2000)
HEIGHTS: Final = (160, 1500)


class SeriesData(TypedDict):
    """One row of values."""

    values: Annotated[list[float | None], Field(description="The values in order; null leaves a gap.")]
    name: NotRequired[Annotated[str, Field(description="What the legend calls it.")]]
    x: NotRequired[
        Annotated[
            list[float],
            Field(description="Where each value stands on the x axis; for scatter, line and area."),
        ]
    ]


@dataclass(frozen=True, slots=True)
class Series:
    """One row of values, and where each stands when the x axis is numeric."""

    name: str
    values: tuple[float | None, ...]
    x: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart that can be drawn. Make one with `chart`, which checks it."""

    kind: Kind
    series: tuple[Series, ...]
    labels: tuple[str, ...] = ()
    title: str = ""
    x_title: str = ""
    y_title: str = ""
    stacked: bool = False
    width: int = 720
    height: int = 420

    @property
    def numeric(self) -> bool:
        """Whether the x axis has numbers and not labels."""
        return any(series.x is not None for series in self.series)

    def label(self, index: int) -> str:
        return self.labels[index] if index < len(self.labels) else str(index + 1)

    def described(self) -> str:
        """The chart in a sentence, for those who do not see it."""
        rows = len(self.series)
        points = sum(len(series.values) for series in self.series)
        named = ", ".join(series.name for series in self.series[:6] if series.name)
        what = f"{self.kind.capitalize()} chart, {rows} series, {points} values"
        return f"{what}: {named}{', ...' if rows > 6 else ''}." if named else f"{what}."


def chart(
    kind: Kind,
    series: Sequence[SeriesData],
    *,
    labels: Sequence[str] = (),
    title: str = "",
    x_title: str = "",
    y_title: str = "",
    stacked: bool = False,
    width: int = 720,
    height: int = 420,
) -> Chart:
    """A chart from data; says which part of the data cannot be drawn, and why."""
    if not series:
        raise _wrong("series", "The chart has no series.", "at least one series with values")
    if len(series) > MOST_SERIES:
        raise _wrong("series", f"The chart has {len(series)} series.", f"at most {MOST_SERIES}")
    rows = tuple(_row(kind, index, each) for index, each in enumerate(series))
    made = Chart(
        kind,
        rows,
        tuple(_clean(label) for label in labels),
        _clean(title),
        _clean(x_title),
        _clean(y_title),
        stacked and kind in ("bar", "area"),
        min(max(width, WIDTHS[0]), WIDTHS[1]),
        min(max(height, HEIGHTS[0]), HEIGHTS[1]),
    )
    _check(made)
    return made


def charts() -> list[Action[..., Any]]:
    """The tool `render_chart`."""
    # A model has no use for the drawing; whoever shows the result to people has.
    return [
        Action(
            render_chart, side_effects="read", idempotency="idempotent", metadata={"not_for_models": ["svg"]}
        )
    ]


def render_chart(
    ctx: Context,
    kind: Annotated[Kind, "line and area: over time; bar: compare; pie: shares; scatter: pairs of numbers."],
    series: Annotated[list[SeriesData], 'Rows of values: [{"name": "2026", "values": [3, 5, 4]}].'],
    labels: Annotated[list[str] | None, "What each value stands for: months, names, groups."] = None,
    title: Annotated[str, "What the chart shows, in a few words."] = "",
    x_title: Annotated[str, "What the x axis counts."] = "",
    y_title: Annotated[str, "What the y axis counts, with its unit."] = "",
    stacked: Annotated[bool, "Bars and areas on top of each other."] = False,
    width: Annotated[int, "Pixels, 240 to 2000."] = 720,
    height: Annotated[int, "Pixels, 160 to 1500."] = 420,
    png: Annotated[bool, "Make a PNG image beside the SVG."] = False,
) -> dict[str, Any]:
    """Draw a chart from data: a line, bar, area, scatter or pie chart, as SVG and as text."""
    from fairlead.tools.charts_svg import svg
    from fairlead.tools.charts_text import as_text

    made = chart(
        kind,
        series,
        labels=labels or (),
        title=title,
        x_title=x_title,
        y_title=y_title,
        stacked=stacked,
        width=width,
        height=height,
    )
    drawn = svg(made)
    name = _file_name(made)
    artifact = ctx.artifacts.add(f"{name}.svg", data=drawn, mime_type="image/svg+xml", type="chart")
    if png:
        ctx.artifacts.add(f"{name}.png", data=as_png(drawn), mime_type="image/png", type="chart")
    told = {"kind": "chart", "chart": kind, "title": made.title, "description": made.described()}
    told |= {"artifact": artifact["id"], "text": f"{as_text(made)}\n{_block(made)}"}
    return told | ({"svg": drawn} if len(drawn) <= LONGEST_SVG else {})


def _block(made: Chart) -> str:
    """What was drawn, between the markers by which others find it in the text."""
    data: dict[str, Any] = {"chartType": made.kind, "title": made.title, "labels": made.labels}
    data |= {"xTitle": made.x_title, "yTitle": made.y_title, "stacked": made.stacked or None}
    rows = [{"name": row.name, "values": row.values, "x": row.x} for row in made.series]
    data["series"] = [{key: value for key, value in row.items() if value} for row in rows]
    told = _json.dumps({key: value for key, value in data.items() if value})
    if len(told) > _REPEATED:
        data = {"chartType": made.kind, "title": made.title, "truncated": True}
        told = _json.dumps(data)
    # No text of the data may be taken for a marker.
    told = told.replace("---", r"\u002d--")
    return f"{START}\n{told}\n{END}"


def as_png(drawn: str) -> bytes:
    """An SVG as a PNG image, twice as dense for sharp text."""
    try:
        import resvg_py
    except ImportError as exc:
        raise Unavailable(
            "A PNG image needs the charts extra: pip install 'fairlead[charts]'. The SVG needs nothing.",
            retryable=False,
            cause=exc,
        ) from exc
    return bytes(resvg_py.svg_to_bytes(svg_string=drawn, zoom=2))


def _row(kind: Kind, index: int, given: SeriesData) -> Series:
    where = f"series[{index}]"
    values = tuple(_number(f"{where}.values[{at}]", value) for at, value in enumerate(given["values"]))
    if all(value is None for value in values):
        raise _wrong(f"{where}.values", "The series has no values.", "at least one number")
    x = given.get("x")
    if x is None:
        return Series(_clean(given.get("name", "")), values)
    if kind not in ("scatter", "line", "area"):
        raise _wrong(f"{where}.x", f"A {kind} chart has labels on its x axis.", "`labels` and no `x`")
    if len(x) != len(values):
        raise _wrong(
            f"{where}.x", f"There are {len(x)} places for {len(values)} values.", "one place for each value"
        )
    places = tuple(_number(f"{where}.x[{at}]", place) or 0.0 for at, place in enumerate(x))
    return Series(_clean(given.get("name", "")), values, places)


def _check(made: Chart) -> None:
    points = sum(len(row.values) for row in made.series)
    most = {"bar": MOST_BARS, "pie": MOST_SLICES}.get(made.kind, MOST_POINTS)
    if points > most:
        raise _wrong(
            "series",
            f"A {made.kind} chart of {points} values cannot be read.",
            f"at most {most} values in all",
        )
    if made.kind == "pie":
        _check_pie(made)
    numeric = [row.x is not None for row in made.series]
    if any(numeric) and not all(numeric):
        raise _wrong(
            "series", "Some series say where their values stand and others do not.", "`x` for all, or none"
        )
    longest = max(len(row.values) for row in made.series)
    if made.labels and len(made.labels) != longest:
        raise _wrong(
            "labels", f"There are {len(made.labels)} labels for {longest} values.", "one label for each value"
        )


def _check_pie(made: Chart) -> None:
    if len(made.series) != 1:
        raise _wrong("series", "A pie shows the shares of one series.", "exactly one series")
    values = [value or 0.0 for value in made.series[0].values]
    if min(values) < 0 or sum(values) <= 0:
        raise _wrong(
            "series[0].values", "A pie needs shares of something.", "values of 0 or more, one above 0"
        )


def _number(field: str, value: float | None) -> float | None:
    if value is None:
        return None
    if not isfinite(value) or abs(value) > LARGEST:
        raise _wrong(field, "The value cannot be drawn.", "a finite number")
    return float(value)


def _clean(text: str) -> str:
    """A text without what terminals obey and XML forbids: controls, direction marks, halves of characters."""
    kept = "".join(
        " " if unicodedata.category(sign) in _UNSEEN else sign for sign in text[: 2 * LONGEST_TEXT]
    )
    return " ".join(kept.split())[:LONGEST_TEXT]


_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"})


def _file_name(made: Chart) -> str:
    words = "".join(sign if sign.isalnum() and sign.isascii() else " " for sign in made.title.lower()).split()
    return "-".join(words)[:60] or f"{made.kind}-chart"


def _wrong(field: str, message: str, expected: str) -> InvalidArgs:
    return InvalidArgs(message, field=field, expected=expected)
