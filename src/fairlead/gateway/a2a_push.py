"""A2A's push notifications, as deliveries of the gateway: what is said of a task, and the headers that go with it.

It does without the A2A library: whoever delivers need not have it.
"""

from __future__ import annotations

from typing import Any, Final

from fairlead._json import dumps, loads
from fairlead.gateway import changes
from fairlead.gateway.agents import instant
from fairlead.gateway.changes import Change, Delivery, Renderer
from fairlead.gateway.messages import text_of, words_of
from fairlead.tasks.states import State

#: The renderer of each version of the protocol.
NOW: Final = "a2a"
BEFORE: Final = "a2a-0.3"
RENDERERS: Final = (NOW, BEFORE)
#: A task's states in the words of version 0.3; those of 1.0 are made from them.
STATES: Final = {
    State.queued: "submitted",
    State.running: "working",
    State.input_required: "input-required",
    State.auth_required: "auth-required",
    State.completed: "completed",
    State.failed: "failed",
    State.canceled: "canceled",
    State.timeout: "failed",
    State.rejected: "rejected",
}


def state_name(state: State) -> str:
    """A state as version 1.0 names it."""
    return f"TASK_STATE_{STATES[state].replace('-', '_').upper()}"


def sealed_token(token: str, authorization: str) -> str:
    """What a client wants to know its notifications by, as one text: it is kept sealed."""
    return dumps([token, authorization])


def _now(change: Change) -> str:
    part = {"text": _words(change)}
    status: dict[str, Any] = {"state": state_name(change.status), "timestamp": instant(change.time)}
    task = _task(change, status, {**part, "mediaType": "text/plain"}, part, "ROLE_AGENT")
    return dumps({"task": task})


def _before(change: Change) -> str:
    part = {"kind": "text", "text": _words(change)}
    status: dict[str, Any] = {"state": STATES[change.status], "timestamp": instant(change.time)}
    task = _task(change, status, part, part, "agent")
    if "message" in status:
        status["message"]["kind"] = "message"
    return dumps({"kind": "task", **task})


def _task(
    change: Change, status: dict[str, Any], whole: dict[str, Any], part: dict[str, Any], role: str
) -> dict[str, Any]:
    """A task that is told of; its answer is an artifact, all other words are the status's."""
    id = change.task.id
    told: dict[str, Any] = {"id": id, "contextId": change.context_id, "status": status}
    if change.status is State.completed:
        told["artifacts"] = [{"artifactId": f"{id}-reply", "name": "reply", "parts": [whole]}]
    elif part["text"]:
        about = {"messageId": f"{id}-{change.number}", "role": role, "taskId": id}
        status["message"] = {**about, "contextId": change.context_id, "parts": [part]}
    return told


def _words(change: Change) -> str:
    task = change.task
    if change.status is State.completed:
        return text_of(task.data)
    if change.status.paused:
        return change.question
    return words_of(task) if change.status.final else ""


def _headers(delivery: Delivery, token: str | None) -> dict[str, str]:
    told = {"Content-Type": "application/json"}
    if token is None:
        return told
    known, authorization = loads(token)
    if known:
        told["X-A2A-Notification-Token"] = known
    return {**told, "Authorization": authorization} if authorization else told


changes.RENDERERS[NOW] = Renderer(_now, _headers)
changes.RENDERERS[BEFORE] = Renderer(_before, _headers)
