"""Which members of an input are secrets by their schema (`SecretStr`, `writeOnly`), and an input without them.

A name counts wherever it stands, since an input need not fit its schema.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

_INNER: Final = ("items", "additionalProperties")
_LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")


def declared_secrets(schema: Mapping[str, Any]) -> frozenset[str]:
    """The names of members that a schema declares to be secret."""
    return frozenset(name for name, member in members(schema) if is_secret(member, schema))


def members(part: Any) -> Iterator[tuple[str, Any]]:
    """Every member that a schema declares, however deep."""
    if isinstance(part, list):
        for each in part:
            yield from members(each)
    elif isinstance(part, dict):
        declared = part.get("properties")
        if isinstance(declared, dict):
            yield from declared.items()
        for each in part.values():
            yield from members(each)


def is_secret(part: Any, root: Mapping[str, Any], inside: tuple[str, ...] = ()) -> bool:
    """Whether a value is a secret, or a list or record of them."""
    if not isinstance(part, dict):
        return False
    if part.get("format") == "password" or part.get("writeOnly") is True:
        return True
    name = str(part.get("$ref", "")).rpartition("/")[2]
    if name and name not in inside and is_secret(root.get("$defs", {}).get(name), root, (*inside, name)):
        return True
    parts = [*(part.get(key) for key in _INNER), *(each for key in _LISTS for each in part.get(key, ()))]
    return any(is_secret(each, root, inside) for each in parts)


def masked(value: Any, names: Collection[str], placeholder: str) -> Any:
    """A copy of an input with a placeholder for each member of these names."""
    if isinstance(value, list):
        return [masked(item, names, placeholder) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: placeholder if name in names and item is not None else masked(item, names, placeholder)
        for name, item in value.items()
    }
