"""Chats of the page with an app's agents: the conversations of whoever acts, and runs that the page follows.

    GET  /api/agents/NAME/conversations
    POST /api/agents/NAME/{open, say, follow, answer, stop, terminate, rename, delete}   {"id": ..., ...}

`stop` ends the commands of one call of a tool's, `terminate` the whole run. `say` and `follow` answer with the run's
events, the result last. It is behind the console's gate, like all the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, NamedTuple

from fairlead import _json
from fairlead.actions import Action, Exposure
from fairlead.agents.conversations import Conversation, failure_in
from fairlead.agents.models.model import Message, Model, ToolCall
from fairlead.failures import Failure, Kind
from fairlead.runtime import App
from fairlead.runtime.identity import caller_of
from fairlead.surfaces.auth import Caller
from fairlead.surfaces.console.acting import Acting
from fairlead.surfaces.console.chat_runs import SURFACE, Runs
from fairlead.surfaces.console.gate import object_in
from fairlead.surfaces.console.inside import AGENTS
from fairlead.surfaces.console.keep import keepable
from fairlead.surfaces.http.asgi import Receive, Request, Scope, Send, disconnected, read_body, respond
from fairlead.surfaces.refusal import LONGEST
from fairlead.surfaces.talking import CONVERSATION, agent_of, keeps_conversations, message_member

_LISTED: Final = 100
#: The tool whose results are drawn.
_CHART: Final = "render_chart"
_LARGEST: Final = 1 << 20
_SSE: Final = [(b"content-type", b"text/event-stream"), (b"x-accel-buffering", b"no")]


class Visit(NamedTuple):
    """One question of the page's: about which agent, by whom, and in which words."""

    action: Action[..., Any]
    caller: Caller
    owner: str
    body: Mapping[str, Any]

    @property
    def id(self) -> str:
        id = self.body.get("id")
        if not isinstance(id, str) or not id:
            raise Failure(Kind.invalid_input, "Say which conversation is meant, by its id.", field="id")
        return id


Answer = Callable[[Visit], Awaitable[dict[str, Any]]]


class Chat:
    """Answers the page's chats."""

    def __init__(self, app: App, acting: Acting, exposure: Exposure) -> None:
        self._app = app
        self._acting = acting
        self._exposure = exposure
        self.runs = Runs(app)
        self._answers: dict[tuple[str, str], Answer] = {
            ("GET", "conversations"): self._conversations,
            ("POST", "open"): self._open,
            ("POST", "answer"): self._answer,
            ("POST", "stop"): self._stop,
            ("POST", "terminate"): self._terminate,
            ("POST", "rename"): self._rename,
            ("POST", "delete"): self._delete,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send, path: str) -> None:
        body = await read_body(scope, receive, _LARGEST)
        name, _, question = path.removeprefix(AGENTS).partition("/")
        method: str = scope["method"]
        visit = self._visit(name, Request(scope, body))
        if (method, question) == ("POST", "say"):
            await _follow(await self._say(visit), receive, send)
        elif (method, question) == ("POST", "follow"):
            await _follow(self.runs.get(visit.owner, visit.id).follow(), receive, send)
        else:
            answer = self._answers.get((method, question))
            if answer is None:
                raise Failure(Kind.not_found, "The console knows no such question about an agent.")
            told = {"ok": True, **await answer(visit)}
            await respond(send, 200, _json.encode(told, default=str))

    def _visit(self, name: str, request: Request) -> Visit:
        action = self._app.get(name)
        if action is None or agent_of(action) is None or not self._exposure.allows(action, SURFACE):
            raise Failure(Kind.unknown_action, f"No agent is named {name[:LONGEST]!r}.")
        caller = self._acting(request)
        body = object_in(request.body) if request.method == "POST" else {}
        return Visit(action, caller, caller_of(caller.user, caller.auth), body)

    async def _conversations(self, visit: Visit) -> dict[str, Any]:
        kept = await self._app.conversations.page(visit.owner, agent=visit.action.name, limit=_LISTED)
        return {"conversations": [self._told(visit, each) for each in kept]}

    def _told(self, visit: Visit, conversation: Conversation) -> dict[str, Any]:
        running = self.runs.find(visit.owner, conversation.id) is not None
        return {**conversation.to_dict(), "running": running, "todo": conversation.state.get("todo")}

    async def _open(self, visit: Visit) -> dict[str, Any]:
        while True:
            run = self.runs.find(visit.owner, visit.id)
            try:
                conversation, said = await self._app.conversations.get(visit.id, visit.owner)
            except Failure as failure:
                if run is None or failure.kind is not Kind.not_found:
                    raise
                # It keeps nothing before the app's services have started.
                return {"conversation": {"id": visit.id, "running": True}, "said": run.words, "messages": []}
            # What a run said that ended meanwhile is neither told by it any more, nor in what was read before.
            if self.runs.find(visit.owner, visit.id) is run:
                break
        if conversation.agent != visit.action.name:
            raise Failure(
                Kind.not_found, f"This conversation is one with {conversation.agent!r}.", field="id"
            )
        told: dict[str, Any] = {"conversation": self._told(visit, conversation)}
        if run is not None:
            # What the run has added to it is told by the run.
            told["said"], said = run.words, said[: run.before]
        elif (failed := failure_in(conversation)) is not None:
            told["failed"] = failed
        return {**told, "messages": _messages(said)}

    async def _say(self, visit: Visit) -> AsyncIterator[bytes]:
        input = visit.body.get("input")
        if not isinstance(input, dict):
            raise Failure(Kind.invalid_input, "What is said to an agent is an object.", field="input")
        action, id = visit.action, visit.id
        given = {**input, CONVERSATION: id} if keeps_conversations(action) else input
        # One that ends while its conversation is read has said more than was read.
        self.runs.check(visit.owner, id)
        before, awaiting = await self._so_far(visit)
        run = self.runs.begin(visit.owner, id, action, given, visit.caller)
        run.before = before
        # An answer is shown with its question.
        run.words = "" if awaiting else self._words(action, input)
        return run.follow()

    def _words(self, action: Action[..., Any], input: dict[str, Any]) -> str:
        """What was said, for a page that is loaded again."""
        prompt, told = message_member(action), keepable(input, action.input.json_schema, self._app.redactor)
        return str(told.get(prompt, "")) if prompt else _json.dumps(told, indent=True)

    async def _so_far(self, visit: Visit) -> tuple[int, bool]:
        """How many messages a conversation has, and whether it waits for an answer."""
        try:
            conversation, _ = await self._app.conversations.get(visit.id, visit.owner)
        except Failure as failure:
            if failure.kind is not Kind.not_found:
                raise
            return 0, False
        return conversation.messages, "awaiting" in conversation.state

    async def _answer(self, visit: Visit) -> dict[str, Any]:
        self.runs.get(visit.owner, visit.id).desk.answer(visit.body.get("question"), visit.body)
        return {}

    async def _stop(self, visit: Visit) -> dict[str, Any]:
        from fairlead.tools.processes import terminate

        run, call = self.runs.get(visit.owner, visit.id), visit.body.get("call")
        within = visit.id if keeps_conversations(visit.action) else run.invocation
        if not isinstance(call, str) or not terminate(call, within):
            raise Failure(Kind.not_found, "This call of a tool runs no command any more.", field="call")
        return {}

    async def _terminate(self, visit: Visit) -> dict[str, Any]:
        self.runs.get(visit.owner, visit.id).terminate("You ended the run.")
        return {}

    async def _rename(self, visit: Visit) -> dict[str, Any]:
        title = visit.body.get("title")
        if not isinstance(title, str) or not title.strip():
            raise Failure(Kind.invalid_input, "A conversation's title is a text.", field="title")
        await self._app.conversations.rename(visit.id, visit.owner, title.strip())
        return {}

    async def _delete(self, visit: Visit) -> dict[str, Any]:
        if self.runs.find(visit.owner, visit.id) is not None:
            raise Failure(Kind.busy, "The agent is still at work in this conversation. End that run first.")
        await self._app.conversations.delete(visit.id, visit.owner)
        return {}


