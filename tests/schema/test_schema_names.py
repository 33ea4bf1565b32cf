"""Where the names in a type are looked up: at the top of a module, or inside a running function.

The two are compiled in different ways and must give the same shape.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from fairlead.schema import Schema, schema_of, signature_of


class Colour(Enum):
    red = "red"
    blue = "blue"


class Point(NamedTuple):
    x: int
    y: int = 0


class Task(TypedDict):
    id: int
    due: date | None
    colour: Colour


@dataclass
class Tree:
    name: str
    kids: list[Tree] = field(default_factory=list)


class Node(BaseModel):
    value: int
    next: Node | None = None


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


def create(title: Annotated[str, Field(min_length=1)], tree: Tree | None = None, limit: int = 5) -> None:
    """Create.

    Args:
        title: What it is called.
    """


SPECS: dict[str, Any] = {
    "scalar": int,
    "nothing": None,
    "anything": Any,
    "constrained": Annotated[int, Field(ge=1, description="A number.")],
    "union": int | str | None,
    "enum": Colour,
    "named tuple": Point,
    "typed dict": Task,
    "recursive dataclass": Tree,
    "recursive model": Node,
    "named by text": list["Tree"],
    "named twice": dict[str, tuple["Node", Tree]],
    "discriminated": Annotated[Cat | Dog, Field(discriminator="kind")],
}
VALUES: list[Any] = [
    None,
    1,
    0,
    "red",
    [1],
    {"x": 1, "y": 2},
    {"id": 1, "due": "2030-01-31", "colour": "red"},
    {"name": "a", "kids": [{"name": "b", "kids": []}]},
    {"value": 1, "next": {"value": 2, "next": None}},
    [{"name": "a", "kids": []}],
    {"k": [{"value": 1}, {"name": "a"}]},
    {"kind": "dog"},
]

AT_THE_TOP: dict[str, Schema] = {}
for _name, _spec in SPECS.items():
    AT_THE_TOP[_name] = schema_of(_spec)
CREATE_AT_THE_TOP = signature_of(create)


def outcome(schema: Schema, value: Any) -> Any:
    try:
        return schema.dump(schema.validate(value))
    except ValueError as error:
        return [(issue.path, issue.code) for issue in schema.issues(error)]


@pytest.mark.parametrize("name", SPECS)
def test_a_shape_is_the_same_wherever_it_is_compiled(name: str) -> None:
    inside, top = schema_of(SPECS[name]), AT_THE_TOP[name]
    assert top.json_schema == inside.json_schema
    assert top.output_json_schema == inside.output_json_schema
    assert [outcome(top, value) for value in VALUES] == [outcome(inside, value) for value in VALUES]


def test_a_signature_is_the_same_wherever_it_is_compiled() -> None:
    inside = signature_of(create)
    assert CREATE_AT_THE_TOP.json_schema == inside.json_schema
    given = {"title": "a", "tree": {"name": "b"}}
    assert CREATE_AT_THE_TOP.validate(given) == inside.validate(given)


def test_a_name_that_is_missing_at_the_top_of_a_module_is_told() -> None:
    with pytest.raises(TypeError, match="Nowhere"):
        exec('schema_of(list["Nowhere"])', globals())


def test_what_is_no_shape_at_the_top_of_a_module_is_told() -> None:
    with pytest.raises(TypeError, match="object"):
        exec("schema_of(list[type('object', (), {})])", globals())
