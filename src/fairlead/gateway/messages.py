"""A task's log as the contract's messages: what the user said is the first, what the engine wrote comes after it.

The engine's offset n is the message's offset n + 1. Some entries are nobody's message: offsets leave numbers out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fairlead._json import dumps, encode, loads
from fairlead.gateway.agents import instant
from fairlead.tasks.records import Event, Task
from fairlead.tasks.states import State

#: Messages that are pieces of others: shown only to those who ask for them.
PIECES: Final = frozenset({"agent_reply_delta", "agent_thought_chunk", "agent_message_chunk"})
#: Why a task was rejected, or failed, when the agent says no word of its own.
BUSY: Final = "agent_busy"
LOST: Final = "agent_lost"

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Channel:
    """Whose messages these are: what each of them says beside its own words."""

    task: str
    agent: str
    owner: str
    message: str
    message_id: str
    created: float
    attachments: tuple[Mapping[str, Any], ...] = field(default=())

    @classmethod
    def of(cls, task: Task, agent: str, owner: str) -> Channel:
        about = task.metadata.get("gateway", {})
        said = str(about.get("message", ""))
        id = str(about.get("message_id") or f"{task.id}-1")
        files = tuple(about.get("attachments", ()))
        return cls(task.id, agent, owner, said, id, task.created, files)

    def first(self) -> Message:
        """What the user said."""
        payload: dict[str, Any] = {"text": self.message}
        if self.attachments:
            payload["attachments"] = list(self.attachments)
        return {
            "type": "chat_message",
            "message_id": self.message_id,
            "offset": 1,
            "publisher_id": f"user:{self.owner}",
            "payload": payload,
            "body": self.message,
            "created_at": instant(self.created),
        }

    def told(self, offset: int, time: float, type: str, *, user: bool = False, **more: Any) -> Message:
        """One message. What is None is left out: an empty word is none of the contract's."""
        at = instant(time)
        reply = type == "agent_reply"
        told = {
            "type": type,
            # A reply keeps its id from its first sign to its end.
            "message_id": f"{self.task}-reply" if reply else f"{self.task}-{offset}",
            "offset": offset,
            "in_reply_to": self.message_id,
            "publisher_id": f"user:{self.owner}" if user else f"agent:{self.agent}",
            "created_at": at,
            **more,
        }
        return {name: value for name, value in told.items() if value is not None}

    def message_of(self, event: Event, task: Task) -> Message | None:
        """What an entry of the log is as a message, if it is one. The task is needed for how it ended."""
        write = _WRITTEN.get(event.type)
        return None if write is None else write(self, event, task)


def sse(message: Message) -> bytes:
    """A message as a frame of a stream."""
    return b"event: message\nid: %d\ndata: %b\n\n" % (message["offset"], encode(message))


def truncated(event: Event, since: int) -> bytes:
    """Word that pieces which the reader has not seen are gone."""
    told = {
        # Offsets are read as "after this one": whoever goes on from here misses nothing that there is.
        "oldest_redis_offset": event.data["oldest"],
        "since": since,
        "hint": "Pieces of messages before this offset are no longer kept; whole messages are.",
    }
    return b"event: backfill_truncated\ndata: %b\n\n" % encode(told)


def end(reason: str = "task_terminal") -> bytes:
    """The last frame: `task_terminal`, `stream_closed` or `channel_closed`."""
    return b'event: end\ndata: {"reason":"%b"}\n\n' % reason.encode()


def text_of(data: Any) -> str:
    """What an agent gave, as text."""
    return data if isinstance(data, str) else dumps(data)


def terminal(channel: Channel, offset: int, time: float, state: State, data: Any, words: str) -> Message:
    """How a task ended, as its last message. `words` says why, where it is no success."""
    ended: dict[str, Any]
    if state is State.completed:
        text = text_of(data)
        payload = {"text": text} if isinstance(data, str) else {"text": text, "result": data}
        ended = {"state": "completed", "stop_reason": "end_turn"}
        return channel.told(offset, time, "agent_reply", payload=payload, body=text, **ended)
    if state is State.canceled:
        ended = {"state": "cancelled", "stop_reason": "user_stop"}
        return channel.told(offset, time, "chat_cancel", user=True, payload={"reason": words}, **ended)
    if state is State.rejected:
        type = "agent_busy" if words == BUSY else "agent.refuse"
        ended = {"state": "refused", "stop_reason": "refused"}
    elif state is State.timeout:
        type, ended = "agent_reply_error", {"state": "cancelled", "stop_reason": "timeout"}
    else:
        type = "agent_reply_error"
        ended = {"state": "failed", "stop_reason": LOST if words.startswith(LOST) else "error"}
    return channel.told(offset, time, type, payload={"error": words}, body=words, **ended)