def described(action: Action[..., Any]) -> dict[str, Any] | None:
    """What the page should know of an agent: where a message goes in its input, and which model it has."""
    agent = agent_of(action)
    if agent is None:
        return None
    model = agent.model.name if isinstance(agent.model, Model) else agent.model
    return {"prompt": message_member(action), "model": model, "keeps": keeps_conversations(action)}


def _messages(said: Sequence[Message]) -> list[dict[str, Any]]:
    calls = {call.id: call for message in said for call in message.calls}
    return [_message(each, calls.get(each.call_id or "")) for each in said]


def _message(message: Message, call: ToolCall | None) -> dict[str, Any]:
    content = message.content if call is None else _with_drawing(message.content, call)
    told: dict[str, Any] = {"role": message.role, "content": content}
    if message.calls:
        told["calls"] = [
            {"id": each.id, "name": each.name, "arguments": each.arguments} for each in message.calls
        ]
    if message.call_id is not None:
        told["call"] = message.call_id
    if message.reasoning:
        told["reasoning"] = message.reasoning
    return told


def _with_drawing(envelope: str, call: ToolCall) -> str:
    """A tool's result; a chart, which models get in words, is drawn again for people, from what it was made of."""
    if call.name != _CHART:
        return envelope
    from fairlead.tools.charts import chart
    from fairlead.tools.charts_svg import svg

    try:
        told = _json.loads(envelope)
        given = {key: each for key, each in _json.loads(call.arguments).items() if key != "png"}
        if told["ok"] and "svg" not in told["result"]:
            told["result"]["svg"] = svg(chart(**{**given, "labels": given.get("labels") or ()}))
    except (Failure, KeyError, TypeError, ValueError, AttributeError):
        return envelope  # it was called in words of its own; its text says the same
    return _json.dumps(told)


async def _follow(events: AsyncIterator[bytes], receive: Receive, send: Send) -> None:
    """Send events for as long as the page is there."""
    await send({"type": "http.response.start", "status": 200, "headers": _SSE})
    gone = asyncio.ensure_future(disconnected(receive))
    sending = asyncio.ensure_future(_sent(events, send))
    try:
        await asyncio.wait((gone, sending), return_when=asyncio.FIRST_COMPLETED)
    finally:
        gone.cancel()
        sending.cancel()
        await asyncio.wait((gone, sending))
    if (
        not sending.cancelled()
        and (error := sending.exception()) is not None
        and not isinstance(error, OSError)
    ):
        raise error


async def _sent(events: Any, send: Send) -> None:
    async with aclosing(events):
        async for event in events:
            await send({"type": "http.response.body", "body": event, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
