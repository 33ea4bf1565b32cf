"""`Overview`: what goes on in the gateways of a store, for whoever runs them or owns some of it.

It only looks. Each question may be about one owner, and about some agents only.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, NamedTuple

from fairlead._json import loads
from fairlead.failures import Failure, Kind
from fairlead.gateway.agents import LOCAL, instant, is_own
from fairlead.gateway.audit import Audit, spelled
from fairlead.gateway.call import OWNERS
from fairlead.gateway.keys import ApiKey, Keys
from fairlead.runtime import App
from fairlead.store.statements import statements
from fairlead.store.store import Row, Tx, writable

SQL: Final = statements(__file__, "admin.sql")
MOST_LISTED: Final = 200
#: Events of a timeline, the newest; and characters of what one says.
_MOST_EVENTS: Final = 200
_LONGEST: Final = 300
_FAR: Final = 1e18
#: The first columns of a delivery.
_DELIVERED: Final = (
    *("delivery_id", "webhook_id", "task_id", "agent_id", "owner", "renderer", "status"),
    *("attempt_num", "last_response_status", "last_error"),
)


class Scope(NamedTuple):
    """What may be seen: of an owner, or of all; of an owner, with some agents, or with all."""

    owner: str | None = None
    agents: Collection[str] | None = None

    def shows(self, agent: str) -> bool:
        return self.agents is None or agent in self.agents

    def shows_all(self, agents: Collection[str] | None) -> bool:
        """Whether what is for these agents may be seen; None stands for all there are."""
        return self.agents is None or (agents is not None and set(agents) <= set(self.agents))


#: Whoever runs the gateway sees everything.
ALL: Final = Scope()


class Overview:
    """Looks into an app's store."""

    def __init__(self, app: App, owner: str | None = None) -> None:
        self._app = app
        self._owner = owner

    @property
    def owner(self) -> str | None:
        """Whose the app's own agents are, where that is known."""
        return self._owner or OWNERS.get(self._app)

    async def agents(self, scope: Scope = ALL) -> list[dict[str, Any]]:
        """All agents, the app's own first."""
        rows = {row[0]: row for row in await self._app.store.read(lambda tx: tx.all(SQL.agents))}
        told = []
        for action in self._app.catalogue:
            if "agent" in action.metadata:
                row = rows.pop(action.name, None)
                row = row if row is not None and is_own(row, self.owner) else None
                owner = self.owner or (LOCAL if row is None else row[1])
                told.append(_agent(action.name, action.title, action.description, row, owner))
        now = self._app.wall()
        for id, row in rows.items():
            if row[6] is not None:
                about = loads(row[7])
                found = _agent(id, about["name"], about.get("description", ""), row, row[1])
                online = row[8] == "queue" or (row[9] or 0.0) > now
                until = None if row[9] is None else instant(row[9])
                told.append(found | {"mode": row[8], "online": online, "lease_until": until})
        return [
            each
            for each in told
            if (scope.owner is None or each["owner"] == scope.owner) and scope.shows(each["id"])
        ]

    async def tasks(
        self, scope: Scope = ALL, *, live: bool = True, most: int = 50, before: float = _FAR
    ) -> list[dict[str, Any]]:
        """Tasks, the newest first; those that have not ended, or all."""
        given = {"open": int(live), "before": before, "most": min(most, MOST_LISTED)}
        rows = await self._app.store.read(lambda tx: _rows(tx, SQL.tasks, SQL.tasks_of, scope, given))
        return [_task(row) for row in rows]

    async def timeline(self, id: str, scope: Scope = ALL) -> dict[str, Any]:
        """A task and what happened in it, in order.

        Raises:
            Failure: there is none that may be seen.
        """
        row = await self._app.store.read(lambda tx: tx.one(SQL.task, task=writable(id)))
        if row is None or scope.owner not in (None, row[2]) or not scope.shows(row[1]):
            raise Failure(Kind.not_found, "There is no such task.")
        told = _task(row)
        if row[4] is not None:
            return {**told, "events": _record_events(row[3], loads(row[4]))}
        if row[5] is None:
            return {**told, "events": []}
        events: list[dict[str, Any]] = []
        since = max(0, (row[8] or 0) - 10 * _MOST_EVENTS)
        async for event in self._app.tasks.events(id, since, follow=False):
            if event.type == "delta":
                continue
            events.append(
                {
                    "offset": event.offset,
                    "type": event.type,
                    "time": instant(event.time),
                    "detail": _detail(event.data),
                }
            )
        return {**told, "events": events[-_MOST_EVENTS:]}

    async def deliveries(
        self, scope: Scope = ALL, *, most: int = 50, before: float = _FAR
    ) -> list[dict[str, Any]]:
        """Deliveries of webhooks, the newest first. Of an address only its host is told: the rest may be a secret."""
        given = {"before": before, "most": min(most, MOST_LISTED)}
        rows = await self._app.store.read(
            lambda tx: _rows(tx, SQL.deliveries, SQL.deliveries_of, scope, given)
        )
        return [_delivery(row) for row in rows]

    async def keys(self, scope: Scope = ALL) -> list[dict[str, Any]]:
        """Keys, in the order they were made."""
        now = self._app.wall()
        return [each.to_dict(now) for each in await self._keys(scope)]

    async def _keys(self, scope: Scope) -> list[ApiKey]:
        found = await Keys(self._app.store, self._app.wall).list(scope.owner)
        return [each for each in found if scope.shows_all(each.agents)]

    async def rates(self, scope: Scope = ALL) -> list[dict[str, Any]]:
        """How often callers called what lately, with the names and limits of their keys."""
        audit = Audit(self._app.store, self._app.wall)
        known = {each.id: each for each in await self._keys(scope)}
        told = []
        for each in await audit.usage(scope.owner):
            key = known.get(each["key_id"])
            if key is None and scope.agents is not None:
                continue
            limit = None if key is None else key.per_minute
            told.append({**each, "key": None if key is None else key.name, "rate_limit_per_minute": limit})
        return told

    async def audit(
        self, scope: Scope = ALL, *, most: int = 100, since: float = 0.0, before: str | None = None
    ) -> list[dict[str, Any]]:
        """Who did what, the newest first."""
        audit = Audit(self._app.store, self._app.wall)
        lines = await audit.page(
            owner=scope.owner, agents=scope.agents, since=since, before=before, most=most
        )
        return [each.to_dict() for each in lines]


