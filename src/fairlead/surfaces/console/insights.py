"""What plugins log and ask of the host, for the page: newest first, searched by the store.

GET /api/insights?text=&plugin=&level=&before=&since=
"""

from __future__ import annotations

from typing import Final

from fairlead import _json
from fairlead.failures import Failure, Kind
from fairlead.plugins.logs import Insights, Wanted, level_of
from fairlead.plugins.slots import LOG_LEVELS
from fairlead.runtime import App
from fairlead.surfaces.http.asgi import Request, Scope, Send, respond

#: Lines of one answer.
LISTED: Final = 100
_HOURS: Final = 3600.0


class Looking:
    """Answers the page about an app's Insights."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._insights = Insights(app.store)

    async def __call__(self, scope: Scope, send: Send) -> None:
        request = Request(scope)
        if request.method != "GET":
            raise Failure(Kind.not_found, "Insights can be looked at, and nothing else.")
        lines = await self._insights.page(
            self._wanted(request), before=request.query.get("before") or None, most=LISTED
        )
        told = {
            "lines": [line.to_dict() for line in lines],
            "more": len(lines) == LISTED,
            "plugins": sorted(await self._insights.plugins()),
            "levels": LOG_LEVELS,
        }
        await respond(send, 200, _json.encode({"ok": True, **told}))

    def _wanted(self, request: Request) -> Wanted:
        asked = request.query
        level = level_of(asked.get("level", ""))
        if asked.get("level") and level is None:
            raise Failure(Kind.invalid_input, f"A level is one of {', '.join(LOG_LEVELS)}.", field="level")
        return Wanted(
            asked.get("plugin") or None,
            level=level,
            since=self._since(asked.get("since", "")),
            text=asked.get("text", ""),
        )

    def _since(self, hours: str) -> float:
        if not hours:
            return 0.0
        if not hours.isascii() or not hours.isdigit() or len(hours) > 6:
            raise Failure(Kind.invalid_input, "since is a number of hours.", field="since")
        return max(0.0, self._app.wall() - int(hours) * _HOURS)
