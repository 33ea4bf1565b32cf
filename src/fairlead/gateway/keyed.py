"""Invokes with a key: one turn for one key, whichever process is asked, and the same answer for whoever repeats it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from fairlead._json import encode, loads
from fairlead.failures import gateway as wire
from fairlead.failures.gateway import AgentReplyError, sentinel
from fairlead.gateway.turns import Ended, Turn
from fairlead.store import DurableIdempotency

if TYPE_CHECKING:
    from fairlead.gateway.gateway import Gateway

_KEYS: WeakKeyDictionary[Gateway, DurableIdempotency] = WeakKeyDictionary()


class Keyed:
    """A turn under a key."""

    def __init__(self, gateway: Gateway, keys: DurableIdempotency, turn: Turn) -> None:
        self._keys = keys
        self._turn = turn
        self._redactor = gateway.app.redactor
        self._name = f"{turn.caller.owner}\n{turn.agent.id}\n{turn.message_id}"

    async def claimed(self) -> dict[str, Any] | None:
        """The answer that the key has had before, waited for while its turn goes on; None if it is ours to take.

        Raises:
            Failure: the key was used for something else; the turn that was waited for failed, or took too long.
        """
        turn = self._turn
        asked = {
            "message": turn.message,
            "context_id": turn.context_id if turn.continued else None,
            "metadata": dict(turn.metadata),
            # Addresses of files differ each time they are made.
            "attachments": [each["file_id"] for each in turn.attachments],
        }
        request = encode(asked, sort_keys=True)
        try:
            async with asyncio.timeout(turn.timeout):
                while True:
                    claim = await self._keys.claim(self._name, request)
                    if claim.state == "fresh":
                        return None
                    if claim.state == "conflict":
                        raise sentinel("Duplicate")
                    record = claim.record or await self._keys.wait(self._name)
                    if record is not None:
                        return _answer(loads(record))
        except TimeoutError:
            raise sentinel("Timeout") from None

    async def settled(self, last: Ended | None) -> None:
        """Keep how the turn ended. One that gave no answer may be tried again; those who wait now hear why."""
        failure = None if last is None else last.failure
        if last is None:
            settling = self._keys.settle(self._name, None)
        elif failure is None or isinstance(failure, AgentReplyError):
            text = last.text if failure is None else failure.message
            answer = {"text": text, "context_id": self._turn.context_id, "is_error": last.is_error}
            settling = self._keys.settle(self._name, encode(answer))
        else:
            told = encode(wire.render(failure, redactor=self._redactor))
            settling = self._keys.settle(self._name, None, told)
        if settling is not None:
            await settling


def keyed(gateway: Gateway, turn: Turn) -> Keyed:
    """A turn whose message's id is its key."""
    keys = _KEYS.get(gateway)
    if keys is None:
        app = gateway.app
        keys = _KEYS[gateway] = DurableIdempotency(app.store, name="gateway", clock=app.clock.time)
    return Keyed(gateway, keys, turn)


def _answer(told: dict[str, Any]) -> dict[str, Any]:
    if told.get("success") is False:
        raise wire.parse(told)
    return told
