"""What is kept of a conversation, and the writes that all of its changes are made of.

All functions take a transaction and may be run again in another one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from fairlead._json import dumps, encode, loads
from fairlead.failures.gateway import AgentNotFound, Conflict, sentinel
from fairlead.gateway.agents import instant
from fairlead.gateway.channels_said import SQL, Entry, Turn, append
from fairlead.gateway.messages import Message
from fairlead.store import Tx
from fairlead.store.store import writable
from fairlead.tasks import ledger
from fairlead.tasks.records import Task

#: What stands before the number of a conversation that was cleared.
AGAIN: Final = "~"
#: What a key was used for: where, the key, and the request.
Once = tuple[str, str, Any]


@dataclass(frozen=True, slots=True)
class Channel:
    """A conversation, in the order of its columns. Times are seconds since 1970."""

    id: str
    agent: str
    owner: str
    title: str | None
    metadata: Mapping[str, str]
    model: str | None
    generation: int
    created: float
    touched: float
    closed: float | None
    latest: int
    pieces: int
    forgotten: int

    @classmethod
    def of(cls, row: tuple[Any, ...]) -> Channel:
        return replace(cls(*row), metadata=loads(row[4]))

    @property
    def memory(self) -> str:
        """The conversation that the agent remembers: another one after this was cleared."""
        return memory_of(self.id, self.generation)

    def to_dict(self, default_model: str | None = None) -> dict[str, Any]:
        """As the contract has it."""
        told: dict[str, Any] = {
            "conversation_id": self.id,
            "agent_id": self.agent,
            "state": "active" if self.closed is None else "closed",
            "metadata": dict(self.metadata),
            "created_at": instant(self.created),
            "last_activity_at": instant(self.touched),
        }
        if self.title is not None:
            told["title"] = self.title
        if self.closed is not None:
            told["closed_at"] = instant(self.closed)
        if self.model is not None:
            told["modelOverrideId"] = self.model
        effective = self.model or default_model
        if effective is not None:
            told["effectiveModelId"] = effective
        return told


@dataclass(frozen=True, slots=True)
class Page:
    """Some of a log: messages in order, whether more follow, and the newest offset there is."""

    messages: list[Message]
    more: bool
    latest: int


class Repeated(Exception):
    """The key was used before, for the same: this is what was answered."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer


class Changed(Exception):
    """The conversation is not what it was a moment ago."""


@dataclass(slots=True)
class Sent:
    """A message on its way into the log."""

    id: str
    text: str
    owner: str
    attachments: tuple[Mapping[str, Any], ...]
    files: tuple[Mapping[str, Any], ...]
    key: str | None
    time: float = 0.0

    def enter(self, tx: Tx, channel: Channel) -> int:
        """Write it down; gives its offset. Raises what undoes it all, where it may not be written."""
        at = instant(self.time)
        payload: dict[str, Any] = {"text": self.text}
        if self.attachments:
            payload["attachments"] = [dict(each) for each in self.attachments]
        if self.key is not None:
            answer = {"message_id": self.id, "created_at": at}
            once(tx, (f"send:{channel.id}", self.key, payload), answer, self.time)
        told = {
            "type": "chat_message",
            "message_id": self.id,
            "publisher_id": f"user:{self.owner}",
            "payload": payload,
            "body": self.text,
            "created_at": at,
        }
        number = append(tx, channel.id, [Entry(told, False, self.time)], self.time)
        # The row is this transaction's now: nobody closes or clears it meanwhile.
        now = known(tx, channel.id)
        if now.closed is not None:
            raise Conflict("channel closed")
        if now.generation != channel.generation or now.model != channel.model:
            raise Changed
        return number


def once(tx: Tx, asked: Once, answer: Any, now: float) -> None:
    """Keep what a request with a key is answered.

    Raises:
        Repeated: it was answered before. What else was written is undone.
        Conflict: the key was used for something else.
    """
    scope, key, request = asked[0], writable(asked[1]), asked[2]
    digest = hashlib.sha256(encode(request, sort_keys=True)).hexdigest()
    about = {"scope": scope, "key": key, "request": digest, "answer": dumps(answer)}
    if tx.run(SQL.keep_once, **about, now=now):
        return
    found = tx.one(SQL.once, scope=scope, key=key)
    if found is None or found[0] != digest:
        raise sentinel("Duplicate")
    raise Repeated(loads(found[1]))


def known(tx: Tx, id: str) -> Channel:
    row = tx.one(SQL.by_id, id=id)
    if row is None:
        raise AgentNotFound("conversation not found")
    return Channel.of(row)


def turns_of(tx: Tx, id: str) -> tuple[list[Turn], list[tuple[Turn, Task | None]]]:
    """Turns that have to be ended, and all that are open, each with its task.

    A turn has to be ended when its conversation was closed or cleared; or when it asked something, and the message
    that came next had been sent before: the agent took that one as the answer.
    """
    row = tx.one(SQL.by_id, id=id)
    found = [Turn(*each) for each in tx.all(SQL.open_turns, channel=id)]
    if row is None or not found:
        return [], []
    channel, last = Channel.of(row), tx.one(SQL.last_turn, channel=id)
    with_tasks = [(turn, ledger.find(tx, turn.task)) for turn in found]
    doomed = [
        turn
        for turn, task in with_tasks
        if task is not None
        and not task.state.final
        and (
            channel.closed is not None
            or turn.generation != channel.generation
            or (task.state.paused and last is not None and turn.number != last[1])
        )
    ]
    return doomed, with_tasks


def forget(id: str, before: float, tx: Tx) -> bool:
    if not tx.run(SQL.forget, id=id, before=before):
        return False
    tx.run(SQL.forget_turns, id=id)
    tx.run(SQL.clear_log, id=id)
    tx.run(SQL.forget_slot, name=slot_of(id))
    return True


def memory_of(id: str, generation: int) -> str:
    """Under which id an agent remembers a conversation: what was cleared is not gone on with."""
    return id if generation == 1 else f"{id}{AGAIN}{generation}"


def slot_of(id: str) -> str:
    return f"conversation:{id}"
