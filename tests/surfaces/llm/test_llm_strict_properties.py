"""Strict mode holds for any schema: what fits the declared one has a strict form, and comes back as it was."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, NamedTuple

import jsonschema_rs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai.lib._pydantic import _ensure_strict_json_schema

from fairlead.schema.dialects.dialect import ANTHROPIC, GEMINI, Dialect, Rewriter
from fairlead.schema.dialects.limits import beyond_anthropic, beyond_openai
from fairlead.schema.dialects.nodes import Nodes
from fairlead.schema.dialects.roots import rooted
from fairlead.schema.fits import same
from fairlead.surfaces.llm.strict import Strict


class Shape(NamedTuple):
    """A schema, and what fits it."""

    schema: Any
    values: st.SearchStrategy[Any]


KEYS = st.sampled_from(
    ["a", "b", "key", "value", "object", "array", "input", "additional_properties", "0", "ä"]
)
TEXT = st.sampled_from(["", "x", "null", "{}", "[]", '{"a": 1}', '"quoted"', "```", "None", "0", "ü\n"])
NUMBERS = st.integers(-(2**53), 2**53) | st.floats(-1e6, 1e6, allow_nan=False)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=5,
)

TREE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "label": {"type": "string"},
        "left": {"anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "null"}], "description": "Smaller."},
        "more": {"type": "object", "additionalProperties": {"$ref": "#/$defs/Tree"}},
        "next": {"$ref": "#/$defs/Tree", "description": "The one after."},
    },
    "required": ["label", "left"],
    "additionalProperties": False,
}
VALUE: dict[str, Any] = {
    "anyOf": [
        {"type": "string"},
        {"type": "integer"},
        {"type": "array", "items": {"$ref": "#/$defs/Value"}},
        {"type": "object", "additionalProperties": {"$ref": "#/$defs/Value"}},
        {"type": "null"},
    ]
}
DEFINITIONS = {"Tree": TREE, "Value": VALUE}


def tree(depth: int) -> st.SearchStrategy[Any]:
    label = {"label": TEXT}
    if not depth:
        return st.fixed_dictionaries({**label, "left": st.none()})
    return st.fixed_dictionaries(
        {**label, "left": st.none() | tree(depth - 1)},
        optional={"more": st.dictionaries(KEYS, tree(depth - 1), max_size=2), "next": tree(depth - 1)},
    )


def value(depth: int) -> st.SearchStrategy[Any]:
    flat = TEXT | st.integers(0, 9) | st.none()
    if not depth:
        return flat
    return flat | st.lists(value(depth - 1), max_size=2) | st.dictionaries(KEYS, value(depth - 1), max_size=2)


LEAVES = [
    Shape({"type": "string"}, TEXT),
    Shape({"type": "string", "minLength": 1, "pattern": "^(?=x)x"}, st.just("x")),
    Shape({"type": "integer", "minimum": 0, "exclusiveMaximum": 10}, st.integers(0, 9)),
    Shape({"type": "number", "multipleOf": 0.5}, st.integers(-4, 4).map(lambda n: n / 2)),
    Shape({"type": "boolean"}, st.booleans()),
    Shape({"type": "null"}, st.none()),
    Shape({"enum": ["x", 1, None, True, 2.5]}, st.sampled_from(["x", 1, None, True, 2.5])),
    Shape({"const": "x"}, st.just("x")),
    Shape({"type": ["string", "null"]}, TEXT | st.none()),
    Shape({"type": "integer", "nullable": True}, st.integers(0, 9)),
    Shape({"type": ["integer", "array", "object"]}, st.integers(0, 9) | st.lists(ANYTHING, max_size=2)),
    Shape({}, ANYTHING),
    Shape(True, ANYTHING),
    Shape({"not": {"type": "string"}}, st.integers(0, 9) | st.just({})),
    Shape({"type": "object"}, st.dictionaries(KEYS, ANYTHING, max_size=3)),
    Shape({"type": "object", "additionalProperties": True}, st.dictionaries(KEYS, ANYTHING, max_size=3)),
    Shape({"enum": [[1], {"a": 2}]}, st.sampled_from([[1], {"a": 2}])),
    Shape(
        {"type": "array", "prefixItems": [{"type": "string"}]},
        st.lists(ANYTHING, max_size=2).map(lambda rest: ["x", *rest]),
    ),
    Shape({"$ref": "#/$defs/Tree"}, tree(2)),
    Shape({"$ref": "#/$defs/Value", "title": "V"}, value(2)),
]


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[Shape]) -> Shape:
    fields = draw(st.dictionaries(KEYS, inner, max_size=3))
    required = draw(st.lists(st.sampled_from(sorted(fields)), unique=True)) if fields else []
    schema: dict[str, Any] = {"type": "object", "properties": {}, "required": required}
    always, sometimes = {}, {}
    for name, field in fields.items():
        told = field.schema
        free = isinstance(told, dict) and "$ref" not in told and name not in required
        if free and draw(st.booleans()) and fits(field, None):
            # A default of null makes null and absence the same, so one of them is enough to come back.
            told = {**told, "default": None}
            always[name] = field.values
        schema["properties"][name] = told
        if name in required:
            always[name] = field.values
        elif name not in always:
            sometimes[name] = field.values
    values = st.fixed_dictionaries(always, optional=sometimes)
    more = draw(st.sampled_from(["closed", "silent", "any", "some"]))
    if more == "closed":
        schema["additionalProperties"] = False
    if more in ("any", "some"):
        extra = draw(inner) if more == "some" else Shape(True, ANYTHING)
        schema["additionalProperties"] = extra.schema
        rest = st.dictionaries(st.sampled_from(["p", "q", "key"]), extra.values, max_size=2)
        values = st.tuples(rest, values).map(
            lambda both: {**{k: v for k, v in both[0].items() if k not in fields}, **both[1]}
        )
    return Shape(schema, values)


def fits(shape: Shape, value: Any) -> bool:
    return bool(jsonschema_rs.is_valid(whole(shape.schema), value))


def whole(schema: Any) -> Any:
    return {**schema, "$defs": DEFINITIONS} if isinstance(schema, dict) else {"$defs": DEFINITIONS}


def arrays(inner: st.SearchStrategy[Shape]) -> st.SearchStrategy[Shape]:
    return inner.map(lambda s: Shape({"type": "array", "items": s.schema}, st.lists(s.values, max_size=2)))


def records(inner: st.SearchStrategy[Shape]) -> st.SearchStrategy[Shape]:
    return inner.map(
        lambda s: Shape(
            {"type": "object", "additionalProperties": s.schema, "minProperties": 0},
            st.dictionaries(KEYS, s.values, max_size=2),
        )
    )


def tuples(inner: st.SearchStrategy[Shape]) -> st.SearchStrategy[Shape]:
    return st.lists(inner, min_size=1, max_size=3).map(
        lambda shapes: Shape(
            {
                "type": "array",
                "prefixItems": [s.schema for s in shapes],
                "minItems": len(shapes),
                "maxItems": len(shapes),
            },
            st.tuples(*(s.values for s in shapes)).map(list),
        )
    )


def unions(inner: st.SearchStrategy[Shape]) -> st.SearchStrategy[Shape]:
    return st.lists(inner, min_size=1, max_size=3).map(
        lambda shapes: Shape({"anyOf": [s.schema for s in shapes]}, st.one_of(*(s.values for s in shapes)))
    )


def merged(inner: st.SearchStrategy[Shape]) -> st.SearchStrategy[Shape]:
    return inner.map(lambda s: Shape({"allOf": [s.schema], "description": "As it was."}, s.values))


SHAPES = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: (
        objects(inner) | arrays(inner) | records(inner) | tuples(inner) | unions(inner) | merged(inner)
    ),
    max_leaves=6,
)


PAIRS = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"key": {"type": "string"}, "value": {"type": "integer"}},
        "required": ["key", "value"],
        "additionalProperties": False,
    },
}
PAIR = st.fixed_dictionaries({"key": TEXT, "value": st.integers(0, 2)})
OPTIONAL = {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}
HELD = {
    "type": "object",
    "properties": {"a": {"type": ["integer", "null"]}, "b": {"type": "string"}},
    "additionalProperties": False,
}
#: Shapes whose strict forms look alike, or like what strict forms are made of.
ALIKE = [
    Shape({"type": "string"}, TEXT),
    Shape({}, ANYTHING),
    Shape({"type": "object"}, st.dictionaries(KEYS, ANYTHING, max_size=2)),
    Shape(
        {"type": "object", "additionalProperties": {"type": "integer"}},
        st.dictionaries(KEYS, st.integers(0, 2), max_size=2),
    ),
    Shape(PAIRS, st.lists(PAIR, max_size=2)),
    Shape({"type": "array", "items": {"type": "string"}}, st.lists(TEXT, max_size=2)),
    Shape(OPTIONAL, st.fixed_dictionaries({}, optional={"a": st.integers(0, 2)})),
    Shape(
        {**OPTIONAL, "properties": {"a": {"type": ["integer", "null"]}}, "required": ["a"]},
        st.fixed_dictionaries({"a": st.none() | st.integers(0, 2)}),
    ),
    Shape(HELD, st.fixed_dictionaries({}, optional={"a": st.none() | st.integers(0, 2), "b": TEXT})),
    Shape({**OPTIONAL, "additionalProperties": True}, st.dictionaries(st.just("b"), ANYTHING, max_size=1)),
    Shape(
        {
            **OPTIONAL,
            "properties": {"additional_properties": {"type": "array", "items": {"type": "string"}}},
            "additionalProperties": {"type": "integer"},
        },
        st.fixed_dictionaries(
            {}, optional={"additional_properties": st.lists(TEXT, max_size=1), "z": st.just(1)}
        ),
    ),
    Shape(
        {
            "type": "object",
            "properties": {"object": {"type": "string"}, "value": {"type": "string"}, "array": {}},
            "required": ["object"],
            "additionalProperties": False,
        },
        st.fixed_dictionaries({"object": TEXT}, optional={"value": TEXT, "array": ANYTHING}),
    ),
    *(
        Shape(
            {"type": "object", "properties": {tag: {"type": "string"}}, "required": [tag]},
            st.fixed_dictionaries({tag: TEXT}),
        )
        for tag in ("object", "array", "value")
    ),
    Shape(
        {"type": "array", "prefixItems": [{"type": "string"}, {}], "minItems": 2, "maxItems": 2},
        st.tuples(TEXT, ANYTHING).map(list),
    ),
    Shape(
        {
            "type": "object",
            "properties": {"0": {"type": "string"}, "1": {"type": "string"}},
            "required": ["0", "1"],
        },
        st.fixed_dictionaries({"0": TEXT, "1": TEXT}),
    ),
    Shape({"$ref": "#/$defs/Tree"}, tree(1)),
    Shape({"$ref": "#/$defs/Value"}, value(1)),
    Shape({"type": "null"}, st.none()),
]


@st.composite
def confusing(draw: st.DrawFn) -> tuple[Any, Any]:
    """A union of shapes that could be taken for each other, where an argument may stand."""
    shapes = draw(st.lists(st.sampled_from(ALIKE), min_size=2, max_size=4))
    branches = [shape.schema for shape in shapes]
    if draw(st.booleans()):
        branches = [branches[0], {"anyOf": branches[1:]}]
    field: Any = {"anyOf": branches}
    schema = {"type": "object", "properties": {"field": field}, "additionalProperties": False}
    if draw(st.booleans()):
        schema["required"] = ["field"]
    values = st.fixed_dictionaries({"field": draw(st.sampled_from(shapes)).values})
    return whole(schema), draw(values)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Any, Any]:
    shape = draw(SHAPES)
    return whole(shape.schema), draw(shape.values)


def subschemas(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    below = [
        *schema.get("properties", {}).values(),
        *schema.get("anyOf", ()),
        *schema.get("$defs", {}).values(),
    ]
    for each in below + ([schema["items"]] if "items" in schema else []):
        yield from subschemas(each)


TAKEN = {
    "type", "properties", "required", "additionalProperties", "items", "anyOf", "enum", "$ref", "$defs", "title",
    "description", "format", "pattern", "minItems", "maxItems", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum",
}  # fmt: skip


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases())
def test_what_fits_has_a_strict_form_and_comes_back(case: tuple[Any, Any]) -> None:
    schema, original = case
    assert jsonschema_rs.is_valid(schema, original)
    strict = Strict(Nodes(schema))
    sent = json.loads(json.dumps(strict.encode(original)))
    assert jsonschema_rs.is_valid(strict.schema, sent)
    assert same(strict.decode(sent), original)


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(confusing())
def test_branches_that_look_alike_are_told_apart(case: tuple[Any, Any]) -> None:
    schema, original = case
    assert jsonschema_rs.is_valid(schema, original)
    strict = Strict(Nodes(schema))
    sent = json.loads(json.dumps(strict.encode(original)))
    assert jsonschema_rs.is_valid(strict.schema, sent)
    assert same(strict.decode(sent), original)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(SHAPES)
def test_a_strict_schema_keeps_the_providers_rules(shape: Shape) -> None:
    strict = Strict(Nodes(whole(shape.schema))).schema
    assert strict["type"] == "object"
    assert "anyOf" not in strict
    for each in subschemas(strict):
        assert set(each) <= TAKEN
        assert "type" in each or "anyOf" in each or set(each) == {"$ref"}
        if "properties" in each:
            assert each["required"] == list(each["properties"])
            assert each["additionalProperties"] is False
        if each.get("type") == "object":
            assert "properties" in each
        if each.get("type") == "array":
            assert "items" in each
    assert _ensure_strict_json_schema(deepcopy(strict), path=(), root=strict) == strict
    jsonschema_rs.validator_for(strict)
    assert beyond_openai(strict) is None


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases(), st.sampled_from([("gemini", GEMINI), ("anthropic", ANTHROPIC)]))
def test_what_fits_also_fits_in_the_words_of_other_providers(
    case: tuple[Any, Any], to: tuple[str, Dialect]
) -> None:
    schema, original = case
    format, dialect = to
    nodes = Nodes(schema)
    if format == "anthropic" and beyond_anthropic(nodes) is not None:
        return
    root = rooted(nodes, Rewriter(nodes, dialect).document(), format)
    sent = root.encode(original)
    assert root.schema["type"] == "object"
    assert jsonschema_rs.is_valid(root.schema, sent)
    assert same(root.decode(sent), original)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(SHAPES, ANYTHING)
def test_whatever_comes_is_left_for_the_runtime_to_judge(shape: Shape, sent: Any) -> None:
    strict = Strict(Nodes(whole(shape.schema)))
    json.dumps([strict.encode(sent), strict.decode(sent)])
