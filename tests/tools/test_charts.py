"""Charts: what can be drawn, what is refused, and that nothing in a label is more than text."""

from __future__ import annotations

import base64
import json
import re
import sys
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead import App
from fairlead.failures import tool
from fairlead.failures.tool import InvalidArgs
from fairlead.runtime import Result
from fairlead.tools.charts import END, START, Chart, Kind, as_png, chart, charts
from fairlead.tools.charts_scale import number, scale
from fairlead.tools.charts_svg import svg
from fairlead.tools.charts_text import as_text

SVG = "{http://www.w3.org/2000/svg}"
KINDS: list[Kind] = ["line", "bar", "area", "scatter", "pie"]


def app() -> App:
    made = App("office")
    made.add(charts())
    return made


async def render(**input: Any) -> Result:
    return await app().invoke("render_chart", input)


def sales(kind: Kind) -> Chart:
    rows: list[Any] = [{"name": "2026", "values": [3, 5, 4]}, {"name": "2025", "values": [2, 4, 6]}]
    return chart(kind, rows[:1] if kind == "pie" else rows, labels=["Jan", "Feb", "Mar"], title="Sales")


def marks(drawn: str, name: str) -> list[ET.Element]:
    return [each for each in ET.fromstring(drawn).iter(f"{SVG}{name}") if "fl-f" in each.get("class", "")]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_drawn_with_words_for_those_who_do_not_see_it(kind: Kind) -> None:
    root = ET.fromstring(svg(sales(kind)))
    assert root.get("role") == "img"
    assert root.findtext(f"{SVG}title") == "Sales"
    assert root.findtext(f"{SVG}desc", "").startswith(f"{kind.capitalize()} chart, ")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_form_for_terminals(kind: Kind) -> None:
    said = as_text(sales(kind), 60)
    assert said.startswith("Sales\n")
    assert all(len(line) <= 60 for line in said.splitlines())


@pytest.mark.parametrize("kind", KINDS)
async def test_the_tool_gives_a_drawing_a_text_and_an_artifact(kind: Kind) -> None:
    done = await render(kind=kind, series=[{"values": [1, 2]}], title="Ups & downs")
    assert done.data["kind"] == "chart"
    (artifact,) = done.artifacts
    assert (artifact["name"], artifact["mimeType"]) == ("ups-downs.svg", "image/svg+xml")
    assert base64.b64decode(artifact["uri"].partition(",")[2]).decode() == done.data["svg"]
    assert done.data["artifact"] == artifact["id"]
    assert done.data["text"].startswith("Ups & downs\n")


def block_of(text: str) -> dict[str, Any]:
    _, _, rest = text.partition(f"{START}\n")
    block, ended, after = rest.partition(f"\n{END}")
    assert (ended, after) == (f"\n{END}", "")
    told: dict[str, Any] = json.loads(block)
    return told


async def test_the_text_has_what_was_drawn_between_markers() -> None:
    title = f"Tea {END}"
    done = await render(
        kind="bar", title=title, labels=["May", "June"], series=[{"name": "a", "values": [3, None]}]
    )
    assert block_of(done.data["text"].replace(title, "Tea", 1)) == {
        "chartType": "bar",
        "title": title,
        "labels": ["May", "June"],
        "series": [{"name": "a", "values": [3.0, None]}],
    }
    large = await render(kind="line", series=[{"values": [0.123456789] * 5000}])
    assert block_of(large.data["text"]) == {"chartType": "line", "title": "", "truncated": True}


async def test_no_model_is_sent_the_drawing() -> None:
    given = {"kind": "bar", "series": [{"values": [1]}]}
    call = {"id": "c", "function": {"name": "render_chart", "arguments": json.dumps(given)}}
    told = await app().tools("openai", strict=False).execute(call)
    [made] = app().tools("ai-sdk").definitions.values()
    for result in (json.loads(told["content"])["result"], await made["execute"](given)):
        assert result["kind"] == "chart"
        assert START in result["text"]
        assert "svg" not in result


