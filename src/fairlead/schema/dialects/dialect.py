"""What each provider's tools may say of a shape, and a shape said in its words.

A keyword that a provider refuses would make it refuse the whole request, so only those known to be taken are kept; the
limits among the others are told in the description, for the model to follow, and are checked when the call comes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from fairlead._json import dumps
from fairlead.schema.dialects.nodes import Node, Nodes
from fairlead.schema.fits import resolve
from fairlead.schema.wording import json_type

#: Limits that are worth telling a model where the schema may not state them.
_TOLD: Final = (
    "format", "pattern", "minLength", "maxLength", "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum",
    "multipleOf", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "default", "examples",
    "deprecated",
)  # fmt: skip
_LONGEST_TOLD: Final = 200
#: Look-around, flags and back references; their engines know none of them.
_IRREGULAR: Final = re.compile(r"\(\?(?!:)|\\[1-9AZzbBGkpP]")
_NAME: Final = re.compile(r"[^A-Za-z0-9_-]+")


class Dialect(NamedTuple):
    """The subset of JSON Schema that a provider takes, beyond types, properties, items, unions and references."""

    keywords: frozenset[str]
    formats: frozenset[str]
    #: Whether every object must refuse keys that it does not name.
    closed: bool
    #: Whether an enum may hold true and false.
    boolean_enums: bool = True


_NUMBERS: Final = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
_FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)

OPENAI: Final = Dialect(
    frozenset({"title", "description", "format", "pattern", "minItems", "maxItems", *_NUMBERS}),
    _FORMATS,
    closed=True,
)
ANTHROPIC: Final = Dialect(frozenset({"title", "description", "format"}), _FORMATS | {"uri"}, closed=True)
GEMINI: Final = Dialect(
    frozenset({"title", "description", "format", "minItems", "maxItems", "minimum", "maximum"}),
    frozenset({"date-time", "time", "date"}),
    closed=False,
    boolean_enums=False,
)


def kept(schema: Mapping[str, Any], dialect: Dialect, more: str = "") -> dict[str, Any]:
    """A schema's own words in a dialect: what may be stated is, other limits stand in the description."""
    stated = {key: value for key, value in schema.items() if key in dialect.keywords}
    if schema.get("format") not in dialect.formats:
        stated.pop("format", None)
    if isinstance(schema.get("pattern"), str) and _IRREGULAR.search(schema["pattern"]):
        stated.pop("pattern", None)
    limits = [_limit(key, schema[key]) for key in _TOLD if key in schema and key not in stated]
    notes = ", ".join(filter(None, [more, *limits]))
    words = [str(schema["description"])] if schema.get("description") else []
    if notes:
        words.append(f"({notes})")
    if words:
        stated["description"] = " ".join(words)
    return stated


def _limit(key: str, value: Any) -> str:
    if value is None:
        return ""
    told = dumps(value, default=str)
    return f"{key}: {told}" if len(told) <= _LONGEST_TOLD else ""


def enumerated(values: tuple[Any, ...], stated: dict[str, Any], dialect: Dialect) -> dict[str, Any]:
    """Some values, each type by itself, as all dialects take it."""
    by_type: dict[str, list[Any]] = {}
    for value in values:
        kind = json_type(value)
        by_type.setdefault("number" if kind == "integer" and _mixed(values) else kind, []).append(value)
    branches = [_of_type(kind, listed, dialect) for kind, listed in by_type.items()]
    return {**branches[0], **stated} if len(branches) == 1 else {"anyOf": branches, **stated}


def _mixed(values: tuple[Any, ...]) -> bool:
    return any(isinstance(value, float) for value in values)


def _of_type(kind: str, values: list[Any], dialect: Dialect) -> dict[str, Any]:
    if kind == "null" or (kind == "boolean" and (len(values) == 2 or not dialect.boolean_enums)):
        return {"type": kind}
    return {"type": kind, "enum": values}


class Names:
    """Names under `$defs` for what is referred to."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def __getitem__(self, ref: str) -> str:
        if ref not in self._names:
            stem = _NAME.sub("_", ref.rpartition("/")[2]).strip("_") or "root"
            name, taken = stem, set(self._names.values())
            while name in taken:
                name += "_"
            self._names[ref] = name
        return self._names[ref]

    def __iter__(self) -> Any:
        return iter(list(self._names.items()))


class Rewriter:
    """A document in a dialect that has open objects, or in which there are none: values stay as they are."""

    def __init__(self, nodes: Nodes, dialect: Dialect) -> None:
        self._nodes = nodes
        self._dialect = dialect
        self._names = Names()

    def document(self) -> dict[str, Any]:
        """The whole document, with an object at its root."""
        root = self._nodes.target(self._nodes.root)
        told = self._told(root)
        definitions: dict[str, Any] = {}
        while unsaid := [(ref, name) for ref, name in self._names if name not in definitions]:
            for ref, name in unsaid:
                definitions[name] = self._schema(resolve(ref, self._nodes.root))
        return {**told, "$defs": definitions} if definitions else told

    def _schema(self, schema: Any) -> dict[str, Any]:
        return self._told(self._nodes.node(schema))

    def _told(self, node: Node) -> dict[str, Any]:
        stated = kept(node.schema, self._dialect)
        if node.kind == "ref":
            told = {"$ref": f"#/$defs/{self._names[node.schema['$ref']]}"}
            return {"anyOf": [told], **stated} if stated else told
        if node.kind == "enum":
            return enumerated(node.values, stated, self._dialect)
        if node.kind == "scalar":
            return {"type": node.type, **stated}
        if node.kind == "union":
            return {"anyOf": [self._schema(each) for each in node.parts], **stated}
        if node.kind == "array":
            return {"type": "array", "items": self._schema(node.items), **stated}
        if node.kind == "tuple":
            return {"type": "array", "prefixItems": [self._schema(each) for each in node.parts], **stated}
        if node.kind == "any":
            return {**({"type": "object"} if "type" in node.schema else {}), **stated}
        return self._object(node, stated)

    def _object(self, node: Node, stated: dict[str, Any]) -> dict[str, Any]:
        told: dict[str, Any] = {"type": "object"}
        if node.kind == "object":
            told["properties"] = {name: self._schema(each) for name, each in node.properties.items()}
            told["required"] = [name for name in node.properties if name in node.required]
        told["additionalProperties"] = False if node.items is None else self._extra(node.items)
        return {**told, **stated}

    def _extra(self, items: Any) -> Any:
        return True if items is True or items == {} else self._schema(items)
