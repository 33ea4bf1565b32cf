"""Conversations over HTTP: talking with an agent for as long as one likes, from anywhere."""

from __future__ import annotations

import base64
import uuid
from contextlib import suppress
from typing import Any, Final

from fairlead.failures import Failure
from fairlead.failures.gateway import AgentNotFound, Forbidden, InvalidBody, InvalidParam
from fairlead.gateway import messages
from fairlead.gateway.agents import GatewayAgent
from fairlead.gateway.call import LARGE, LONGEST_ID, Answer, Call, Frames, Route
from fairlead.gateway.channels import Channels, channels_of
from fairlead.gateway.channels_kept import Channel
from fairlead.gateway.channels_reading import frames
from fairlead.gateway.invoke import attachments_of, files_of, key_of, metadata_of, text_of
from fairlead.store.store import writable

STATES: Final = ("active", "open", "closed", "all")
OPERATION: Final = "x-beeos-operation-id"
LONGEST_TITLE: Final = 256
LONGEST_REASON: Final = 1024
#: The largest offset that may be asked for.
_LARGEST: Final = 2**53


async def create_conversation(call: Call) -> Answer:
    agent = await call.gateway.agents.usable(call.id("agentId"), call.caller)
    body = _optional(call)
    title = None if body.get("title") in (None, "") else _title(body)
    metadata = {writable(name): writable(value) for name, value in metadata_of(body).items()}
    channel = await channels_of(call.gateway).begin(agent.id, call.caller, title, metadata, call.key())
    return Answer(_told(call, channel, agent), status=201)


async def list_conversations(call: Call) -> Answer:
    agent = await call.gateway.agents.usable(call.id("agentId"), call.caller)
    state = call.choice("state", "active", STATES)
    limit = call.number("limit", 50, 1, 100)
    before = _read_cursor(call.request.query.get("since"))
    found, more = await channels_of(call.gateway).page(agent.id, call.caller, state, limit, before)
    told: dict[str, Any] = {"conversations": [_told(call, each, agent) for each in found]}
    if more is not None:
        told["next_since"] = _cursor(*more)
    return Answer(told)


async def get_conversation(call: Call) -> Answer:
    agent, _, channel = await _own(call, "convId")
    return Answer(_told(call, channel, agent))


async def rename_conversation(call: Call) -> Answer:
    key = _key(call)
    agent, channels, channel = await _found(call, "convId")
    body = _only(call.json(), "title")
    renamed = await channels.rename(channel, _title(body), key)
    return Answer(_told(call, renamed, agent))


async def delete_conversation(call: Call) -> Answer:
    _, channels, channel = await _own(call, "convId")
    await channels.close(channel)
    return Answer(None, status=204, flat=True)


async def send_message(call: Call) -> Answer:
    body = call.json()
    message, key, named = text_of(body, "message"), key_of(body), attachments_of(body)
    agent, channels, channel = await _found(call, "convId")
    files = await files_of(call, body)
    id, at = await channels.send(channel, agent, call.caller, message, key, named, files)
    return Answer({"message_id": id, "created_at": at}, status=202)


async def list_messages(call: Call) -> Answer:
    since = call.number("since", 0, 0, _LARGEST)
    limit = call.number("limit", 200, 1, 200)
    pieces = call.flag("include_deltas")
    _, channels, channel = await _own(call, "convId")
    page = await channels.log(channel, since, limit, pieces)
    last = page.messages[-1]["offset"] if page.messages else since
    told = {"messages": page.messages, "latest_offset": page.latest, "has_more": page.more}
    return Answer({**told, "next_since": str(last)})


async def stream_events(call: Call) -> Frames:
    since = call.number("since", -1, 0, _LARGEST)
    if since < 0:
        last = call.request.headers.get("last-event-id", "")
        since = int(last) if last.isascii() and last.isdigit() and len(last) < 17 else 0
    _, channels, channel = await _own(call, "convId")
    stream = frames(channels, call.gateway.app.store, channel, since)
    return Frames(call.gateway.streams.kept(stream, messages.end("stream_closed"), call.caller))


async def cancel_turn(call: Call) -> Answer:
    key, operation = call.key(), _operation(call)
    body = _only(call.json(), "target_message_id", "reason")
    target = text_of(body, "target_message_id")
    reason = body.get("reason")
    if len(target) > LONGEST_ID:
        words = f"target_message_id must have 1 to {LONGEST_ID} characters."
        raise InvalidBody(words, field="target_message_id")
    if reason is not None and (not isinstance(reason, str) or len(reason) > LONGEST_REASON):
        raise InvalidBody(f"reason must be a text of at most {LONGEST_REASON} characters.", field="reason")
    _, channels, channel = await _own(call, "conversationId")
    reason = None if reason is None else writable(reason)
    operation = await channels.cancel(channel, writable(target), reason, key, operation)
    told = {"operation_id": operation, "status": "accepted"}
    return Answer(told, status=202, headers=_headers(operation))


async def clear_conversation(call: Call) -> Answer:
    key, operation = _key(call), _operation(call)
    _, channels, channel = await _found(call, "conversationId")
    generation, operation = await channels.clear(channel, key, operation)
    told = {
        "status": "accepted",
        "operationId": operation,
        "conversationId": channel.id,
        "currentGeneration": str(generation),
    }
    return Answer(told, status=202, headers=_headers(operation), flat=True)


async def set_model(call: Call) -> Answer:
    key, operation = _key(call), _operation(call)
    agent, channels, channel = await _found(call, "conversationId")
    body = _only(call.json(), "modelOverrideId")
    if "modelOverrideId" not in body:
        raise InvalidBody("modelOverrideId is missing. null is the agent's own.", field="modelOverrideId")
    model = body["modelOverrideId"]
    if model is not None:
        _check_model(call, agent, model)
    operation = await channels.set_model(channel, model, key, operation)
    return Answer(None, status=202, headers=_headers(operation), flat=True)


