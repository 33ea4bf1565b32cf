"""Starlette: routes whose validation is written by hand, by compiled adapters, and a streaming response."""

from collections.abc import AsyncIterator
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from servers.bare import CHECK, DUMP, VALIDATE
from servers.numbers import numbers
from task import create_task


async def invoke(request: Request) -> Response:
    try:
        task = VALIDATE(await request.body())
    except ValueError:
        return Response(b'{"ok":false}', 422, media_type="application/json")
    return Response(DUMP(CHECK(await create_task(**task))), media_type="application/json")


async def stream(request: Request) -> Response:
    asked = orjson.loads(await request.body())
    return StreamingResponse(_events(asked), media_type="text/event-stream")


async def _events(asked: dict[str, Any]) -> AsyncIterator[bytes]:
    number = 0
    async for item in numbers(asked["upto"], asked["wait"]):
        number += 1
        data = orjson.dumps({"type": "chunk", "data": item})
        yield b"event: chunk\nid: %d\ndata: %b\n\n" % (number, data)


site = Starlette(
    routes=[Route("/invoke", invoke, methods=["POST"]), Route("/stream", stream, methods=["POST"])]
)
