"""What of a call is seen and kept: its arguments without secrets, and those under lock until the call is made.

A task may pause between a call and its making. What is kept of the call is redacted, so what it is made with then is
kept beside that, sealed with the store's own key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from weakref import WeakKeyDictionary

from fairlead import _json
from fairlead.actions import Action
from fairlead.agents.loop.specs import root_of
from fairlead.agents.models.model import ToolCall
from fairlead.failures import Failure
from fairlead.schema.secrecy import declared_secrets, masked
from fairlead.store import Secrets, Store
from fairlead.tools.arguments import arguments_of

_DECLARED: Final[WeakKeyDictionary[Action[..., Any], frozenset[str]]] = WeakKeyDictionary()


def discreet(call: ToolCall, action: Action[..., Any] | None, placeholder: str) -> ToolCall:
    """A call without what its tool declares to be secret."""
    return without(call, frozenset() if action is None else _declared(action), placeholder)


def without(call: ToolCall, names: frozenset[str], placeholder: str) -> ToolCall:
    """A call without the arguments of these names."""
    if not names:
        return call
    try:
        given = arguments_of(call.arguments).value
    except Failure:
        # Nobody can say what is secret in it.
        return replace(call, arguments=_json.dumps(placeholder))
    shown = masked(given, names, placeholder)
    return call if shown == given else replace(call, arguments=_json.dumps(shown))


async def sealed(store: Store, arguments: Mapping[str, str], conversation: str) -> str:
    """Arguments by the calls' ids, under lock. Raises Failure when there is nothing to seal with."""
    plain = _json.dumps(arguments).encode()
    return await asyncio.to_thread(lambda: Secrets(store).seal(plain, _about(conversation)))


async def opened(store: Store, kept: str, conversation: str) -> dict[str, str]:
    """What `sealed` kept. Raises Failure when it cannot be opened any more."""
    plain = await asyncio.to_thread(lambda: Secrets(store).open(kept, _about(conversation)))
    told: dict[str, str] = _json.loads(plain)
    return told


def _declared(action: Action[..., Any]) -> frozenset[str]:
    known = _DECLARED.get(action)
    if known is None:
        # By the names that the model writes, and by those that are meant.
        told, meant = root_of(action).schema, action.input.json_schema
        known = _DECLARED[action] = declared_secrets(meant) | declared_secrets(told)
    return known


def _about(conversation: str) -> str:
    return f"calls:{conversation}"
