"""Each agent as an MCP server with one tool, which asks it: at `/agents/AGENT/mcp`, unless its owner closes that.

The protocol is the one of the app's own MCP server. Each message stands for itself here, so that any process of a
server may answer it; who goes away stops the agent.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from contextlib import aclosing
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from fairlead.actions import Action, Exposure
from fairlead.actions.definition import RESERVED_NAMES
from fairlead.failures import Failure
from fairlead.failures import gateway as wire
from fairlead.failures.gateway import AgentReplyError, Unauthorized
from fairlead.gateway import recorder
from fairlead.gateway.agents import GatewayAgent
from fairlead.gateway.call import LARGE, Answer, Call, Route, Served
from fairlead.gateway.invoke import files_of, turn_of
from fairlead.gateway.keyed import keyed
from fairlead.gateway.turns import Ended, Said, Turn
from fairlead.runtime import Context, Runtime
from fairlead.surfaces.auth import Caller
from fairlead.surfaces.http.disconnect import while_connected
from fairlead.surfaces.mcp.http import McpEndpoint
from fairlead.surfaces.mcp.oauth import WELL_KNOWN, origin
from fairlead.surfaces.mcp.server import Server

if TYPE_CHECKING:
    from fairlead.gateway.gateway import Gateway
    from fairlead.surfaces.http.asgi import Receive, Request, Scope, Send

#: Endpoints that one gateway keeps ready.
_MOST: Final = 1000
_ANY_HOST: Final = "*"
_REQUEST, _SERVER = -32600, -32603
#: The request that a tool is called by.
_CALL: ContextVar[Call] = ContextVar("fairlead.gateway.mcp")
_READY: Final[WeakKeyDictionary[Gateway, dict[str, tuple[GatewayAgent, McpEndpoint]]]] = WeakKeyDictionary()


def refused(gateway: Gateway, request: Request, failure: Failure) -> Answer:
    """A failure of a request that never came to the protocol. Who may not come in is told what they need."""
    status = wire.http_status(failure)
    told = wire.render(failure, None, gateway.app.redactor)["error"]
    error = {"code": _SERVER if status >= 500 else _REQUEST, "message": told["message"]}
    headers: tuple[tuple[bytes, bytes], ...] = ()
    if status == 401:
        wrong = 'error="invalid_token", ' if "authorization" in request.headers else ""
        place = f"{gateway.public_url or origin(request.scope)}{request.path.rstrip('/')}{WELL_KNOWN}"
        challenge = f'Bearer realm="MCP", {wrong}resource_metadata="{place}"'
        headers = ((b"www-authenticate", challenge.encode("ascii", "replace")),)
    body = {"jsonrpc": "2.0", "id": None, "error": {**error, "data": {"code": told["code"]}}}
    return Answer(body, status, headers, flat=True)


async def serve_mcp(call: Call) -> Served:
    agent = await call.gateway.agents.usable(call.id("agent"), call.caller)
    if not agent.mcp_enabled:
        raise Unauthorized("The agent's owner has closed it to MCP, and can open it by mcpEnabled.")
    endpoint = _endpoint(call.gateway, agent)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        token = _CALL.set(call)
        try:
            serving = endpoint.serve(scope, dict(scope["headers"]), _body(call.request.body), send)
            await while_connected(serving, receive)
        finally:
            _CALL.reset(token)

    return Served(app)


def _body(body: bytes) -> Receive:
    """What a request's body comes from that was read already. Who sent it is watched elsewhere."""
    left = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        if left:
            return left.pop()
        return await asyncio.get_running_loop().create_future()

    return receive


async def get_metadata(call: Call) -> Answer:
    """What a client needs to be let in (RFC 9728). Keys are given out by people: no server issues tokens."""
    path = call.request.path.removesuffix(WELL_KNOWN)
    told = {
        "resource": f"{call.gateway.public_url or origin(call.request.scope)}{path}",
        "authorization_servers": [],
        "bearer_methods_supported": ["header"],
    }
    return Answer(told, flat=True)


