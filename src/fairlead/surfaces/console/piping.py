"""The app's pipelines, for the page: which there are, their pictures, and what flows in them now.

GET /api/pipelines
GET /api/pipelines/NAME
GET /api/pipelines/NAME/runs
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from fairlead import _json
from fairlead.failures import Failure, Kind
from fairlead.pipelines.live import Live, View
from fairlead.runtime import App
from fairlead.surfaces.http.asgi import Request, Scope, Send, respond


class Piping:
    """Answers the page about an app's pipelines."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._live = Live.of(app)

    async def __call__(self, scope: Scope, send: Send, path: str) -> None:
        if Request(scope).method != "GET":
            raise Failure(Kind.not_found, "Pipelines can be looked at here, and are run as actions.")
        _, name, *rest = [*path.strip("/").split("/"), ""]
        views = self._live.views(self._app)
        told = (
            self._told(views, unquote(name), rest[0] if rest else "")
            if name
            else {"pipelines": _listed(views)}
        )
        await respond(send, 200, _json.encode({"ok": True, **told}, default=str))

    def _told(self, views: list[View], name: str, question: str) -> dict[str, Any]:
        view = next((each for each in views if each.name == name), None)
        if view is None or question not in ("", "runs"):
            raise Failure(Kind.not_found, f"There is no pipeline {name[:100]!r}.")
        runs = [each.told() for each in reversed(view.runs)]
        for run in runs:
            run["events"] = self._app.redactor.value(run["events"])
        if question:
            return {"runs": runs}
        return {"name": view.name, "type": view.process.signature(), "picture": view.picture, "runs": runs}


def _listed(views: list[View]) -> list[dict[str, Any]]:
    return [{"name": each.name, "type": each.process.signature(), "runs": len(each.runs)} for each in views]
