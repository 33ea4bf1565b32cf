"""No gap between two schemas means that no value passes the one and not the other: an engine is the judge."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product
from random import Random
from typing import Any

import jsonschema_rs
import pytest

from fairlead.project.compatibility import gaps

SCALARS = (None, True, False, -1, 0, 1, 1.0, 1.5, 2, 3, 4, 6, "", "a", "b", "aa", "é", "bcd")
TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
NUMBERS = (-1, 0, 1, 1.5, 2, 3)
REFERENCES = ("#/$defs/A", "#/$defs/B", "#")


@cache
def every_value() -> tuple[Any, ...]:
    few: tuple[Any, ...] = (None, True, 1, 1.5, 4, "a", "bcd", [], [1], {}, {"a": 1})
    lists = [
        [],
        *([one] for one in few),
        *(list(two) for two in product(few, repeat=2)),
        [1, 2, 3],
        ["a"] * 3,
    ]
    members = [{name: one} for name in "abx" for one in few]
    pairs = [{"a": one, other: two} for other in "bx" for one in few for two in few]
    return (*SCALARS, *lists, {}, *members, *pairs, {"a": 1, "b": 1, "x": 1}, {"a": {"a": {"a": 1}}})


def counterexample(inner: Any, outer: Any) -> Any:
    """A value that passes the one and not the other; `...` when none does."""
    one, other = (jsonschema_rs.Draft202012Validator(each) for each in (inner, outer))
    return next((value for value in every_value() if one.is_valid(value) and not other.is_valid(value)), ...)


class Schemas:
    """Schemas by chance, of all keywords that a comparison reads and some that it does not."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)

    def shape(self, depth: int = 2, *, refers: bool = False) -> Any:
        kinds: list[Callable[[int, bool], Any]] = [self.plain] * 2
        kinds += [self.named, self.listed, self.joined, self.mixed] if depth else []
        kinds += [self.reference] if refers else []
        return self.chance.choice(kinds)(depth - 1, refers)

    def few(self, depth: int, refers: bool) -> list[Any]:
        return [self.shape(depth, refers=refers) for _ in range(self.chance.randint(1, 3))]

    def some(self, **keywords: Any) -> dict[str, Any]:
        return {key: value for key, value in keywords.items() if self.chance.random() < 0.4}

    def plain(self, _: int, __: bool) -> Any:
        pick, small = self.chance.choice, self.chance.randint(0, 3)
        numbers = {
            name: pick(NUMBERS) for name in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
        }
        return pick(
            [
                pick([True, False, {}, {"title": "Words"}, {"x-y": 1}]),
                {"type": pick(TYPES)},
                {"type": self.chance.sample(TYPES, 2)},
                {"const": pick([*SCALARS, [1], {"a": 1}, {"title": 1}])},
                {"enum": self.chance.sample(SCALARS, 2)},
                self.some(type=pick(["integer", "number"]), multipleOf=pick([0.5, 1, 1.5, 2, 3]), **numbers),
                self.some(type="string", minLength=small, maxLength=pick([1, 2]), pattern=pick(["^a", "b"])),
            ]
        )

    def named(self, depth: int, refers: bool) -> dict[str, Any]:
        """An object that names members says what it thinks of others: an engine does not know silence."""
        pick = self.chance.choice
        shape = self.shape(depth, refers=refers)
        members = {name: self.shape(depth, refers=refers) for name in "ab" if self.chance.random() < 0.6}
        return {
            "properties": members,
            "additionalProperties": pick([True, False, shape]),
            **self.some(
                type="object",
                required=self.chance.sample("abx", 1),
                minProperties=pick([0, 1, 2]),
                maxProperties=pick([0, 1, 2]),
                patternProperties={pick(["^a", "x"]): self.shape(depth, refers=refers)},
                propertyNames=self.shape(0),
                dependentRequired=pick([{"a": ["b"]}, {"x": ["a"]}]),
            ),
        }

    def listed(self, depth: int, refers: bool) -> dict[str, Any]:
        return self.some(
            type="array",
            items=self.shape(depth, refers=refers),
            prefixItems=self.few(depth, refers),
            minItems=self.chance.randint(0, 2),
            maxItems=self.chance.randint(0, 2),
            uniqueItems=True,
            contains=self.shape(0),
            minContains=self.chance.randint(0, 1),
        )

    def joined(self, depth: int, refers: bool) -> dict[str, Any]:
        # Alternatives that refer straight back would never end; what is inside of them may.
        word = self.chance.choice(["anyOf", "oneOf", "allOf"])
        return {word: [self.chance.choice([self.plain, self.named, self.listed])(0, False) for _ in "ab"]}

    def mixed(self, depth: int, refers: bool) -> Any:
        other = self.chance.choice([self.plain, self.named, self.listed])(depth, refers)
        return {**self.joined(depth, refers), **(other if isinstance(other, dict) else {"not": other})}

    def reference(self, _: int, __: bool) -> dict[str, Any]:
        to = {"$ref": self.chance.choice(REFERENCES)}
        return self.chance.choice([{"items": to}, {"type": "object", "additionalProperties": to}])

    def document(self) -> dict[str, Any]:
        defined = {name: self.shape(refers=True) for name in "AB"}
        shape = self.shape(refers=True)
        return {**(shape if isinstance(shape, dict) else {}), "$defs": defined}

    def changed(self, schema: Any) -> Any:
        """The schema with a difference in a place or two, or in none."""
        if self.chance.random() < 0.1:
            return self.plain(0, False)
        if not isinstance(schema, dict):
            return schema
        return {
            key: self._changed_value(key, value)
            for key, value in schema.items()
            if key in ("additionalProperties", "$defs") or self.chance.random() > 0.1
        }

    def _changed_value(self, key: str, value: Any) -> Any:
        if key in ("properties", "patternProperties", "$defs"):
            return {name: self.changed(each) for name, each in value.items()}
        if key in ("anyOf", "oneOf", "allOf", "prefixItems"):
            return [self.changed(each) for each in value]
        return self.changed(value) if key in ("items", "additionalProperties", "not", "contains") else value


