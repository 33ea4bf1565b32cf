"""The root of a tool's schema: every provider wants an object there, and some want plain names for its keys.

Where an action's own input is otherwise, arguments come wrapped or under other names; values stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from fairlead.schema.dialects.nodes import Node, Nodes

Recode = Callable[[Any], Any]

#: The key of a root that is no object.
ROOT: Final = "input"
#: What providers take as a key of the root. One that they refuse costs the whole request.
KEYS: Final = {
    "anthropic": re.compile(r"[A-Za-z0-9_.-]{1,64}"),
    "gemini": re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}"),
    # For who does not know yet whom it will be: what all of them take.
    "any": re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}"),
}
#: What no provider takes at the root of a tool's schema, beside the type.
_COMPOSED: Final = ("anyOf", "oneOf", "allOf", "enum", "const", "not", "if", "then", "else", "$ref")
_LONGEST: Final = 64
_STRANGE: Final = re.compile(r"[^A-Za-z0-9_]")


class Root(NamedTuple):
    """A whole schema, and the way from an input to arguments that fit it, and back."""

    schema: dict[str, Any]
    encode: Recode
    decode: Recode


def rooted(nodes: Nodes, document: dict[str, Any], format: str) -> Root:
    """A document about the same values as the nodes, with an object at its root."""
    root = nodes.target(nodes.root)
    if root.kind not in ("object", "record") and not (root.kind == "any" and "type" in root.schema):
        return Root(_wrapped(document), lambda value: {ROOT: value}, _unwrap)
    if any(word in document for word in _COMPOSED):
        document = _decomposed(document, root)
    if document.get("type") != "object":
        document = {"type": "object", **document}
    renamed = _renamed(list(document.get("properties") or ()), KEYS.get(format))
    if not renamed:
        return Root(document, _same, _same)
    properties = {renamed.get(key, key): each for key, each in document["properties"].items()}
    required = [renamed.get(key, key) for key in document.get("required") or ()]
    meant = {new: old for old, new in renamed.items()}
    return Root(
        {**document, "properties": properties, "required": required},
        lambda value: _respelled(value, renamed),
        lambda value: _respelled(value, meant),
    )


def _decomposed(document: dict[str, Any], root: Node) -> dict[str, Any]:
    """An object's document without composition: what that says beyond keys is left to the action's own check."""
    plain = {key: value for key, value in document.items() if key not in _COMPOSED}
    if root.kind != "object":
        return plain
    required = [key for key in root.properties if key in root.required]
    closed = {} if root.is_open else {"additionalProperties": False}
    return {**plain, "type": "object", "properties": dict(root.properties), "required": required, **closed}


def _wrapped(document: dict[str, Any]) -> dict[str, Any]:
    inner = {key: value for key, value in document.items() if key != "$defs"}
    root = {"type": "object", "properties": {ROOT: inner}, "required": [ROOT], "additionalProperties": False}
    return {**root, "$defs": document["$defs"]} if "$defs" in document else root


def _unwrap(value: Any) -> Any:
    return value[ROOT] if isinstance(value, dict) and set(value) == {ROOT} else value


def _renamed(keys: list[str], allowed: re.Pattern[str] | None) -> dict[str, str]:
    renamed: dict[str, str] = {}
    for key in keys:
        if allowed is None or allowed.fullmatch(key):
            continue
        name = _STRANGE.sub("_", key)[: _LONGEST - 4]
        name = f"_{name}" if not name[:1].isalpha() else name
        number = 1
        while name in keys or name in renamed.values():
            number += 1
            name = f"{name[: _LONGEST - 4]}_{number}"
        renamed[key] = name
    return renamed


def _respelled(value: Any, names: dict[str, str]) -> Any:
    if not isinstance(value, dict):
        return value
    return {names.get(key, key): each for key, each in value.items()}


def _same(value: Any) -> Any:
    return value
