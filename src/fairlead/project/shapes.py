"""Reading JSON Schemas: what they say about values, apart from the words in which they say it.

Comparing two of them is in `compatibility`, checking a value by one is in `verdict`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import reduce
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import unquote

Document = Mapping[str, Any] | bool

TYPES: Final = ("null", "boolean", "integer", "number", "string", "array", "object")
#: Keywords that say nothing about values. So do those that begin with `x-`.
_WORDS: Final = frozenset(
    """
    title description examples default deprecated readOnly writeOnly $comment $schema $id $defs definitions
    discriminator contentMediaType contentEncoding $anchor $dynamicAnchor $vocabulary nullable
    """.split()  # noqa: SIM905  # a table reads better than a list of strings
)
#: Keyword, what it measures, and whether it is a lower bound.
BOUNDS: Final = (
    ("minLength", "string", True),
    ("maxLength", "string", False),
    ("minItems", "array", True),
    ("maxItems", "array", False),
    ("minProperties", "object", True),
    ("maxProperties", "object", False),
)
_LOWER: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_UPPER: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_READ: Final = frozenset(
    """
    type enum const anyOf oneOf allOf $ref properties required additionalProperties patternProperties items
    prefixItems uniqueItems multipleOf
    """.split()  # noqa: SIM905
).union(_LOWER, _UPPER)
#: Keywords that only mean something together.
_TOGETHER: Final = (("contains", "minContains", "maxContains"), ("if", "then", "else"))
_COMPOUND: Final = ("$ref", "allOf", "anyOf", "oneOf")
_SCHEMAS: Final = frozenset(["properties", "patternProperties", "dependentSchemas"])
_LISTS: Final = frozenset(["anyOf", "oneOf", "allOf", "prefixItems"])


class Unreadable(ValueError):
    """A schema refers to what is not in its document, or is not a schema."""


def resolved(reference: str, root: Document) -> Any:
    """What a `$ref` leads to. Raises Unreadable when that is not in the document."""
    fragment = reference.removeprefix("#")
    if not reference.startswith("#") or (fragment and not fragment.startswith("/")):
        raise Unreadable
    found: Any = root
    for step in fragment.split("/")[1:]:
        step = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and step.isdecimal() and int(step) < len(found):
            found = found[int(step)]
        elif isinstance(found, Mapping) and step in found:
            found = found[step]
        else:
            raise Unreadable
    return found


class Part(NamedTuple):
    """One of the things that a schema says; all of them hold together."""

    word: Literal["plain", "schema", "anyOf", "oneOf"]
    schema: Any


def parts(schema: Mapping[str, Any], root: Document) -> Iterator[Part]:
    """What a schema says: its plain keywords, what it refers to, and its alternatives."""
    plain = {key: value for key, value in schema.items() if key not in _COMPOUND}
    if len(plain) == len(schema) or set(plain) - _WORDS:
        yield Part("plain", plain)
    if "$ref" in schema:
        yield Part("schema", resolved(schema["$ref"], root))
    for each in schema.get("allOf", ()):
        yield Part("schema", each)
    if "anyOf" in schema:
        yield Part("anyOf", schema)
    if "oneOf" in schema:
        yield Part("oneOf", schema)


def types(schema: Mapping[str, Any]) -> set[str]:
    """The types that a schema lets through; `number` stands for whole numbers, too."""
    given = schema.get("type")
    named = set(TYPES) if given is None else {given} if isinstance(given, str) else set(given)
    if "number" in named:
        step = schema.get("multipleOf")
        whole = step is not None and exact(step).denominator == 1
        named = named - {"number"} | {"integer"} if whole else named - {"integer"}
    return named


def values(schema: Mapping[str, Any]) -> list[Any] | None:
    """All values that a schema lets through at most, when they can be listed."""
    listed = [schema["const"]] if "const" in schema else None
    if "enum" in schema:
        listed = list(schema["enum"]) if listed is None else [v for v in listed if holds(schema["enum"], v)]
    named = types(schema)
    if listed is None and named <= {"null", "boolean"}:
        listed = [None] * ("null" in named) + [False, True] * ("boolean" in named)
    return None if listed is None else [value for value in listed if is_of(value, named)]


def is_of(value: Any, named: set[str]) -> bool:
    """Whether a value has one of the types."""
    mine = type_of(value)
    return mine in named or (mine == "integer" and "number" in named)


def type_of(value: Any) -> str:
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    plain = {bool: "boolean", int: "integer", str: "string", list: "array", dict: "object"}
    return plain.get(type(value), "null")


def equal(one: Any, other: Any) -> bool:
    """Equality as JSON has it: 1 is 1.0, and is not true."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    return bool(one == other)


def holds(listed: list[Any], wanted: Any) -> bool:
    return any(equal(value, wanted) for value in listed)


def exact(number: float) -> Fraction:
    """The number as it is written: 0.1 is a tenth."""
    return Fraction(str(number))


def range_of(schema: Mapping[str, Any]) -> tuple[tuple[float, bool], tuple[float, bool]]:
    """The bounds of numbers: the lower with whether it is left out, the upper with whether it is in."""
    low = max((schema.get("minimum", -math.inf), False), (schema.get("exclusiveMinimum", -math.inf), True))
    high = min((schema.get("maximum", math.inf), True), (schema.get("exclusiveMaximum", math.inf), False))
    return low, high


