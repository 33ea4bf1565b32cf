"""A JSON Schema reduced to a few kinds of nodes, so that each provider's dialect is written over those alone.

Composition (`allOf`, `oneOf`, lists of types, `const`, `nullable`, older drafts' words) is gone afterwards. What has no
regular shape is of the kind `any`. A schema that lists `properties` and is silent about others means only those:
that is how schemas are written, and extra keys that nobody declared are of no use to a model.
It knows no provider.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

from fairlead.schema.fits import declared_types, resolve, same
from fairlead.schema.wording import json_type

Kind = Literal["any", "ref", "enum", "scalar", "object", "record", "array", "tuple", "union"]

#: What says something about a schema without changing what fits it.
ANNOTATIONS: Final = frozenset({
    "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly",
    "$comment", "$schema", "$id", "$anchor", "$defs", "definitions",
})  # fmt: skip
_SCALARS: Final = frozenset({"string", "number", "integer", "boolean", "null"})
_OBJECT_WORDS: Final = ("properties", "additionalProperties", "patternProperties", "unevaluatedProperties")
_ARRAY_WORDS: Final = ("items", "prefixItems")
_LOWER: Final = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"})
_UPPER: Final = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"})
_DEEPEST: Final = 100


class Node(NamedTuple):
    """One schema, by its kind. `schema` has its annotations and limits; the rest belongs to some kinds only."""

    kind: Kind
    schema: Mapping[str, Any]
    #: Of a union: its branches. Of a tuple: its places.
    parts: tuple[Any, ...] = ()
    #: Of an object.
    properties: Mapping[str, Any] = {}
    required: frozenset[str] = frozenset()
    #: Of an array: its items. Of a record, or an object that takes more keys: their values; None when it takes none.
    items: Any = None
    #: Of a record: its keys.
    keys: Any = True
    #: Of an enum.
    values: tuple[Any, ...] = ()

    @property
    def type(self) -> str:
        """Of a scalar: its type."""
        return str(self.schema["type"])

    @property
    def is_open(self) -> bool:
        """Whether an object takes keys beyond those it names."""
        return self.kind == "object" and self.items is not None


class Nodes:
    """The nodes of one document."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self._nodes: dict[int, Node] = {}
        self._alive: list[Any] = []

    def node(self, schema: Any) -> Node:
        """The node of a schema in the document; a reference stays one."""
        known = self._nodes.get(id(schema))
        if known is None:
            self._alive.append(schema)
            known = self._nodes[id(schema)] = _node(self._plain(schema))
        return known

    def target(self, schema: Any) -> Node:
        """The node of a schema, seen through references; `any` where they lead nowhere."""
        for _ in range(_DEEPEST):
            node = self.node(schema)
            if node.kind != "ref":
                return node
            schema = resolve(node.schema["$ref"], self.root)
        return Node("any", {})

    def within(self, schema: Any) -> Iterator[Node]:
        """Every node that can be reached from a schema, itself included, each once."""
        waiting, seen = [schema], set()
        while waiting:
            schema = waiting.pop()
            if id(schema) in seen:
                continue
            node = self.node(schema)
            seen.add(id(schema))
            yield node
            waiting += self._children(node)

    def _children(self, node: Node) -> list[Any]:
        if node.kind == "ref":
            return [resolve(node.schema["$ref"], self.root)]
        below = [*node.parts, *node.properties.values()]
        return below if node.items is None else [*below, node.items]

    def _plain(self, schema: Any, depth: int = 0) -> dict[str, Any] | None:
        """The schema without `allOf` and without constraints beside a reference; None when that cannot be."""
        if schema is True:
            return {}
        if not isinstance(schema, dict) or depth > _DEEPEST:
            return None
        if isinstance(schema.get("$ref"), str):
            beside = {key: value for key, value in schema.items() if key != "$ref"}
            if all(key in ANNOTATIONS for key in beside):
                return schema
            target = self._plain(resolve(schema["$ref"], self.root), depth + 1)
            return None if target is None else _merged(beside, target)
        parts = schema.get("allOf")
        if not isinstance(parts, list):
            return schema
        merged: dict[str, Any] | None = {key: value for key, value in schema.items() if key != "allOf"}
        for part in parts:
            plain = self._plain(part, depth + 1)
            if plain is not None and "$ref" in plain:
                plain = self._plain(resolve(plain["$ref"], self.root), depth + 1)
            merged = None if plain is None or merged is None else _merged(merged, plain)
        return merged


def _node(schema: dict[str, Any] | None) -> Node:
    if schema is None:
        return Node("any", {})
    if isinstance(schema.get("$ref"), str):
        return Node("ref", schema)
    if schema.get("nullable") is True:
        inner = {key: value for key, value in schema.items() if key != "nullable"}
        return Node("union", _annotations(schema), parts=(inner, {"type": "null"}))
    if "const" in schema or isinstance(schema.get("enum"), list):
        return _enum(schema)
    for keyword in ("anyOf", "oneOf"):
        if isinstance(schema.get(keyword), list):
            return _union(schema, keyword)
    return _typed(schema)


