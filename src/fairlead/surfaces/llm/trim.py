"""Making definitions smaller by choice: what a model can do without goes, descriptions end at a sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

_DROPPED: Final = frozenset({"title", "examples", "$comment", "$schema", "$id"})
_SENTENCE: Final = re.compile(r"[.!?](?=\s)|\n")
_DEFINITIONS: Final = ("$defs", "definitions")
#: Where schemas stand inside a schema: by name, one after the other, and alone.
_MAPS: Final = frozenset({"properties", "patternProperties", "dependentSchemas", *_DEFINITIONS})
_LISTS: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SINGLES: Final = frozenset(
    {"items", "additionalProperties", "propertyNames", "not", "contains", "if", "then", "else"}
)


def shortened(text: str, longest: int) -> str:
    """A text of at most so many characters: whole sentences, or else whole words and a mark that there was more."""
    if len(text) <= longest:
        return text
    ends = [found.end() for found in _SENTENCE.finditer(text, 0, longest + 1) if found.end() <= longest]
    if ends:
        return text[: ends[-1]].rstrip()
    words = text[: longest - 1].rpartition(" ")[0]
    return f"{words or text[: longest - 1]}…"


def trimmed(document: dict[str, Any], longest: int) -> dict[str, Any]:
    """A schema without titles, examples, defaults and unused definitions, and with short descriptions.

    A default of null stays: with it, null means the same as nothing.
    """
    smaller: dict[str, Any] = _trimmed(document, longest)
    used = set(_references(smaller))
    for key in _DEFINITIONS:
        if isinstance(smaller.get(key), dict):
            smaller[key] = {name: each for name, each in smaller[key].items() if f"#/{key}/{name}" in used}
            if not smaller[key]:
                del smaller[key]
    return smaller


def _trimmed(schema: Any, longest: int) -> Any:
    if not isinstance(schema, dict):
        return schema
    smaller = {}
    for key, value in schema.items():
        if key in _DROPPED or (key == "default" and value is not None):
            continue
        if key == "description" and isinstance(value, str):
            value = shortened(value, longest)
        elif key in _MAPS and isinstance(value, dict):
            value = {name: _trimmed(each, longest) for name, each in value.items()}
        elif key in _LISTS and isinstance(value, list):
            value = [_trimmed(each, longest) for each in value]
        elif key in _SINGLES:
            value = _trimmed(value, longest)
        smaller[key] = value
    return smaller


def _references(document: dict[str, Any]) -> Iterator[str]:
    """What can be reached from the root."""
    definitions = {
        f"#/{key}/{name}": each for key in _DEFINITIONS for name, each in (document.get(key) or {}).items()
    }
    waiting = [{key: value for key, value in document.items() if key not in _DEFINITIONS}]
    seen: set[str] = set()
    while waiting:
        for ref in _named(waiting.pop()):
            if ref not in seen:
                seen.add(ref)
                yield ref
                waiting.append(definitions.get(ref, {}))


def _named(schema: Any) -> Iterator[str]:
    if isinstance(schema, list):
        for each in schema:
            yield from _named(each)
    elif isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"]
        for each in schema.values():
            yield from _named(each)
