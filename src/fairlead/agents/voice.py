"""`Voice`: what an agent does, told to those who stream its call; `SILENCE`, where nobody does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from fairlead import _json
from fairlead.agents.models.model import ToolCall, Usage
from fairlead.agents.operator import Clarification
from fairlead.failures import tool as wire
from fairlead.runtime import Context
from fairlead.runtime.events import READY

if TYPE_CHECKING:
    from fairlead.agents.asking import Book

#: How much of a result is told to those who watch.
_SHOWN: Final = 20_000


class Voice:
    """Tells those who stream the call what the agent does; of a task that was paused, not what they heard before."""

    __slots__ = ("_book", "_ctx", "_discreet")
    heard = True

    def __init__(
        self, ctx: Context, discreet: Callable[[ToolCall], ToolCall], book: Book | None = None
    ) -> None:
        self._ctx = ctx
        self._discreet = discreet
        self._book = book

    def delta(self, text: str) -> Awaitable[None]:
        return self._ctx.delta(text)

    def thought(self, text: str) -> Awaitable[None]:
        return self._ctx.activity("thinking", "Thinking", None, text=text)

    def called(self, call: ToolCall) -> Awaitable[None]:
        if self._book is not None and not self._book.news(f"call {call.id}"):
            return READY
        seen = self._discreet(call).arguments
        try:
            arguments = _json.loads(seen) if seen else {}
        except ValueError:
            arguments = seen
        return self._ctx.activity(
            "tool_call", call.name, None, id=call.id, name=call.name, arguments=arguments
        )

    def answered(self, call: ToolCall, envelope: str, seconds: float) -> Awaitable[None]:
        if self._book is not None and not self._book.news(f"result {call.id}"):
            return READY  # of a question: it waits for an answer, which is told by now
        ok = not wire.is_error(envelope)
        shown = envelope if len(envelope) <= _SHOWN else wire.truncate(envelope, _SHOWN)
        about = {"id": call.id, "name": call.name, "ok": ok, "duration_ms": round(seconds * 1000)}
        return self._ctx.activity("tool_result", call.name, None, **about, envelope=shown)

    def asked(self, ask: Clarification) -> Awaitable[None]:
        if self._book is not None and not self._book.news(f"question {ask.id}"):
            return READY
        return self._ctx.activity("clarification", ask.question, None, **question_of(ask))

    def used(self, usage: Usage) -> Awaitable[None]:
        return self._ctx.activity(
            "usage", "Usage", None, input=usage.input, output=usage.output, cost=usage.cost
        )


class Silence:
    """Stands for those who stream, where nobody does."""

    __slots__ = ()
    heard = False

    def delta(self, text: str) -> Awaitable[None]:
        return READY

    def thought(self, text: str) -> Awaitable[None]:
        return READY

    def called(self, call: ToolCall) -> Awaitable[None]:
        return READY

    def answered(self, call: ToolCall, envelope: str, seconds: float) -> Awaitable[None]:
        return READY

    def used(self, usage: Usage) -> Awaitable[None]:
        return READY


#: One for all runs: it knows of none.
SILENCE: Final = Silence()


def question_of(ask: Clarification) -> dict[str, Any]:
    """A question as it is told and kept."""
    told: dict[str, Any] = {"id": ask.id, "question": ask.question, "allow_multiple": ask.allow_multiple}
    if ask.options:
        told["options"] = list(ask.options)
    return told
