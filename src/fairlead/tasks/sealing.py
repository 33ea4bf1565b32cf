"""Inputs that hold secrets are kept under lock: sealed with the store's own key, for one task each."""

from __future__ import annotations

import asyncio
from typing import Any, Final, Literal
from weakref import WeakKeyDictionary

from fairlead.actions import Action
from fairlead.failures import Failure, Kind
from fairlead.failures.redaction import DEFAULT
from fairlead.store import Secrets, Store

_MARK: Final = "sealed1."
#: Why an input is sealed: a field is declared a secret, or only has the name of one.
Reason = Literal["declared", "named"] | None
_REASONS: Final[WeakKeyDictionary[Action[..., Any], Reason]] = WeakKeyDictionary()


class Sealing:
    """Seals and opens inputs. The key is asked for when the first secret comes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._secrets: Secrets | None = None

    async def sealed(self, action: Action[..., Any], input: str, id: str) -> str:
        """An input as it is kept.

        Raises:
            Failure: it has to be sealed, and there is nothing to seal with.
        """
        if _reason(action) is None:
            return input
        return (await self.sealed_all(action, [input], [id]))[0]

    async def sealed_all(self, action: Action[..., Any], inputs: list[str], ids: list[str]) -> list[str]:
        """The same for many."""
        reason = _reason(action)
        if reason is None:
            return inputs

        def seal() -> list[str]:
            key = self._key()
            return [key.seal(input.encode(), _about(id)) for input, id in zip(inputs, ids, strict=True)]

        try:
            return await asyncio.to_thread(seal)
        except Failure as failure:
            # A name alone stops no program that has nothing to seal with.
            if reason == "named" and failure.kind is Kind.misconfigured:
                return inputs
            raise

    async def opened(self, kept: str, id: str) -> str:
        """An input as it was given."""
        if not kept.startswith(_MARK):
            return kept
        return await asyncio.to_thread(lambda: self._key().open(kept, _about(id)).decode())

    def _key(self) -> Secrets:
        self._secrets = self._secrets or Secrets(self._store)
        return self._secrets


def _reason(action: Action[..., Any]) -> Reason:
    try:
        return _REASONS[action]
    except KeyError:
        schema = action.input.json_schema
        named: Reason = "named" if _names_secrets(schema) else None
        _REASONS[action] = "declared" if _is_secret(schema) else named
        return _REASONS[action]


def _is_secret(schema: Any) -> bool:
    if isinstance(schema, dict):
        return schema.get("writeOnly") is True or any(map(_is_secret, schema.values()))
    return isinstance(schema, list) and any(map(_is_secret, schema))


def _names_secrets(schema: Any) -> bool:
    """Whether a field has the name of a secret, which is hidden wherever it is shown."""
    if isinstance(schema, list):
        return any(map(_names_secrets, schema))
    if not isinstance(schema, dict):
        return False
    properties = schema.get("properties")
    names = dict.fromkeys(properties, "shown") if isinstance(properties, dict) else {}
    return DEFAULT.value(names) != names or any(map(_names_secrets, schema.values()))


def _about(id: str) -> str:
    return f"task:{id}"
