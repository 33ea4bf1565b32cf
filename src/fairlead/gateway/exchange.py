"""One request from its beginning to its end, for the audit log and the metrics. It changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fairlead.gateway.call import Answer, Caller
from fairlead.gateway.routing import Match
from fairlead.surfaces.http.asgi import Message, Request, Send

if TYPE_CHECKING:
    from fairlead.gateway.gateway import Gateway

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

    __slots__ = (
        "_began",
        "_found",
        "_gateway",
        "_send",
        "caller",
        "holder",
        "made",
        "request",
        "request_id",
        "status",
    )

    def __init__(
        self, gateway: Gateway, request: Request, request_id: str, found: Match | list[str] | None, send: Send
    ) -> None:
        self._gateway = gateway
        self.request = request
        self.request_id = request_id
        self._found = found if isinstance(found, Match) else None
        self._send = send
        #: What it was answered with.
        self.status = GONE
        #: Who makes it, once that is known.
        self.caller: Caller | None = None
        #: Whose place it takes, once it was let in.
        self.holder: str | None = None
        #: The id of what it made.
        self.made: str | None = None
        self._began = gateway.app.clock.monotonic()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self._send(message)

    async def whole(self, status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
        """Send a whole answer."""
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})

    def ended(self) -> None:
        """Count it and write it down."""
        gateway, found, status = self._gateway, self._found, self.status
        took = gateway.app.clock.monotonic() - self._began
        if found is None:
            gateway.metrics.request(NOWHERE, status, took)
            return
        route, params = found
        gateway.metrics.request(route.name, status, took)
        if not route.counted:
            return  # what comes many times a second says nothing
        request, caller = self.request, self.caller
        if caller is not None and not caller.owner:
            caller = None
        gateway.audit.note(
            caller,
            request.scope["method"],
            route.name,
            status,
            params,
            self.request_id,
            request.client,
            self.made,
        )


def made_by(answer: Answer) -> str | None:
    """The id of what an answer says was made, if it says so."""
    if answer.made is not None:
        return answer.made
    data = answer.data
    if type(data) is dict:
        for name in _IDS:
            if type(id := data.get(name)) is str:
                return id
    return None
