"""Whether a value passes a JSON Schema: yes, no, or None where that cannot be told without an engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from fairlead.project.shapes import (
    BOUNDS,
    Document,
    Unreadable,
    equal,
    exact,
    holds,
    is_of,
    item,
    opaque,
    parts,
    range_of,
    type_of,
    types,
)

Unnamed = Literal["as said", "taken", "refused"]
Verdict = bool | None

_DEEPEST = 64
#: What opaque keywords are about, where they are about one type only.
_ABOUT = {
    "pattern": "string",
    "contentSchema": "string",
    "contains": "array",
    "unevaluatedItems": "array",
    "additionalItems": "array",
    "propertyNames": "object",
    "dependentRequired": "object",
    "dependentSchemas": "object",
    "unevaluatedProperties": "object",
}


def verdict(
    value: Any, schema: Document, root: Document, unnamed: Unnamed = "as said", depth: int = 0
) -> Verdict:
    """Whether the value passes; `unnamed` is as in `compatibility.gaps`."""
    if isinstance(schema, bool):
        return schema
    if depth > _DEEPEST or not isinstance(schema, Mapping):
        return None
    try:
        return _all(_said(value, schema, root, unnamed, depth + 1))
    except Unreadable:
        return None


def _said(
    value: Any, schema: Mapping[str, Any], root: Document, unnamed: Unnamed, depth: int
) -> Iterator[Verdict]:
    for word, part in parts(schema, root):
        if word == "plain":
            yield from _plain(value, part, root, unnamed, depth)
        elif word == "schema":
            yield verdict(value, part, root, unnamed, depth)
        else:
            told = [verdict(value, each, root, unnamed, depth) for each in part[word]]
            yield _any(told) if word == "anyOf" else _one(told)


def _plain(
    value: Any, schema: Mapping[str, Any], root: Document, unnamed: Unnamed, depth: int
) -> Iterator[Verdict]:
    yield is_of(value, types(schema))
    if "const" in schema:
        yield equal(schema["const"], value)
    if "enum" in schema:
        yield holds(schema["enum"], value)
    kind = type_of(value)
    if kind in ("integer", "number"):
        yield _is_number(value, schema)
    for name, about, lower in BOUNDS:
        if about == kind and name in schema:
            yield len(value) >= schema[name] if lower else len(value) <= schema[name]
    if kind == "object":
        yield from _members(value, schema, root, unnamed, depth)
    if kind == "array":
        yield from (
            verdict(each, item(schema, index), root, unnamed, depth) for index, each in enumerate(value)
        )
        if schema.get("uniqueItems"):
            yield not any(holds(value[:index], each) for index, each in enumerate(value))
    if any(_ABOUT.get(keyword, kind) == kind for keyword in opaque(schema)):
        yield None


def _is_number(value: float, schema: Mapping[str, Any]) -> bool:
    (low, above), (high, including) = range_of(schema)
    within = (value > low if above else value >= low) and (value <= high if including else value < high)
    return within and ("multipleOf" not in schema or not exact(value) % exact(schema["multipleOf"]))


def _members(
    value: dict[str, Any], schema: Mapping[str, Any], root: Document, unnamed: Unnamed, depth: int
) -> Iterator[Verdict]:
    yield set(schema.get("required", ())) <= value.keys()
    if schema.get("patternProperties"):
        yield None
    named: Mapping[str, Document] = schema.get("properties", {})
    rest: Document = schema.get("additionalProperties", True)
    if isinstance(rest, bool) and unnamed != "as said":
        rest = unnamed == "taken"
    for name, each in value.items():
        yield verdict(each, named.get(name, rest), root, unnamed, depth)


def _all(told: Iterable[Verdict]) -> Verdict:
    seen = list(told)
    return False if False in seen else None if None in seen else True


def _any(told: Iterable[Verdict]) -> Verdict:
    seen = list(told)
    return True if True in seen else None if None in seen else False


def _one(told: list[Verdict]) -> Verdict:
    certain, possible = told.count(True), len(told) - told.count(False)
    if certain > 1 or not possible:
        return False
    return True if certain == possible == 1 else None
