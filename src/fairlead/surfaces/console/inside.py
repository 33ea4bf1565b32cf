"""What is behind the gate: the page's questions about the app, and the calls of its actions.

The calls take the very routes that HTTP callers take, under `/api` and by the name of the surface `dev`.
"""

from __future__ import annotations

from typing import Any, Final

from fairlead import _json
from fairlead.runtime import Runtime
from fairlead.surfaces.console.acting import Acting
from fairlead.surfaces.console.api import EXPOSURE, SURFACE, Api
from fairlead.surfaces.console.gate import BASE
from fairlead.surfaces.http.asgi import Receive, Request, Scope, Send, read_body, respond, route_path
from fairlead.surfaces.http.routes import ActionRoutes

#: The longest input that the page may ask something about.
_LONGEST: Final = 1 << 20


class Inside:
    """An app, as its console's page talks to it."""

    def __init__(self, app: Runtime, acting: Acting, program: str, about: dict[str, Any]) -> None:
        self._api = Api(app, program, about)
        self._calls = ActionRoutes(
            app, surface=SURFACE, bases=(BASE,), exposure=EXPOSURE, resolve_context=(acting,)
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self._api.handler(scope["method"], route_path(scope).removeprefix(BASE))
        if answer is None:
            await self._calls(scope, receive, send)
            return
        body = await read_body(scope, receive, _LONGEST)
        told = {"ok": True, **answer(Request(scope, body))}
        await respond(send, 200, _json.encode(told, default=str))