def opaque(schema: Mapping[str, Any]) -> dict[str, str]:
    """What is compared by its text only; keywords that belong together are one entry."""
    found: dict[str, Any] = {}
    for keyword in schema:
        if keyword in _READ or keyword in _WORDS or keyword.startswith("x-"):
            continue
        group = next((each for each in _TOGETHER if keyword in each), (keyword,))
        found[group[0]] = {each: schema[each] for each in group if each in schema}
    return {keyword: text(value) for keyword, value in found.items()}


def text(schema: Any) -> str:
    """A schema's meaning as text: equal texts mean the same, unless they refer to something."""
    return json.dumps(_bare(schema), sort_keys=True)


def refers(schema: Any) -> bool:
    """Whether equal texts may mean different things, by what they refer to."""
    if isinstance(schema, Mapping):
        return "$ref" in schema or "$dynamicRef" in schema or any(map(refers, schema.values()))
    return isinstance(schema, list) and any(map(refers, schema))


def _bare(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    return {
        key: _bare_value(key, value)
        for key, value in schema.items()
        if (key not in _WORDS or key == "nullable") and not key.startswith("x-")
    }


def _bare_value(key: str, value: Any) -> Any:
    if key in ("const", "dependentRequired"):
        return value
    if key in _SCHEMAS and isinstance(value, Mapping):
        return {name: _bare(member) for name, member in value.items()}
    if key in _LISTS and isinstance(value, list):
        return [_bare(each) for each in value]
    if key in ("required", "enum", "type") and isinstance(value, list):
        return sorted(value, key=lambda each: json.dumps(each, sort_keys=True))
    return _bare(value)


def meet(schemas: list[Document]) -> Document:
    """One plain schema that lets through at least what passes all of these plain ones."""
    if any(schema is False for schema in schemas):
        return False
    nothing_said: Document = {}
    return reduce(_meet, [schema for schema in schemas if isinstance(schema, Mapping)], nothing_said)


def _meet(one: Document, other: Document) -> Document:
    if not isinstance(one, Mapping) or not isinstance(other, Mapping):
        return False
    if not one or not other:
        return one or other
    met: dict[str, Any] = {**one, **other}
    named = {each for each in TYPES if is_type(each, types(one)) and is_type(each, types(other))}
    if not named:
        return False
    met["type"] = sorted(named)
    listed = [values(each) for each in (one, other)]
    for mine, theirs in (listed, listed[::-1]):
        if mine is not None:
            met.pop("const", None)
            met["enum"] = mine if theirs is None else [value for value in mine if holds(theirs, value)]
    for names, stricter in ((_LOWER, max), (_UPPER, min)):
        met |= {n: stricter(s[n] for s in (one, other) if n in s) for n in names if n in met}
    if (
        "multipleOf" in one
        and "multipleOf" in other
        and not exact(one["multipleOf"]) % exact(other["multipleOf"])
    ):
        met["multipleOf"] = one["multipleOf"]
    met |= {"required": sorted({*one.get("required", ()), *other.get("required", ())})}
    met |= {word: True for word in ("uniqueItems", "nullable") if one.get(word) or other.get(word)}
    for group in _TOGETHER:
        if any(each in one for each in group):
            met = {key: value for key, value in met.items() if key not in group}
            met |= {each: one[each] for each in group if each in one}
    return met | _met_members(one, other) | _met_items(one, other)


def is_type(name: str, named: set[str]) -> bool:
    return name in named or (name == "integer" and "number" in named)


def _met_members(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    names = dict.fromkeys([*one.get("properties", {}), *other.get("properties", {})])
    met: dict[str, Any] = {}
    if names:
        met["properties"] = {name: _all(member(one, name), member(other, name)) for name in names}
    rests = [each["additionalProperties"] for each in (one, other) if "additionalProperties" in each]
    if rests:
        met["additionalProperties"] = _all(*rests)
    patterns = [each.get("patternProperties", {}) for each in (one, other)]
    if any(patterns):
        met["patternProperties"] = {
            pattern: _all(*(each[pattern] for each in patterns if pattern in each))
            for pattern in {**patterns[0], **patterns[1]}
        }
    return met


def member(schema: Mapping[str, Any], name: str) -> Document:
    """What a schema says about the member of a name, at least."""
    given: dict[str, Document] = schema.get("properties", {})
    if name in given:
        return given[name]
    rest: Document = schema.get("additionalProperties", True)
    return True if schema.get("patternProperties") else rest


def _met_items(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    length = max(len(each.get("prefixItems", ())) for each in (one, other))
    met: dict[str, Any] = {}
    if length:
        met["prefixItems"] = [_all(item(one, index), item(other, index)) for index in range(length)]
    if "items" in one or "items" in other:
        met["items"] = _all(one.get("items", True), other.get("items", True))
    return met


def item(schema: Mapping[str, Any], index: int) -> Document:
    """What a schema says about the item at a place."""
    first: list[Document] = schema.get("prefixItems", [])
    rest: Document = schema.get("items", True)
    if isinstance(rest, list):
        raise Unreadable
    return first[index] if 0 <= index < len(first) else rest


def _all(*schemas: Document) -> Document:
    said = [schema for schema in schemas if schema is not True]
    if len(said) < 2:
        return said[0] if said else True
    return {"allOf": said}
