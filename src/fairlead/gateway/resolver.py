"""`KeyResolver`: the gateway's keys on the other routes of the same server, so that one key serves all."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from fairlead.failures import Failure, Kind
from fairlead.failures.action import AuthenticationError
from fairlead.failures.gateway import InvalidToken
from fairlead.surfaces.auth import Caller
from fairlead.surfaces.auth.credentials import InvalidCredentials, credential
from fairlead.surfaces.http.asgi import Request

if TYPE_CHECKING:
    from fairlead.gateway.gateway import Gateway

#: What requests that are not for the gateway count as.
ENDPOINT: Final = "actions"


class KeyResolver:
    """Knows callers by `oag_` keys, and which agents are not there for them. All else is left to others."""

    def __init__(self, gateway: Gateway, *, required: bool = False) -> None:
        self._gateway = gateway
        #: Whether a call without a key is refused.
        self.required = required
        #: A credential that nobody takes for their own is refused then, too.
        self.reads_credentials = required

    def __call__(self, request: Request) -> Awaitable[Caller] | None:
        # Most requests have none: they are not held up.
        for name, value in request.scope["headers"]:
            if b"oag_" in value and name in (b"authorization", b"x-api-key"):
                token = credential(request)
                return self._caller(token) if token is not None and token.startswith("oag_") else None
        if self.required and credential(request) is None:
            raise AuthenticationError(
                "This server takes no anonymous calls. Send the word Bearer and a key in the Authorization header."
            )
        return None

    async def _caller(self, token: str) -> Caller:
        callers = self._gateway.callers
        try:
            caller = await callers.by_key(token)
        except InvalidToken as failure:
            raise InvalidCredentials(failure.message) from failure
        if caller.agents is not None:
            agents = ", ".join(sorted(caller.agents))
            raise Failure(Kind.forbidden, f"This key is for {agents} only: use it with /api/v1/agents.")
        await callers.count(caller, ENDPOINT, self._gateway.per_minute)
        hidden = await self._gateway.agents.hidden_from(caller)
        return Caller(caller.user, caller.auth, hides=hidden)
