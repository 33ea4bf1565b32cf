"""The app's native plugins, for the page: which are loaded, which are not and why, and another try for those.

GET  /api/plugins
POST /api/plugins/{retry, reload}
"""

from __future__ import annotations

from typing import Any, Final

from fairlead import _json
from fairlead.failures import Failure, Kind
from fairlead.runtime import App
from fairlead.surfaces.console.gate import object_in
from fairlead.surfaces.http.asgi import Receive, Request, Scope, Send, read_body, respond

_LARGEST: Final = 4096


class Plugging:
    """Answers the page about an app's plugins."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send, path: str) -> None:
        body = await read_body(scope, receive, _LARGEST)
        question = path.strip("/").partition("/")[2]
        plugins, method = self._app.plugins, Request(scope, body).method
        if method == "POST" and question in ("retry", "reload"):
            id = str(object_in(body).get("id", ""))
            await (plugins.retry(id) if question == "retry" else plugins.reload(id))
        elif method != "GET" or question:
            raise Failure(Kind.not_found, "The console knows no such question about plugins.")
        await respond(send, 200, _json.encode({"ok": True, "plugins": _told(plugins.describe())}))


def _told(plugins: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that need a person come first."""
    return sorted(plugins, key=lambda each: "reason" not in each)
