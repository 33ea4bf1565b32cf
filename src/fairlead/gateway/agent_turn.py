"""One turn of an agent, in the hands of the program that runs it: what it is asked, and ways to say something.

It is what `ctx.task` is for an agent of ours that runs here. It knows no HTTP: what it says goes to a function.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import get_ident
from typing import Any, Final

from fairlead.failures import Failure, Kind
from fairlead.runtime.events import READY

#: Events that are sent together at most; past twice as many, the handler is held back.
_BATCH: Final = 500
#: Characters of deltas that are joined to one at most, and of a batch.
_JOINED: Final = 16_384
_LETTERS: Final = 200_000

#: Sends a batch under a name; whether the turn goes on.
Send = Callable[[str, list[dict[str, Any]]], Awaitable[bool]]


class Paused(Failure, kind=Kind.cancelled):
    """The turn waits for an answer: the handler is called again with it."""


class Refused(Failure, kind=Kind.conflict):
    """The agent does not take this turn. `raise Refused("why")`."""


class Busy(Failure, kind=Kind.busy):
    """The agent has other things to do just now. `raise Busy()`."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the gateway delivered."""

    delivery: str
    task: str
    message: str
    message_id: str
    context_id: str
    metadata: Mapping[str, str]
    attachments: tuple[Mapping[str, Any], ...]
    answers: tuple[Any, ...]
    attempt: int
    redelivered: bool
    caller: str | None
    deadline: str | None
    history: tuple[Mapping[str, str], ...] = field(default=())

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Asked:
        return cls(
            told["deliveryId"],
            told["taskId"],
            told["message"],
            told["messageId"],
            told["contextId"],
            told.get("metadata", {}),
            tuple(told.get("attachments", ())),
            tuple(told.get("answers", ())),
            int(told.get("attempt", 1)),
            bool(told.get("redelivered")),
            told.get("caller"),
            told.get("deadlineAt"),
            tuple(told.get("history", ())),
        )


class AgentTurn:
    """What a handler is given."""

    def __init__(self, asked: Asked, send: Send) -> None:
        self.asked_for = asked
        #: As a run of a task has them: see `Durable`.
        self.id = asked.task
        self.attempt = self.run = asked.attempt
        self.state: Any = None
        self.asked = 0
        #: What it waits for, once it has asked: how the reply tells it.
        self.question: dict[str, Any] | None = None
        #: Whether the gateway has said that nothing more counts.
        self.stopped = False
        self._send = send
        self._said: list[dict[str, Any]] = []
        self._number = 0
        self._sending: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._thread = get_ident()

    @property
    def message(self) -> str:
        """What the agent is asked."""
        return self.asked_for.message

    @property
    def context_id(self) -> str:
        """The conversation that this belongs to: turns with the same one follow each other."""
        return self.asked_for.context_id

    @property
    def metadata(self) -> Mapping[str, str]:
        return self.asked_for.metadata

    @property
    def attachments(self) -> tuple[Mapping[str, Any], ...]:
        return self.asked_for.attachments

    @property
    def answers(self) -> tuple[Any, ...]:
        """What was answered so far to what the agent asked, in order."""
        return self.asked_for.answers

    # What a handler may do.

    def say(self, text: str) -> None:
        """A piece of the answer, for those who read along."""
        if text:
            self._tell({"type": "delta", "text": text})

    def think(self, text: str) -> None:
        """A piece of what the agent thinks, which is no part of the answer."""
        if text:
            self._tell({"type": "thinking", "text": text})

    def activity(self, kind: str, title: str, detail: str | None = None, **data: Any) -> None:
        """Tell those who watch what is being done."""
        self._tell({"type": "activity", "kind": kind, "title": title, "detail": detail, "data": data})

    def draft(self, draft: Mapping[str, Any]) -> None:
        """Show those who watch what there is so far; the newest counts."""
        self._tell({"type": "draft", "draft": dict(draft)})

    def output(self, text: str) -> None:
        """Tell those who watch a finished piece of the answer."""
        self._tell({"type": "output", "text": text})

    def checkpoint(self, state: Any) -> Awaitable[None]:
        """Keep where this is, in this process."""
        self.state = state
        return READY

    def ask(
        self,
        question: str,
        options: Sequence[str] = (),
        *,
        allow_multiple: bool = False,
        auth: bool = False,
        details: Mapping[str, Any] | None = None,
    ) -> Any:
        """Ask whoever gave the turn. The first time it ends the handler; the next call of it gets the answer here.

        Answers go to questions by their order. With `auth`, what is asked for is a permission.
        """
        at = self.asked
        self.asked += 1
        if at < len(self.answers):
            return self.answers[at]
        self.question = {
            "status": "auth_required" if auth else "input_required",
            "question": question,
            "options": list(options),
            "allowMultiple": allow_multiple,
            "details": dict(details or {}),
        }
        raise Paused

    async def room(self) -> None:
        """Wait while too much is still to be sent."""
        while len(self._said) > 2 * _BATCH and self._sending is not None and not self.stopped:
            await asyncio.wait((self._sending,))

    # What the worker does with it.

    async def settled(self) -> list[dict[str, Any]]:
        """Wait for what is being sent; gives what is left to be sent with the reply."""
        while self._sending is not None:
            await asyncio.wait((self._sending,))
        while not self.stopped and sum(_letters(each) for each in self._said) > _LETTERS:
            await self._sent()
        left, self._said = self._said, []
        return left

    def end(self) -> None:
        """Send no more."""
        if self._sending is not None:
            self._sending.cancel()

    def _tell(self, event: dict[str, Any]) -> None:
        if get_ident() == self._thread:
            self._add(event)
        else:
            self._loop.call_soon_threadsafe(self._add, event)

    def _add(self, event: dict[str, Any]) -> None:
        if self.stopped:
            return
        last = self._said[-1] if self._said else {}
        joins = event["type"] in ("delta", "thinking") and last.get("type") == event["type"]
        if joins and len(last["text"]) < _JOINED:
            self._said[-1] = {**last, "text": last["text"] + event["text"]}
            return
        self._said.append(event)
        if self._sending is None:
            self._sending = asyncio.ensure_future(self._send_all())

    async def _send_all(self) -> None:
        try:
            await asyncio.sleep(0)  # a short turn says all of it with its reply
            while self._said and not self.stopped:
                await self._sent()
        finally:
            self._sending = None

    async def _sent(self) -> None:
        batch: list[dict[str, Any]] = []
        letters = 0
        while self._said and len(batch) < _BATCH and letters < _LETTERS:
            batch.append(self._said.pop(0))
            letters += _letters(batch[-1])
        self._number += 1
        if not await self._send(str(self._number), batch):
            self.stopped = True


def _letters(event: Mapping[str, Any]) -> int:
    """About how long an event is when it is sent."""
    return len(event["text"]) + 40 if "text" in event else len(str(event))
