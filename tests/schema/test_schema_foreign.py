"""JSON Schema documents as schemas."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from fairlead.schema import Invalid, schema_of


def codes(document: dict[str, Any], value: Any) -> list[tuple[tuple[str | int, ...], str]]:
    with pytest.raises(Invalid) as caught:
        schema_of(document).parse(value, repair=False)
    assert "zq" not in "".join(issue.message + str(issue.expected) for issue in caught.value.issues)
    return [(issue.path, issue.code) for issue in caught.value.issues]


@pytest.mark.parametrize(
    ("keyword", "bad", "code"),
    [
        ({"type": "integer"}, "zq", "type"),
        ({"enum": [1, "a"]}, "zq", "enum"),
        ({"const": 1}, "zq", "literal"),
        ({"minimum": 1}, 0, "too_small"),
        ({"exclusiveMinimum": 1}, 1, "too_small"),
        ({"maximum": 1}, 2, "too_large"),
        ({"exclusiveMaximum": 1}, 1, "too_large"),
        ({"multipleOf": 2}, 3, "multiple_of"),
        ({"minLength": 9}, "zq", "too_short"),
        ({"maxLength": 1}, "zq", "too_long"),
        ({"pattern": "^a"}, "zq", "pattern"),
        ({"format": "date"}, "zq", "format"),
        ({"format": "email"}, "zq", "format"),
        ({"minItems": 1}, [], "too_short"),
        ({"maxItems": 1}, ["zq", 2], "too_long"),
        ({"uniqueItems": True}, ["zq", "zq"], "unique"),
        ({"minProperties": 1}, {}, "too_short"),
        ({"maxProperties": 0}, {"a": "zq"}, "too_long"),
        ({"propertyNames": {"maxLength": 1}}, {"zqzq": 1}, "type"),
        ({"contains": {"const": 1}}, ["zq"], "value"),
        ({"not": {"type": "string"}}, "zq", "value"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "zq", "union"),
        ({"oneOf": [{"minLength": 1}, {"maxLength": 5}]}, "zq", "union"),
        ({"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 1}]}, "zq", "too_long"),
        ({"if": {"type": "string"}, "then": {"minLength": 9}}, "zq", "too_short"),
        ({"prefixItems": [{}], "items": False}, [1, "zq"], "value"),
        (False, "zq", "value"),
    ],
)
def test_every_keyword_is_validated(keyword: Any, bad: Any, code: str) -> None:
    document = {"type": "object", "properties": {"x": keyword}}

    found = codes(document, {"x": bad})

    assert {each for _, each in found} == {code}
    assert all(path[0] == "x" for path, _ in found)


def test_object_keywords_point_at_the_key() -> None:
    document = {
        "type": "object",
        "properties": {"a": {}, "b": {}},
        "required": ["a"],
        "dependentRequired": {"b": ["c"]},
        "additionalProperties": False,
    }

    assert sorted(codes(document, {"b": 1, "zq": 2})) == [
        (("a",), "missing"),
        (("c",), "missing"),
        (("zq",), "unexpected"),
    ]


def test_unknown_key_lists_the_allowed_ones_through_a_reference() -> None:
    inner = {"type": "object", "properties": {"title": {}, "size": {}}, "additionalProperties": False}
    document = {"properties": {"x": {"$ref": "#/$defs/inner"}}, "$defs": {"inner": inner}}

    with pytest.raises(Invalid) as caught:
        schema_of(document).parse({"x": {"titel": 1}}, repair=False)

    assert "'title'" in caught.value.issues[0].message


def test_the_draft_is_read_from_the_document() -> None:
    tuple_of_two = {"items": [{"type": "string"}, {"type": "integer"}]}

    draft7 = schema_of({"$schema": "http://json-schema.org/draft-07/schema#", **tuple_of_two})

    assert draft7.validate(["a", 1]) == ["a", 1]
    with pytest.raises(TypeError):
        schema_of(tuple_of_two)


def test_local_references_and_recursion_work() -> None:
    document = {
        "$ref": "#/$defs/node",
        "$defs": {"node": {"properties": {"kid": {"$ref": "#/$defs/node"}, "n": {"type": "integer"}}}},
    }

    assert codes(document, {"kid": {"kid": {"n": "zq"}}}) == [(("kid", "kid", "n"), "type")]


@pytest.mark.parametrize(
    "document",
    [
        {"$ref": "https://example.org/schema.json"},
        {"properties": {"a": {"items": {"$ref": "file:///etc/hostname"}}}},
        {"$ref": "other.json#/x"},
        {"$ref": "#/$defs/missing"},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        {"type": "nonsense"},
        {"pattern": "("},
        {"properties": []},
    ],
)
def test_documents_that_cannot_be_used_are_refused_when_defined(document: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        schema_of(document)


def test_values_that_are_not_json_give_an_issue() -> None:
    circle: list[Any] = []
    circle.append(circle)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for value in (float("nan"), {1: 2}, {1, 2}, circle, deep):
        with pytest.raises(Invalid):
            schema_of({"items": {"$ref": "#"}}).parse(value)


def test_the_document_is_the_advertised_schema_and_a_copy() -> None:
    document = {"type": "object", "properties": {"a": {"type": "integer"}}}
    schema = schema_of(document)

    document["type"] = "array"

    assert schema.json_schema["type"] == "object"
    assert schema.output_json_schema is schema.json_schema


def test_numbers_beyond_64_bits_are_checked() -> None:
    assert schema_of({"type": "integer"}).validate(10**30) == 10**30


def test_a_missing_extra_says_what_to_install() -> None:
    script = (
        "import sys; sys.modules['jsonschema_rs'] = None\n"
        "from fairlead.schema import schema_of\n"
        "try: schema_of({'type': 'object'})\n"
        "except ModuleNotFoundError as error: print(error)\n"
    )

    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout

    assert "pip install 'fairlead[jsonschema]'" in told


def test_heavy_modules_load_only_when_used() -> None:
    script = (
        "import sys\n"
        "from fairlead.schema import schema_of, signature_of, s\n"
        "schema = signature_of(lambda a: 0)\n"
        "schema.dump(schema.validate({'a': 1}))\n"
        "for name in ('jsonschema_rs', 'msgspec', 'attrs', 'fairlead.schema.document'):\n"
        "    assert name not in sys.modules, name\n"
    )

    subprocess.run([sys.executable, "-c", script], check=True)


NULLABLE = [
    {"type": "integer", "nullable": True},
    {"type": ["integer", "string"], "nullable": True},
    {"type": "string", "enum": ["x"], "nullable": True},
    {"const": 3, "nullable": True},
    {"$ref": "#/$defs/whole", "nullable": True},
    {"allOf": [{"$ref": "#/$defs/whole"}], "nullable": True},
    {"anyOf": [{"type": "integer"}, {"type": "boolean"}], "nullable": True},
    {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "nullable": True},
    {"type": "array", "items": {"type": "integer"}, "nullable": True},
    {"$ref": "#/$defs/none"},
]


@pytest.mark.parametrize("part", NULLABLE, ids=str)
def test_null_fits_what_says_that_it_is_nullable_as_null_and_as_text(part: dict[str, Any]) -> None:
    definitions = {"whole": {"type": "integer"}, "none": {"type": "integer", "nullable": True}}
    document = {
        "type": "object",
        "properties": {"x": part, "inner": {"type": "array", "items": part}},
        "required": ["x"],
        "$defs": definitions,
    }
    schema = schema_of(document)
    assert schema.parse({"x": None, "inner": [None]}) == {"x": None, "inner": [None]}
    assert schema.json_schema == document
    with pytest.raises(Invalid):
        schema.parse({"x": 0.5})
    if part.get("type") != ["integer", "string"]:
        assert schema.parse({"x": "NULL"}) == {"x": None}


def test_nullable_is_no_keyword_in_a_value_or_as_the_name_of_a_key() -> None:
    schema = schema_of(
        {
            "type": "object",
            "properties": {
                "nullable": {"const": {"type": "integer", "nullable": True}},
                "n": {"type": "integer"},
            },
        }
    )
    assert schema.parse({"nullable": {"type": "integer", "nullable": True}})
    with pytest.raises(Invalid):
        schema.parse({"nullable": None, "n": "x"})