async def test_a_png_is_made_where_it_is_asked_for() -> None:
    pytest.importorskip("resvg_py")
    done = await render(kind="bar", series=[{"values": [1, 2]}], png=True, width=300, height=200)
    image = base64.b64decode(done.artifacts[1]["uri"].partition(",")[2])
    assert image[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(image[16:20], "big") == 600


def test_a_png_without_its_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(tool.Unavailable) as caught:
        as_png("<svg/>")
    assert "fairlead[charts]" in caught.value.message


EVIL = [
    "<script>alert(1)</script>",
    '"><image href="http://evil/x"/>',
    "</title></svg><svg onload=alert(1)>",
    "a & b < c > d ' e \" f",
    "]]><!--",
    "\x1b[2J\x1b]0;owned\x07 title",
    "right\u202eto left",
    "nul\x00 and \ud800 half",
]


@pytest.mark.parametrize("text", EVIL)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_in_a_label_is_more_than_text(kind: Kind, text: str) -> None:
    made = chart(
        kind,
        [{"name": text, "values": [1, 2]}],
        labels=[text, text],
        title=text,
        x_title=text,
        y_title=text,
    )
    names = {each.tag.removeprefix(SVG) for each in ET.fromstring(svg(made)).iter()}
    assert names <= {"svg", "title", "desc", "style", "rect", "text", "line", "path", "circle"}
    assert not any(
        key.startswith("on") or "href" in key
        for each in ET.fromstring(svg(made)).iter()
        for key in each.attrib
    )
    assert all(sign.isprintable() or sign == "\n" for sign in as_text(made))


@pytest.mark.parametrize(
    ("input", "field"),
    [
        ({}, "kind"),
        ({"kind": "donut", "series": [{"values": [1]}]}, "kind"),
        ({"kind": "bar", "series": []}, "series"),
        ({"kind": "bar", "series": [{"values": []}]}, "series[0].values"),
        ({"kind": "bar", "series": [{"values": [None]}]}, "series[0].values"),
        ({"kind": "bar", "series": [{"values": [1, 1e301]}]}, "series[0].values[1]"),
        ({"kind": "bar", "series": [{"values": [1], "x": [1]}]}, "series[0].x"),
        ({"kind": "line", "series": [{"values": [1], "x": [1, 2]}]}, "series[0].x"),
        ({"kind": "line", "series": [{"values": [1], "x": [1]}, {"values": [1]}]}, "series"),
        ({"kind": "line", "series": [{"values": [1, 2]}], "labels": ["one"]}, "labels"),
        ({"kind": "pie", "series": [{"values": [1]}, {"values": [1]}]}, "series"),
        ({"kind": "pie", "series": [{"values": [1, -1]}]}, "series[0].values"),
        ({"kind": "pie", "series": [{"values": [0, 0]}]}, "series[0].values"),
        ({"kind": "pie", "series": [{"values": [1] * 41}]}, "series"),
        ({"kind": "bar", "series": [{"values": [1] * 401}]}, "series"),
        ({"kind": "line", "series": [{"values": [1] * 10_001}]}, "series"),
        ({"kind": "line", "series": [{"values": [1]}] * 21}, "series"),
        ({"kind": "line", "series": [{"values": [1]}], "color": "red"}, "color"),
    ],
)
async def test_what_cannot_be_drawn_is_refused_by_name(input: dict[str, Any], field: str) -> None:
    done = await render(**input)
    assert done.failure is not None
    told = tool.render(done.failure, "render_chart")
    assert (told["kind"], told["field"]) == ("invalid_args", field)


async def test_an_unknown_key_inside_a_series_is_refused() -> None:
    done = await render(kind="bar", series=[{"values": [1], "colour": "red"}])
    assert done.failure is not None
    assert "colour" in str(tool.render(done.failure))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), "nan", "inf"])
async def test_what_is_no_number_is_refused(value: Any) -> None:
    done = await render(kind="bar", series=[{"values": [1, value]}])
    assert done.failure is not None
    assert tool.render(done.failure)["kind"] == "invalid_args"


async def test_arguments_that_a_weak_model_spells_as_text_are_read() -> None:
    done = await render(kind="BAR", series='[{"name": "a", "values": ["1", "2.5"]}]', width="300")
    assert done.unwrap()["chart"] == "bar"


def test_sizes_are_kept_within_bounds() -> None:
    tiny = chart("bar", [{"values": [1]}], width=1, height=-5)
    huge = chart("bar", [{"values": [1]}], width=10**9, height=10**9)
    assert (tiny.width, tiny.height) == (240, 160)
    assert (huge.width, huge.height) == (2000, 1500)


async def test_a_drawing_that_is_too_large_for_a_result_is_in_the_artifact() -> None:
    done = await render(kind="scatter", series=[{"values": list(range(10_000))}])
    assert "svg" not in done.data
    assert done.artifacts[0]["sizeBytes"] > 40_000


