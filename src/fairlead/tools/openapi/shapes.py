"""Schemas of an OpenAPI document as JSON Schema of their own: 3.0's words translated, references brought along.

A reference is followed when it is met, and once: what refers to itself stays a reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fairlead.tools.openapi.document import Document

#: What only OpenAPI knows.
_STRANGE: Final = ("nullable", "discriminator", "xml", "externalDocs", "example", "readOnly", "writeOnly")
_ONE: Final = ("not", "if", "then", "else", "items", "contains", "additionalProperties", "propertyNames")
_ONE_MORE: Final = ("unevaluatedItems", "unevaluatedProperties")
_MANY: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_NAMED: Final = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")


class Shapes:
    """Translates schemas, and keeps the definitions that they refer to."""

    def __init__(self, document: Document, *, request: bool = True) -> None:
        self._document = document
        #: What a caller sends has no read-only members, and what comes back no write-only ones.
        self._hidden = "readOnly" if request else "writeOnly"
        self._names: dict[str, str] = {}
        self.definitions: dict[str, Any] = {}

    def of(self, schema: Any) -> Any:
        """The schema in JSON Schema. Raises Unusable for a reference that leads nowhere."""
        if not isinstance(schema, Mapping):
            return schema if isinstance(schema, bool) else {}
        if isinstance(schema.get("$ref"), str):
            return self._reference(schema)
        told = {key: value for key, value in schema.items() if not key.startswith("x-")}
        for key in _STRANGE:
            told.pop(key, None)
        for key in (*_ONE, *_ONE_MORE):
            if key in told:
                told[key] = self.of(told[key])
        for key in _MANY:
            if isinstance(told.get(key), list):
                told[key] = [self.of(each) for each in told[key]]
        for key in _NAMED:
            if isinstance(told.get(key), Mapping):
                told[key] = {name: self.of(each) for name, each in told[key].items()}
        self._without_hidden(schema, told)
        return _modern(schema, told) if self._document.old else told

    def whole(self, schema: Any) -> Any:
        """The schema with the definitions that it needs in it."""
        told = self.of(schema)
        return (
            {**told, "$defs": dict(self.definitions)} if self.definitions and isinstance(told, dict) else told
        )

    def _reference(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        reference: str = schema["$ref"]
        name = self._names.get(reference)
        if name is None:
            name = self._name(reference)
            self._names[reference] = name
            self.definitions[name] = {}
            self.definitions[name] = self.of(self._document.at(reference))
        told: dict[str, Any] = {"$ref": f"#/$defs/{name}"}
        if not self._document.old and isinstance(schema.get("description"), str):
            told["description"] = schema["description"]
        return told

    def _name(self, reference: str) -> str:
        wished = "".join(
            each if each.isalnum() or each in "_-" else "_" for each in reference.rsplit("/", 1)[-1]
        )
        name, number = wished or "shape", 2
        while name in self.definitions:
            name, number = f"{wished}_{number}", number + 1
        return name

    def _without_hidden(self, schema: Mapping[str, Any], told: dict[str, Any]) -> None:
        members = schema.get("properties")
        if not isinstance(members, Mapping) or not isinstance(told.get("required"), list):
            return
        hidden = {
            name
            for name, each in members.items()
            if isinstance(each, Mapping) and each.get(self._hidden) is True
        }
        told["required"] = [
            name for name in told["required"] if not (isinstance(name, str) and name in hidden)
        ]


def _modern(schema: Mapping[str, Any], told: dict[str, Any]) -> dict[str, Any]:
    """A schema of 3.0 in the words of JSON Schema."""
    for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(told.get(exclusive), bool) and told.pop(exclusive) and limit in told:
            told[exclusive] = told.pop(limit)
    if schema.get("nullable") is not True:
        return told
    if isinstance(told.get("type"), str):
        told["type"] = [told["type"], "null"]
        if isinstance(told.get("enum"), list) and None not in told["enum"]:
            told["enum"] = [*told["enum"], None]
        return told
    return {"anyOf": [told, {"type": "null"}]}
