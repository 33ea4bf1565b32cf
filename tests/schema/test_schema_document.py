"""The JSON Schema that callers see: honest, self-contained and the same every time."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal

import jsonschema_rs
import pytest
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from fairlead.schema import schema_of, signature_of
from fairlead.schema.hints import typed_dict


class Colour(Enum):
    """The colours there are."""

    red = "red"
    blue = "blue"


class Point(BaseModel):
    """A place."""

    x: int
    colour: Colour = Colour.red


class Titled(BaseModel):
    model_config = ConfigDict(title="Titled")
    x: int = Field(title="The x")


class Node(BaseModel):
    name: str
    kids: list[Node] = []


class Left(TypedDict):
    right: Right | None


class Right(TypedDict):
    left: Left | None
    point: Point


@dataclass
class Box:
    inner: Annotated[Point, Field(description="What is inside.")]
    other: Point | None = None


def text_of(document: Any) -> str:
    return repr(document)


def test_no_titles_unless_the_author_wrote_them() -> None:
    def act(point: Point, box: Box, colour: Colour) -> None: ...

    assert "title" not in text_of(signature_of(act).json_schema)
    assert schema_of(Titled).json_schema["title"] == "Titled"
    assert schema_of(Titled).json_schema["properties"]["x"]["title"] == "The x"


def test_references_are_spelled_out_with_the_description_of_the_place() -> None:
    document = schema_of(Box).json_schema

    assert "$ref" not in text_of(document)
    assert document["properties"]["inner"]["description"] == "What is inside."
    assert document["properties"]["other"]["anyOf"][0]["description"] == "A place."
    assert document["properties"]["other"]["anyOf"][0]["properties"]["colour"]["default"] == "red"


def test_a_recursive_shape_keeps_only_the_references_it_needs() -> None:
    def act(node: Node, point: Point) -> None: ...

    document = signature_of(act).json_schema

    assert list(document["$defs"]) == ["Node"]
    assert document["properties"]["point"]["type"] == "object"


@pytest.mark.parametrize("hint", [Node, Left, list[Right]])
def test_a_recursive_root_shows_its_own_type(hint: Any) -> None:
    document = schema_of(hint).json_schema

    assert document["type"] in ("object", "array")
    jsonschema_rs.validator_for(document)


def test_required_is_always_present_and_refused_extras_are_said() -> None:
    class Loose(BaseModel):
        model_config = ConfigDict(extra="ignore")
        x: int = 1

    class Closed(BaseModel):
        x: int = 1

    assert schema_of(Loose).json_schema == {
        "type": "object",
        "properties": {"x": {"type": "integer", "default": 1}},
        "required": [],
    }
    assert schema_of(Closed).json_schema["additionalProperties"] is False
    assert "additionalProperties" not in schema_of(Closed).output_json_schema
    assert schema_of(Box).json_schema["additionalProperties"] is False
    assert schema_of(Left).json_schema["additionalProperties"] is False


def test_optional_none_is_told_as_a_union_with_null() -> None:
    def act(x: int | None = None) -> None: ...

    assert signature_of(act).json_schema["properties"]["x"] == {
        "anyOf": [{"type": "integer"}, {"type": "null"}],
        "default": None,
    }


def test_tagged_unions_name_no_definitions() -> None:
    class A(BaseModel):
        kind: Literal["a"]

    class B(BaseModel):
        kind: Literal["b"]

    document = schema_of(Annotated[A | B, Field(discriminator="kind")]).json_schema

    assert "$" not in text_of(document)
    assert "discriminator" not in document


def test_output_is_described_as_it_is_dumped() -> None:
    document = schema_of(Point).output_json_schema

    assert document["required"] == ["x", "colour"]


def test_the_document_is_the_same_every_time() -> None:
    def build() -> dict[str, Any]:
        return signature_of(act).json_schema

    def act(box: Box, node: Node, colours: set[Colour]) -> None: ...

    assert text_of(build()) == text_of(build())
    assert list(build()) == ["type", "properties", "required", "additionalProperties", "$defs"]


def test_shared_shapes_that_would_explode_keep_their_references() -> None:
    shape: Any = int
    for level in range(20):
        shape = typed_dict(f"Level{level}", {"a": shape, "b": shape})

    document = schema_of(shape).json_schema

    assert len(document["$defs"]) == 19
    jsonschema_rs.validator_for(document)


def test_a_property_may_be_called_like_a_keyword() -> None:
    shape = typed_dict("shape", {"$ref": str, "properties": int, "discriminator": int, "title": str})

    document = schema_of(shape).json_schema

    assert list(document["properties"]) == ["$ref", "properties", "discriminator", "title"]


def test_every_document_is_a_valid_json_schema() -> None:
    for hint in (Box, Node, Left, dict[str, Point], tuple[int, ...], set[str], bytes, int | None, Any):
        for document in (schema_of(hint).json_schema, schema_of(hint).output_json_schema):
            jsonschema_rs.meta.validate(
                {"$schema": "https://json-schema.org/draft/2020-12/schema", **document}
            )


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        (Literal["a", "b"], {"propertyNames": {"enum": ["a", "b"]}}),
        (Annotated[str, Field(min_length=2)], {"propertyNames": {"minLength": 2}}),
        (str, {}),
    ],
)
def test_a_map_tells_what_its_keys_must_be(keys: Any, told: dict[str, Any]) -> None:
    whole = {"type": "object", "additionalProperties": {"type": "integer"}, **told}
    assert schema_of(dict[keys, int]).json_schema == whole
    assert schema_of(list[dict[keys, int]]).json_schema["items"] == whole
