"""What providers refuse for its size, so that one tool too many does not cost the whole request.

The numbers are the providers' own, from their documentation. A tool beyond them is offered without strictness.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from fairlead.schema.dialects.nodes import Nodes

MOST_PROPERTIES: Final = 5_000
DEEPEST: Final = 10
MOST_OPTIONS: Final = 1_000
MOST_CHARACTERS: Final = 120_000
#: An enum with more values than this may hold only so many characters.
LARGE_ENUM: Final = 250
LARGE_ENUM_CHARACTERS: Final = 15_000


def beyond_openai(schema: dict[str, Any]) -> str | None:
    """Why a strict schema is too large for OpenAI, if it is."""
    properties = options = characters = 0
    for each in _subschemas(schema):
        names = each.get("properties", {})
        values = [str(value) for value in each.get("enum", ())]
        properties += len(names)
        options += len(values)
        length = sum(map(len, values))
        characters += length + sum(map(len, names)) + sum(map(len, each.get("$defs", ())))
        if len(values) > LARGE_ENUM and length > LARGE_ENUM_CHARACTERS:
            return (
                f"an enum of {len(values)} values has {length} characters, more than {LARGE_ENUM_CHARACTERS}"
            )
    found = (
        (properties, MOST_PROPERTIES, "properties"),
        (options, MOST_OPTIONS, "enum values"),
        (characters, MOST_CHARACTERS, "characters in names and enum values"),
        (_depth(schema), DEEPEST, "levels of objects"),
    )
    return next(
        (f"it has {count} {what}, more than {most}" for count, most, what in found if count > most), None
    )


def _subschemas(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    for each in _children(schema):
        yield from _subschemas(each)
    for each in schema.get("$defs", {}).values():
        yield from _subschemas(each)


def _children(schema: dict[str, Any]) -> list[dict[str, Any]]:
    found = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    return [*found, schema["items"]] if isinstance(schema.get("items"), dict) else found


def _depth(schema: dict[str, Any]) -> int:
    """Levels of objects, without those behind references, which may have no end."""
    below = max(map(_depth, _children(schema)), default=0)
    beside = max(map(_depth, schema.get("$defs", {}).values()), default=0)
    return max(below + (schema.get("type") == "object"), beside)


class Complexity(NamedTuple):
    """What Anthropic counts over all strict tools of a request."""

    tools: int = 0
    optional: int = 0
    unions: int = 0

    def plus(self, other: Complexity) -> Complexity:
        return Complexity(
            self.tools + other.tools, self.optional + other.optional, self.unions + other.unions
        )

    @property
    def excess(self) -> str | None:
        """What there is too much of, if anything is."""
        words = (
            "strict tools",
            "optional parameters in strict tools",
            "parameters with unions in strict tools",
        )
        for count, most, what in zip(self, MOST_COMPLEX, words, strict=True):
            if count > most:
                return f"a request takes {most} {what}, and those before it have used them up"
        return None


MOST_COMPLEX: Final = Complexity(tools=20, optional=24, unions=16)


def complexity(nodes: Nodes) -> Complexity:
    """What one schema adds to a request."""
    optional = unions = 0
    for node in nodes.within(nodes.root):
        optional += sum(name not in node.required for name in node.properties)
        unions += sum(nodes.target(each).kind == "union" for each in node.properties.values())
    return Complexity(1, optional, unions)


def beyond_anthropic(nodes: Nodes) -> str | None:
    """Why a schema cannot be strict for Anthropic, if it cannot."""
    for node in nodes.within(nodes.root):
        if node.kind in ("any", "record") or node.is_open:
            return "it takes objects with any keys, or values of any kind"
        if node.kind == "tuple":
            return "it takes a tuple"
        if node.kind == "ref":
            return "it refers to definitions, which may not be recursive"
    return None
