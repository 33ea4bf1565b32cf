"""Calls and their results as turns of a conversation: which is whose, and what has none yet."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from typing import Final

from fairlead import _json
from fairlead.agents.loop import estimates
from fairlead.agents.models.model import Message, ToolCall
from fairlead.failures import tool as wire

#: What arguments say of themselves that could not be read.
UNREADABLE: Final = "invalid_tool_arguments"
#: Names that every provider takes back.
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ILLEGAL: Final = re.compile(r"[^A-Za-z0-9_-]")
#: Characters of arguments.
_LONGEST: Final = 1_000_000
_TOO_LONG: Final = "The arguments have {} characters, which is too many. Send less, in several calls."


def ids(transcript: Sequence[Message]) -> set[str]:
    """The ids that calls have had."""
    return {call.id for message in transcript for call in message.calls}


def taken(calls: Sequence[ToolCall], room: int, ids: set[str]) -> tuple[ToolCall, ...]:
    """The calls of a turn as they can be recorded and sent back to any provider.

    Each has an id that no other call of the conversation has, by which results and what an agent said as a tool find
    their call; it is added to `ids`. And each has a name that a tool could have. Arguments that are too long, or take
    more tokens than there are for the whole conversation, give way to words about that.
    """
    known: list[ToolCall] = []
    for call in calls:
        id = f"call_{secrets.token_hex(12)}" if not call.id or call.id in ids else call.id
        ids.add(id)
        name = call.name if _NAME.fullmatch(call.name) else _ILLEGAL.sub("_", call.name)[:64] or "_"
        arguments = call.arguments
        if len(arguments) > _LONGEST or estimates.text(arguments) > room:
            arguments = _json.dumps({"_error": UNREADABLE, "_message": _TOO_LONG.format(len(arguments))})
        known.append(ToolCall(name, arguments, id))
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
