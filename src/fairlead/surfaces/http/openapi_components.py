"""Schemas as an OpenAPI document holds them: definitions moved to `components`, references led there.

An action's schema stands on its own and refers to its own `$defs`; in a document there is one such place for all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fairlead._json import encode

Schema = dict[str, Any]

_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLES = (
    *("items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else"),
    *("unevaluatedItems", "unevaluatedProperties", "contentSchema"),
)
#: What gives references another meaning than "from the root of this schema".
_BASES = ("$id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveRef", "$recursiveAnchor")
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_SIMPLE = re.compile(r"#/\$defs/([^/%~]+)")


class Components:
    """The `components.schemas` of a document, and the way in for the schemas of actions."""

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self.schemas: dict[str, Schema] = dict(schemas)
        self._placed: dict[bytes, str] = {}

    def embed(self, schema: Schema, owner: str, side: str) -> Schema:
        """The schema, or a reference to where it was put. `owner` and `side` name it where it needs a name."""
        parts = list(_parts(schema))
        references = [part["$ref"] for part in parts if isinstance(part.get("$ref"), str)]
        if (
            any(key in part for part in parts for key in _BASES)
            or schema.get("$schema", _DIALECT) != _DIALECT
        ):
            return _loose(schema, owner)
        plain = {key: value for key, value in schema.items() if key != "$schema"}
        if all(_SIMPLE.fullmatch(ref) for ref in references):
            definitions = plain.pop("$defs", {})
            return self._moved(plain, definitions, side)
        if all(ref.startswith("#") for ref in references):
            name = self._free(f"{owner}_{side.lower()}")
            place = f"#/components/schemas/{name}"
            self.schemas[name] = _rewritten(plain, lambda ref: place + ref[1:])
            return {"$ref": place}
        return _loose(schema, owner)

    def _moved(self, schema: Schema, definitions: Mapping[str, Any], side: str) -> Schema:
        names: dict[str, str] = {}
        for local in _reachable(schema, definitions):
            closure = [
                (each, definitions[each]) for each in sorted(_reachable(definitions[local], definitions))
            ]
            content = encode([local, definitions[local], closure], sort_keys=True)
            if content not in self._placed:
                self._placed[content] = self._free(_identifier(local), side)
                # Kept free for it while the others are named.
                self.schemas[self._placed[content]] = {}
            names[local] = self._placed[content]

        def lead(ref: str) -> str:
            return f"#/components/schemas/{names[ref.removeprefix('#/$defs/')]}"

        for local, name in names.items():
            self.schemas[name] = self.schemas[name] or _rewritten(definitions[local], lead)
        moved: Schema = _rewritten(schema, lead)
        return moved

    def _free(self, name: str, side: str = "") -> str:
        """The name, or one like it that is not taken."""
        if name not in self.schemas:
            return name
        stem = name + side
        number = 1
        while (tried := stem if number == 1 else f"{stem}{number}") in self.schemas:
            number += 1
        return tried


def _loose(schema: Schema, owner: str) -> Schema:
    """What is left of a schema whose references or dialect have no meaning inside a document."""
    told = {key: schema[key] for key in ("title", "type") if isinstance(schema.get(key), str)}
    note = f"Its full JSON Schema is in the description of the action `{owner}`."
    given = schema.get("description")
    return {**told, "description": f"{given} {note}" if isinstance(given, str) else note}


def _parts(schema: Any) -> Iterator[Schema]:
    """The schema and all schemas in it; not what only looks like one, in a default or an example."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield part
            waiting.extend(inner for key, value in part.items() for inner in _inside(key, value))


def _inside(key: str, value: Any) -> list[Any]:
    if key in _MAPS and isinstance(value, dict):
        return list(value.values())
    if key in _LISTS and isinstance(value, list):
        return value
    return [value] if key in _SINGLES else []


def _rewritten(schema: Any, lead: Callable[[str], str]) -> Any:
    """A copy in which every reference goes where it is led."""
    if not isinstance(schema, dict):
        return schema
    told: Schema = {}
    for key, value in schema.items():
        if key == "$ref" and isinstance(value, str):
            told[key] = lead(value)
        elif key in _MAPS and isinstance(value, dict):
            told[key] = {name: _rewritten(inner, lead) for name, inner in value.items()}
        elif key in _LISTS and isinstance(value, list):
            told[key] = [_rewritten(inner, lead) for inner in value]
        else:
            told[key] = _rewritten(value, lead) if key in _SINGLES else value
    if told.get("type") == "array" and "items" not in told:
        # Readers of documents want to see it said, though JSON Schema does not.
        told["items"] = {}
    return told


def _reachable(schema: Any, definitions: Mapping[str, Any]) -> list[str]:
    """The definitions that a schema refers to, and those that they refer to, in order."""
    found: list[str] = []
    waiting = [schema]
    while waiting:
        for part in _parts(waiting.pop(0)):
            ref = part.get("$ref")
            local = ref.removeprefix("#/$defs/") if isinstance(ref, str) else None
            if local is not None and local in definitions and local not in found:
                found.append(local)
                waiting.append(definitions[local])
    return found


def _identifier(name: str) -> str:
    """A name as `components` allow it."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("_") or "Schema"
