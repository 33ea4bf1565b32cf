"""Requests to an ASGI app in this process: no server, no socket, no dependency."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple


class Response(NamedTuple):
    """What an ASGI app answered."""

    status: int
    headers: dict[str, str]
    body: bytes


async def request(
    asgi: Any, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
) -> Response:
    """One HTTP request to an ASGI app in this process, without a server or a socket."""
    given = {"host": "testserver", **(headers or {})}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
        "client": ("127.0.0.1", 1),
        "server": ("testserver", 80),
    }
    incoming = [{"type": "http.request", "body": body, "more_body": False}]
    answered = asyncio.Event()
    start: dict[str, Any] = {}
    parts: list[bytes] = []

    async def receive() -> dict[str, Any]:
        if incoming:
            return incoming.pop()
        await answered.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            start.update(message)
            return
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            answered.set()

    await asgi(scope, receive, send)
    told = {name.decode(): value.decode() for name, value in start["headers"]}
    return Response(start["status"], told, b"".join(parts))
