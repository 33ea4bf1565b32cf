"""Does a value fit a JSON Schema, structurally?

A small and fast check that steers repair. It knows the keywords that say where a value is wrong and passes
over the rest (`not`, `if`, formats, ...), so what a full validator accepts always fits.
"""

from __future__ import annotations

from functools import lru_cache
from math import isfinite
from typing import Any

from fairlead.schema.readings import null
from fairlead.schema.wording import json_type

_DEEPEST = 100
_IN_PLACE = frozenset({"$ref", "anyOf", "oneOf", "allOf"})
#: Formats that neither a blank nor the word null has.
_NO_WORDS = frozenset({"date", "time", "date-time", "duration", "uuid", "uri", "email", "ipv4", "ipv6"})


def resolve(ref: str, root: Any) -> Any:
    """What a local reference points at; True, which fits everything, when it points elsewhere."""
    if not ref.startswith("#"):
        return True
    target = root
    for step in ref[1:].split("/")[1:]:
        step = _unescape(step)
        if isinstance(target, list) and step.isdigit() and int(step) < len(target):
            target = target[int(step)]
        elif isinstance(target, dict) and step in target:
            target = target[step]
        else:
            return True
    return target if ref == "#" or ref.startswith("#/") else True


def _unescape(step: str) -> str:
    from urllib.parse import unquote

    return unquote(step).replace("~1", "/").replace("~0", "~")


class Fit:
    """Answers for one root schema, remembering what it was asked; values must outlive it."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self._known: dict[tuple[int, int], bool] = {}
        self._alive: list[Any] = []

    def __call__(self, value: Any, schema: Any, depth: int = 0) -> bool:
        if not isinstance(schema, dict):
            return schema is not False
        if depth > _DEEPEST:
            return True
        # Parts of a schema may be mentioned again and again: each is looked at once for each value.
        if not isinstance(value, (dict, list)) and schema.keys().isdisjoint(_IN_PLACE):
            return self._check(value, schema, depth)
        key = (id(value), id(schema))
        if key not in self._known:
            self._alive.append((value, schema))
            self._known[key] = self._check(value, schema, depth)
        return self._known[key]

    def _check(self, value: Any, schema: dict[str, Any], depth: int) -> bool:
        if value is None and schema.get("nullable") is True:
            return True
        if not _is_of_type(value, schema) or not _is_allowed(value, schema):
            return False
        if isinstance(schema.get("$ref"), str) and not self(
            value, resolve(schema["$ref"], self.root), depth + 1
        ):
            return False
        for keyword in ("anyOf", "oneOf"):
            branches = schema.get(keyword)
            if isinstance(branches, list) and not any(self(value, branch, depth + 1) for branch in branches):
                return False
        every = schema.get("allOf")
        if isinstance(every, list) and not all(self(value, branch, depth + 1) for branch in every):
            return False
        if isinstance(value, dict):
            return self._object(value, schema, depth)
        if isinstance(value, list):
            return self._array(value, schema, depth)
        return _is_in_bounds(value, schema)

    def _object(self, value: dict[str, Any], schema: dict[str, Any], depth: int) -> bool:
        if not _is_count_in(len(value), schema, "Properties") or missing(value, schema):
            return False
        return all(self(item, each, depth + 1) for key, item in value.items() for each in under(key, schema))

    def _array(self, value: list[Any], schema: dict[str, Any], depth: int) -> bool:
        if not _is_count_in(len(value), schema, "Items"):
            return False
        return all(self(item, at(index, schema), depth + 1) for index, item in enumerate(value))


def fits(value: Any, schema: Any) -> bool:
    """Whether a value fits a JSON Schema, as far as this module looks."""
    return Fit(schema)(value, schema)


def missing(value: dict[str, Any], schema: dict[str, Any]) -> list[str]:
    """The required keys that a value lacks."""
    required = schema.get("required")
    return [key for key in required if key not in value] if isinstance(required, list) else []


def under(key: str, schema: dict[str, Any]) -> list[Any]:
    """The schemas that a key's value must fit."""
    properties = schema.get("properties")
    found = [properties[key]] if isinstance(properties, dict) and key in properties else []
    patterns = schema.get("patternProperties")
    if isinstance(patterns, dict) and isinstance(key, str):
        found += [each for pattern, each in patterns.items() if matches(pattern, key)]
    if not found and "additionalProperties" in schema:
        found = [schema["additionalProperties"]]
    return found


def at(index: int, schema: dict[str, Any]) -> Any:
    """The schema that an item must fit."""
    items = schema.get("items", True)
    prefix = schema.get("prefixItems")
    if isinstance(items, list):  # before draft 2020-12
        prefix, items = items, schema.get("additionalItems", True)
    if isinstance(prefix, list) and index < len(prefix):
        return prefix[index]
    return items


def declared_types(schema: dict[str, Any]) -> set[str]:
    """The `type` keyword as a set, with OpenAPI's `nullable`; empty when not stated."""
    declared = schema.get("type")
    types = (
        {declared} if isinstance(declared, str) else set(declared) if isinstance(declared, list) else set()
    )
    if types and schema.get("nullable") is True:
        types.add("null")
    return types


def same(one: Any, other: Any) -> bool:
    """Equality as JSON means it: true is not 1, 1.0 is 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def matches(pattern: Any, text: str) -> bool:
    """Whether a pattern is found in a text, in linear time; True when the pattern is beyond that engine."""
    check = _searcher(pattern) if isinstance(pattern, str) else None
    return check is None or bool(check(text))


@lru_cache(maxsize=512)
def _searcher(pattern: str) -> Any:
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, strict=True)).isinstance_python
    except SchemaError:
        return None


def _is_of_type(value: Any, schema: dict[str, Any]) -> bool:
    types = declared_types(schema)
    if not types:
        return True
    found = json_type(value)
    return found in types or (found == "integer" and "number" in types)


def _is_allowed(value: Any, schema: dict[str, Any]) -> bool:
    options = schema.get("enum")
    if isinstance(options, list):
        # A text is the same as itself only, and there may be hundreds to look through.
        among = value in options if type(value) is str else any(same(value, option) for option in options)
        if not among:
            return False
    return "const" not in schema or same(value, schema["const"])


def _is_in_bounds(value: Any, schema: dict[str, Any]) -> bool:
    if isinstance(value, str):
        return _is_text_in_bounds(value, schema)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return True
    if isinstance(value, float) and not isfinite(value):
        return False
    return not (
        _below(value, schema.get("minimum"))
        or _below(schema.get("maximum"), value)
        or _not_below(schema.get("exclusiveMinimum"), value)
        or _not_below(value, schema.get("exclusiveMaximum"))
    )


def _is_text_in_bounds(value: str, schema: dict[str, Any]) -> bool:
    declared = schema.get("format")
    if declared in _NO_WORDS and (not value.strip() or null(value) is None):
        return False
    if declared == "hostname" and not value.strip():
        return False
    if "pattern" in schema and not matches(schema["pattern"], value):
        return False
    return _is_count_in(len(value), schema, "Length")


def _is_count_in(count: int, schema: dict[str, Any], unit: str) -> bool:
    return not (_below(count, schema.get(f"min{unit}")) or _below(schema.get(f"max{unit}"), count))


def _below(low: Any, high: Any) -> bool:
    return _is_number(low) and _is_number(high) and bool(low < high)


def _not_below(low: Any, high: Any) -> bool:
    return _is_number(low) and _is_number(high) and bool(low >= high)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
