"""Agents behind OpenAI's Responses API: each response goes on from the one before it, or from a conversation.

A response is a task that was left behind: its id is the task's. What was said up to it is kept with it, so that
several responses may go on from the same one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from fairlead._json import encode
from fairlead.agents.conversations import read
from fairlead.agents.models.model import Message
from fairlead.failures.gateway import AgentNotFound, InvalidBody, InvalidParam
from fairlead.gateway import recorder, turns
from fairlead.gateway.agents import GatewayAgent
from fairlead.gateway.call import LARGE, Answer, Call, Frames, Route
from fairlead.gateway.entries import MARK, Entry
from fairlead.gateway.invoke import metadata_of, text_of
from fairlead.gateway.openai import flag_of, pieces
from fairlead.gateway.openai_words import (
    LONGEST_WAIT,
    agent_of,
    check,
    error_of,
    folded,
    instructed,
    refused,
    said,
    usage_of,
)
from fairlead.gateway.turns import Ended, Said, Turn
from fairlead.tasks.states import State

if TYPE_CHECKING:
    from fairlead.gateway.gateway import Gateway

_ID: Final = "resp_"
#: Seconds between looks for a response that another process may be about to write.
_PAUSES: Final = (0.0, 0.05, 0.2, 0.5)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a request asks, beside the turn itself."""

    turn: Turn
    id: str
    created: int
    previous: str | None
    conversation: str | None
    instructions: str | None
    #: Whether it may be gone on from.
    store: bool

    def told(self, status: str, text: str | None = None, last: Ended | None = None) -> dict[str, Any]:
        """The response, as far as it is."""
        output = [] if text is None else [_item(self.id, text)]
        conversation = None if self.conversation is None else {"id": self.conversation}
        return {
            **_response(self.id, self.created, self.turn.agent.id, status, output),
            "instructions": self.instructions,
            "metadata": dict(self.turn.metadata),
            "previous_response_id": self.previous,
            "conversation": conversation,
            "store": self.store,
            "usage": None if last is None else _usage(last.usage),
        }


async def create_response(call: Call) -> Answer | Frames:
    gateway, body = call.gateway, call.json()
    agent = await agent_of(call, body)
    check(body)
    asked = await _asked(call, agent, body)
    if flag_of(body, "stream"):
        return Frames(_frames(gateway, asked), every=gateway.streams.every)
    taking = recorder.whole if asked.store else turns.whole
    last = await taking(gateway, asked.turn)
    if last.failure is not None:
        raise last.failure
    return Answer(asked.told("completed", last.text, last), flat=True)


async def get_response(call: Call) -> Answer:
    """A response that was given before."""
    entry = await _left(call, call.id("id"))
    task = entry.task
    done = task.state is State.completed
    output = [_item(call.id("id"), str(task.data))] if done else []
    status = "completed" if done else "cancelled" if task.state is State.canceled else "failed"
    record = entry.record or {}
    about = {"created_at": int(task.created), **record.get("about", {})}
    told = _response(call.id("id"), about["created_at"], entry.agent, status, output)
    told |= about | {"metadata": record.get("metadata", {}), "usage": _usage(record.get("usage"))}
    if status == "failed":
        told["error"] = {"code": "server_error", "message": task.reason or status}
    return Answer(told, flat=True)


async def _asked(call: Call, agent: GatewayAgent, body: dict[str, Any]) -> _Asked:
    """What is asked of an agent, with what it goes on from."""
    history, prompt = said(body.get("input"), "input")
    previous, conversation = _name(body, "previous_response_id"), _conversation(body)
    if previous is not None and conversation is not None:
        raise InvalidParam("Give previous_response_id or conversation, not both.", field="conversation")
    instructions = body.get("instructions")
    if instructions is not None:
        history = (*history, Message("user", instructed(text_of(body, "instructions"))))
    id = turns.new_context()
    turn = Turn(
        agent,
        call.caller,
        prompt,
        id,
        message_id=turns.new_id(),
        metadata=metadata_of(body),
        timeout=LONGEST_WAIT,
        history=history,
        record_id=id,
    )
    if previous is not None:
        turn = _after(turn, await _left(call, previous, agent))
    if conversation is not None:
        turn = turn._replace(context_id=conversation, continued=True)
    if turn.continued or agent.action is None:
        # Whoever keeps what was said takes in what is new, as one message.
        turn = turn._replace(message=folded(turn.history, prompt), history=())
    if turn.continued:
        turn = await call.gateway.recorder.opened(turn)
    turns.check(turn)
    store = body.get("store") is None or flag_of(body, "store")
    created = int(call.gateway.app.wall())
    asked = _Asked(turn, _id(id), created, previous, conversation, instructions, store)
    return replace(asked, turn=turn._replace(about=_kept(asked, call.gateway)))


def _kept(asked: _Asked, gateway: Gateway) -> dict[str, Any]:
    """What a response is told with again, beside what every task keeps."""
    whole = asked.told("completed")
    about = {name: whole[name] for name in ("created_at", "previous_response_id", "conversation")}
    given = asked.instructions
    return {**about, "instructions": None if given is None else gateway.app.redactor.text(given)}


