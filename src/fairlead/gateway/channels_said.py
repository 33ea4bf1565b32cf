"""What a turn's task wrote, as entries of its conversation's log.

A reply is one message from its first sign to its end: it grows, and moves to a new offset when it has news that is
more than a piece of text. Pieces are entries of their own. Reading the same events twice changes nothing: the turn
says how far its task has been read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from fairlead._json import dumps, loads
from fairlead.failures import Kind
from fairlead.gateway import messages
from fairlead.gateway.agents import instant
from fairlead.gateway.messages import LOST, PIECES, Message
from fairlead.store import Tx
from fairlead.store.statements import statements
from fairlead.store.store import writable
from fairlead.tasks import ledger
from fairlead.tasks.records import Event, Task
from fairlead.tasks.states import State

SQL = statements(__file__, "channels.sql")
#: Pieces of a conversation that are kept; and how many more there may be before they are counted anew.
KEPT_PIECES: Final = 10_000
_SLACK: Final = 1_000
#: Signs of what an agent did that its reply shows: the newest.
_MOST_PARTS: Final = 200
#: How the engine says that those who ran a task were lost, again and again.
_WORKER_LOST: Final = "The worker was lost"


class Turn(NamedTuple):
    """One turn of a conversation, in the order of its columns."""

    channel: str
    number: int
    task: str
    message: str
    following: str | None
    cursor: int
    generation: int


@dataclass(slots=True)
class Entry:
    """A message that is to be written at the next offset."""

    told: Message
    passing: bool
    time: float


@dataclass(slots=True)
class Telling:
    """What a batch of events comes to."""

    turn: Turn
    agent: str
    owner: str
    task: Task
    #: The reply as it is in the log, if it is there.
    reply: Message | None = None
    entries: list[Entry] = field(default_factory=list)
    #: Replies that have something new to tell, in their order, each once; and those that only grew.
    moved: dict[str, Message] = field(default_factory=dict)
    grown: dict[str, Message] = field(default_factory=dict)
    open: bool = True

    def hear(self, event: Event) -> None:
        """Take in one event."""
        if event.type == "started":
            self._started(event)
        elif event.type == "input":
            # The answer was a message of its own. What comes now is the reply to that.
            self.turn = self.turn._replace(message=self.turn.following or self.turn.message, following=None)
            self.reply = None
        elif event.type == "terminal":
            self._ended(event)
        else:
            message = self._voice().message_of(event, self.task)
            if message is not None:
                self._say(message, event)
        self.turn = self.turn._replace(cursor=event.offset)

    def _say(self, message: Message, event: Event) -> None:
        type = message["type"]
        if type in PIECES:
            self.entries.append(Entry(message, True, event.time))
            text = message["payload"].get("text", "")
            self._grow(event.time, "" if type == "agent_thought_chunk" else text)
        elif type == "agent_reply":
            self._show(event.time, message["parts"])
        else:
            # A question. It ends the reply: the next message of the conversation is the answer.
            self.entries.append(Entry(message, False, event.time))
            self._settle(
                event.time, {"state": "completed", "stop_reason": "end_turn", "body": message["body"]}
            )

    def _started(self, event: Event) -> None:
        if self.reply is not None and self.reply.get("state") == "streaming":
            # It is run again after its worker was lost: what was said in the midst of things is said anew.
            self._settle(event.time, {"body": ""})

    def _grow(self, time: float, text: str) -> None:
        reply = self._current(time)
        if text:
            reply["body"] = reply.get("body", "") + text
            reply["updated_at"] = instant(time)
            self.grown[reply["message_id"]] = reply

    def _show(self, time: float, parts: Sequence[dict[str, Any]]) -> None:
        reply = self._current(time)
        shown = list(reply.get("parts", ()))
        for part in parts:
            known = next((at for at, each in enumerate(shown) if _same(each, part)), None)
            if known is None:
                shown.append(part)
            else:
                shown[known] = part
        self._settle(time, {"parts": shown[-_MOST_PARTS:]})

    def _ended(self, event: Event) -> None:
        self.open = False
        if self.reply is not None and self.reply.get("state") != "streaming":
            return  # it asked, and nobody answered: what was asked stays the reply
        state = State(event.data.get("state", self.task.state))
        words = str(event.data.get("reason") or messages.words_of(self.task))
        if state is State.failed and _lost(self.task) and not words.startswith(LOST):
            words = f"{LOST}: {words}"
        last = messages.terminal(
            self._voice(), event.offset + 1, event.time, state, self.task.data, writable(words)
        )
        if state is State.canceled:
            said = self._current(event.time).get("body", "")
            last |= {"type": "agent_reply", "publisher_id": f"agent:{self.agent}", "body": said}
        for name in ("message_id", "offset", "created_at"):
            del last[name]
        self._settle(event.time, last)

    def _settle(self, time: float, news: dict[str, Any]) -> None:
        reply = self._current(time)
        reply |= news
        if instant(time) != reply["created_at"]:
            reply["updated_at"] = instant(time)
        # The newest news comes last.
        self.moved.pop(reply["message_id"], None)
        self.moved[reply["message_id"]] = reply

    def _current(self, time: float) -> Message:
        """The reply, begun where there is none yet."""
        if self.reply is None:
            reply = self._voice().told(0, time, "agent_reply", state="streaming", body="")
            reply["message_id"] = reply_id(self.turn.message)
            self.reply = self.moved[reply["message_id"]] = reply
        return self.reply

    def _voice(self) -> messages.Channel:
        turn = self.turn
        return messages.Channel(turn.task, self.agent, self.owner, "", turn.message, self.task.created)


def reply_id(message: str) -> str:
    """The id of the reply to a message."""
    return f"{message}-reply"


def read_on(
    tx: Tx, channel: str, agent: str, owner: str, number: int, events: Sequence[Event], now: float
) -> bool:
    """Bring a turn's part of the log up to what its task wrote; whether there was anything new."""
    # One at a time, so that each begins where the other has ended.
    tx.one(SQL.lock, id=channel)
    row = tx.one(SQL.turn, channel=channel, number=number)
    if row is None:
        return False
    turn = Turn(*row)
    task = ledger.find(tx, turn.task)
    fresh = [event for event in events if event.offset > turn.cursor]
    if task is None:
        return _vanished(tx, turn, agent, owner, now)
    if not fresh:
        return False
    telling = Telling(turn, agent, owner, task, _reply(tx, turn))
    for event in fresh:
        telling.hear(event)
    write(tx, channel, telling, fresh[-1].time)
    return True


