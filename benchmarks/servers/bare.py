"""ASGI functions with no framework: as little as the job takes, and so the limit for every server under uvicorn.

`invoke` validates, calls, validates and dumps. `stream` and `idle` are server-sent events with ids, keep-alive and
watching for the client's end. `rpc` is a tool call in JSON-RPC without any protocol: one method, no session.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
from pydantic import TypeAdapter

from servers.numbers import numbers
from task import NewTask, Task, create_task

VALIDATE = TypeAdapter(NewTask).validate_json
VALIDATE_ARGUMENTS = TypeAdapter(NewTask).validate_python
CHECK = TypeAdapter(Task).validate_python
DUMP = TypeAdapter(Task).dump_json
DUMP_PYTHON = TypeAdapter(Task).dump_python

KEEP_ALIVE = 15.0
FULL = 65_536


async def invoke(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        return
    try:
        task = VALIDATE(await _body(receive))
    except ValueError:
        await _answer(send, 422, b'{"ok":false}')
        return
    await _answer(send, 200, DUMP(CHECK(await create_task(**task))))


async def rpc(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        await _answer(send, 200, await answered(await _body(receive)))


async def answered(line: bytes) -> bytes:
    """The answer to a tool call in JSON-RPC: what a server of tools has to do, and nothing of MCP."""
    message = orjson.loads(line)
    try:
        task = VALIDATE_ARGUMENTS(message["params"]["arguments"])
    except (KeyError, ValueError):
        return orjson.dumps({"jsonrpc": "2.0", "id": message.get("id"), "error": {"code": -32602}})
    data = DUMP_PYTHON(CHECK(await create_task(**task)), mode="json")
    content = [{"type": "text", "text": orjson.dumps(data).decode()}]
    result = {"content": content, "structuredContent": data, "isError": False}
    return orjson.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})


async def stream(scope: Any, receive: Any, send: Any) -> None:
    """Each event is sent by itself."""
    if scope["type"] == "http":
        asked = orjson.loads(await _body(receive))
        await _stream(numbers(asked["upto"], asked["wait"]), receive, send, 0)


async def joined(scope: Any, receive: Any, send: Any) -> None:
    """Events are sent together, up to a size."""
    if scope["type"] == "http":
        asked = orjson.loads(await _body(receive))
        await _stream(numbers(asked["upto"], asked["wait"]), receive, send, FULL)


async def _stream(items: AsyncIterator[int], receive: Any, send: Any, full: int) -> None:
    headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    watching = asyncio.ensure_future(_watch(receive, asyncio.current_task()))
    beat = Beat(send)
    ready = bytearray()
    number = 0
    try:
        async for item in items:
            number += 1
            ready += b"event: chunk\nid: %d\ndata: %b\n\n" % (number, orjson.dumps(_event(item)))
            if len(ready) >= full:
                await send({"type": "http.response.body", "body": bytes(ready), "more_body": True})
                ready.clear()
                beat.quiet = False
        await send({"type": "http.response.body", "body": bytes(ready)})
    finally:
        beat.timer.cancel()
        watching.cancel()


class Beat:
    """Sends a comment when nothing was sent for a while. One timer, whatever the number of events."""

    def __init__(self, send: Any) -> None:
        self.send = send
        self.quiet = False
        self.wait()

    def wait(self) -> None:
        self.timer = asyncio.get_running_loop().call_later(KEEP_ALIVE, self.look)

    def look(self) -> None:
        if self.quiet:
            comment = {"type": "http.response.body", "body": b": keep-alive\n\n", "more_body": True}
            self.sending = asyncio.ensure_future(self.send(comment))
        self.quiet = True
        self.wait()


def _event(item: int) -> dict[str, Any]:
    return {"type": "chunk", "data": item}


async def _watch(receive: Any, task: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    task.cancel()


async def _body(receive: Any) -> bytes:
    message = await receive()
    body: bytes = message["body"]
    while message.get("more_body"):
        message = await receive()
        body += message["body"]
    return body


async def _answer(send: Any, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
