"""Asking first: a plain yes, or a token that is bound to one caller, one action and one validated input.

The token lets a person confirm exactly what a model asked for: another input needs another token. It is
signed, expires, and works once: what remembers that is `spending.py`.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Any, Final

from fairlead.actions import DefinitionError
from fairlead.actions.policy import seconds
from fairlead.failures import Failure, Kind
from fairlead.runtime.clock import Clock
from fairlead.runtime.context import Context
from fairlead.runtime.spending import Spending

SHORTEST_SECRET = 16
#: In place of a confirmation, by code of ours that has checked one before.
CONFIRMED: Final[Any] = object()
#: Surfaces whose own page asks the person before it calls.
ASKS_ITSELF = frozenset({"react", "dev"})


class Confirmations:
    """Issues tokens and redeems them. `shared` is where other processes see that one was used, if it can be."""

    def __init__(
        self, clock: Clock, ttl: float = 300.0, secret: bytes | None = None, shared: object = None
    ) -> None:
        if not (secret is None or (type(secret) is bytes and len(secret) >= SHORTEST_SECRET)):
            raise DefinitionError(
                f"confirmation_secret must be at least {SHORTEST_SECRET} bytes, such as secrets.token_bytes(32)."
            )
        self._clock = clock
        self._ttl = seconds("Runtime", "confirmation_ttl", ttl) or 300.0
        self._secret = secret or secrets.token_bytes(32)
        #: Whether tokens are good in other processes, too.
        self.everywhere = secret is not None
        self.spending = Spending(clock, shared)

    def check(self, context: Context, confirm: Any, request: bytes) -> str | None:
        """Pass a confirmed call, with the token to be spent when its work begins; refuse any other.

        The refusal carries a token to confirm the call by.
        """
        needed = context.action.requires_confirmation
        if confirm is CONFIRMED:
            return None
        if needed is True and (confirm is True or context.surface in ASKS_ITSELF):
            return None
        claim = f"{context.action.name}@{context.action.version}\n{context.caller}\n".encode() + request
        if isinstance(confirm, str):
            self._verify(confirm, claim)
            return confirm
        token, expires = self._issue(claim)
        raise Failure(
            Kind.needs_confirmation,
            f"Action {context.action.name!r} needs confirmation: "
            + ("repeat the call with the token." if needed == "token" else "repeat the call with confirm."),
            details={"confirmation": {"code": token, "expiresAt": expires}},
        )

    def key_for(self, purpose: bytes) -> bytes:
        """A key for something else that is signed; it is the same wherever these tokens are good."""
        return hmac.new(self._secret, b"key for " + purpose, hashlib.sha256).digest()

    def _issue(self, claim: bytes) -> tuple[str, float]:
        expires = round(self._clock.time() + self._ttl, 3)
        nonce = secrets.token_urlsafe(9)
        body = f"{expires}~{nonce}"
        return f"{body}~{self._sign(body, claim)}", expires

    def _verify(self, token: str, claim: bytes) -> None:
        body, _, signature = token.rpartition("~")
        if not token.isascii() or not hmac.compare_digest(signature, self._sign(body, claim)):
            raise Failure(
                Kind.needs_confirmation, "The confirmation is for another call: its input or caller differs."
            )
        if _expiry(token) < self._clock.time():
            raise Failure(Kind.needs_confirmation, "The confirmation has expired. Ask for a new one.")

    async def spend(self, token: str) -> None:
        """Use a verified token up; a second use is refused."""
        if not await self.spending.spend(token, _expiry(token), everywhere=self.everywhere):
            raise Failure(Kind.needs_confirmation, "The confirmation was used before. Ask for a new one.")

    def _sign(self, body: str, claim: bytes) -> str:
        return hmac.new(self._secret, f"{body}\n".encode() + claim, hashlib.sha256).hexdigest()[:43]


def _expiry(token: str) -> float:
    return float(token.partition("~")[0])
