"""Values that were chosen so that a set or a map of them takes for ever to build.

Python finds members of sets and keys of maps by their hashes. Those of texts are different in each process, but those
of numbers, and of what is made of numbers, are known to everybody: thousands that share one make each find as long
as the whole. Only shapes that make sets, or maps whose keys are no texts, are looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from decimal import Decimal, InvalidOperation
from typing import Any, Final
from uuid import UUID

from fairlead.failures import Issue
from fairlead.schema.compiled import Invalid
from fairlead.schema.nodes import nodes

#: Members of one list or object that may share a hash.
_MOST: Final = 1_000
_FLOOD: Final = Issue(
    (), "value", f"More than {_MOST} of the values in one place cannot be told apart quickly. Send fewer."
)


def is_open_to_floods(core: Any) -> bool:
    """Whether a core schema makes sets, or maps whose keys are no texts."""
    return any(_hashes(node) for node in nodes(core))


def _hashes(node: dict[str, Any]) -> bool:
    is_set = node.get("type") in ("set", "frozenset")
    hashed = node.get("items_schema" if is_set else "keys_schema")
    return (is_set or hashed is not None) and (hashed or {}).get("type") != "str"


def guarded(validate: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same validation, which refuses floods before it begins."""

    def guarding(value: Any) -> Any:
        if _is_flood(value):
            raise Invalid([_FLOOD])
        return validate(value)

    return guarding


def _is_flood(value: Any) -> bool:
    waiting = [value]
    seen: set[int] = set()
    while waiting:
        each = waiting.pop()
        if not isinstance(each, dict | list | tuple | set | frozenset) or id(each) in seen:
            continue
        seen.add(id(each))
        if len(each) > _MOST and _collide(each):
            return True
        waiting += each.values() if isinstance(each, dict) else each
    return False


def _collide(members: Iterable[Any]) -> bool:
    hashes = Counter(hash(_read(each)) for each in members)
    return max(hashes.values()) > _MOST and len(set(map(repr, members))) > _MOST


def _read(member: Any) -> Any:
    """A member as what it may be read as, as far as its hash would be known to others."""
    if isinstance(member, list | tuple):
        return tuple(map(_read, member[:8])) if len(member) <= 8 else ()
    if isinstance(member, str):
        for kind in (int, UUID, Decimal):
            try:
                return kind(member)
            except (ValueError, InvalidOperation):
                pass
    return member if isinstance(member, str | int | float | Decimal | UUID) else None
