"""Promises about all inputs, held by generated ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal
from uuid import UUID

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from fairlead.schema import Invalid, Schema, s, schema_of, signature_of
from fairlead.schema.fits import fits, same
from fairlead.schema.preflight import repair

quick = settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(["", " ", "1", "15.0", "true", "no", "null"])
    | st.sampled_from(["None", "[1]", '{"a": "1"}', "['x']", "A", "a b", "A-B"])
)  # fmt: skip
KEYS = st.sampled_from(["a", "b", "A", "a_b", "aB", "properties", "arguments", "0", "1"]) | st.text(
    max_size=3
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=8,
)


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def build(properties: dict[str, Any], extras: Any, required: list[str]) -> dict[str, Any]:
        found = {
            "type": "object",
            "properties": properties,
            "required": [k for k in required if k in properties],
        }
        return found if extras is None else {**found, "additionalProperties": extras}

    names = st.sampled_from(["a", "b", "a_b", "n"])
    return st.builds(
        build,
        st.dictionaries(names, inner, max_size=3),
        st.none() | st.booleans() | inner,
        st.lists(names, max_size=2, unique=True),
    )


SCHEMAS = st.recursive(
    st.sampled_from(
        [
            {},
            {"type": "string"},
            {"type": "string", "minLength": 2},
            {"type": "string", "enum": ["a", "a b", "B"]},
            {"type": "integer"},
            {"type": "integer", "minimum": 0, "maximum": 20},
            {"type": "number"},
            {"type": "boolean"},
            {"type": "null"},
            {"type": ["integer", "null"]},
            {"type": ["boolean", "integer"]},
            {"enum": [1, 2, None]},
            {"const": True},
            {"not": {"type": "string"}},
        ]
    ),
    lambda inner: st.one_of(
        st.builds(lambda items: {"type": "array", "items": items}, inner),
        _objects(inner),
        st.builds(lambda branches: {"anyOf": branches}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda branches: {"oneOf": branches}, st.lists(inner, min_size=1, max_size=2)),
        st.builds(lambda branches: {"allOf": branches}, st.lists(inner, min_size=1, max_size=2)),
    ),
    max_leaves=6,
)


class Colour(Enum):
    red = "red"
    blue = "blue"


class Leaf(TypedDict):
    name: str
    weight: float


class Tree(BaseModel):
    label: str
    colour: Colour = Colour.red
    kids: list[Tree] = []


def action(
    title: str,
    count: Annotated[int, Field(ge=0, le=9)],
    ratio: float | None = None,
    tags: list[str] = [],  # noqa: B006
    leaf: Leaf | None = None,
    kind: Literal["a", "b"] | int = 1,
    scores: dict[str, float] = {},  # noqa: B006
    pair: tuple[int, str] = (1, "x"),
    done: bool = False,
) -> None: ...


SPREAD: dict[str, Schema] = {
    "signature": signature_of(action),
    "model": schema_of(Tree),
    "typed dict": schema_of(Leaf),
    "union": schema_of(int | list[str] | None),
    "dates": schema_of(list[date]),
    "uuids": schema_of(list[UUID]),
    "decimal": schema_of(Decimal),
    "set": schema_of(set[int]),
    "builder": s.object(
        {
            "name": s.string().min(1).max(5),
            "size": s.number().min(0).max(10),
            "whole": s.number().int().optional(),
            "flags": s.record(s.boolean()).default({}),
            "kind": s.union([s.enum(["x", "y"]), s.literal(3)]),
            "any": s.any().nullable().optional(),
        }
    ).schema,
    "document": schema_of(
        {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "array", "items": {"type": "string"}}},
            "required": ["a"],
            "additionalProperties": False,
        }
    ),
}


def generated(name: str) -> st.SearchStrategy[Any]:
    document = SPREAD[name].json_schema
    return _values(document, document)


FORMATS = {
    "date": st.dates().map(date.isoformat),
    "date-time": st.datetimes().map(lambda moment: moment.isoformat() + "Z"),
    "uuid": st.uuids().map(str),
}


def _values(schema: Any, root: Any, depth: int = 0) -> st.SearchStrategy[Any]:
    """Values that a JSON Schema allows, for the keywords that we write."""
    if "$ref" in schema:
        return st.deferred(lambda: _values(root["$defs"][schema["$ref"].split("/")[-1]], root, depth + 1))
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            return st.one_of([_values(branch, root, depth) for branch in schema[keyword]])
    if "type" not in schema:
        return VALUES
    return MAKERS[schema["type"]](schema, root, depth)


def _strings(schema: Any, root: Any, depth: int) -> st.SearchStrategy[Any]:
    if "format" in schema:
        return FORMATS[schema["format"]]
    if "pattern" in schema:
        # The pattern of a decimal allows exponents of any length.
        return st.from_regex(schema["pattern"], fullmatch=True).filter(lambda text: "e" not in text.lower())
    return st.text(
        st.characters(codec="utf-8"), min_size=schema.get("minLength", 0), max_size=schema.get("maxLength", 9)
    )


def _integers(schema: Any, root: Any, depth: int) -> st.SearchStrategy[Any]:
    return st.integers(schema.get("minimum"), schema.get("maximum"))


def _numbers(schema: Any, root: Any, depth: int) -> st.SearchStrategy[Any]:
    low, high = schema.get("minimum", -9), schema.get("maximum", 9)
    return st.floats(low, high, allow_nan=False, allow_infinity=False) | st.integers(low, high)


def _booleans(schema: Any, root: Any, depth: int) -> st.SearchStrategy[Any]:
    return st.booleans()


def _nulls(schema: Any, root: Any, depth: int) -> st.SearchStrategy[Any]:
    return st.none()


def _arrays(schema: Any, root: Any, depth: int) -> st.SearchStrategy[Any]:
    if "prefixItems" in schema:
        return st.tuples(*[_values(each, root, depth) for each in schema["prefixItems"]]).map(list)
    most = 0 if depth > 3 else schema.get("maxItems", 3)
    return st.lists(
        _values(schema["items"], root, depth + 1), max_size=most, unique=schema.get("uniqueItems", False)
    )


def _objects_of(schema: Any, root: Any, depth: int) -> st.SearchStrategy[Any]:
    properties = schema.get("properties")
    if properties is None:
        return st.dictionaries(
            KEYS, _values(schema.get("additionalProperties", {}), root, depth + 1), max_size=3
        )
    fields = {name: _values(each, root, depth + 1) for name, each in properties.items()}
    required = {name: each for name, each in fields.items() if name in schema["required"]}
    return st.fixed_dictionaries(required, optional={n: e for n, e in fields.items() if n not in required})


MAKERS: dict[str, Callable[[Any, Any, int], st.SearchStrategy[Any]]] = {
    "string": _strings,
    "integer": _integers,
    "number": _numbers,
    "boolean": _booleans,
    "null": _nulls,
    "array": _arrays,
    "object": _objects_of,
}


@pytest.mark.parametrize("name", SPREAD)
@settings(quick, max_examples=40)
@given(data=st.data())
def test_what_the_advertised_schema_allows_is_accepted(name: str, data: st.DataObject) -> None:
    value = data.draw(generated(name))

    SPREAD[name].parse(value)


@pytest.mark.parametrize("name", SPREAD)
@settings(quick, max_examples=40)
@given(data=st.data())
def test_dumped_values_fit_the_advertised_output(name: str, data: st.DataObject) -> None:
    schema = SPREAD[name]
    value = schema.parse(data.draw(generated(name)))

    dumped = schema.dump(value)

    assert jsonschema_rs.is_valid(schema.output_json_schema, dumped)


@pytest.mark.parametrize("name", SPREAD)
@settings(quick, max_examples=40)
@given(data=st.data())
def test_valid_input_is_untouched(name: str, data: st.DataObject) -> None:
    schema = SPREAD[name]
    value = data.draw(generated(name))
    try:
        schema.validate(value)
    except ValueError:
        assume(False)

    mended, notes = repair(value, schema.json_schema)

    assert mended is value
    assert notes == []


@settings(quick, max_examples=300)
@given(schema=SCHEMAS, value=VALUES)
def test_repair_never_changes_an_accepted_value(schema: dict[str, Any], value: Any) -> None:
    mended, _ = repair(value, schema)

    assert same(mended, value) or not jsonschema_rs.is_valid(schema, value)


@settings(quick, max_examples=300)
@given(schema=SCHEMAS, value=VALUES)
def test_what_a_validator_accepts_fits(schema: dict[str, Any], value: Any) -> None:
    if _has_whole_float(value):
        return  # 15.0 is an integer to JSON Schema; to repair it is one to mend

    assert fits(value, schema) or not jsonschema_rs.is_valid(schema, value)


@settings(quick, max_examples=300)
@given(schema=SCHEMAS, value=VALUES)
@example(
    schema={"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "object", "required": ["a"]}]},
    value={"0": {}},
)
def test_repair_is_idempotent(schema: dict[str, Any], value: Any) -> None:
    mended, _ = repair(value, schema)

    again, notes = repair(mended, schema)

    assert same(again, mended)
    assert notes == []


@settings(quick, max_examples=150)
@given(schema=SCHEMAS, value=VALUES)
def test_what_validates_after_repair_is_returned(schema: dict[str, Any], value: Any) -> None:
    compiled = schema_of(schema)
    try:
        result = compiled.parse(value)
    except Invalid:
        return

    assert jsonschema_rs.is_valid(schema, result)


@pytest.mark.parametrize("name", SPREAD)
@quick
@given(value=VALUES)
def test_arbitrary_json_gives_a_value_or_invalid(name: str, value: Any) -> None:
    try:
        SPREAD[name].parse(value)
    except Invalid as error:
        issues = error.issues
        assert issues
        assert all(issue.code and issue.message for issue in issues)


MARKED = st.recursive(
    st.integers(100, 999).map(lambda n: f"zq{n}secret") | st.just(8675309.25) | st.just(86753091),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize("name", SPREAD)
@quick
@given(value=MARKED)
def test_rejected_values_are_not_repeated(name: str, value: Any) -> None:
    try:
        SPREAD[name].parse(value)
    except Invalid as error:
        told = " ".join(f"{i.message} {i.expected} {i.received}" for i in error.issues) + str(error)
        assert "secret" not in told
        assert "8675309" not in told


@pytest.mark.parametrize("name", SPREAD)
@settings(quick, max_examples=25)
@given(data=st.data(), field=st.text("xyz", min_size=6, max_size=8))
def test_notes_do_not_repeat_values(name: str, data: st.DataObject, field: str) -> None:
    value = data.draw(st.fixed_dictionaries({"arguments": generated(name), "extra": st.just(field)}))

    _, notes = repair(value, SPREAD[name].json_schema)

    assert not any(field in note for note in notes)


@quick
@given(moment=st.datetimes(), instant=st.times(), day=st.dates())
def test_dates_survive_a_round_trip(moment: datetime, instant: time, day: date) -> None:
    for hint, value in ((datetime, moment), (time, instant), (date, day)):
        schema = schema_of(hint)
        assert schema.validate(schema.dump(value)) == value


@quick
@given(text=st.text(max_size=20))
def test_every_date_time_accepted_is_rfc3339(text: str) -> None:
    schema = s.string().datetime()
    stamped = ["2026-01-31T13:45:00Z", "2026-01-31t13:45:00.5+02:00"]

    assert all(schema.validate(each).ok for each in stamped)
    assert schema.validate(text).ok == jsonschema_rs.is_valid(
        {"type": "string", "format": "date-time"}, text, validate_formats=True
    )


def _has_whole_float(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value) and value.is_integer()
    if isinstance(value, dict):
        return any(map(_has_whole_float, value.values()))
    return isinstance(value, list) and any(map(_has_whole_float, value))
