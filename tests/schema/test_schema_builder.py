"""The `s` builder: each row of the contract's table, and none of the original's bugs."""

from __future__ import annotations

import re
from enum import Enum
from typing import Any

import pytest
from pydantic import BaseModel

from fairlead.schema import Invalid, s, schema_of
from fairlead.schema.builder import Builder


def code(builder: Builder, value: Any) -> str:
    found = builder.validate(value)
    assert not found.ok
    assert found.value is None
    return found.issues[0].code


def accepts(builder: Builder, value: Any) -> bool:
    found = builder.validate(value)
    return found.ok and found.value == value and type(found.value) is type(value)


ONE_STRING = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}

ROWS: list[tuple[Builder, Any, list[Any], list[tuple[Any, str]]]] = [
    (s.string(), {"type": "string"}, ["", "x"], [(1, "type"), (None, "type"), (["x"], "type")]),
    (
        s.string().min(2).max(3),
        {"type": "string", "minLength": 2, "maxLength": 3},
        ["ab", "abc", "🎈🎈"],
        [("a", "too_short"), ("abcd", "too_long")],
    ),
    (s.string().pattern("^a"), {"type": "string", "pattern": "^a"}, ["ab"], [("ba", "pattern")]),
    (s.string().pattern(re.compile("b")), {"type": "string", "pattern": "b"}, ["abc"], [("x", "pattern")]),
    (
        s.string().url(),
        {"type": "string", "format": "uri", "pattern": "^[hH][tT][tT][pP][sS]?://"},
        ["https://example.org/a?b=c", "HTTP://example.org"],
        [("javascript:alert(1)", "format"), ("nope", "format"), ("ftp://example.org", "format")],
    ),
    (
        s.string().datetime(),
        {"type": "string", "format": "date-time"},
        ["2026-03-07T10:00:00Z", "2026-03-07T10:00:00.25+02:00"],
        [("1", "format"), ("March 7", "format"), ("2026-02-30T10:00:00Z", "format")],
    ),
    (s.number(), {"type": "number"}, [1, 1.5, -3], [("1", "type"), (True, "type"), (float("inf"), "finite")]),
    (
        s.number().min(0).max(5),
        {"type": "number", "minimum": 0, "maximum": 5},
        [0, 5, 2.5],
        [(-1, "too_small"), (5.1, "too_large")],
    ),
    (s.number().int(), {"type": "integer"}, [3], [(3.5, "type"), (True, "type")]),
    (s.boolean(), {"type": "boolean"}, [True, False], [(1, "type"), ("true", "type")]),
    (s.enum(["a", "b"]), {"type": "string", "enum": ["a", "b"]}, ["a"], [("c", "enum"), (1, "enum")]),
    (s.array(s.number()), {"type": "array", "items": {"type": "number"}}, [[], [1, 2.5]], [("x", "type")]),
    (
        s.array(int).min(1).max(2),
        {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2},
        [[1]],
        [([], "too_short"), ([1, 2, 3], "too_long")],
    ),
    (
        s.object({"a": s.string()}),
        {**ONE_STRING, "additionalProperties": False},
        [{"a": "x"}],
        [({}, "missing"), ({"a": "x", "toString": 1}, "unexpected"), ([], "type")],
    ),
    (
        s.object({"a": s.string()}).passthrough(),
        {**ONE_STRING, "additionalProperties": True},
        [{"a": "x", "b": [1]}],
        [({"b": 1}, "missing")],
    ),
    (
        s.object({}).passthrough().strict(),
        {"type": "object", "properties": {}, "required": [], "additionalProperties": False},
        [{}],
        [({"a": 1}, "unexpected")],
    ),
    (s.literal("x"), {"type": "string", "const": "x"}, ["x"], [("y", "literal"), (1, "literal")]),
    (s.literal(1), {"type": "integer", "const": 1}, [1], [(True, "literal"), (2, "literal")]),
    (s.literal(None), {"type": "null", "const": None}, [None], [("null", "literal")]),
    (
        s.union([s.string(), s.number()]),
        {"anyOf": [{"type": "string"}, {"type": "number"}]},
        ["x", 1],
        [([], "union"), (None, "union")],
    ),
    (
        s.record(s.boolean()),
        {"type": "object", "additionalProperties": {"type": "boolean"}},
        [{}, {"a": True, "__proto__": False}],
        [({"a": 1}, "type"), ([], "type")],
    ),
    (s.any(), {}, [None, 1, "x", [], {}], []),
    (
        s.string().nullable(),
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        ["x", None],
        [(1, "type")],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("builder", "document", "good", "bad"), ROWS, ids=lambda case: getattr(case, "kind", "")
)
def test_each_builder_accepts_refuses_and_describes(
    builder: Builder, document: dict[str, Any], good: list[Any], bad: list[tuple[Any, str]]
) -> None:
    assert builder.to_json_schema() == document
    assert all(accepts(builder, value) for value in good)
    assert [code(builder, value) for value, _ in bad] == [expected for _, expected in bad]


def test_modifiers_describe_the_shape() -> None:
    builder = s.string().describe("who").default("x").meta({"a": 1}).meta({"b": 2})

    assert builder.to_json_schema() == {
        "description": "who",
        "type": "string",
        "default": "x",
        "x-fairlead": {"a": 1, "b": 2},
    }
    assert (builder.kind, builder.is_optional, builder.is_nullable) == ("string", True, False)
    assert (builder.default_value, builder.description) == ("x", "who")


def test_modifiers_change_a_copy() -> None:
    plain = s.string()

    plain.min(3).nullable().optional().describe("x").default("abc").meta({"a": 1})

    assert plain.to_json_schema() == {"type": "string"}
    assert not plain.is_optional


def test_optional_keys_are_left_out_and_defaults_filled() -> None:
    shape = s.object({"a": s.string().optional(), "b": s.number().default(3), "c": s.string().nullable()})

    assert shape.parse({"c": None}) == {"b": 3, "c": None}
    assert shape.to_json_schema()["required"] == ["c"]


def test_a_default_is_fresh_for_each_call() -> None:
    shape = s.object({"tags": s.array(s.string()).default([])})

    shape.parse({})["tags"].append("x")

    assert shape.parse({}) == {"tags": []}


def test_a_default_is_a_copy_of_what_was_given() -> None:
    given: list[str] = []
    shape = s.object({"tags": s.array(s.string()).default(given)})

    given.append("later")

    assert shape.parse({}) == {"tags": []}


@pytest.mark.parametrize(
    "build",
    [
        lambda: s.string().default(5),
        lambda: s.string().default("a").min(3),
        lambda: s.string().default(None),
        lambda: s.object({"a": s.number()}).default({"a": "x"}),
        lambda: s.enum([]),
        lambda: s.enum("ab"),
        lambda: s.enum([["a"]]),
        lambda: s.literal({"a": 1}),
        lambda: s.union([]),
        lambda: s.object({"a": {}}),
        lambda: s.object({1: str}),  # type: ignore[dict-item]
        lambda: s.string().pattern("("),
        lambda: s.string().pattern(re.compile("a", re.IGNORECASE)),
    ],
)
def test_mistakes_are_refused_when_defined(build: Any) -> None:
    with pytest.raises(TypeError):
        build()


def test_a_pattern_gives_the_same_answer_every_time() -> None:
    builder = s.string().pattern("a")

    assert [builder.validate("a").ok for _ in range(4)] == [True] * 4


def test_look_around_patterns_work() -> None:
    assert accepts(s.string().pattern("(?<!x)y"), "ay")
    assert code(s.string().pattern("(?<!x)y"), "xy") == "pattern"


def test_every_problem_of_an_object_is_reported() -> None:
    shape = s.object({"a": s.string(), "b": s.array(s.number())})

    found = shape.validate({"b": [1, "x", None], "c": 1})

    assert [(issue.path, issue.code) for issue in found.issues] == [
        (("a",), "missing"),
        (("b", 1), "type"),
        (("b", 2), "type"),
        (("c",), "unexpected"),
    ]


def test_parse_raises_with_issues_and_repairs_when_asked() -> None:
    shape = s.object({"n": s.number().int()})

    with pytest.raises(Invalid) as caught:
        shape.parse({"n": "5"})

    assert caught.value.issues[0].path == ("n",)
    assert shape.parse({"n": "5"}, repair=True) == {"n": 5}


class Point(BaseModel):
    x: int


class Level(Enum):
    low = "low"
    high = 2


def test_builders_and_plain_types_nest_in_each_other() -> None:
    shape = s.object(
        {"points": s.array(Point), "n": int, "level": s.enum(Level), "u": s.union([Point, None])}
    )

    value = shape.parse({"points": [{"x": 1}], "n": 2, "level": 2, "u": None})

    assert value == {"points": [Point(x=1)], "n": 2, "level": 2, "u": None}
    assert shape.schema.dump(value) == {"points": [{"x": 1}], "n": 2, "level": 2, "u": None}
    assert schema_of(dict[str, s.number().int()]).validate({"a": 1}) == {"a": 1}  # type: ignore[misc]


def test_whole_numbers_stay_whole() -> None:
    schema = s.number().schema

    assert repr(schema.dump(schema.validate(3))) == "3"


def test_a_builder_compiles_to_the_schema_of_the_same_type() -> None:
    assert schema_of(s.array(s.number().int())).json_schema == schema_of(list[int]).json_schema


@pytest.mark.parametrize(
    ("make", "bound"),
    [
        (s.string().min, -1),
        (s.string().max, "3"),
        (s.string().max, 2.5),
        (s.array(s.any()).min, True),
        (s.array(s.any()).max, None),
        (s.number().min, float("nan")),
        (s.number().max, float("inf")),
        (s.number().min, "1"),
        (s.number().max, True),
    ],
)
def test_a_bound_that_is_none_is_refused_where_it_is_written(make: Any, bound: Any) -> None:
    with pytest.raises(TypeError, match="bounded by"):
        make(bound)
