"""What an action returns: checked, made JSON, or refused with the place and the reason."""

import enum
from collections import OrderedDict, defaultdict
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from fairlead import App, s
from fairlead._json import dumps, loads
from fairlead.runtime import Result


class Task(BaseModel):
    title: str
    due: date | None = None


@dataclass
class Point:
    x: int
    y: int


class Color(enum.Enum):
    red = "r"


async def give(value: Any, **options: Any) -> Result:
    app = App("x")

    async def act() -> Any:
        return value

    app.add(act, name="act", description="Act.", **options)
    return await app.invoke("act")


def circular() -> Any:
    loop: dict[str, Any] = {}
    loop["again"] = [loop]
    return loop


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (None, None),
        (True, True),
        (0, 0),
        (1.5, 1.5),
        ("é\u2028\x00", "é\u2028\x00"),
        ([], []),
        ((1, 2), [1, 2]),
        ({"a": {"b": [None]}}, {"a": {"b": [None]}}),
        (OrderedDict(a=1), {"a": 1}),
        (defaultdict(int, a=1), {"a": 1}),
        (Task(title="x"), {"title": "x", "due": None}),
        ([Task(title="x", due=date(2024, 1, 2))], [{"title": "x", "due": "2024-01-02"}]),
        (Point(1, 2), {"x": 1, "y": 2}),
        (Color.red, "r"),
        (date(2024, 1, 2), "2024-01-02"),
        (UUID(int=1), str(UUID(int=1))),
        (Path("/tmp/x"), "/tmp/x"),
        (2**63, 2**63),
        (-(10**30), -(10**30)),
    ],
    ids=repr,
)
async def test_usual_values_become_json(value: Any, data: Any) -> None:
    result = await give(value)
    assert result.failure is None, result.to_dict()
    assert result.data == data
    assert loads(dumps(result.to_dict()))["data"] == data


@pytest.mark.parametrize(
    "value", [datetime(2024, 1, 2, tzinfo=UTC), timedelta(seconds=5), Decimal("1.5")], ids=repr
)
async def test_dates_and_decimals_become_text_or_numbers(value: Any) -> None:
    result = await give({"value": value})
    assert result.ok
    assert isinstance(result.data["value"], str | int | float)