def _endpoint(gateway: Gateway, agent: GatewayAgent) -> McpEndpoint:
    ready = _READY.setdefault(gateway, {})
    known = ready.get(agent.id)
    if known is not None and _same(known[0], agent):
        return known[1]
    if len(ready) >= _MOST:
        ready.clear()
    app = Runtime([_action(agent)], clock=gateway.app.clock)
    server = Server(app, exposure=Exposure(), instructions=agent.description or None)
    server.name, server.version, server.description = agent.name, gateway.app.version, agent.description
    endpoint = McpEndpoint(
        server, resolve_context=_caller, allowed_hosts=(_ANY_HOST,), sessions=False, max_body=LARGE
    )
    ready[agent.id] = agent, endpoint
    return endpoint


def _caller(request: Request) -> Caller:
    """Who calls, as the gateway found out: what is kept for one caller is for no other."""
    who = _CALL.get().caller
    return Caller(who.user, who.auth)


def _same(known: GatewayAgent, agent: GatewayAgent) -> bool:
    return (known.name, known.description, known.action) == (agent.name, agent.description, agent.action)


def _action(agent: GatewayAgent) -> Action[..., Any]:
    """The tool that asks an agent."""

    async def ask(
        message: str,
        ctx: Context,
        context_id: str | None = None,
        idempotency_key: str | None = None,
        attachments: list[dict[str, Any]] | None = None,
    ) -> str:
        """Ask the agent.

        Args:
            message: What to say to the agent.
            context_id: A conversation to go on with, or a name of your own for a new one.
            idempotency_key: A name of this very message: sent again, it is answered as the first time.
            attachments: Uploaded files, each an object with a file_id.
        """
        call = _CALL.get()
        gateway = call.gateway
        body = {
            "message": message,
            "context_id": context_id,
            "idempotency_key": idempotency_key,
            "attachments": attachments,
        }
        current = await gateway.agents.usable(agent.id, call.caller)
        turn = turn_of(call, current, body)
        if attachments is not None:
            turn = turn._replace(attachments=await files_of(call, body))
        if turn.continued:
            turn = await gateway.recorder.opened(turn)
        ctx.told_meta = {"context_id": turn.context_id}
        return await _asked(gateway, turn, ctx, keep=idempotency_key is not None)

    about = agent.description or f"Ask the agent {agent.name}."
    return Action(ask, name=_name(agent.id), title=agent.name, description=about, side_effects="write")


def _name(id: str) -> str:
    """An agent's id as a tool's name. Ids of agents that run elsewhere may have letters that names have not."""
    name = re.sub(r"[^a-z0-9_]", "_", id.lower())
    return name if name[0].isalpha() and name not in RESERVED_NAMES else f"agent_{name}"


async def _asked(gateway: Gateway, turn: Turn, ctx: Context, *, keep: bool) -> str:
    """Have an agent take a turn; what it says on the way is told as progress. Raises what it failed with."""
    key = keyed(gateway, turn) if keep else None
    again = None if key is None else await key.claimed()
    if again is not None:
        return _repeated(again)
    last: Ended | None = None
    try:
        async with aclosing(recorder.recorded(gateway, turn)) as said:  # type: ignore[type-var]
            async for each in said:
                if isinstance(each, Ended):
                    last = each
                else:
                    await _passed_on(each, ctx)
    finally:
        if key is not None:
            await key.settled(last)
    assert last is not None
    if last.failure is not None:
        raise last.failure
    return last.text


def _repeated(again: Mapping[str, Any]) -> str:
    if again["is_error"]:
        raise AgentReplyError(again["text"])
    return str(again["text"])


async def _passed_on(said: Said, ctx: Context) -> None:
    if said.text:
        await ctx.delta(said.text)
    activity = said.activity
    if activity is not None and activity["kind"] == "tool_call":
        await ctx.activity("tool_call", str(activity.get("title") or activity["data"].get("name", "")), None)


_PATH: Final = "/agents/{agent}/mcp"
ROUTES: Final = (
    *(
        Route(method, _PATH, serve_mcp, "mcp", body=LARGE, refused=refused, of_agent=True)
        for method in ("POST", "GET", "DELETE")
    ),
    Route("GET", f"{_PATH}{WELL_KNOWN}", get_metadata, "mcpMetadata", open=True),
)
