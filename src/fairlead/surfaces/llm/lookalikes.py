"""Which shapes need translation into strict words, and which of a union's branches could be taken for each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from fairlead.schema.dialects.nodes import Node, Nodes
from fairlead.schema.fits import resolve
from fairlead.schema.wording import json_type

_EXTRA: Final = "additional_properties"
_TAGS: Final = {"object": "object", "record": "object", "array": "array", "tuple": "array"}


class Branch(NamedTuple):
    """A branch of a union, and the one key of the object it is put into; None when it stands as it is."""

    schema: Any
    tag: str | None


class _Sketch(NamedTuple):
    """What a strict value looks like from outside: its type, and an object's keys and what some of them can say."""

    type: str
    keys: frozenset[str] = frozenset()
    says: tuple[tuple[str, frozenset[Any]], ...] = ()

    def overlaps(self, other: _Sketch) -> bool:
        if self.type != other.type or self.keys != other.keys:
            return False
        theirs = dict(other.says)
        return all(key not in theirs or values & theirs[key] for key, values in self.says)


class Lookalikes:
    """Answers for one document."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._plain: dict[int, bool] = {}

    def is_plain(self, schema: Any) -> bool:
        """Whether values of a schema stay as they are, at any depth."""
        known = self._plain.get(id(schema))
        if known is None:
            known = self._plain[id(schema)] = not any(map(_translates, self._nodes.within(schema)))
        return known

    def takes_null(self, schema: Any) -> bool:
        """Whether null is among the strict values of a schema."""
        return any(sketch.type == "null" for sketch in self._sketches(schema))

    def branches(self, node: Node, seen: tuple[int, ...] = ()) -> list[Branch]:
        """A union's branches, tagged where they would be taken for each other; the later ones rather than the first."""
        sketches = [self._sketches(part, seen) for part in node.parts]
        names = {key for outlines in sketches for sketch in outlines for key in sketch.keys}
        tags: dict[int, str] = {}
        for number in reversed(range(len(node.parts))):
            others = [sketches[n] for n in range(len(node.parts)) if n != number and n not in tags]
            if not self.is_plain(node.parts[number]) and any(
                _overlap(sketches[number], each) for each in others
            ):
                tags[number] = _tag(self._nodes.target(node.parts[number]), {*names, *tags.values()})
        return [Branch(part, tags.get(number)) for number, part in enumerate(node.parts)]

    def _sketches(self, schema: Any, seen: tuple[int, ...] = ()) -> list[_Sketch]:
        node = self._nodes.node(schema)
        if id(schema) in seen:
            return []
        seen = (*seen, id(schema))
        if node.kind == "ref":
            return self._sketches(resolve(node.schema["$ref"], self._nodes.root), seen)
        if node.kind == "union":
            return [sketch for branch in self.branches(node, seen) for sketch in self._outline(branch, seen)]
        if node.kind == "enum":
            return [_Sketch(kind) for kind in {_type_of(value) for value in node.values}]
        if node.kind == "scalar":
            return [_Sketch("number" if node.type == "integer" else node.type)]
        if node.kind == "object":
            keys = {*node.properties, extra_key(node)} if node.is_open else set(node.properties)
            return [_Sketch("object", frozenset(keys), tuple(self._says(node)))]
        if node.kind == "tuple" and not alike(node):
            return [_Sketch("object", frozenset(map(str, range(len(node.parts)))))]
        return [_Sketch("string" if node.kind == "any" else "array")]

    def _outline(self, branch: Branch, seen: tuple[int, ...]) -> list[_Sketch]:
        if branch.tag is not None:
            return [_Sketch("object", frozenset({branch.tag}))]
        return self._sketches(branch.schema, seen)

    def _says(self, node: Node) -> Iterator[tuple[str, frozenset[Any]]]:
        for name, schema in node.properties.items():
            inner = self._nodes.target(schema)
            if inner.kind == "enum":
                values = inner.values if name in node.required else (*inner.values, None)
                yield name, frozenset((_type_of(value), value) for value in values)


def alike(node: Node) -> bool:
    """Whether the places of a tuple all have the same shape."""
    return all(part == node.parts[0] for part in node.parts)


def extra_key(node: Node) -> str:
    """The key under which an open object's further keys come."""
    key = _EXTRA
    while key in node.properties:
        key += "_"
    return key


def _translates(node: Node) -> bool:
    if node.kind == "object":
        return node.is_open or not set(node.properties) <= node.required
    return node.kind in ("any", "record") or (node.kind == "tuple" and not alike(node))


def _overlap(some: list[_Sketch], others: list[_Sketch]) -> bool:
    return any(one.overlaps(other) for one in some for other in others)


def _tag(node: Node, taken: set[str]) -> str:
    tag = "object" if node.schema.get("type") == "object" else _TAGS.get(node.kind, "value")
    while tag in taken:
        tag += "_"
    return tag


def _type_of(value: Any) -> str:
    kind = json_type(value)
    return "number" if kind == "integer" else kind
