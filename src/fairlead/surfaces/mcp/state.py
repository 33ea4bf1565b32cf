"""State that goes through the client's hands and comes back: sealed, so that nobody else can make or change it.

A seal binds it to one caller and one request, and it expires. What it says can be read by whoever holds it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from typing import Any

from fairlead import _json
from fairlead.actions import DefinitionError
from fairlead.runtime.confirmation import Confirmations
from fairlead.surfaces.mcp.rpc import INVALID_PARAMS, RpcError

SHORTEST_SECRET = 16
#: How long a person may take to answer, in seconds.
TTL = 600.0


class Seals:
    """Seals state and opens it again. Without a secret of its own, it is good wherever confirmations are."""

    def __init__(self, secret: bytes | None, confirmations: Confirmations, now: Callable[[], float]) -> None:
        if not (secret is None or (type(secret) is bytes and len(secret) >= SHORTEST_SECRET)):
            raise DefinitionError(
                f"state_secret must be at least {SHORTEST_SECRET} bytes, such as secrets.token_bytes(32)."
            )
        self._secret = secret or confirmations.key_for(b"the state of MCP requests")
        self._everywhere = secret is not None or confirmations.everywhere
        self._spending = confirmations.spending
        self._now = now

    def seal(self, state: dict[str, Any], claim: bytes) -> str:
        """The state as text; `claim` says whose and for what it is."""
        body = urlsafe_b64encode(
            _json.encode({**state, "exp": self._now() + TTL, "nonce": secrets.token_urlsafe(9)})
        )
        return f"{body.decode()}.{self._sign(body, claim)}"

    def open(self, sealed: object, claim: bytes) -> dict[str, Any]:
        """The state, if it is ours, for this claim, and still good. Raises RpcError."""
        body, _, signature = sealed.rpartition(".") if isinstance(sealed, str) else ("", "", "")
        raw = body.encode(errors="replace")
        if not signature.isascii() or not hmac.compare_digest(signature, self._sign(raw, claim)):
            raise _refused("it was changed, or belongs to another request or caller")
        state: dict[str, Any] = _json.loads(urlsafe_b64decode(raw))
        if state["exp"] < self._now():
            raise _refused("it has expired")
        return state

    async def spend(self, state: dict[str, Any]) -> None:
        """Use a state up that may be used only once. Raises RpcError the second time."""
        if not await self._spending.spend(
            f"state~{state['nonce']}", state["exp"], everywhere=self._everywhere
        ):
            raise _refused("it was used before")

    def _sign(self, body: bytes, claim: bytes) -> str:
        mac = hmac.new(self._secret, body + b"\n" + claim, hashlib.sha256).digest()
        return urlsafe_b64encode(mac).decode().rstrip("=")


def claim_of(caller: str, method: str, params: dict[str, Any]) -> bytes:
    """What a state is bound to: the caller, and the request as far as it stays the same when it is repeated."""
    lasting = {key: params.get(key) for key in ("name", "uri", "arguments") if key in params}
    return hashlib.sha256(_json.encode([caller, method, lasting], sort_keys=True)).digest()


def _refused(why: str) -> RpcError:
    return RpcError(INVALID_PARAMS, f"The requestState is refused: {why}. Send the request without it.")
