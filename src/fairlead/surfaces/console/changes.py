"""Telling the page which generation of the app it talks to: a reloaded app is another one.

The line stays open for as long as this generation lives; that it breaks is the news.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Any, Final

from fairlead import _json
from fairlead.failures import Failure, Kind
from fairlead.failures import action as wire
from fairlead.surfaces.console.gate import BASE
from fairlead.surfaces.http.asgi import Asgi, Receive, Scope, Send, disconnected, respond, route_path
from fairlead.surfaces.refusal import refusal

_PATH: Final = f"{BASE}/changes"
_SSE: Final = [(b"content-type", b"text/event-stream")]


class Changes:
    """One generation of an app."""

    def __init__(self) -> None:
        self.generation = secrets.token_hex(8)
        self._over = asyncio.Event()

    def end(self) -> None:
        """Let go of everybody who listens."""
        self._over.set()

    def around(self, inside: Asgi) -> Asgi:
        """The inside of a console, with the line beside it."""

        async def both(scope: Scope, receive: Receive, send: Send) -> None:
            if route_path(scope) == _PATH:
                await self._tell(receive, send)
            else:
                await inside(scope, receive, send)

        return both

    async def _tell(self, receive: Receive, send: Send) -> None:
        event = b"data: %b\n\n" % _json.encode({"generation": self.generation})
        await send({"type": "http.response.start", "status": 200, "headers": _SSE})
        await send({"type": "http.response.body", "body": event, "more_body": True})
        waiting = [asyncio.ensure_future(each) for each in (self._over.wait(), disconnected(receive))]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()
        await send({"type": "http.response.body", "body": b""})


class Broken:
    """The inside of a console whose app cannot be had: every question is answered with the reason."""

    def __init__(self, failure: Failure, traceback: str, generation: str) -> None:
        details: dict[str, Any] = {"generation": generation}
        if traceback:
            details["traceback"] = traceback
        told = Failure(Kind.misconfigured, failure.message, details=details)
        self._status = wire.http_status(told)
        self._body = _json.encode(refusal(told, "dev", None, None))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await respond(send, self._status, self._body)
