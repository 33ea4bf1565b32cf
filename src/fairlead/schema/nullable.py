"""OpenAPI's `nullable: true` in the words of JSON Schema, which does not know it and would pass over it.

The document that callers see stays as it is; this is for the validator.
"""

from __future__ import annotations

from typing import Any, Final

_ONE: Final = frozenset(
    {
        "items", "additionalItems", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else",
        "unevaluatedItems", "unevaluatedProperties",
    }
)  # fmt: skip
_LISTED: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems", "items"})
_NAMED: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
#: What refuses null whatever the type says.
_REFUSING: Final = ("$ref", "allOf", "oneOf", "anyOf", "const", "not")
_NULL: Final = {"type": "null"}


def spelled_out(schema: Any) -> Any:
    """The schema such that null fits wherever it says `nullable: true`; itself where it says so nowhere."""
    if not isinstance(schema, dict):
        return schema
    told = {key: _inside(key, value) for key, value in schema.items()}
    if schema.get("nullable") is True:
        _allow_null(told)
    return (
        told if any(told[key] is not schema.get(key) for key in told) or len(told) < len(schema) else schema
    )


def _inside(key: str, value: Any) -> Any:
    if key in _NAMED and isinstance(value, dict):
        new = {name: spelled_out(each) for name, each in value.items()}
        return new if any(new[name] is not each for name, each in value.items()) else value
    if key in _LISTED and isinstance(value, list):
        items = [spelled_out(each) for each in value]
        return items if any(one is not other for one, other in zip(items, value, strict=True)) else value
    return spelled_out(value) if key in _ONE else value


def _allow_null(told: dict[str, Any]) -> None:
    types = told.get("type")
    if isinstance(types, str):
        types = [types]
    if isinstance(types, list) and "null" not in types:
        told["type"] = [*types, "null"]
    options = told.get("enum")
    if isinstance(options, list) and None not in options:
        told["enum"] = [*options, None]
    refusing = [key for key in _REFUSING if key in told]
    if refusing:
        told["anyOf"] = [{key: told.pop(key) for key in refusing}, _NULL]
