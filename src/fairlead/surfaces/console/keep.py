"""What a browser may keep of an input: everything but its secrets.

Secrets are known by name: by the rule that the app redacts by, and by the members that a schema declares to be
secret (`SecretStr`, `writeOnly`). A name counts wherever it stands, since an input need not fit its schema.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from fairlead.failures.redaction import Redactor

_INNER = ("items", "additionalProperties")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")


def keepable(value: Any, schema: dict[str, Any], redactor: Redactor) -> Any:
    """A copy of the input with a placeholder for each secret in it."""
    if _is_secret(schema, schema, ()):
        return redactor.placeholder
    return redactor.value(_masked(value, secret_names(schema, redactor), redactor.placeholder))


def secret_names(schema: dict[str, Any], redactor: Redactor) -> frozenset[str]:
    """The names of members whose values are secrets."""
    return frozenset(
        name
        for name, member in _members(schema)
        if redactor.names.match(name) or _is_secret(member, schema, ())
    )


def _members(part: Any) -> Iterator[tuple[str, Any]]:
    """Every member that a schema declares, however deep."""
    if isinstance(part, list):
        for each in part:
            yield from _members(each)
    elif isinstance(part, dict):
        declared = part.get("properties")
        if isinstance(declared, dict):
            yield from declared.items()
        for each in part.values():
            yield from _members(each)


def _is_secret(part: Any, root: dict[str, Any], inside: tuple[str, ...]) -> bool:
    """Whether a value is a secret, or a list or record of them."""
    if not isinstance(part, dict):
        return False
    if part.get("format") == "password" or part.get("writeOnly") is True:
        return True
    name = str(part.get("$ref", "")).rpartition("/")[2]
    if name and name not in inside and _is_secret(root.get("$defs", {}).get(name), root, (*inside, name)):
        return True
    parts = [*(part.get(key) for key in _INNER), *(each for key in _LISTS for each in part.get(key, ()))]
    return any(_is_secret(each, root, inside) for each in parts)


def _masked(value: Any, names: Collection[str], placeholder: str) -> Any:
    if isinstance(value, list):
        return [_masked(item, names, placeholder) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: placeholder if name in names and item is not None else _masked(item, names, placeholder)
        for name, item in value.items()
    }