@pytest.mark.parametrize("seed", range(4))
def test_a_schema_without_gaps_takes_whatever_the_other_takes(seed: int) -> None:
    schemas = Schemas(seed)
    for _ in range(500):
        inner = schemas.shape()
        outer = schemas.changed(inner) if schemas.chance.random() < 0.7 else schemas.shape()
        for one, other in ((inner, outer), (outer, inner)):
            if not gaps(one, other):
                assert counterexample(one, other) is ..., (one, other)


@pytest.mark.parametrize("seed", range(2))
def test_so_it_is_where_schemas_refer_to_themselves(seed: int) -> None:
    schemas = Schemas(seed)
    for _ in range(300):
        inner = schemas.document()
        outer = schemas.changed(inner)
        if isinstance(outer, dict) and "$defs" in outer and not gaps(inner, outer):
            assert counterexample(inner, outer) is ..., (inner, outer)


def test_a_schema_has_no_gaps_with_itself() -> None:
    schemas = Schemas(0)
    for _ in range(500):
        schema = schemas.shape()
        assert gaps(schema, schema) == []


@pytest.mark.parametrize(
    ("inner", "outer", "fits"),
    [
        ({"const": 1}, {"const": True}, False),
        ({"const": 1}, {"const": 1.0}, True),
        ({"const": {"title": "a"}}, {"const": {"title": "b"}}, False),
        ({"type": "boolean"}, {"enum": [True, False]}, True),
        ({"type": "integer", "exclusiveMinimum": 0}, {"type": "number", "minimum": 1}, True),
        ({"type": "number", "exclusiveMinimum": 0}, {"type": "number", "minimum": 1}, False),
        ({"multipleOf": 0.3, "type": "number"}, {"multipleOf": 0.1}, True),
        ({"type": "integer"}, {"oneOf": [{"type": "integer"}, {"type": "number"}]}, False),
        ({"type": "integer"}, {"oneOf": [{"type": "integer"}, {"type": "string"}]}, True),
        ({"type": "object"}, {"type": "object", "properties": {"a": {"type": "integer"}}}, False),
        ({"additionalProperties": {"type": "string"}}, {"additionalProperties": {"type": "integer"}}, False),
        ({"type": "string"}, {"$ref": "#/$defs/nowhere"}, False),
        ({"type": "string"}, {"$ref": "#anchor"}, False),
        ({"type": "string"}, {"$ref": "#"}, False),
        ({"type": "string", "nullable": True}, {"type": "string"}, False),
        ({"type": "string", "x-order": 1}, {"type": "string", "x-order": 2}, True),
        ({"contains": {}, "minContains": 0}, {"contains": {}}, False),
        ({"type": "string"}, {"minimum": "three"}, True),
        ({"type": "integer"}, {"minimum": "three"}, False),
        ({"anyOf": 1}, {"type": "string"}, False),
    ],
)
def test_fine_points(inner: Any, outer: Any, fits: bool) -> None:
    assert (not gaps(inner, outer)) is fits


def test_a_map_of_other_values_is_not_taken_by_readers() -> None:
    inner, outer = (
        {"type": "object", "additionalProperties": {"type": kind}} for kind in ("string", "integer")
    )
    assert gaps(inner, outer, unnamed="taken")
