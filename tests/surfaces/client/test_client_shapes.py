"""JSON Schemas as types: what a written client says of them."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.surfaces.client.py_types import Types
from fairlead.surfaces.client.shapes import Names, read
from fairlead.surfaces.client.ts_types import comment, declaration, expression

STRING = {"type": "string"}
NUMBER = {"type": "number"}


def ts(schema: Any) -> str:
    [definition] = read(schema, "X", Names())
    return " ".join(expression(definition.shape).split())


def py(schema: Any) -> str:
    names = Names(["X"])
    return "\n".join(Types(read(schema, "X", names), names).written)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (STRING, "string"),
        ({"enum": ["a", "b"]}, '"a" | "b"'),
        ({"const": "a"}, '"a"'),
        ({"anyOf": [STRING, NUMBER]}, "string | number"),
        ({"oneOf": [STRING, {"type": "integer"}]}, "string | number"),
        ({"allOf": [{"$ref": "#/nowhere"}, STRING]}, "string"),
        ({"type": "boolean"}, "boolean"),
        ({"type": "null"}, "null"),
        ({"type": ["string", "null"]}, "string | null"),
        ({"type": "string", "nullable": True}, "string | null"),
        ({"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]}, "string | null"),
        ({"const": None}, "null"),
        ({"const": {"a": [1, True]}}, "{ a: [1, true]; }"),
        ({"enum": [1, 1.5, True, None, 'q"']}, '1 | 1.5 | true | null | "q\\""'),
        ({"enum": []}, "never"),
        (True, "unknown"),
        (False, "never"),
        ({}, "unknown"),
        ("nonsense", "unknown"),
        ({"type": "strange"}, "unknown"),
        ({"$ref": "https://elsewhere.example/schema"}, "unknown"),
        ({"anyOf": [STRING, {}]}, "unknown"),
        ({"type": "array", "items": STRING}, "Array<string>"),
        ({"type": "array"}, "Array<unknown>"),
        ({"items": STRING}, "Array<string>"),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, 'Array<"a" | "b">'),
        ({"prefixItems": [STRING, NUMBER], "minItems": 2, "maxItems": 2, "type": "array"}, "[string, number]"),
        ({"prefixItems": [STRING, {"enum": [1, 2]}], "items": False, "type": "array"}, "[string?, (1 | 2)?]"),
        ({"prefixItems": [STRING], "minItems": 1, "items": NUMBER}, "[string, ...number[]]"),
        ({"type": "array", "items": [STRING], "minItems": 1, "additionalItems": False}, "[string]"),
        ({"type": "object"}, "{ [key: string]: unknown }"),
        ({"type": "object", "additionalProperties": NUMBER}, "{ [key: string]: number }"),
        ({"type": "object", "patternProperties": {"^a": NUMBER}, "additionalProperties": False},
         "{ [key: string]: number }"),
        ({"type": "object", "additionalProperties": False}, "{ [key: string]: never }"),
        ({"properties": {"a": STRING}, "required": ["a"], "additionalProperties": False}, "{ a: string; }"),
        ({"properties": {"a": STRING}, "additionalProperties": False}, "{ a?: string; }"),
        ({"properties": {"a-b": STRING, "1": NUMBER, "ü": STRING}, "required": ["a-b", "1"],
          "additionalProperties": False}, '{ "a-b": string; "1": number; "ü"?: string; }'),
        ({"properties": {"a": STRING}, "additionalProperties": NUMBER, "required": ["a"]},
         "{ a: string; [key: string]: number | string; }"),
        ({"properties": {"a": STRING}, "additionalProperties": NUMBER},
         "{ a?: string; [key: string]: number | string | undefined; }"),
        ({"required": ["a"], "additionalProperties": False}, "{ a: unknown; }"),
        ({"allOf": [{"properties": {"a": STRING}, "additionalProperties": False},
                    {"anyOf": [{"const": 1}, {"const": 2}]}]}, "{ a?: string; } & (1 | 2)"),
        ({"type": "object", "anyOf": [{"properties": {"a": STRING}, "required": ["a"],
                                      "additionalProperties": False}]}, "{ a: string; }"),
    ],
)  # fmt: skip
def test_32_a_schema_is_told_as_a_type(schema: Any, expected: str) -> None:
    assert ts(schema) == expected


TREE = {
    "type": "object",
    "properties": {"label": STRING, "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
    "required": ["label"],
    "additionalProperties": False,
    "$defs": {"Node": {"$ref": "#"}},
}


def test_a_shape_that_contains_itself_gets_a_name() -> None:
    root, node = read(TREE, "TreeInput", Names())
    assert "children?: Array<TreeInputNode>;" in declaration(root)
    assert declaration(node) == "export type TreeInputNode = TreeInput;\n"


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"anyOf": [{"$ref": "#"}, STRING]},
        {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}},
    ],
)
def test_a_shape_that_is_nothing_but_itself_is_unknown(schema: Any) -> None:
    assert "unknown" in "".join(map(declaration, read(schema, "X", Names())))


def test_names_are_given_once() -> None:
    names = Names(["A"])
    assert [names.take(wish) for wish in ("A", "A", "B")] == ["A2", "A3", "B"]


def test_no_description_can_end_its_comment() -> None:
    told = comment("Evil */ alert(1) /*\u2028second\n\nthird", "gone */")
    assert told.count("*/") == 1
    assert len(told.splitlines()) == 7
    assert all(line.startswith((" *", "/**")) for line in told.splitlines())


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"enum": ["a", "b", None]}, """X: TypeAlias = 'Literal["a", "b"] | None'"""),
        ({"enum": [1, True, 1.5]}, 'X: TypeAlias = "Literal[1, True] | float"'),
        ({"const": [1]}, 'X: TypeAlias = "list[Any]"'),
        ({"type": "object", "additionalProperties": NUMBER}, 'X: TypeAlias = "dict[str, float]"'),
        ({"prefixItems": [STRING, NUMBER], "items": False}, 'X: TypeAlias = "list[str | float]"'),
        ({"anyOf": [{"type": "null"}, STRING]}, 'X: TypeAlias = "str | None"'),
        ({"anyOf": [STRING, {}]}, 'X: TypeAlias = "Any"'),
        (False, 'X: TypeAlias = "Never"'),
        ({"properties": {"a": STRING}, "additionalProperties": False}, "class X(TypedDict):\n    a: NotRequired[str]"),
        ({"properties": {"a-b": STRING}, "additionalProperties": False},
         'X = TypedDict(\n    "X",\n    {\n        "a-b": NotRequired["str"],\n    },\n)'),
        ({"allOf": [{"properties": {"a": STRING}, "required": ["a"], "additionalProperties": False},
                    {"properties": {"b": NUMBER}, "additionalProperties": False}]},
         "class X(TypedDict):\n    a: str\n    b: NotRequired[float]"),
        ({"allOf": [STRING, {"properties": {"a": STRING}}]}, 'X: TypeAlias = "Any"'),
        ({"additionalProperties": False}, "class X(TypedDict):\n    pass"),
    ],
)  # fmt: skip
def test_a_schema_is_told_as_a_python_type(schema: Any, expected: str) -> None:
    assert py(schema).strip() == expected


def test_objects_inside_of_others_get_classes_of_their_own() -> None:
    inside = {"type": "object", "properties": {"n": NUMBER}, "additionalProperties": False}
    written = py(
        {"properties": {"a": inside, "b": {"type": "array", "items": inside}}, "additionalProperties": False}
    )
    assert "class XA(TypedDict):" in written
    assert "a: NotRequired[XA]" in written
    assert "b: NotRequired[list[XBItem]]" in written
