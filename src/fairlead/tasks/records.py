"""What is known of a task, as its row says, and of what it said, as its events say."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Final, NamedTuple

from fairlead._json import loads
from fairlead.failures import Failure, Kind
from fairlead.failures import action as wire
from fairlead.tasks.states import State

#: What a task may say. Deltas are passing: they are kept for a while, the others as long as the task.
EVENTS: Final = (
    "started",
    "log",
    "progress",
    "artifact",
    "delta",
    "activity",
    "clarification",
    "input",
    "draft",
    "output",
    "terminal",
)


class KeyUsed(Failure, kind=Kind.conflict):
    """The key of a submit was used for another request."""


class Event(NamedTuple):
    """One entry of a task's log. Offsets strictly increase, and may leave numbers out."""

    offset: int
    type: str
    time: float
    data: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return {"offset": self.offset, "type": self.type, "time": self.time, "data": self.data}


@dataclass(frozen=True)
class Task:
    """A task as it was when it was looked at. Times are seconds since 1970."""

    # The order of the columns.
    id: str
    queue: str
    action: str
    sealed_input: str
    state: State
    due: float | None
    ready: int
    priority: int
    worker: str | None
    lease: float | None
    run: int
    attempt: int
    max_attempts: int
    retry: str
    deadline: float | None
    created: float
    started: float | None
    ended: float | None
    caller: str
    identity: str
    title: str | None
    spelled_metadata: str
    key: str | None
    request: str | None
    parent: str | None
    slot: str | None
    spelled_question: str | None
    spelled_answers: str
    spelled_checkpoint: str | None
    result: str | None
    reason: str | None
    latest: int
    oldest: int
    batch: str | None
    lost: int

    @classmethod
    def of(cls, row: tuple[Any, ...]) -> Task:
        values = dict(zip(_COLUMNS, row, strict=True))
        values["state"] = State(values["state"])
        return _made(values)

    @classmethod
    def new(cls, row: Mapping[str, Any]) -> Task:
        """The task that was entered with these values."""
        return _made(
            {
                "id": row["id"],
                "queue": row["queue"],
                "action": row["action"],
                "sealed_input": row["input"],
                "state": State.queued,
                "due": row["due"],
                "ready": row["ready"],
                "priority": row["priority"],
                "worker": None,
                "lease": None,
                "run": 0,
                "attempt": 0,
                "max_attempts": row["max_attempts"],
                "retry": row["retry"],
                "deadline": row["deadline"],
                "created": row["created"],
                "started": None,
                "ended": None,
                "caller": row["caller"],
                "identity": row["identity"],
                "title": row["title"],
                "spelled_metadata": row["metadata"],
                "key": row["key"],
                "request": row["request"],
                "parent": row["parent"],
                "slot": row["slot"],
                "spelled_question": None,
                "spelled_answers": "[]",
                "spelled_checkpoint": None,
                "result": None,
                "reason": None,
                "latest": 0,
                "oldest": 0,
                "batch": None,
                "lost": 0,
            }
        )

    @property
    def metadata(self) -> Mapping[str, Any]:
        found: dict[str, Any] = loads(self.spelled_metadata)
        return found

    @property
    def question(self) -> dict[str, Any] | None:
        """What a paused task waits for."""
        return None if self.spelled_question is None else loads(self.spelled_question)

    @property
    def answers(self) -> list[Any]:
        """What was answered so far, in order."""
        found: list[Any] = loads(self.spelled_answers)
        return found

    @property
    def checkpoint(self) -> Any:
        return None if self.spelled_checkpoint is None else loads(self.spelled_checkpoint)

    @property
    def envelope(self) -> dict[str, Any] | None:
        """How the call ended, once it has."""
        return None if self.result is None else loads(self.result)

    @property
    def data(self) -> Any:
        """What a completed task gave."""
        envelope = self.envelope
        return envelope.get("data") if envelope else None

    @property
    def failure(self) -> Failure | None:
        """Why a task failed, if its call did."""
        envelope = self.envelope
        return None if envelope is None or envelope["ok"] else wire.parse(envelope)

    def to_dict(self) -> dict[str, Any]:
        """The task as data, for people and programs; without its input, which may hold what they must not see."""
        told = {
            "id": self.id,
            "action": self.action,
            "state": self.state.value,
            "title": self.title,
            "attempt": self.attempt,
            "priority": self.priority,
            "createdAt": self.created,
            "dueAt": self.due,
            "startedAt": self.started,
            "endedAt": self.ended,
            "deadlineAt": self.deadline,
            "parent": self.parent,
            "reason": self.reason,
            "question": self.question,
            "latestOffset": self.latest,
            "oldestOffset": self.oldest,
            "metadata": self.metadata,
        }
        envelope = self.envelope
        if envelope is not None:
            told["data" if envelope["ok"] else "error"] = envelope.get("data" if envelope["ok"] else "error")
        return {name: value for name, value in told.items() if value is not None and value != {}}


_COLUMNS: Final = tuple(field.name for field in fields(Task))


def _made(values: dict[str, Any]) -> Task:
    # What is frozen is made value by value otherwise, which takes four times as long.
    task = object.__new__(Task)
    vars(task).update(values)
    return task


@lru_cache(maxsize=1024)
def whose(caller: str) -> str:
    """A caller as tasks keep him: as a digest, since what tells callers apart may be their secrets."""
    kind, _, words = caller.partition(":")
    if not words or (words.startswith("#") and len(words) == 33):
        return caller
    return f"{kind}:#{hashlib.sha256(caller.encode(errors='surrogatepass')).hexdigest()[:32]}"
