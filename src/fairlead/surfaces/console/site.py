"""What an ASGI server sees of a console: its gate, and the start and stop of the app's services."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fairlead.runtime import Runtime
from fairlead.runtime.hooks import report
from fairlead.surfaces.http.asgi import Asgi, Receive, Scope, Send


class Site:
    """Hands requests to the gate. There may be no app behind it; `end` ends what goes on in one."""

    def __init__(
        self, gate: Asgi, app: Runtime | None = None, end: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self._gate = gate
        self._app = app
        self._end = end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._gate(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _live(self, receive: Receive, send: Send) -> None:
        # Services start with the first call: one that does not is a failure that the page explains.
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        if self._end is not None:
            await self._end()
        if self._app is not None:
            try:
                await self._app.stop()
            except Exception:
                report("The app's services did not stop in order.", self._app.redactor)
        await send({"type": "lifespan.shutdown.complete"})
