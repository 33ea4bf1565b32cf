"""What is behind the gate: the page's questions about the app, and the calls of its actions.

The calls take the very routes that HTTP callers take, under `/api` and by the name of the surface `dev`.
"""

from __future__ import annotations

from typing import Any, Final

from fairlead import _json
from fairlead.runtime import App, Runtime
from fairlead.surfaces.console.acting import Acting
from fairlead.surfaces.console.api import EXPOSURE, SURFACE, Api
from fairlead.surfaces.console.gate import BASE
from fairlead.surfaces.console.snippets import ADDRESS
from fairlead.surfaces.http.asgi import Receive, Request, Scope, Send, read_body, respond, route_path
from fairlead.surfaces.http.routes import ActionRoutes

#: Where the chats with agents are.
AGENTS: Final = "/agents/"
#: Where the questions about the agents' API are.
GATEWAY: Final = "/gateway"
#: Where the questions about native plugins are.
PLUGINS: Final = "/plugins"
#: Where the questions about pipelines are.
PIPELINES: Final = "/pipelines"
#: Where the questions about what plugins log are.
INSIGHTS: Final = "/insights"
#: The longest input that the page may ask something about.
_LONGEST: Final = 1 << 20


class Inside:
    """An app, as its console's page talks to it."""

    def __init__(
        self, app: Runtime, acting: Acting, program: str, about: dict[str, Any], address: str = ADDRESS
    ) -> None:
        self._api = Api(app, program, about, address)
        self._app = app
        self._acting = acting
        self._chat: Any = None
        self._operating: Any = None
        self._insights: Any = None
        if isinstance(app, App) and any("pipeline" in action.metadata for action in app.catalogue):
            from fairlead.pipelines.live import Live

            Live.of(app)
        self._calls = ActionRoutes(
            app, surface=SURFACE, bases=(BASE,), exposure=EXPOSURE, resolve_context=(acting,)
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = route_path(scope).removeprefix(BASE)
        if path.startswith(AGENTS) and isinstance(self._app, App):
            await self._chatting(self._app)(scope, receive, send, path)
            return
        if (path == GATEWAY or path.startswith(f"{GATEWAY}/")) and isinstance(self._app, App):
            await self._operated(self._app)(scope, receive, send, path)
            return
        if (path == PLUGINS or path.startswith(f"{PLUGINS}/")) and isinstance(self._app, App):
            from fairlead.surfaces.console.plugging import Plugging

            await Plugging(self._app)(scope, receive, send, path)
            return
        if (path == PIPELINES or path.startswith(f"{PIPELINES}/")) and isinstance(self._app, App):
            from fairlead.surfaces.console.piping import Piping

            await Piping(self._app)(scope, send, path)
            return
        if path == INSIGHTS and isinstance(self._app, App):
            await self._looking(self._app)(scope, send)
            return
        answer = self._api.handler(scope["method"], path)
        if answer is None:
            await self._calls(scope, receive, send)
            return
        body = await read_body(scope, receive, _LONGEST)
        told = {"ok": True, **answer(Request(scope, body))}
        await respond(send, 200, _json.encode(told, default=str))

    async def end(self) -> None:
        """End what goes on, while the app's services are there."""
        if self._chat is not None:
            await self._chat.runs.end("The console's server was stopped.")

    def _chatting(self, app: App) -> Any:
        if self._chat is None:
            # An app without agents does without all that they are made of.
            from fairlead.surfaces.console.chat import Chat

            self._chat = Chat(app, self._acting, EXPOSURE)
        return self._chat

    def _operated(self, app: App) -> Any:
        if self._operating is None:
            from fairlead.surfaces.console.operating import Operating

            self._operating = Operating(app, self._acting)
        return self._operating

    def _looking(self, app: App) -> Any:
        if self._insights is None:
            from fairlead.surfaces.console.insights import Looking

            self._insights = Looking(app)
        return self._insights