def _after(turn: Turn, entry: Entry) -> Turn:
    """A turn that goes on from what an earlier one left."""
    record = entry.record
    assert record is not None
    if record["context_id"] != entry.task.id or turn.agent.action is None:
        # It was one of a conversation, which is kept elsewhere.
        return turn._replace(context_id=record["context_id"], continued=True)
    if "said" in record:
        told = record.get("about", {}).get("instructions")
        known = _uninstructed(tuple(read(each) for each in record["said"]), told)
    else:
        known = (Message("user", record["message"]),)
        if record["state"] == State.completed:
            known = (*known, Message("assistant", record["text"]))
    return turn._replace(history=(*known, *turn.history), state=record.get("kept", {}))


def _uninstructed(known: tuple[Message, ...], instructions: str | None) -> tuple[Message, ...]:
    """What was said up to a response, without the instructions that it had: each has its own."""
    if instructions is None:
        return known
    told = instructed(instructions)
    at = max((at for at, each in enumerate(known) if (each.role, each.content) == ("user", told)), default=-1)
    return known if at < 0 else (*known[:at], *known[at + 1 :])


async def _left(call: Call, id: str, agent: GatewayAgent | None = None) -> Entry:
    """What a response left behind.

    Raises:
        AgentNotFound: there is none of this id, or none that the caller may know of.
    """
    gateway = call.gateway
    task = f"{MARK}{id.removeprefix(_ID)}"
    if id.startswith(_ID) and id.isprintable():
        await gateway.recorder.settled(task)
        for pause in _PAUSES:
            await asyncio.sleep(pause)
            found = await gateway.entries.any(task)
            if found is not None:
                if found.record is None or found.owner != call.caller.owner:
                    break
                if agent is not None and found.agent != agent.id:
                    raise InvalidParam("The response is another agent's.", field="previous_response_id")
                await gateway.agents.usable(found.agent, call.caller)
                return found
    raise AgentNotFound("There is no such response.", field=None if agent is None else "previous_response_id")


def _name(body: Mapping[str, Any], name: str) -> str | None:
    given = body.get(name)
    return None if given is None else _checked(given, name)


def _checked(given: Any, name: str) -> str:
    if not isinstance(given, str) or not 0 < len(given) <= 128 or not given.isprintable():
        raise InvalidBody(f"{name} must be a text of 1 to 128 characters.", field=name)
    return given


def _conversation(body: dict[str, Any]) -> str | None:
    given = body.get("conversation")
    return (
        _checked(given.get("id"), "conversation.id")
        if isinstance(given, dict)
        else _name(body, "conversation")
    )


async def _frames(gateway: Gateway, asked: _Asked) -> AsyncIterator[bytes]:
    number = 0

    def event(type: str, **told: Any) -> bytes:
        nonlocal number
        number += 1
        body = {"type": type, "sequence_number": number - 1, **told}
        return b"event: %b\ndata: %b\n\n" % (type.encode(), encode(body))

    yield event("response.created", response=asked.told("in_progress"))
    yield event("response.in_progress", response=asked.told("in_progress"))
    place = {"item_id": _item_id(asked.id), "output_index": 0, "content_index": 0}
    text: str | None = None
    async with aclosing(pieces(gateway, asked.turn, leaving=asked.store)) as events:  # type: ignore[type-var]
        async for each in events:
            if isinstance(each, Said):
                if not each.text:
                    continue
                if text is None:
                    text = ""
                    item = {**_item(asked.id, ""), "status": "in_progress", "content": []}
                    yield event("response.output_item.added", output_index=0, item=item)
                    yield event("response.content_part.added", **place, part=_part(""))
                text += each.text
                yield event("response.output_text.delta", **place, delta=each.text, logprobs=[])
                continue
            if text is not None:
                yield event("response.output_text.done", **place, text=text, logprobs=[])
                yield event("response.content_part.done", **place, part=_part(text))
                yield event("response.output_item.done", output_index=0, item=_item(asked.id, text))
            if each.failure is None:
                yield event("response.completed", response=asked.told("completed", text or "", each))
            else:
                error = error_of(each.failure, gateway)
                response = asked.told("failed", text, each)
                response["error"] = {"code": error["code"], "message": error["message"]}
                yield event("response.failed", response=response)


def _id(task: str) -> str:
    return f"{_ID}{task.removeprefix(MARK)}"


def _item_id(id: str) -> str:
    return f"msg_{id.removeprefix(_ID)}"


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _item(id: str, text: str) -> dict[str, Any]:
    about = {"id": _item_id(id), "type": "message", "role": "assistant", "status": "completed"}
    return {**about, "content": [_part(text)]}


def _response(id: str, created: int, model: str, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": id,
        "object": "response",
        "created_at": created,
        "status": status,
        "background": False,
        "conversation": None,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": model,
        "output": output,
        "parallel_tool_calls": False,
        "previous_response_id": None,
        "store": True,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "usage": None,
    }


def _usage(counted: Mapping[str, Any] | None) -> dict[str, Any] | None:
    known = usage_of(counted)
    if known is None:
        return None
    read, written = known
    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": read + written,
    }


_RESPONSES: Final = "/v1/responses"
ROUTES: Final = (
    Route("POST", _RESPONSES, create_response, "createResponse", body=LARGE, refused=refused),
    Route("GET", f"{_RESPONSES}/{{id}}", get_response, "getResponse", refused=refused),
)
