"""Agents for other agents: each one behind A2A, with its card, at `/a2a/AGENT`.

The protocol is the A2A library's, which is loaded with the first request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from fairlead._json import loads
from fairlead.failures import Failure
from fairlead.failures import gateway as wire
from fairlead.failures.gateway import AgentServiceUnavailable, MissingParam
from fairlead.gateway import tasks
from fairlead.gateway.agents import SHOWN, GatewayAgent
from fairlead.gateway.call import LARGE, LONGEST_ID, Answer, Call, Caller, Frames, Route
from fairlead.gateway.invoke import frame, invoke_agent
from fairlead.surfaces.mcp.oauth import origin

if TYPE_CHECKING:
    from fairlead.gateway.gateway import Gateway
    from fairlead.surfaces.http.asgi import Request

#: JSON-RPC's own codes: what is wrong is the request, or the server.
_REQUEST, _SERVER = -32600, -32603


def refused(gateway: Gateway, request: Request, failure: Failure) -> Answer:
    """A failure of a request that never came to the protocol, as JSON-RPC tells it."""
    status = wire.http_status(failure)
    told = wire.render(failure, None, gateway.app.redactor)["error"]
    error = {"code": _SERVER if status >= 500 else _REQUEST, "message": told["message"]}
    data = {name: told[name] for name in ("code", "param") if name in told}
    headers = ((b"www-authenticate", b"Bearer"),) if status == 401 else ()
    return Answer(
        {"jsonrpc": "2.0", "id": None, "error": {**error, "data": data}}, status, headers, flat=True
    )


async def serve_a2a(call: Call) -> Answer | Frames:
    agent = await call.gateway.agents.usable(call.id("agent"), call.caller)
    bridge = _room("a2a_bridge")
    answer: Answer | Frames = await bridge.answered(call, agent, _card(call, agent, whole=True))
    return answer


async def get_card(call: Call) -> Answer:
    """The card, for everybody who may know of the agent. Who comes with a key may know more."""
    caller = Caller("")
    if not {"authorization", "x-agent-api-key"}.isdisjoint(call.request.headers):
        caller = await call.gateway.callers.of(call.request, of_agent=True)
    agent = await call.gateway.agents.usable(call.id("agent"), caller)
    whole = agent.visibility in SHOWN or agent.owner == caller.owner
    told = _room("a2a_bridge").card_told(_card(call, agent, whole=whole))
    return Answer(told, headers=((b"cache-control", b"no-cache"), (b"vary", b"Authorization")), flat=True)


async def invoke_plainly(call: Call) -> Answer | Frames:
    """Ask an agent without JSON-RPC: what an invoke does, in the words of this address."""
    answer = await invoke_agent(call)
    if isinstance(answer, Frames):
        return replace(answer, frames=_plain(answer.frames))
    return Answer({"message": "ok", **answer.data}, flat=True)


async def _plain(frames: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    failed = False
    async with aclosing(frames) as said:  # type: ignore[type-var]
        async for each in said:
            told = loads(each.removeprefix(b"data: ")) if each else {"type": ""}
            if told["type"] == "delta":
                yield frame({"type": "agent_reply_delta", "text": told["text"]})
            elif told["type"] == "error":
                failed = True
                yield each
            elif told["type"] == "done" and not told["is_error"]:
                reply = {"text": told["text"], "context_id": told["context_id"]}
                yield frame({"type": "agent_reply", **reply})
            elif told["type"] == "done" and not failed:
                yield frame({"type": "error", "code": told["code"], "message": told["error"]})


async def resume(call: Call) -> Frames:
    """What comes of a task after an offset, in the words of this address: for those who lost their stream."""
    agent = await call.gateway.agents.usable(call.id("agent"), call.caller)
    id = call.request.query.get("task_id", "")
    if not 0 < len(id) <= LONGEST_ID:
        raise MissingParam("task_id is missing.", field="task_id")
    since = call.number("since", 0, 0, 2**53)
    await call.gateway.recorder.settled(id)
    entry = await call.gateway.entries.find(id, agent.id, call.caller)
    stream = _resumed(tasks.frames(call.gateway, entry, since), id)
    return Frames(call.gateway.streams.kept(stream, b"", call.caller))


async def _resumed(frames: AsyncIterator[bytes], task: str) -> AsyncIterator[bytes]:
    async with aclosing(frames) as messages:  # type: ignore[type-var]
        async for each in messages:
            event, _, rest = each.partition(b"\n")
            if event != b"event: message":
                continue
            offset, _, data = rest.partition(b"\ndata: ")
            for told in _states(loads(data)):
                yield b"%b\n%b" % (offset, frame({**told, "task_id": task}))


def _states(message: dict[str, Any]) -> list[dict[str, Any]]:
    """A message as what became of the task."""
    kind = message["type"]
    words = message.get("body") or message.get("payload", {}).get("text", "")
    if kind == "agent_reply_delta":
        return [{"type": "artifact_delta", "text": words}]
    if kind == "agent_reply" and message.get("state") == "completed":
        parts = [{"kind": "text", "text": words}]
        return [{"type": "artifact", "artifact": {"parts": parts}}, _status(message, "completed")]
    if kind in ("agent.input_required", "agent.auth_required"):
        return [_status(message, kind.removeprefix("agent.").replace("_", "-"))]
    if kind == "agent_reply_error":
        return [{"type": "error", "message": words}, _status(message, "failed")]
    if kind in ("agent_busy", "agent.refuse"):
        return [{"type": "error", "message": words}, _status(message, "rejected")]
    if kind == "chat_cancel":
        return [_status(message, "canceled")]
    return [_status(message, "submitted" if kind == "chat_message" else "working")]


def _status(message: dict[str, Any], state: str) -> dict[str, Any]:
    return {"type": "status", "status": {"state": state, "timestamp": message["created_at"]}}


def _card(call: Call, agent: GatewayAgent, *, whole: bool) -> Any:
    from urllib.parse import quote

    url = f"{call.gateway.public_url or origin(call.request.scope)}/a2a/{quote(agent.id, safe='')}"
    return _room("a2a_words").card_of(agent, url, call.gateway.app.version, whole=whole)


def _room(name: str) -> Any:
    """A module that needs the A2A library. Raises AgentServiceUnavailable."""
    from importlib import import_module

    try:
        return import_module(f"fairlead.gateway.{name}")
    except ImportError as exc:
        words = "A2A is not served here: it needs pip install 'fairlead[a2a]'."
        raise AgentServiceUnavailable(words) from exc


_AGENT: Final = "/a2a/{agent}"
ROUTES: Final = (
    Route("POST", _AGENT, serve_a2a, "a2a", body=LARGE, refused=refused, of_agent=True),
    Route("POST", "/a2a/{agentId}/v1/invoke", invoke_plainly, "a2aInvoke", body=LARGE, of_agent=True),
    Route("GET", f"{_AGENT}/stream", resume, "a2aStream", of_agent=True),
    Route("GET", _AGENT, get_card, "a2aCard", open=True),
    Route("GET", f"{_AGENT}/.well-known/agent-card.json", get_card, "a2aCard", open=True),
    Route("GET", f"{_AGENT}/.well-known/agent.json", get_card, "a2aCard", open=True),
)
