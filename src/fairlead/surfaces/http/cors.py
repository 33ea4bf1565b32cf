"""Pages of other origins: which may call, and what they may read of the answers (the Fetch standard's CORS)."""

from __future__ import annotations

from collections.abc import Callable

from fairlead.surfaces.http.asgi import Asgi, Message, Receive, Scope, Send
from fairlead.surfaces.http.options import Cors

#: What the routes of actions, of the gateway, of A2A and of MCP take, read, and answer with.
_METHODS = b"GET, HEAD, POST, PUT, PATCH, DELETE"
_HEADERS = (
    "a2a-extensions, a2a-version, accept, authorization, content-type, idempotency-key, if-none-match, "
    "last-event-id, mcp-method, mcp-name, mcp-protocol-version, mcp-session-id, traceparent, tracestate, "
    "x-agent-api-key, x-api-key, x-beeos-operation-id, x-request-id"
)
_EXPOSED = (
    b"allow, content-disposition, etag, mcp-protocol-version, mcp-session-id, retry-after, www-authenticate, "
    b"x-beeos-operation-id, x-request-id, x-should-retry"
)


class CorsLayer:
    """Lets pages of some origins in. To all others, and to programs, it changes nothing.

    `answered` tells of requests whose CORS is answered further inside.
    """

    def __init__(self, inner: Asgi, cors: Cors, answered: Callable[[Scope], bool] | None = None) -> None:
        self._inner = inner
        self._answered = answered
        self._origins = frozenset(origin.encode() for origin in cors.origins)
        self._anyone = "*" in cors.origins
        shared = [(b"access-control-allow-credentials", b"true")] if cors.credentials else []
        self._answer = [(b"access-control-expose-headers", _EXPOSED), *shared]
        self._preflight = [
            (b"access-control-allow-methods", _METHODS),
            (b"access-control-allow-headers", ", ".join((_HEADERS, *cors.headers)).encode()),
            (b"access-control-max-age", b"%d" % cors.max_age),
            *shared,
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        origin = headers.get(b"origin")
        if origin is None:
            await self._inner(scope, receive, send if self._anyone else _with(send, [_VARY]))
            return
        if self._answered is not None and self._answered(scope):
            await self._inner(scope, receive, send)
            return
        allowed = self._allowed(origin)
        if scope["method"] == "OPTIONS" and b"access-control-request-method" in headers and allowed:
            fixed = [*allowed, *self._preflight]
            await send({"type": "http.response.start", "status": 204, "headers": fixed})
            await send({"type": "http.response.body", "body": b""})
            return
        await self._inner(scope, receive, _with(send, [*allowed, *self._answer] if allowed else [_VARY]))

    def _allowed(self, origin: bytes) -> list[tuple[bytes, bytes]]:
        if self._anyone:
            return [(b"access-control-allow-origin", b"*")]
        if origin.lower() in self._origins:
            return [(b"access-control-allow-origin", origin), _VARY]
        return []


_VARY = (b"vary", b"origin")


def _with(send: Send, headers: list[tuple[bytes, bytes]]) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *headers]
        await send(message)

    return sending