def write(tx: Tx, channel: str, telling: Telling, time: float) -> None:
    """Write down what a batch came to: pieces first, then the replies as they are now."""
    replies = [Entry(reply, False, time) for reply in telling.moved.values()]
    append(tx, channel, [*telling.entries, *replies], time)
    for id, reply in telling.grown.items():
        if id not in telling.moved:
            found = tx.one(SQL.message, channel=channel, id=id)
            if found is not None:
                tx.run(SQL.move, channel=channel, id=id, number=found[0], told=_spelled(reply))
    turn = telling.turn
    about = {"message": turn.message, "following": turn.following, "cursor": turn.cursor}
    tx.run(SQL.set_turn, channel=channel, number=turn.number, **about, open=int(telling.open))


def append(tx: Tx, channel: str, entries: Sequence[Entry], time: float) -> int:
    """Give entries their offsets, write them and wake those who read; gives the newest offset."""
    pieces = sum(entry.passing for entry in entries)
    grown = tx.one(SQL.grow, id=channel, size=len(entries), pieces=pieces, now=time)
    if grown is None:
        return 0
    latest: int = grown[0]
    for number, entry in enumerate(entries, latest - len(entries) + 1):
        id, told = entry.told["message_id"], _spelled(entry.told)
        about = {"channel": channel, "number": number, "id": id, "told": told}
        if entry.passing or not tx.run(SQL.move, **about):
            tx.run(SQL.add, **about, passing=int(entry.passing), time=entry.time)
    if grown[1] > KEPT_PIECES + _SLACK:
        oldest = tx.one(SQL.nth_piece, channel=channel, kept=KEPT_PIECES)
        if oldest is not None:
            forget_pieces(tx, channel, oldest[0])
    tx.tell(topic(channel))
    return latest


def forget_pieces(tx: Tx, channel: str, upto: int) -> None:
    tx.run(SQL.forget_pieces, channel=channel, upto=upto)
    tx.run(SQL.set_forgotten, id=channel, upto=upto)


def topic(channel: str) -> str:
    """What those listen to who read a conversation."""
    return f"channel:{channel}"


def _reply(tx: Tx, turn: Turn) -> Message | None:
    found = tx.one(SQL.message, channel=turn.channel, id=reply_id(turn.message))
    return None if found is None else loads(found[1])


def _vanished(tx: Tx, turn: Turn, agent: str, owner: str, now: float) -> bool:
    """End a turn whose task is not there any more: nobody will say how it went on."""
    gone = _nobody(turn.task, now)
    telling = Telling(turn, agent, owner, gone, _reply(tx, turn))
    telling.hear(Event(turn.cursor, "terminal", now, {"state": "failed", "reason": gone.reason}))
    write(tx, turn.channel, telling, now)
    return True


def _nobody(id: str, now: float) -> Task:
    """What stands for a task that is gone."""
    reason = f"{_WORKER_LOST}: the turn's task is gone."
    return Task.of(
        (
            id, "", "", "{}", "failed", None, 0, 0, None, None, 0, 1, 1, "{}", None, now, now, now, "", "{}",
            None, "{}", None, None, None, None, None, "[]", None, None, reason, 0, 0, None, 0,
        )
    )  # fmt: skip


def _lost(task: Task) -> bool:
    """Whether a task failed because nobody is there who could run it."""
    if task.result is None:
        return (task.reason or "").startswith((_WORKER_LOST, LOST))
    failure = task.failure
    return failure is not None and failure.kind is Kind.unknown_action


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two parts tell of the same thing."""
    if one["type"] != other["type"] or one["type"] not in ("tool_use", "tool_result"):
        return False
    name = "id" if one["type"] == "tool_use" else "tool_use_id"
    return bool(one[name] == other[name])


def _spelled(told: Message) -> str:
    return dumps({name: value for name, value in told.items() if name != "offset"})
