"""There and back: the flags that spell a value give that value."""

from __future__ import annotations

import io
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from fairlead.surfaces.cli.arguments import Arguments
from fairlead.surfaces.cli.console import Console
from fairlead.surfaces.cli.fields import Fields
from fairlead.surfaces.cli.spelling import flags_for

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
CHOICES: dict[str, Any] = {"enum": ["a", "-", "@x", 1, 2.5, True, "--", "null"]}
SHAPES: list[tuple[dict[str, Any], st.SearchStrategy[Any]]] = [
    ({"type": "string"}, st.text()),
    ({"type": "integer"}, st.integers()),
    ({"type": "number"}, st.floats(allow_nan=False, allow_infinity=False)),
    ({"type": "boolean"}, st.booleans()),
    (CHOICES, st.sampled_from(CHOICES["enum"])),
    ({"type": ["integer", "null"]}, st.none() | st.integers()),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, st.none() | st.text()),
    ({"type": "array", "items": {"type": "string"}}, st.lists(st.text())),
    ({"type": "array", "items": {"type": "integer"}}, st.lists(st.integers())),
    ({"type": "array", "items": {"type": "boolean"}}, st.lists(st.booleans())),
    ({"type": "object", "additionalProperties": {"type": "string"}}, st.dictionaries(st.text(), st.text())),
    (
        {"type": "object", "additionalProperties": {"type": "integer"}},
        st.dictionaries(st.text(), st.integers()),
    ),
    ({"anyOf": [{"type": "integer"}, {"type": "boolean"}]}, st.integers() | st.booleans()),
    ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, st.text() | st.integers()),
    ({}, JSON),
]
NAMES = st.sampled_from(
    [
        "title",
        "dueDate",
        "due_date",
        "no_cache",
        "cache",
        "json",
        "confirm",
        "timeout_ms",
        "X",
        "field_title",
        "a.b",
    ]
)


@st.composite
def inputs(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """A schema of flat fields, and a value of it."""
    properties, value = {}, {}
    for name in draw(st.lists(NAMES, unique=True, max_size=5)):
        properties[name], values = draw(st.sampled_from(SHAPES))
        value[name] = draw(values)
    return {"type": "object", "properties": properties}, value


@given(inputs())
@example(({"type": "object", "properties": {"x": {"type": "string"}}}, {"x": "-"}))
@example(({"type": "object", "properties": {"x": {"type": "string"}}}, {"x": "--json"}))
def test_flags_built_from_a_value_give_back_that_value(drawn: tuple[dict[str, Any], dict[str, Any]]) -> None:
    schema, value = drawn
    fields = Fields(schema)
    read = Arguments(
        flags_for(fields, value), lambda: fields, Console(io.StringIO(), io.StringIO(), io.StringIO(), {})
    )
    assert read.issues == []
    assert read.request.input == value
    assert repr(read.request.input) == repr({key: read.request.input[key] for key in value})


@given(
    st.lists(
        st.text(max_size=8) | st.sampled_from(["--title", "--x.y", "--json", "{}", "--no-flag", "-v", "--"])
    )
)
def test_any_arguments_are_read_or_refused_with_issues(arguments: list[str]) -> None:
    schema = {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "flag": {"type": "boolean"},
            "x": {"type": "object", "properties": {"y": {"type": "array", "items": {"type": "integer"}}}},
        },
    }
    fields = Fields(schema)
    read = Arguments(arguments, lambda: fields, Console(io.StringIO(), io.StringIO(), io.StringIO(), {}))
    assert read.issues or isinstance(read.request.input, dict) or read.request.whole
