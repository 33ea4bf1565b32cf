"""Asking an agent and waiting for its answer: whole, or as it is written."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, Final

from fairlead._json import encode
from fairlead.failures import Failure
from fairlead.failures import gateway as wire
from fairlead.failures.gateway import AgentReplyError, InvalidBody, InvalidParam, MissingParam, sentinel
from fairlead.gateway import recorder, turns
from fairlead.gateway.agents import GatewayAgent
from fairlead.gateway.call import LARGE, Answer, Call, Frames, Route
from fairlead.gateway.keyed import Keyed, keyed
from fairlead.gateway.turns import RESERVED, Ended, Said, Turn, new_id

if TYPE_CHECKING:
    from fairlead.gateway.gateway import Gateway

#: Milliseconds that a caller waits at most; longer ones are cut to it.
LONGEST_WAIT: Final = 115_000
MOST_ATTACHMENTS: Final = 16


async def invoke_agent(call: Call) -> Answer | Frames:
    gateway, id, caller = call.gateway, call.id("agentId"), call.caller
    agent = gateway.agents.usable_now(id, caller) or await gateway.agents.usable(id, caller)
    body = call.json()
    turn = turn_of(call, agent, body)
    if body.get("attachments") is not None:
        turn = turn._replace(attachments=await files_of(call, body))
    turns.check(turn)
    if turn.continued:
        turn = await gateway.recorder.opened(turn)
    key, again = None, None
    if body.get("idempotency_key") is not None:
        key = keyed(gateway, turn)
        again = await key.claimed()
    if again is None and agent.action is None and not agent.online(gateway.app.wall()):
        offline = sentinel("AgentOffline")
        if key is not None:
            await key.settled(Ended(failure=offline))
        raise offline
    if call.wants_events():
        frames = _frames(gateway, turn, key, again)
        await anext(frames)  # it has begun: whatever happens now, it is ended in order
        return Frames(frames, every=gateway.streams.every)
    if again is not None:
        return Answer(again)
    last: Ended | None = None
    try:
        last = await recorder.whole(gateway, turn)
    finally:
        if key is not None:
            await key.settled(last)
    if last.failure is not None and not isinstance(last.failure, AgentReplyError):
        raise last.failure
    return Answer(answer_of(turn, last), made=turn.context_id)


def answer_of(turn: Turn, last: Ended) -> dict[str, Any]:
    """What a caller is told who waited for the end."""
    text = last.text if last.failure is None else last.failure.message
    return {"text": text, "context_id": turn.context_id, "is_error": last.is_error}


async def _frames(
    gateway: Gateway, turn: Turn, key: Keyed | None, again: Mapping[str, Any] | None
) -> AsyncIterator[bytes]:
    redactor = gateway.app.redactor
    last: Ended | None = None
    try:
        yield b""
        if again is not None:
            for told in _repeated(again):
                yield told
            return
        taken = turns.to_its_end(gateway, turn.caller, recorder.recorded(gateway, turn))
        async with aclosing(taken) as said:  # type: ignore[type-var]
            async for each in said:
                if isinstance(each, Said):
                    if each.thought:
                        yield frame({"type": "reasoning", "text": each.thought})
                    if each.text:
                        yield frame({"type": "delta", "text": each.text})
                    continue
                last = each
        assert last is not None
        failure = last.failure
        if failure is not None and not isinstance(failure, AgentReplyError):
            yield frame(wire.error_frame(failure, redactor))
        yield frame(wire.done_frame(failure, text=last.text, context_id=turn.context_id, redactor=redactor))
    finally:
        if key is not None and again is None:
            with suppress(Failure):  # the answer has been told, and is kept when the store is back
                await key.settled(last)


def _repeated(again: Mapping[str, Any]) -> list[bytes]:
    """An answer that was given before, as a stream."""
    failure = AgentReplyError(again["text"]) if again["is_error"] else None
    done = wire.done_frame(failure, text=again["text"], context_id=again["context_id"])
    said = [] if failure is not None else [frame({"type": "delta", "text": again["text"]})]
    return [*said, frame(done)]


def frame(told: Any) -> bytes:
    """A frame without a name, as those of an invoke are."""
    return b"data: %b\n\n" % encode(told)


def turn_of(call: Call, agent: GatewayAgent, body: dict[str, Any]) -> Turn:
    """What a body asks of an agent, but for the files that come with it. Raises the gateway's failures."""
    message = text_of(body, "message")
    if len(body) == 1:  # words alone, as most are
        return Turn(
            agent, call.caller, message, turns.new_context(), False, new_id(), {}, (), LONGEST_WAIT / 1000
        )
    given = context_of(body)
    return Turn(
        agent,
        call.caller,
        message,
        given or turns.new_context(),
        given is not None,
        key_of(body) or new_id(),
        metadata_of(body),
        (),
        _wait(body),
    )


def text_of(body: dict[str, Any], name: str) -> str:
    """A text that has to be there. Raises MissingParam or InvalidBody."""
    value = body.get(name)
    if value is None:
        raise MissingParam(f"{name} is missing.", field=name)
    if not isinstance(value, str) or not value.strip():
        raise InvalidBody(f"{name} must be a text that is not empty.", field=name)
    return value


def context_of(body: dict[str, Any]) -> str | None:
    """The channel to go on with. An empty one is none."""
    given = body.get("context_id")
    if given is None or given == "":
        return None
    if not isinstance(given, str) or len(given) > 128 or not given.isprintable():
        raise InvalidBody("context_id must be a text of 1 to 128 characters.", field="context_id")
    return given


def key_of(body: dict[str, Any]) -> str | None:
    key = body.get("idempotency_key")
    if key is None or (isinstance(key, str) and 0 < len(key) <= 128):
        return key
    raise InvalidBody("idempotency_key must be a text of 1 to 128 characters.", field="idempotency_key")


def metadata_of(body: dict[str, Any]) -> dict[str, str]:
    """The caller's metadata, without what only the gateway may say."""
    given = body.get("metadata")
    if given is None:
        return {}
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        raise InvalidBody("metadata must be an object of texts.", field="metadata")
    return {name: value for name, value in given.items() if name not in RESERVED}


async def files_of(call: Call, body: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """The files that come with a message, each with an address to download it from."""
    given = attachments_of(body)
    return await call.gateway.files.resolve(call, given) if given else ()


def attachments_of(body: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """The files that come with a message, as they were named."""
    given = body.get("attachments")
    if given is None:
        return ()
    if not isinstance(given, list) or len(given) > MOST_ATTACHMENTS:
        raise InvalidBody(f"attachments must be a list of at most {MOST_ATTACHMENTS}.", field="attachments")
    for each in given:
        id = each.get("file_id") if isinstance(each, dict) else None
        if not isinstance(id, str) or not 0 < len(id) <= 128:
            raise InvalidBody(
                "Each attachment must have a file_id of 1 to 128 characters.", field="attachments"
            )
    return tuple(given)


def _wait(body: dict[str, Any]) -> float:
    """Seconds that the caller waits."""
    given = body.get("timeout_ms")
    if given is None or (type(given) is int and given == 0):
        return LONGEST_WAIT / 1000
    if type(given) is not int or given < 0:
        raise InvalidParam("timeout_ms must be a whole number that is not negative.", field="timeout_ms")
    return min(max(given, 100), LONGEST_WAIT) / 1000


ROUTES: Final = (Route("POST", "/api/v1/agents/{agentId}/invoke", invoke_agent, "invokeAgent", body=LARGE),)
