"""Values that fit a JSON Schema, for calls that only try whether something can be called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_DEEPEST = 6


def sample(schema: Any, *, full: bool = False, depth: int = 0) -> Any:
    """The smallest value that fits, or with `full` one that has every property."""
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return None
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    for key in ("examples", "enum"):
        if isinstance(schema.get(key), list) and schema[key]:
            return schema[key][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if isinstance(schema.get(key), list) and schema[key] and "type" not in schema:
            return sample(schema[key][0], full=full, depth=depth + 1)
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((each for each in kind if each != "null"), "null")
    return _of_kind(kind, schema, full, depth)


def _of_kind(kind: Any, schema: Mapping[str, Any], full: bool, depth: int) -> Any:
    if kind == "string":
        return "x" * max(1, int(schema.get("minLength", 1)))
    if kind == "integer":
        return int(schema.get("minimum", 1))
    if kind == "number":
        return float(schema.get("minimum", 1.5))
    if kind == "boolean":
        return True
    if kind == "array":
        count = max(int(schema.get("minItems", 0)), 1 if full else 0)
        return [sample(schema.get("items", {}), full=full, depth=depth + 1) for _ in range(count)]
    if kind == "object" or "properties" in schema:
        properties = schema.get("properties") or {}
        wanted = properties if full else [each for each in schema.get("required", ()) if each in properties]
        return {name: sample(properties[name], full=full, depth=depth + 1) for name in wanted}
    return None if kind == "null" else "x"