async def _found(call: Call, name: str) -> tuple[GatewayAgent, Channels, Channel]:
    """The conversation that a call names, of its caller with an agent that they may talk with."""
    agent = await call.gateway.agents.usable(call.id("agentId"), call.caller)
    channels = channels_of(call.gateway)
    return agent, channels, await channels.find(call.id(name), agent.id, call.caller)


async def _own(call: Call, name: str) -> tuple[GatewayAgent | None, Channels, Channel]:
    """The same for those who look, stop or end: a caller's own stays theirs, though its agent is private, or gone."""
    id, caller, channels = call.id("agentId"), call.caller, channels_of(call.gateway)
    try:
        agent = await call.gateway.agents.usable(id, caller)
    except AgentNotFound as hidden:
        if not caller.reaches(id):
            raise
        try:
            return None, channels, await channels.find(call.id(name), id, caller)
        except (AgentNotFound, Forbidden, InvalidParam):
            # Whoever may not know of the agent is not told whether there is such a conversation.
            raise hidden from None
    return agent, channels, await channels.find(call.id(name), id, caller)


def _told(call: Call, channel: Channel, agent: GatewayAgent | None) -> dict[str, Any]:
    return channel.to_dict(None if agent is None else _model_of(call, agent))


def _model_of(call: Call, agent: GatewayAgent) -> str | None:
    """The name of an agent's own model, where one is known."""
    if agent.action is None:
        return None
    with suppress(Failure):
        return str(call.gateway.app.models.resolve(agent.action.metadata["agent"].model).name) or None
    return None


def _check_model(call: Call, agent: GatewayAgent, model: Any) -> None:
    if agent.owner != call.caller.owner:
        raise Forbidden("Only the agent's owner may choose its model.")
    if not isinstance(model, str) or not 0 < len(model) <= LONGEST_ID or not model.isprintable():
        words = f"modelOverrideId must be a text of 1 to {LONGEST_ID} characters, or null."
        raise InvalidBody(words, field="modelOverrideId")
    if agent.action is None:
        words = "This agent runs elsewhere, with a model of its own: none can be set here. null leaves it so."
        raise InvalidParam(words, field="modelOverrideId")
    try:
        call.gateway.app.models.resolve(model, foreign=True)
    except Failure as failure:
        raise InvalidParam(failure.message, field="modelOverrideId") from failure


def _optional(call: Call) -> dict[str, Any]:
    """A body that may be left out."""
    return call.json() if call.request.body.strip() else {}


def _only(body: dict[str, Any], *names: str) -> dict[str, Any]:
    unknown = next((name for name in body if name not in names), None)
    if unknown is not None:
        raise InvalidBody(f"The body takes {', '.join(names)}, and nothing else.", field=unknown[:50])
    return body


def _title(body: dict[str, Any]) -> str:
    title = text_of(body, "title")
    if len(title) > LONGEST_TITLE:
        raise InvalidBody(f"title must have 1 to {LONGEST_TITLE} characters.", field="title")
    return writable(title)


def _key(call: Call) -> str:
    key = call.key(required=True)
    assert key is not None
    return key


def _operation(call: Call) -> str:
    """The operation's id: the caller's, where it is a UUID, or a new one."""
    with suppress(ValueError):
        return str(uuid.UUID(call.request.headers.get(OPERATION, "")))
    return str(uuid.uuid4())


def _headers(operation: str) -> tuple[tuple[bytes, bytes], ...]:
    return ((OPERATION.encode(), operation.encode()),)


def _cursor(created: float, id: str) -> str:
    return base64.urlsafe_b64encode(f"{created!r} {id}".encode()).decode().rstrip("=")


def _read_cursor(given: str | None) -> tuple[float, str]:
    if not given:
        return 1e18, "~"
    try:
        spelled = base64.urlsafe_b64decode(given + "=" * (-len(given) % 4)).decode()
        created, _, id = spelled.partition(" ")
        number = float(created)
        if not abs(number) < 1e18 or "\0" in id:
            raise ValueError(created)
    except ValueError:
        raise InvalidParam("since must be the next_since of the page before.", field="since") from None
    return number, id


_ALL: Final = "/api/v1/agents/{agentId}/conversations"
_ONE: Final = f"{_ALL}/{{convId}}"
_BY_LONG_NAME: Final = f"{_ALL}/{{conversationId}}"
ROUTES: Final = (
    Route("POST", _ALL, create_conversation, "createConversation", body=LARGE),
    Route("GET", _ALL, list_conversations, "listConversations"),
    Route("GET", _ONE, get_conversation, "getConversation"),
    Route("PATCH", _ONE, rename_conversation, "renameConversation", body=LARGE),
    Route("DELETE", _ONE, delete_conversation, "deleteConversation"),
    Route("POST", f"{_ONE}/messages", send_message, "sendConversationMessage", body=LARGE),
    Route("GET", f"{_ONE}/messages", list_messages, "listConversationMessages"),
    Route("GET", f"{_ONE}/events", stream_events, "streamConversationEvents"),
    Route("POST", f"{_BY_LONG_NAME}/cancel", cancel_turn, "cancelConversation", body=LARGE),
    Route("POST", f"{_BY_LONG_NAME}/clear", clear_conversation, "clearConversation", body=LARGE),
    Route("PUT", f"{_BY_LONG_NAME}/model", set_model, "setConversationModel", body=LARGE),
)