def words_of(task: Task) -> str:
    """Why a task ended, in words."""
    failure = task.failure
    return task.reason or (failure.message if failure is not None else task.state.value)


def _ended(channel: Channel, event: Event, task: Task) -> Message:
    state = State(event.data.get("state", task.state))
    # A task that was forgotten or read too early has its end in the event alone.
    words = str(event.data.get("reason") or words_of(task))
    return terminal(channel, event.offset + 1, event.time, state, task.data, words)


def _delta(channel: Channel, event: Event, task: Task) -> Message:
    piece = text_of(event.data.get("data", ""))
    return channel.told(
        event.offset + 1, event.time, "agent_reply_delta", payload={"text": piece}, state="streaming"
    )


def _output(channel: Channel, event: Event, task: Task) -> Message:
    piece = text_of(event.data.get("text", ""))
    return channel.told(
        event.offset + 1, event.time, "agent_message_chunk", payload={"text": piece}, state="streaming"
    )


def _asked(channel: Channel, event: Event, task: Task) -> Message:
    question = {name: value for name, value in event.data.items() if name != "state"}
    type = "agent.auth_required" if event.data.get("state") == State.auth_required else "agent.input_required"
    text = str(question.get("question", ""))
    return channel.told(event.offset + 1, event.time, type, payload={"text": text, **question}, body=text)


def _answered(channel: Channel, event: Event, task: Task) -> Message:
    given = event.data.get("input")
    type = "user.auth_grant" if event.data.get("grant") else "user.continue"
    body = given if isinstance(given, str) else None
    return channel.told(event.offset + 1, event.time, type, user=True, payload={"input": given}, body=body)


def _part(channel: Channel, event: Event, part: dict[str, Any]) -> Message:
    """A sign of a reply that is still being made."""
    return channel.told(event.offset + 1, event.time, "agent_reply", state="streaming", parts=[part])


def _custom(kind: str) -> Callable[[Channel, Event, Task], Message]:
    def write(channel: Channel, event: Event, task: Task) -> Message:
        return _part(channel, event, {"type": "custom", "kind": kind, "data": event.data})

    return write


def _active(channel: Channel, event: Event, task: Task) -> Message | None:
    kind, data = event.data.get("kind"), event.data.get("data") or {}
    if kind == "thinking":
        text = str(data.get("text", ""))
        thought = {"type": "thinking", "text": text, "state": "streaming"}
        about: dict[str, Any] = {"payload": {"text": text}, "state": "streaming", "parts": [thought]}
        return channel.told(event.offset + 1, event.time, "agent_thought_chunk", **about)
    if kind == "tool_call":
        used = {"type": "tool_use", "id": str(data.get("id")), "name": str(data.get("name")), "state": "done"}
        return _part(channel, event, {**used, "arguments": data.get("arguments")})
    if kind == "tool_result":
        about = {"tool_use_id": str(data.get("id")), "content": _content(data.get("envelope"))}
        return _part(channel, event, {"type": "tool_result", **about, "is_error": data.get("ok") is False})
    if kind in _UNSAID:
        return None
    told = {name: value for name, value in event.data.items() if name not in ("kind", "data")}
    return _part(channel, event, {"type": "custom", "kind": str(kind), "data": {**told, **data}})


#: What is told by other entries of the log, or is nobody's business but the operator's.
_UNSAID: Final = frozenset({"approval", "clarification", "usage", "tool_progress"})


def _content(envelope: Any) -> str | dict[str, Any]:
    """A tool's result: an object or a text."""
    if isinstance(envelope, str):
        try:
            found = loads(envelope)
        except ValueError:
            return envelope
        return found if isinstance(found, dict) else envelope
    return envelope if isinstance(envelope, dict) else dumps(envelope)


_WRITTEN: Final[Mapping[str, Callable[[Channel, Event, Task], Message | None]]] = {
    "delta": _delta,
    "output": _output,
    "activity": _active,
    "artifact": _custom("artifact"),
    "draft": _custom("draft"),
    "clarification": _asked,
    "input": _answered,
    "terminal": _ended,
}
