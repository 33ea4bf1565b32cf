"""Keys and operation over HTTP: `/api/v1/api-keys`, and `/api/v1/admin/...` for pages that show what goes on.

Keys are made, listed and revoked by callers with the permission `admin`. What goes on is for everybody: each sees
what is theirs, and those with `admin` see all.
"""

from __future__ import annotations

from typing import Any, Final

from fairlead.failures import Failure, Kind
from fairlead.failures.gateway import AgentNotFound, Forbidden, InvalidBody, InvalidParam, MissingParam
from fairlead.gateway import keys
from fairlead.gateway.call import Answer, Call, Caller, Route
from fairlead.gateway.keys import Keys
from fairlead.gateway.overview import Overview, Scope

_FIELDS: Final = ("name", "rate_limit_per_minute", "expires_at", "owner", "agents", "permissions")


def _owner(body: dict[str, Any]) -> str | None:
    given = body.get("owner")
    if given is not None and not isinstance(given, str):
        raise InvalidBody("owner must be a text.", field="owner")
    return given


async def create_key(call: Call) -> Answer:
    _admin(call)
    body = call.json()
    for field in body:
        if field not in _FIELDS:
            raise InvalidParam(f"A key takes {', '.join(_FIELDS)}.", field=field[:50])
    if body.get("name") is None:
        raise MissingParam("name is missing.", field="name")
    expires = body.get("expires_at")
    agents, permissions = _texts(body, "agents"), _texts(body, "permissions") or ()
    try:
        token, key = await _keys(call).issue(
            body["name"],
            owner=_owner(body) or call.caller.owner,
            per_minute=body.get("rate_limit_per_minute"),
            expires=None if expires is None else keys.moment(expires),
            agents=agents,
            permissions=permissions,
        )
    except Failure as failure:
        if failure.kind is not Kind.invalid_input:
            raise
        raise InvalidParam(failure.message, field=failure.field) from failure
    headers = ((b"cache-control", b"no-store"),)
    return Answer({**key.to_dict(call.gateway.app.wall()), "key": token}, 201, headers)


async def list_keys(call: Call) -> Answer:
    _admin(call)
    now = call.gateway.app.wall()
    listed = await _keys(call).list(call.request.query.get("owner") or None)
    return Answer([each.to_dict(now) for each in listed], more={"total": len(listed)})


async def revoke_key(call: Call) -> Answer:
    _admin(call)
    try:
        await _keys(call).revoke(call.id("id"))
    except Failure as failure:
        if failure.kind is not Kind.not_found:
            raise
        raise AgentNotFound(failure.message) from failure
    return Answer(None, 204, flat=True)


async def admin_agents(call: Call) -> Answer:
    return Answer({"agents": await _overview(call).agents(scope_of(call.caller))})


async def admin_tasks(call: Call) -> Answer:
    live = call.choice("state", "active", ("active", "all")) == "active"
    most = call.number("limit", 50, 1, 200)
    return Answer({"tasks": await _overview(call).tasks(scope_of(call.caller), live=live, most=most)})


async def admin_task(call: Call) -> Answer:
    try:
        return Answer(await _overview(call).timeline(call.id("taskId"), scope_of(call.caller)))
    except Failure as failure:
        if failure.kind is not Kind.not_found:
            raise
        raise AgentNotFound(failure.message) from failure


async def admin_deliveries(call: Call) -> Answer:
    most = call.number("limit", 50, 1, 200)
    return Answer({"deliveries": await _overview(call).deliveries(scope_of(call.caller), most=most)})


async def admin_keys(call: Call) -> Answer:
    return Answer({"keys": await _overview(call).keys(scope_of(call.caller))})


async def admin_rates(call: Call) -> Answer:
    gateway, scope = call.gateway, scope_of(call.caller)
    await gateway.audit.flush()
    told: dict[str, Any] = {"rates": await _overview(call).rates(scope), "per_minute": gateway.per_minute}
    if scope.owner is None:
        told["process"] = gateway.metrics.to_dict()
    return Answer(told)


async def admin_audit(call: Call) -> Answer:
    most = call.number("limit", 100, 1, 1000)
    query = call.request.query
    since = 0.0
    if query.get("since"):
        try:
            since = keys.moment(query["since"], "since")
        except Failure as failure:
            raise InvalidParam(failure.message, field="since") from failure
    await call.gateway.audit.flush()
    before = (query.get("before") or "")[:64] or None
    if before is not None and not before.isalnum():
        raise InvalidParam("before must be the id of a line.", field="before")
    lines = await _overview(call).audit(scope_of(call.caller), most=most, since=since, before=before)
    return Answer({"lines": lines, "next_before": lines[-1]["id"] if len(lines) == most else None})


def scope_of(caller: Caller) -> Scope:
    """What a caller may see."""
    if caller.agents is None and keys.is_admin(caller.permissions):
        return Scope()
    return Scope(caller.owner, caller.agents)


def _admin(call: Call) -> None:
    # A key for some agents is for nothing else, whatever it may do with them.
    if call.caller.agents is not None or not keys.is_admin(call.caller.permissions):
        raise Forbidden(
            "Keys are for callers with the permission 'admin': see `fairlead keys new NAME --admin`."
        )


def _keys(call: Call) -> Keys:
    app = call.gateway.app
    return Keys(app.store, app.wall)


def _overview(call: Call) -> Overview:
    return Overview(call.gateway.app, call.gateway.owner)


def _texts(body: dict[str, Any], name: str) -> list[Any] | None:
    given = body.get(name)
    if given is None or (isinstance(given, list) and len(given) <= 1000):
        return given
    raise InvalidBody(f"{name} must be a list of texts.", field=name)


ROUTES: Final = (
    Route("POST", "/api/v1/api-keys", create_key, "createApiKey"),
    Route("GET", "/api/v1/api-keys", list_keys, "listApiKeys"),
    Route("DELETE", "/api/v1/api-keys/{id}", revoke_key, "revokeApiKey"),
    Route("GET", "/api/v1/admin/agents", admin_agents, "adminAgents"),
    Route("GET", "/api/v1/admin/tasks", admin_tasks, "adminTasks"),
    Route("GET", "/api/v1/admin/tasks/{taskId}", admin_task, "adminTask"),
    Route("GET", "/api/v1/admin/deliveries", admin_deliveries, "adminDeliveries"),
    Route("GET", "/api/v1/admin/keys", admin_keys, "adminKeys"),
    Route("GET", "/api/v1/admin/rates", admin_rates, "adminRates"),
    Route("GET", "/api/v1/admin/audit", admin_audit, "adminAudit"),
)