@pytest.mark.parametrize(
    "value",
    [
        circular(),
        {1, 2},
        frozenset(),
        object(),
        lambda: 1,
        Exception("x"),
        b"bytes",
        float("nan"),
        float("inf"),
        [1, [2, {"deep": float("-inf")}]],
        {1: "int key"},
        {("a", "b"): 1},
        "\ud800",
        complex(1, 2),
        range(3),
        (n for n in [1]),
        10**5000,
        Decimal("NaN"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_what_json_cannot_hold_is_refused(value: Any) -> None:
    result = await give(value)
    assert result.failure is not None
    assert result.failure.code == "OUTPUT_SERIALIZATION_ERROR"
    dumps(result.to_dict())


async def test_the_refusal_names_the_type_and_the_place_and_not_the_value() -> None:
    class Secret:
        def __repr__(self) -> str:
            return "hunter2"

    result = await give({"items": [{"thing": Secret()}]})
    assert result.failure is not None
    assert "Secret" in result.failure.message
    assert "items[0].thing" in result.failure.message
    assert "hunter2" not in result.failure.message


async def test_shared_references_are_fine() -> None:
    shared = {"n": 1}
    assert (await give({"a": shared, "b": shared, "c": [shared, shared]})).data == {
        "a": {"n": 1},
        "b": {"n": 1},
        "c": [{"n": 1}, {"n": 1}],
    }


async def test_very_deep_output_is_answered() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    result = await give(deep)
    assert result.failure is not None
    dumps(result.to_dict())


async def test_the_data_is_a_copy_of_what_the_body_keeps() -> None:
    kept = {"items": [1]}
    result = await give(kept)
    kept["items"].append(2)
    assert result.data == {"items": [1]}


class Movie(TypedDict):
    name: str


@dataclass
class Reel:
    film: Movie


class Closed(BaseModel, extra="forbid"):
    name: str


@pytest.mark.parametrize(
    ("output", "value", "data"),
    [
        (Task, Task(title="x"), {"title": "x", "due": None}),
        (Task, {"title": "x", "due": "2024-01-02"}, {"title": "x", "due": "2024-01-02"}),
        (list[Task], [Task(title="x")], [{"title": "x", "due": None}]),
        (dict[str, Point], {"a": Point(1, 2)}, {"a": {"x": 1, "y": 2}}),
        (Movie, {"name": "x"}, {"name": "x"}),
        (int | None, None, None),
        (set[int], {1}, [1]),
        (tuple[int, str], (1, "a"), [1, "a"]),
        (Color, Color.red, "r"),
        (float, 1, 1),
        (Any, {"free": 1}, {"free": 1}),
    ],
)
async def test_declared_output_is_parsed_and_dumped(output: Any, value: Any, data: Any) -> None:
    result = await give(value, output=output)
    assert result.failure is None, result.to_dict()
    assert result.data == data


@pytest.mark.parametrize(
    ("output", "value", "path"),
    [
        (int, "5", []),
        (Task, {"title": 5}, ["title"]),
        (list[int], [1, "2"], [1]),
        (Task, None, []),
        (float, float("nan"), []),
        (Closed, {"name": "x", "extra": 1}, ["extra"]),
        (s.object({"name": s.string()}).strict(), {"name": "x", "extra": 1}, ["extra"]),
    ],
)
async def test_output_that_is_not_as_declared_is_refused_with_the_path(
    output: Any, value: Any, path: Any
) -> None:
    result = await give(value, output=output)
    assert result.failure is not None
    assert result.failure.code == "OUTPUT_VALIDATION_ERROR"
    assert list(result.failure.issues[0].path) == path


@pytest.mark.parametrize(
    ("output", "value", "data"),
    [
        (Movie, {"name": "x", "extra": 1}, {"name": "x"}),
        (list[Movie], [{"name": "x", "extra": 1}], [{"name": "x"}]),
        (Reel, {"film": {"name": "x", "extra": 1}, "extra": 1}, {"film": {"name": "x"}}),
        (Task, {"title": "x", "extra": 1}, {"title": "x", "due": None}),
        (s.object({"name": s.string()}), {"name": "x", "extra": 1}, {"name": "x"}),
        (s.object({"name": s.string()}).passthrough(), {"name": "x", "e": 1}, {"name": "x", "e": 1}),
    ],
)
async def test_keys_of_an_output_that_are_not_declared_are_left_out(
    output: Any, value: Any, data: Any
) -> None:
    result = await give(value, output=output)
    assert result.failure is None, result.to_dict()
    assert result.data == data


async def test_output_is_never_repaired() -> None:
    result = await give({"title": "x", "due": "null"}, output=Task)
    assert not result.ok


async def test_a_refused_output_is_not_echoed() -> None:
    result = await give({"title": ["hunter2"]}, output=Task)
    assert "hunter2" not in dumps(result.to_dict())


async def test_a_model_with_aliases_is_told_by_alias_or_name_consistently() -> None:
    class Aliased(BaseModel):
        full_name: str = Field(alias="fullName")

    declared = await give(Aliased(fullName="x"), output=Aliased)
    free = await give(Aliased(fullName="x"))
    assert declared.data == free.data


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
@settings(max_examples=100, deadline=None)
async def test_any_json_comes_out_as_it_went_in(value: Any) -> None:
    result = await give(value)
    if result.ok:
        assert result.data == value
        assert loads(dumps(result.to_dict()))["data"] == value
    else:
        assert result.failure is not None
        assert result.failure.code == "OUTPUT_SERIALIZATION_ERROR"
        assert any("\ud800" <= char <= "\udfff" for char in str(value)) or "\\ud" in repr(value)


class Named(BaseModel):
    name: str


class Listed(TypedDict):
    names: list[str]


#: What `os.listdir` gives for a name that was written in Latin-1.
LATIN = b"caf\xe9.txt".decode(errors="surrogateescape")


@pytest.mark.parametrize(
    ("hint", "value", "place"),
    [
        (str, LATIN, ""),
        (Any, [LATIN], "[0]"),
        (list[str], ["a", LATIN], "[1]"),
        (str | None, LATIN, ""),
        (int | str, LATIN, ""),
        (Listed, {"names": [LATIN]}, "names[0]"),
        (Named, Named(name=LATIN), "name"),
        (list[Named], [{"name": LATIN}], "[0].name"),
        (Path, Path(LATIN), ""),
        (dict[str, int], {LATIN: 1}, "caf"),
        (Any, {LATIN: 1}, "caf"),
    ],
)
async def test_a_text_that_utf8_cannot_carry_is_no_output(hint: Any, value: Any, place: str) -> None:
    result = await give(value, output=hint)
    assert result.failure is not None
    assert result.failure.code == "OUTPUT_SERIALIZATION_ERROR"
    told = result.failure.message.removeprefix("Action returned a value that is not JSON: ")
    assert told.startswith(place)
    assert "lone surrogate" in told
    assert loads(dumps(result.to_dict()))["ok"] is False


class Loose(BaseModel):
    data: dict[str, Any]


@pytest.mark.parametrize(
    ("hint", "value", "place"),
    [
        (Any, {"a": {"b": {1}}}, "a.b"),
        (dict[str, Any], {"a": {"b": {1}}}, "a.b"),
        (dict[str, Any], {"a": {1}}, "a"),
        (list[dict[str, Any]], [{}, {"a": {1}}], "[1].a"),
        (Loose, {"data": {"a": [{1}]}}, "data.a[0]"),
    ],
)
async def test_what_has_no_json_form_is_told_with_its_place_in_the_whole_output(
    hint: Any, value: Any, place: str
) -> None:
    told = (await give(value, output=hint)).failure
    assert told is not None
    assert (
        told.message == f"Action returned a value that is not JSON: {place}: the type 'set' has no JSON form"
    )


@pytest.mark.parametrize("hint", [str, Listed, Named, dict[str, int]])
async def test_texts_beyond_ascii_and_long_ones_are_output(hint: Any) -> None:
    text = "caf\u00e9 \U0001f600" * 10_000
    values = {str: text, Listed: {"names": [text]}, Named: {"name": text}, dict[str, int]: {text: 1}}
    assert (await give(values[hint], output=hint)).unwrap() == values[hint]


async def test_a_stream_ends_where_a_text_cannot_be_carried() -> None:
    app = App("x")

    @app.action
    async def names() -> AsyncIterator[str]:
        """Give names."""
        yield "a"
        yield LATIN

    events = [event async for event in app.stream("names")]
    assert [event["type"] for event in events] == ["chunk", "result"]
    assert events[-1]["envelope"]["error"]["code"] == "OUTPUT_SERIALIZATION_ERROR"


async def test_what_is_not_json_is_told_without_words_of_ours() -> None:
    app = App("x")

    @app.action
    async def measure() -> dict[str, Any]:
        """Measure."""
        return {"widths": [1.5, {"last": float("nan")}]}

    result = await app.invoke("measure")
    assert result.failure is not None
    assert result.failure.code == "OUTPUT_SERIALIZATION_ERROR"
    assert "NotJsonable" not in result.failure.message
