"""Which shapes need no dumping: what validation gives for them is JSON already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_LEAVES = frozenset({"str", "int", "float", "bool", "none"})
_JSON_TYPES = (str, int, float, bool, type(None))


def is_plain(node: Mapping[str, Any]) -> bool:
    """Whether a tightened core schema gives fresh containers of exact JSON scalars, and nothing else."""
    if "serialization" in node:
        return False
    kind = node["type"]
    if kind in _LEAVES:
        return True
    if kind == "nullable":
        return is_plain(node["schema"])
    if kind == "list":
        return "items_schema" in node and is_plain(node["items_schema"])
    if kind == "dict":
        keys, values = node.get("keys_schema"), node.get("values_schema")
        return keys is not None and keys["type"] == "str" and values is not None and is_plain(values)
    if kind == "literal":
        return all(type(value) in _JSON_TYPES for value in node["expected"])
    return kind == "typed-dict" and _is_plain_record(node)


def _is_plain_record(node: Mapping[str, Any]) -> bool:
    if node.get("extra_behavior") == "allow" or node.get("computed_fields"):
        return False
    return all(
        "serialization_alias" not in field
        and not field.get("serialization_exclude")
        and is_plain(field["schema"])
        for field in node["fields"].values()
    )