def _annotations(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key in ANNOTATIONS}


def _enum(schema: dict[str, Any]) -> Node:
    listed = schema["enum"] if isinstance(schema.get("enum"), list) else [schema["const"]]
    types = declared_types(schema)
    values: list[Any] = []
    for value in listed:
        kind = json_type(value)
        fits = not types or kind in types or (kind == "integer" and "number" in types)
        if fits and not any(same(value, other) for other in values):
            values.append(value)
    if not values or any(isinstance(value, dict | list) for value in values):
        return Node("any", _annotations(schema))
    return Node("enum", schema, values=tuple(values))


def _union(schema: dict[str, Any], keyword: str) -> Node:
    branches = schema[keyword]
    base = {key: value for key, value in schema.items() if key != keyword and key not in ANNOTATIONS}
    if base and all(isinstance(each, dict) and set(each) <= {"required"} for each in branches):
        # Which keys must come together is left to the action's own check.
        return _node({**_annotations(schema), **base})
    if base:
        merged = [_merged(base, each) if isinstance(each, dict) else None for each in branches]
        if any(each is None or "$ref" in each for each in merged):
            return Node("any", _annotations(schema))
        branches = merged
    if len(branches) == 1 and isinstance(branches[0], dict) and not set(branches[0]) & {"$ref", "allOf"}:
        return _node({**branches[0], **_annotations(schema)})
    return Node("union", _annotations(schema), parts=tuple(branches)) if branches else Node("any", {})


def _typed(schema: dict[str, Any]) -> Node:
    types = declared_types(schema)
    if {"integer", "number"} <= types:
        types.discard("integer")
    if not types:
        types = {"object"} if any(key in schema for key in _OBJECT_WORDS) else types
        types = {"array"} if not types and any(key in schema for key in _ARRAY_WORDS) else types
    if len(types) > 1:
        alone = {key: value for key, value in schema.items() if key not in ANNOTATIONS and key != "type"}
        order = [each for each in schema["type"] if each in types]
        return Node("union", _annotations(schema), parts=tuple({**alone, "type": each} for each in order))
    (kind,) = types or {""}
    if kind == "object":
        return _object(schema)
    if kind == "array":
        return _array(schema)
    return Node("scalar", {**schema, "type": kind}) if kind in _SCALARS else Node("any", _annotations(schema))


def _object(schema: dict[str, Any]) -> Node:
    properties = dict(schema.get("properties") or {})
    required = frozenset(key for key in schema.get("required") or () if isinstance(key, str))
    patterns = schema.get("patternProperties") or {}
    extra = schema.get("additionalProperties", schema.get("unevaluatedProperties"))
    if patterns:
        if properties or required or len(patterns) > 1 or extra not in (None, False):
            return Node("any", {**_annotations(schema), "type": "object"})
        ((pattern, values),) = patterns.items()
        return Node("record", schema, items=values, keys={"type": "string", "pattern": pattern})
    if extra is None and "properties" in schema:
        extra = False
    if extra is not False and not properties:
        if required or extra in (None, True) or extra == {}:
            return Node("any", {**_annotations(schema), "type": "object"})
        return Node("record", schema, items=extra, keys=schema.get("propertyNames", True))
    for key in sorted(required - set(properties)):
        properties[key] = True
    items = None if extra is False else True if extra is None else extra
    return Node("object", schema, properties=properties, required=required, items=items)


def _array(schema: dict[str, Any]) -> Node:
    items, places = schema.get("items", True), schema.get("prefixItems")
    if isinstance(items, list):  # before draft 2020-12
        places, items = items, schema.get("additionalItems", True)
    if not places:
        return Node("any", _annotations(schema)) if items is False else Node("array", schema, items=items)
    count = len(places)
    least, most = schema.get("minItems", 0), schema.get("maxItems", count if items is False else None)
    if least == most == count:
        return Node("tuple", schema, parts=tuple(places))
    return Node("any", _annotations(schema))


def _merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any] | None:
    """What fits both schemas, as one; None where their keywords cannot simply be put together."""
    if _closes(one, other) or _closes(other, one):
        return None
    merged = {**one, **{key: value for key, value in other.items() if key not in one}}
    for key in one.keys() & other.keys():
        mine, theirs = one[key], other[key]
        if same(mine, theirs) or key in ANNOTATIONS:
            continue
        if key == "properties":
            if any(not same(mine[name], theirs[name]) for name in mine.keys() & theirs.keys()):
                return None
            merged[key] = {**mine, **theirs}
        elif key == "required":
            merged[key] = list(dict.fromkeys([*mine, *theirs]))
        elif key in _LOWER or key in _UPPER:
            merged[key] = (max if key in _LOWER else min)(mine, theirs)
        else:
            return None
    return merged


def _closes(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether one has a say about keys that only the other declares."""
    if one.get("additionalProperties") in (None, True) and not one.get("patternProperties"):
        return False
    return bool(set(other.get("properties") or ()) - set(one.get("properties") or ()))
