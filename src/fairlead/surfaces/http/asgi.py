"""The few parts of ASGI that our HTTP surfaces share: a request, its body within bounds, an answer.

It knows nothing of actions. Everything a client sends is untrusted here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl

from fairlead.failures.action import PayloadTooLarge

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]
#: Header names are lower-case, as ASGI has them.
Headers = Iterable[tuple[bytes, bytes]]

JSON = b"application/json"


class Disconnected(Exception):
    """The client went away before its request was complete."""


class Request:
    """An HTTP request as resolvers and handlers see it."""

    def __init__(self, scope: Scope, body: bytes = b"") -> None:
        self.scope = scope
        self.body = body
        self._raw: dict[bytes, bytes] | None = None

    @property
    def method(self) -> str:
        method: str = self.scope["method"]
        return method

    @property
    def path(self) -> str:
        """The whole path, decoded, with the mount's."""
        path: str = self.scope["path"]
        return path

    @property
    def raw(self) -> Mapping[bytes, bytes]:
        """The same as `headers`, as they were sent."""
        raw = self._raw
        if raw is None:
            given = self.scope["headers"]
            raw = dict(given)
            if len(raw) != len(given):
                raw = joined(given)
            self._raw = raw
        return raw

    @cached_property
    def headers(self) -> Mapping[str, str]:
        """By lower-case name; where a header was sent more than once, the values are joined by a comma."""
        headers: dict[str, str] = {}
        for raw, value in self.scope["headers"]:
            name = raw.decode("latin-1").lower()
            text = value.decode("latin-1")
            headers[name] = f"{headers[name]}, {text}" if name in headers else text
        return headers

    @cached_property
    def query(self) -> Mapping[str, str]:
        return dict(parse_qsl(self.scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True))

    @property
    def client(self) -> str | None:
        """The peer's address, as the server tells it."""
        peer = self.scope.get("client")
        return peer[0] if peer else None


def joined(headers: Headers) -> dict[bytes, bytes]:
    """Headers that were sent more than once, as one (RFC 9110, 5.3)."""
    known: dict[bytes, bytes] = {}
    for name, value in headers:
        known[name] = known[name] + b", " + value if name in known else value
    return known


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """The request's body.

    Raises:
        PayloadTooLarge: it is longer than the limit, by its own word or by what came.
        Disconnected: the client went away.
    """
    for name, value in scope["headers"]:
        if name == b"content-length":
            check_length(value, limit)
    return await read_within(receive, limit)


async def read_within(receive: Receive, limit: int) -> bytes:
    """The body of a request whose own word on its length was checked before. Raises as `read_body` does."""
    message = await receive()
    body: bytes = message.get("body", b"")
    # Most bodies come in one piece.
    if message["type"] == "http.request" and not message.get("more_body") and len(body) <= limit:
        return body
    return await rest_of_body(message, receive, limit)


def check_length(declared: bytes, limit: int) -> None:
    """Raises PayloadTooLarge for a body that is too long by its own word."""
    # The sender chooses how many digits there are, and Python reads no more than some thousands.
    if declared.isdigit() and (len(declared) > 18 or int(declared) > limit):
        raise _too_large(limit)


async def rest_of_body(message: Message, receive: Receive, limit: int) -> bytes:
    """The body that begins with this message. Raises as `read_body` does."""
    parts: list[bytes] = []
    size = 0
    while True:
        if message["type"] == "http.disconnect":
            raise Disconnected
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        parts.append(part)
        if not message.get("more_body"):
            return b"".join(parts)
        message = await receive()


def route_path(scope: Scope) -> str:
    """The path within this app: what a mount has matched already is left off."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    if root and path.startswith(root) and path[len(root) : len(root) + 1] in ("/", ""):
        return path[len(root) :]
    return path


def is_under(path: str, beginnings: tuple[str, ...]) -> bool:
    """Whether a path begins so. One that ends where a beginning's last slash would be is its root."""
    return f"{path}/".startswith(beginnings)


async def disconnected(receive: Receive) -> None:
    """Wait until the client goes away."""
    while (await receive())["type"] != "http.disconnect":
        pass


def length(status: int, body: bytes) -> Headers:
    """How long a body is, where there is one by nature (RFC 9110, 8.6)."""
    return () if status in (204, 304) else ((b"content-length", b"%d" % len(body)),)


async def respond(
    send: Send, status: int, body: bytes = b"", content_type: bytes = JSON, headers: Headers = ()
) -> None:
    """Send a whole answer."""
    fixed = [(b"content-type", content_type), *length(status, body), *headers]
    await send({"type": "http.response.start", "status": status, "headers": fixed})
    await send({"type": "http.response.body", "body": body})


def _too_large(limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"The request's body is longer than {limit} bytes, which is the limit here.")
