"""Inputs that hold secrets are kept under lock: sealed with the store's own key, for one task each.

Which do is found out once for each action, as far as its schema tells. Where that lets anything through, a text or
members of any name, each input is looked at as the app would show it.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, Literal
from weakref import WeakKeyDictionary

from fairlead._json import loads
from fairlead.actions import Action
from fairlead.failures import Failure, Kind, StoreFailure
from fairlead.failures.redaction import Redactor
from fairlead.store import Secrets, Store
from fairlead.store.secrets import Damaged

_MARK: Final = "sealed1."
#: Why inputs are sealed: a field is declared a secret, or only has the name of one; or those alone in which the app
#: would hide something.
Reason = Literal["declared", "named", "seen"] | None
LOCKED: Final = (
    "The task's input is sealed, and its worker has no key for it. Give it the key, and retry the task."
)
#: Types whose values are no secrets, unless their names say so.
_PLAIN: Final = frozenset({"integer", "number", "boolean", "null"})


class Locked(StoreFailure, kind=Kind.misconfigured):
    """An input is sealed, and the key for it is not here: whoever has that can open it."""

    def for_callers(self) -> Failure:
        return Failure(self.kind, LOCKED, cause=self)


class Sealing:
    """Seals and opens inputs. The key is asked for when the first secret comes."""

    def __init__(self, store: Store, redactor: Redactor) -> None:
        self._store = store
        self._redactor = redactor
        self._secrets: Secrets | None = None
        self._reasons: WeakKeyDictionary[Action[..., Any], Reason] = WeakKeyDictionary()

    async def sealed(self, action: Action[..., Any], input: str, id: str) -> str:
        """An input as it is kept.

        Raises:
            Failure: it has to be sealed, and there is nothing to seal with.
        """
        if self._reason(action) is None:
            return input
        return (await self.sealed_all(action, [input], [id]))[0]

    async def sealed_all(self, action: Action[..., Any], inputs: list[str], ids: list[str]) -> list[str]:
        """The same for many."""
        reason = self._reason(action)
        if reason is None:
            return inputs
        if reason == "seen":
            secret = [at for at, input in enumerate(inputs) if self._hides(input)]
            if not secret:
                return inputs
        else:
            secret = list(range(len(inputs)))

        def seal() -> list[str]:
            key, kept = self._key(), list(inputs)
            for at in secret:
                kept[at] = key.seal(inputs[at].encode(), _about(ids[at]))
            return kept

        try:
            return await asyncio.to_thread(seal)
        except Failure as failure:
            # What nobody declared stops no program that has nothing to seal with.
            if reason != "declared" and failure.kind is Kind.misconfigured:
                return inputs
            raise

    async def again(self, action: Action[..., Any] | None, kept: str, id: str, new: str) -> str:
        """An input that is kept, as it is kept for another task: sealed if it was, also where the action is unknown."""
        given = await self.opened(kept, id)
        if given is kept:
            return given if action is None else await self.sealed(action, given, new)
        return await asyncio.to_thread(lambda: self._key().seal(given.encode(), _about(new)))

    async def opened(self, kept: str, id: str) -> str:
        """An input as it was given.

        Raises:
            Locked: the key for it is not here.
            Failure: it is damaged, or the store is away.
        """
        if not kept.startswith(_MARK):
            return kept
        try:
            return await asyncio.to_thread(lambda: self._key().open(kept, _about(id)).decode())
        except Failure as failure:
            if failure.kind is not Kind.misconfigured or isinstance(failure, Damaged):
                raise
            raise Locked(f"{LOCKED} {failure.message}", cause=failure) from failure

    def _key(self) -> Secrets:
        self._secrets = self._secrets or Secrets(self._store)
        return self._secrets

    def _reason(self, action: Action[..., Any]) -> Reason:
        try:
            return self._reasons[action]
        except KeyError:
            reason = self._reasons[action] = self._found(action.input.json_schema)
            return reason

    def _found(self, schema: Any) -> Reason:
        if _is_secret(schema):
            return "declared"
        if self._names_secrets(schema):
            return "named"
        # What a function of the developer's would hide is known when it is asked.
        return None if type(self._redactor) is Redactor and _is_foreseen(schema) else "seen"

    def _names_secrets(self, schema: Any) -> bool:
        """Whether a field has the name of a secret, which is hidden wherever it is shown."""
        if isinstance(schema, list):
            return any(map(self._names_secrets, schema))
        if not isinstance(schema, dict):
            return False
        properties = schema.get("properties")
        names = dict.fromkeys(properties, "shown") if isinstance(properties, dict) else {}
        return _hidden(self._redactor, names) or any(map(self._names_secrets, schema.values()))

    def _hides(self, input: str) -> bool:
        """Whether something of an input would not be shown."""
        redactor = self._redactor
        if redactor.may_hide(input) and _hidden(redactor, loads(input)):
            return True
        # A function may change what it is given.
        return type(redactor) is not Redactor and bool(redactor.value(loads(input)) != loads(input))


def _is_secret(schema: Any) -> bool:
    if isinstance(schema, dict):
        return schema.get("writeOnly") is True or any(map(_is_secret, schema.values()))
    return isinstance(schema, list) and any(map(_is_secret, schema))


def _is_foreseen(schema: Any) -> bool:
    """Whether all that fits is known from the schema: members by their names, numbers, and words that it gives."""
    if not isinstance(schema, dict):
        return schema is False
    if not _all_foreseen(schema.get("$defs")):
        return False
    if "enum" in schema or "const" in schema or str(schema.get("$ref")).startswith("#/$defs/"):
        return True
    if "anyOf" in schema:
        return _all_foreseen(schema["anyOf"])
    kind = schema.get("type")
    if kind == "object":
        closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
        return closed and _all_foreseen(schema.get("properties"))
    if kind == "array":
        return _is_foreseen(schema.get("items", True)) and _all_foreseen(schema.get("prefixItems"))
    return isinstance(kind, str) and kind in _PLAIN


def _all_foreseen(schemas: Any) -> bool:
    parts = schemas.values() if isinstance(schemas, dict) else schemas or ()
    return all(map(_is_foreseen, parts))


def _hidden(redactor: Redactor, value: Any) -> bool:
    """Whether the names and the look of something are those of a secret; a function of the developer's is not asked."""
    return bool(Redactor.value(redactor, value) != value)


def _about(id: str) -> str:
    return f"task:{id}"
