"""Calls and their results as turns of a conversation: which is whose, and what has none yet."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace

from fairlead.agents.models.model import Message, ToolCall
from fairlead.failures import tool as wire


def identified(calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    """The calls of a turn, each with an id of its own: results find their call by it."""
    seen = {""}
    known: list[ToolCall] = []
    for call in calls:
        known.append(replace(call, id=f"call_{secrets.token_hex(12)}") if call.id in seen else call)
        seen.add(call.id)
    return tuple(known)


def unanswered(transcript: Sequence[Message]) -> list[ToolCall]:
    """The calls of the last turn that have no result yet."""
    answered: set[str | None] = set()
    for message in reversed(transcript):
        if message.role == "tool":
            answered.add(message.call_id)
        elif message.role == "assistant":
            return [call for call in message.calls if call.id not in answered]
        else:
            return []
    return []


def answered(call: ToolCall, answer: str | list[str]) -> str:
    """A person's answer as the result of the question."""
    said = answer if isinstance(answer, str) else "\n".join(answer)
    return wire.dumps(wire.text(said, tool=call.name))


def result_of(call: ToolCall, envelope: str) -> Message:
    return Message("tool", envelope, call_id=call.id, name=call.name)
