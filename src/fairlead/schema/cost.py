"""What it costs to check a value against a JSON Schema of somebody else's, counted before it is checked.

A short document can apply its parts to one value more often than anybody can wait for: parts that refer to parts
that refer to parts, twice each. A validator cannot be stopped once it has begun, so such work is not begun.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from fairlead.schema.fits import resolve

#: Parts of a document with all references written out: one with fewer is cheap for any value.
_PLAIN: Final = 5_000
#: Parts that may be applied: to any value, and for each of its members beyond that.
_ALWAYS: Final = 20_000
_EACH: Final = 20
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
#: Parts for the value itself.
_LISTS: Final = ("allOf", "anyOf", "oneOf")
_SINGLE: Final = ("not", "if", "then", "else")
#: Parts for what is in it.
_INNER: Final = (
    *("additionalProperties", "unevaluatedProperties", "propertyNames", "contains"),
    *("items", "additionalItems", "unevaluatedItems", "prefixItems"),
)


class _Dear(Exception):
    """There is more to do than is done."""


class Cost:
    """Counts for one document."""

    def __init__(self, document: Any) -> None:
        self._document = document
        self._roots, self._anchors = _named(document)
        # By a part's id: parts are mentioned again and again, and the document holds them all.
        self._applied: dict[int, list[Any]] = {}
        self._left = _PLAIN
        try:
            self._unfold(document, ())
            self._plain = True
        except _Dear:
            self._plain = False

    def is_within_bounds(self, value: Any) -> bool:
        """Whether a value can be checked."""
        if self._plain:
            return True
        self._left = _ALWAYS + _EACH * _members(value)
        try:
            self._apply(self._document, value)
        except (_Dear, RecursionError):
            return False
        return True

    def _spend(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise _Dear

    def _unfold(self, schema: Any, around: tuple[int, ...]) -> None:
        """Go through all parts, as often as they are mentioned. Raises _Dear, for what contains itself, too."""
        if not isinstance(schema, dict):
            return
        self._spend()
        if id(schema) in around or len(around) > 200:
            raise _Dear
        for part in (*self._same(schema), *_inner(schema)):
            self._unfold(part, (*around, id(schema)))

    def _apply(self, schema: Any, value: Any) -> None:
        if not isinstance(schema, dict):
            return
        self._spend()
        for part in self._same(schema):
            self._apply(part, value)
        if isinstance(value, dict):
            properties = schema.get("properties")
            known = properties if isinstance(properties, dict) else {}
            others = [*_parts(schema, "patternProperties"), *_only(schema, _INNER[:3])]
            for key, item in value.items():
                for part in (known.get(key), *others):
                    self._apply(part, item)
        elif isinstance(value, list):
            others = list(_only(schema, _INNER[3:]))
            for item in value:
                for part in others:
                    self._apply(part, item)

    def _same(self, schema: dict[str, Any]) -> list[Any]:
        """The parts that are applied to the same value."""
        found = self._applied.get(id(schema))
        if found is None:
            found = self._applied[id(schema)] = list(self._find_same(schema))
        return found

    def _find_same(self, schema: dict[str, Any]) -> Iterator[Any]:
        yield from _only(schema, (*_LISTS, *_SINGLE))
        yield from _parts(schema, "dependentSchemas")
        yield from _parts(schema, "dependencies")
        for keyword in _REFERENCES:
            if isinstance(ref := schema.get(keyword), str):
                yield from self._referred(ref)

    def _referred(self, ref: str) -> list[Any]:
        """What a reference may mean. Where parts of a document have addresses of their own, that may be several."""
        place, _, rest = ref.partition("#")
        if rest and not rest.startswith("/"):
            return self._anchors.get(rest, [])
        if not rest and place:
            return [root for name, root in self._roots if name.endswith(place)]
        found = [resolve(f"#{rest}", root) for _, root in self._roots]
        return list({id(each): each for each in found if isinstance(each, dict)}.values())


def _named(document: Any) -> tuple[list[tuple[str, Any]], dict[str, list[Any]]]:
    """The parts that references start from, and those that have names."""
    roots: list[tuple[str, Any]] = [("", document)]
    anchors: dict[str, list[Any]] = {}
    waiting = [document]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting += each
        elif isinstance(each, dict):
            waiting += each.values()
            id = each.get("$id")
            if isinstance(id, str) and each is not document:
                roots.append((id, each))
            names = (each.get("$anchor"), each.get("$dynamicAnchor"), str(id or "").partition("#")[2])
            for name in {name for name in names if isinstance(name, str) and name}:
                anchors.setdefault(name, []).append(each)
    return roots, anchors


def _only(schema: dict[str, Any], keywords: Iterable[str]) -> Iterator[Any]:
    for keyword in keywords:
        part = schema.get(keyword)
        if isinstance(part, list):
            yield from part
        elif isinstance(part, dict):
            yield part


def _parts(schema: dict[str, Any], keyword: str) -> Iterator[Any]:
    found = schema.get(keyword)
    if isinstance(found, dict):
        yield from found.values()


def _inner(schema: dict[str, Any]) -> Iterator[Any]:
    yield from _parts(schema, "properties")
    yield from _parts(schema, "patternProperties")
    yield from _only(schema, _INNER)


def _members(value: Any) -> int:
    count, waiting = 0, [value]
    while waiting:
        each = waiting.pop()
        count += 1
        if isinstance(each, dict):
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
    return count
