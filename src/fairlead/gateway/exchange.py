"""One request from its beginning to its end, for the audit log and the metrics. It changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fairlead.gateway.call import Answer, Caller
from fairlead.gateway.routing import Match
from fairlead.surfaces.http.asgi import Message, Request, Send

if TYPE_CHECKING:
    from fairlead.gateway.gateway import Gateway

#: Where a request's scope says who makes it, once that is known.
CALLER: Final = "fairlead.caller"
#: Where it says the id of what it made.
MADE: Final = "fairlead.made"
#: Under which names answers tell the id of what was made, the most telling first.
_IDS: Final = (
    "delivery_id",
    "webhook_id",
    "message_id",
    "task_id",
    "conversation_id",
    "context_id",
    "file_id",
    "id",
)
#: What is written of a request whose client went away before it was answered.
GONE: Final = 499
#: Requests to addresses that are not there.
NOWHERE: Final = "none"


class Exchange:
    """Sees a request's answer pass."""

    __slots__ = ("_began", "_found", "_gateway", "_request", "_request_id", "_send", "_status")

    def __init__(
        self, gateway: Gateway, request: Request, request_id: str, found: Match | list[str] | None, send: Send
    ) -> None:
        self._gateway = gateway
        self._request = request
        self._request_id = request_id
        self._found = found if isinstance(found, Match) else None
        self._send = send
        self._status = GONE
        self._began = gateway.app.clock.monotonic()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
        await self._send(message)

    def ended(self) -> None:
        """Count it and write it down."""
        gateway, found, request = self._gateway, self._found, self._request
        endpoint = NOWHERE if found is None else found.route.name
        gateway.metrics.request(endpoint, self._status, gateway.app.clock.monotonic() - self._began)
        if found is None or not found.route.counted:
            return  # what comes many times a second says nothing
        caller: Any = request.scope.get(CALLER)
        known = caller if isinstance(caller, Caller) and caller.owner else None
        gateway.audit.note(
            known,
            request.method,
            endpoint,
            self._status,
            params=found.params,
            request_id=self._request_id,
            address=request.client,
            made=request.scope.get(MADE),
        )


def made_by(answer: Any) -> str | None:
    """The id of what an answer says was made, if it says so."""
    data = answer.data if isinstance(answer, Answer) else None
    if type(data) is dict:
        for name in _IDS:
            if type(id := data.get(name)) is str:
                return id
    return None
