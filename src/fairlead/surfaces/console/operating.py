"""What goes on in the agents' API, for the page: agents, live tasks, deliveries, keys, rates, and who did what.

    GET  /api/gateway
    POST /api/gateway/{task, key, revoke}

It is behind the console's gate, and for those who may do everything: whoever runs the app. The room that knows all of
this stands above this one, and is found by name.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable
from typing import Any, Final

from fairlead import _json
from fairlead.failures import Failure, Kind
from fairlead.runtime import App
from fairlead.surfaces.console.acting import Acting
from fairlead.surfaces.console.gate import object_in
from fairlead.surfaces.http.asgi import Receive, Request, Scope, Send, read_body, respond

_LARGEST: Final = 64 * 1024
_DAY: Final = 86400.0
_KEY_FIELDS: Final = ("name", "owner", "agents", "per_minute", "days", "admin")
#: Rows of each list.
_LISTED: Final = 50


class Operating:
    """Answers the page about an app's gateway."""

    def __init__(self, app: App, acting: Acting) -> None:
        self._app = app
        self._acting = acting
        self._overview: Any = _room("overview").Overview(app)
        self._keys: Any = _room("keys").Keys(app.store, app.wall)
        self._answers: dict[str, Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]] = {
            "task": self._task,
            "key": self._new_key,
            "revoke": self._revoke,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send, path: str) -> None:
        body = await read_body(scope, receive, _LARGEST)
        request = Request(scope, body)
        self._check(request)
        question = path.strip("/").partition("/")[2]
        answer = self._answers.get(question)
        if request.method == "GET" and not question:
            told = await self._all()
        elif request.method == "POST" and answer is not None:
            told = await answer(object_in(body))
        else:
            raise Failure(Kind.not_found, "The console knows no such question about the gateway.")
        await respond(send, 200, _json.encode({"ok": True, **told}, default=str))

    def _check(self, request: Request) -> None:
        auth = self._acting(request).auth
        held = auth.get("permissions", ()) if isinstance(auth, dict) else ()
        if not _room("keys").is_admin(each for each in held if isinstance(each, str)):
            raise Failure(
                Kind.forbidden, "Keys and everybody's tasks are for callers with the permission 'admin'."
            )

    async def _all(self) -> dict[str, Any]:
        overview = self._overview
        return {
            "agents": await overview.agents(),
            "tasks": await overview.tasks(live=True, most=_LISTED),
            "ended": await overview.tasks(live=False, most=_LISTED),
            "deliveries": await overview.deliveries(most=_LISTED),
            "keys": await overview.keys(),
            "rates": await overview.rates(),
            "audit": await overview.audit(most=_LISTED),
        }

    async def _task(self, asked: dict[str, Any]) -> dict[str, Any]:
        return {"task": await self._overview.timeline(str(asked.get("id", "")))}

    async def _new_key(self, asked: dict[str, Any]) -> dict[str, Any]:
        for name in asked:
            if name not in _KEY_FIELDS:
                raise Failure(Kind.invalid_input, f"A key takes {', '.join(_KEY_FIELDS)}.", field=name[:50])
        days, agents = asked.get("days"), asked.get("agents")
        if days is not None and (type(days) not in (int, float) or not 0 < days <= 36500):
            raise Failure(Kind.invalid_input, "A key is good for 1 to 36500 days.", field="days")
        if agents is not None and not isinstance(agents, list):
            raise Failure(Kind.invalid_input, "A key's agents are a list of names.", field="agents")
        now = self._app.wall()
        token, key = await self._keys.issue(
            asked.get("name"),
            owner=asked.get("owner") or self._overview.owner or "local",
            per_minute=asked.get("per_minute"),
            expires=None if days is None else now + days * _DAY,
            agents=agents or None,
            permissions=["admin"] if asked.get("admin") is True else [],
        )
        return {"key": {**key.to_dict(now), "key": token}}

    async def _revoke(self, asked: dict[str, Any]) -> dict[str, Any]:
        key = await self._keys.revoke(str(asked.get("id", "")))
        return {"key": key.to_dict(self._app.wall())}


def _room(name: str) -> Any:
    return importlib.import_module(f"fairlead.gateway.{name}")
