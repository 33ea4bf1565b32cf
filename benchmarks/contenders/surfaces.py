"""Fairlead's surfaces without a server around them: requests handed to `app.http()` as ASGI."""

import json
from typing import Any

from piping import INITIALIZE, INITIALIZED, REVISION, call_of
from servers.fairlead import site
from task import MARK, VALID, Batch

HEADERS = {
    "host": "127.0.0.1:8000",
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
}


async def _post(path: str, body: bytes, headers: dict[str, str]) -> list[Any]:
    """What is sent in answer: the head, and the body."""
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 40_000),
        "server": ("127.0.0.1", 8000),
        "state": {},
    }
    await site(scope, receive, send)
    return sent


async def _again(count: int, path: str, body: bytes, headers: dict[str, str]) -> None:
    sent: list[Any] = []
    for _ in range(count):
        sent = await _post(path, body, headers)
    if str(MARK).encode() not in sent[-1]["body"]:
        raise RuntimeError(f"the call was answered with {sent}")


def http() -> Batch:
    """Calls over HTTP."""
    body = json.dumps({"input": VALID}).encode()

    async def batch(count: int) -> None:
        await _again(count, "/fairlead/actions/create_task/invoke", body, HEADERS)

    return batch


def mcp() -> Batch:
    """Calls over MCP, in a session."""
    body = json.dumps(call_of(1, VALID)).encode()

    async def batch(count: int) -> None:
        head, _ = await _post("/mcp", json.dumps(INITIALIZE).encode(), HEADERS)
        session = dict(head["headers"])[b"mcp-session-id"].decode()
        headers = {**HEADERS, "mcp-protocol-version": REVISION, "mcp-session-id": session}
        await _post("/mcp", json.dumps(INITIALIZED).encode(), headers)
        await _again(count, "/mcp", body, headers)

    return batch