def test_each_value_has_its_bar_and_each_bar_its_words() -> None:
    drawn = svg(chart("bar", [{"name": "a", "values": [1, None, -3]}], labels=["x", "y", "z"]))
    bars = marks(drawn, "rect")
    assert [bar.findtext(f"{SVG}title") for bar in bars] == ["a, x: 1", "a, z: -3"]
    heights = [float(bar.get("height", "0")) for bar in bars]
    assert heights[1] == pytest.approx(3 * heights[0], rel=0.02)


def test_stacked_bars_stand_on_each_other() -> None:
    drawn = svg(chart("bar", [{"values": [2]}, {"values": [3]}], stacked=True))
    lower, upper = marks(drawn, "rect")
    assert float(upper.get("y", "0")) + float(upper.get("height", "0")) == pytest.approx(
        float(lower.get("y", "0")), abs=0.2
    )


def test_a_gap_in_a_line_stays_a_gap() -> None:
    drawn = svg(chart("line", [{"values": [1, 2, None, 3, 4]}]))
    lines = [each for each in ET.fromstring(drawn).iter(f"{SVG}path") if "fl-line" in each.get("class", "")]
    assert len(lines) == 2


def test_a_single_share_is_a_whole_ring() -> None:
    (ring,) = marks(svg(chart("pie", [{"values": [5, 0]}], labels=["all", "none"])), "path")
    assert ring.findtext(f"{SVG}title") == "all: 5 (100.0%)"
    assert ring.get("d", "").count("A") == 4


def test_bars_in_a_terminal_are_as_long_as_their_values() -> None:
    said = as_text(chart("bar", [{"values": [10, 5, -5]}], labels=["ten", "five", "less"]), 40)
    ten, five, less = said.splitlines()
    assert ten.count("█") == pytest.approx(2 * five.count("█"), abs=1)
    assert less.startswith("less │▒")
    assert (ten[-2:], five[-1:], less[-2:]) == ("10", "5", "-5")


def test_a_line_in_a_terminal_is_a_row_of_levels() -> None:
    said = as_text(chart("line", [{"name": "t", "values": [0, 1, 2, 3, 4, 5, 6, 7]}]), 60)
    assert said == "t ▁▂▃▄▅▆▇█ min 0  max 7  last 7"


def test_wide_letters_take_two_columns() -> None:
    first, second = as_text(chart("bar", [{"values": [1, 1]}], labels=["東京", "abcd"])).splitlines()
    assert (first[:3], second[:5]) == ("東京 ", "abcd ")


@pytest.mark.parametrize(
    ("value", "step", "said"),
    [
        (0, 0, "0"),
        (1200000, 0, "1,200,000"),
        (0.5, 0, "0.5"),
        (1250000, 250000, "1.25M"),
        (750000, 250000, "750k"),
        (2.5, 2.5, "2.5"),
        (5, 2.5, "5"),
        (2000, 500, "2,000"),
        (1e20, 0, "1e+20"),
    ],
)
def test_numbers_are_written_as_people_write_them(value: float, step: float, said: str) -> None:
    assert number(value, step) == said


FINITE = st.floats(-1e300, 1e300, allow_nan=False)


@settings(deadline=None)
@given(st.lists(FINITE, min_size=1, max_size=20), st.booleans())
def test_a_scale_holds_its_values_between_round_marks(values: list[float], zero: bool) -> None:
    made = scale(values, 0, 100, zero=zero)
    assert all(-0.001 <= made(value) <= 100.001 for value in values)
    assert 2 <= len(made.ticks) <= 13
    assert all(low < high for low, high in pairwise(made.ticks))


@settings(deadline=None)
@given(
    st.sampled_from(KINDS[:4]),
    st.lists(st.lists(FINITE | st.none(), min_size=1, max_size=8), min_size=1, max_size=4),
    st.booleans(),
    st.text(max_size=30),
    st.integers(30, 100),
)
def test_whatever_is_accepted_is_drawn(
    kind: Kind, rows: list[list[float | None]], stacked: bool, title: str, width: int
) -> None:
    try:
        made = chart(kind, [{"name": title, "values": row} for row in rows], title=title, stacked=stacked)
    except InvalidArgs:
        assert any(all(value is None for value in row) for row in rows)
        return
    drawn = svg(made)
    ET.fromstring(drawn)
    assert not re.search(r'="[^"]*(nan|inf)', drawn)
    assert as_text(made, width)