def _rows(tx: Tx, all: Any, of_owner: Any, scope: Scope, given: dict[str, Any]) -> list[Row]:
    if scope.owner is None:
        return tx.all(all, **given)
    # What is not for this key is left out before rows are counted: a page is full, or it is the last.
    return tx.all(of_owner, owner=scope.owner, agents=spelled(scope.agents), **given)


def _agent(id: str, name: str, description: str, row: Row | None, owner: str) -> dict[str, Any]:
    visibility, mcp = ("private", True) if row is None else (row[2], bool(row[3]))
    return {
        "id": id,
        "name": name,
        "description": description,
        "owner": owner,
        "visibility": visibility,
        "mcp_enabled": mcp,
        "instance": LOCAL if row is None or row[6] is None else row[6],
        "mode": "in process",
        "online": True,
        "lease_until": None,
    }


def _task(row: Row) -> dict[str, Any]:
    task, agent, owner, created, record, state, started, ended, latest, queue, worker = row
    if record is not None:
        told = loads(record)
        state, started, ended = told["state"], created, told["ended"]
    return {
        "task_id": task,
        "agent_id": agent,
        "owner": owner,
        "status": state or "gone",
        "kind": "task" if record is None else "invoke",
        "created_at": instant(created),
        "started_at": None if started is None else instant(started),
        "completed_at": None if ended is None else instant(ended),
        "latest_offset": latest or 0,
        "queue": queue,
        "worker": worker,
    }


def _record_events(created: float, record: dict[str, Any]) -> list[dict[str, Any]]:
    """What is known of an invoke: when it began and how it ended."""
    return [
        {"offset": 0, "type": "started", "time": instant(created), "detail": ""},
        {"offset": 1, "type": "terminal", "time": instant(record["ended"]), "detail": record["state"]},
    ]


def _delivery(row: Row) -> dict[str, Any]:
    host, due, waiting, *times = row[10:]
    created, attempted, completed = (None if each is None else instant(each) for each in times)
    return {
        **dict(zip(_DELIVERED, row[:10], strict=True)),
        "host": host,
        "next_attempt_at": instant(due) if waiting else None,
        "created_at": created,
        "last_attempted_at": attempted,
        "completed_at": completed,
    }


def _detail(data: dict[str, Any]) -> str:
    """What an event says, in short: never an input or a result."""
    if isinstance(data.get("kind"), str) and isinstance(data.get("title"), str):
        return f"{data['kind'].replace('_', ' ')}: {data['title']}"[:_LONGEST]
    for name in ("title", "message", "state", "question", "code", "kind", "name"):
        value = data.get(name)
        if isinstance(value, str) and value:
            return value[:_LONGEST]
    return ""
