"""Agents as OpenAI's models: their list, and chat completions. The client keeps what was said.

OpenAI(base_url="https://agents.example.com/v1", api_key="oag_...").chat.completions.create(model="helper", ...)
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from fairlead.failures.gateway import InvalidBody
from fairlead.gateway import recorder, turns
from fairlead.gateway.agents import GatewayAgent
from fairlead.gateway.call import LARGE, Answer, Call, Frames, Route
from fairlead.gateway.invoke import frame, metadata_of
from fairlead.gateway.openai_words import (
    DONE,
    LONGEST_WAIT,
    OWNER,
    agent_of,
    check,
    error_of,
    folded,
    refused,
    said,
    usage_of,
)
from fairlead.gateway.turns import Ended, Said, Turn

if TYPE_CHECKING:
    from fairlead.gateway.gateway import Gateway


async def list_models(call: Call) -> Answer:
    agents = await call.gateway.agents.listed(call.caller)
    return Answer({"object": "list", "data": [_model(each) for each in agents]}, flat=True)


async def get_model(call: Call) -> Answer:
    return Answer(_model(await call.gateway.agents.usable(call.id("model"), call.caller)), flat=True)


def _model(agent: GatewayAgent) -> dict[str, Any]:
    return {"id": agent.id, "object": "model", "created": int(agent.created), "owned_by": OWNER}


async def create_chat_completion(call: Call) -> Answer | Frames:
    gateway, body = call.gateway, call.json()
    agent = await agent_of(call, body)
    check(body)
    history, prompt = said(body.get("messages"), "messages")
    if agent.action is None:
        history, prompt = (), folded(history, prompt)
    turn = Turn(
        agent,
        call.caller,
        prompt,
        turns.new_context(),
        message_id=turns.new_id(),
        metadata=metadata_of(body),
        timeout=LONGEST_WAIT,
        history=history,
    )
    turns.check(turn)
    about = _about(turn, int(gateway.app.wall()))
    if flag_of(body, "stream"):
        options = body.get("stream_options") or {}
        if not isinstance(options, dict):
            raise InvalidBody("stream_options must be an object.", field="stream_options")
        frames = _frames(gateway, turn, about, bool(options.get("include_usage")))
        return Frames(frames, every=gateway.streams.every)
    last = await recorder.whole(gateway, turn)
    if last.failure is not None:
        raise last.failure
    message = {"role": "assistant", "content": last.text, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    told = {**about, "object": "chat.completion", "choices": [choice]}
    return Answer({**told, "usage": _usage(last)}, flat=True)


def flag_of(body: dict[str, Any], name: str) -> bool:
    """A yes or no, which is no where it is not given. Raises InvalidBody."""
    given = body.get(name)
    if given is not None and type(given) is not bool:
        raise InvalidBody(f"{name} must be true or false.", field=name)
    return bool(given)


async def pieces(gateway: Gateway, turn: Turn, *, leaving: bool = True) -> AsyncIterator[Said | Ended]:
    """What an agent says in a turn, all of its answer in pieces, and how it ended.

    Args:
        leaving: Whether the turn leaves a task behind.
    """
    heard = False
    taken = recorder.recorded(gateway, turn) if leaving else turns.run(gateway, turn)
    async with aclosing(turns.to_its_end(gateway, turn.caller, taken)) as events:  # type: ignore[type-var]
        async for each in events:
            if isinstance(each, Ended) and each.failure is None and (not heard or each.question is not None):
                # An answer that is no text, or a question, comes whole.
                yield Said(f"\n\n{each.text}" if heard else each.text)
            elif isinstance(each, Said):
                heard = heard or bool(each.text)
            yield each


async def _frames(gateway: Gateway, turn: Turn, about: dict[str, Any], usage: bool) -> AsyncIterator[bytes]:
    about = {**about, "object": "chat.completion.chunk"}
    if usage:
        about["usage"] = None

    def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return frame({**about, "choices": [choice]})

    yield chunk({"role": "assistant", "content": ""})
    async with aclosing(pieces(gateway, turn)) as events:  # type: ignore[type-var]
        async for each in events:
            if isinstance(each, Said):
                if each.thought:
                    yield chunk({"reasoning_content": each.thought})
                if each.text:
                    yield chunk({"content": each.text})
            elif each.failure is not None:
                yield frame({"error": error_of(each.failure, gateway)})
            else:
                yield chunk({}, "stop")
                if usage:
                    yield frame({**about, "choices": [], "usage": _usage(each)})
    yield DONE


def _about(turn: Turn, created: int) -> dict[str, Any]:
    """What a completion and its pieces say of themselves. The id is the one of the task that is left behind."""
    id = f"chatcmpl-{turn.context_id.removeprefix('ch-')}"
    return {"id": id, "created": created, "model": turn.agent.id}


def _usage(last: Ended) -> dict[str, int] | None:
    known = usage_of(last.usage)
    if known is None:
        return None
    read, written = known
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


ROUTES: Final = (
    Route("GET", "/v1/models", list_models, "listModels", refused=refused),
    Route("GET", "/v1/models/{model}", get_model, "getModel", refused=refused),
    Route(
        "POST",
        "/v1/chat/completions",
        create_chat_completion,
        "createChatCompletion",
        body=LARGE,
        refused=refused,
    ),
)
