"""The scripted model: plays a written conversation, so that agents can be shown and tested without a model.

    model = ScriptModel([call("add", a=1, b=2), "The sum is 3."])
    model = ScriptModel(lambda request: Reply("You said: " + request.messages[-1].content))

It looks at no text that it is given: what it answers is what is written. Files with scripts are read in
`script_file.py`.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Final, Literal

from fairlead import _json
from fairlead.agents.models.model import NOTHING, Delta, Model, Reply, Request, Stop, ToolCall, Usage
from fairlead.agents.values import value
from fairlead.failures import Failure
from fairlead.failures.runtime import ConfigError

_PIECES: Final = re.compile(r"\s*\S+\s*|\s+")


@value(frozen=True, slots=True)
class Turn:
    """One answer of a script, where a text or a call alone does not say enough."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    reasoning: str | None = None
    #: By default `tool_calls` with calls, else `stop`.
    stop: Stop | None = None
    usage: Usage = NOTHING
    #: Nothing is answered before this happens.
    after: asyncio.Event | None = None
    #: The pieces in which the text is streamed; by default its words.
    pieces: tuple[str, ...] = ()
    #: Raised: at once, or when streamed, after the text.
    failure: Failure | None = None


#: What can stand in a script: a text, one call or several at once, a failure, a turn, a whole reply,
#: or a function that gives one of those for a request.
Written = str | ToolCall | Sequence[ToolCall] | Failure | Turn | Reply | Callable[[Request], Any]


def call(name: str, /, **arguments: Any) -> ToolCall:
    """A call for a script. The model gives it an id."""
    return ToolCall(name, _json.dumps(arguments))


class ScriptModel(Model):
    """Answers by a script: a list of turns, or a function of the request (which may be async).

    The script is followed in order. With `follow="conversation"` each conversation is at its own place, told by the
    answers that it holds already: one model then serves many conversations at once. When a script is over, a
    request fails, unless it repeats.
    """

    def __init__(
        self,
        script: Iterable[Written] | Callable[[Request], Any],
        *,
        name: str = "script/inline",
        follow: Literal["order", "conversation"] = "order",
        repeat: bool = False,
        record: bool = True,
        window: int = 128_000,
    ) -> None:
        self.name = name
        self.window = window
        self.repeat = repeat
        self.follow = follow
        #: Every request that came, in order.
        self.requests: list[Request] = []
        self._always = script if callable(script) else None
        self._turns: tuple[Written, ...] = () if callable(script) else tuple(script)
        self._record = record
        self._asked = 0
        self._calls = 0
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    async def reply(self, request: Request) -> Reply:
        written = self._begun(request)
        # A function that gives a whole reply at once has nothing to wait for.
        turn = written if type(written) is Reply else await self._next(written, request)
        return self._whole(turn) if isinstance(turn, Turn) else turn

    async def stream(self, request: Request) -> AsyncIterator[Delta | Reply]:
        turn = await self._next(self._begun(request), request)
        if turn.reasoning:
            yield Delta(reasoning=turn.reasoning)
        pieces = turn.pieces if isinstance(turn, Turn) else ()
        for piece in pieces or _PIECES.findall(turn.text):
            yield Delta(piece)
        yield self._whole(turn) if isinstance(turn, Turn) else turn

    async def asked(self, count: int = 1) -> None:
        """Wait until so many requests have come."""
        if self._asked < count:
            arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((count, arrived))
            await arrived

    def _begun(self, request: Request) -> Any:
        """What is written for a request, or what the function gave that writes for all of them."""
        self._note(request)
        return self._written(request) if self._always is None else self._always(request)

    async def _next(self, written: Any, request: Request) -> Turn | Reply:
        if self._always is not None:
            written = await _settled(written)
        while callable(written):
            written = await _settled(written(request))
        turn = _turn(written)
        if isinstance(turn, Turn) and turn.after is not None:
            await turn.after.wait()
        return turn

    def _note(self, request: Request) -> None:
        self._asked += 1
        if self._record:
            # The conversation goes on in its own list; what was asked stays as it was.
            self.requests.append(replace(request, messages=tuple(request.messages)))
        for entry in [each for each in self._waiting if each[0] <= self._asked] if self._waiting else ():
            self._waiting.remove(entry)
            if not entry[1].done():
                entry[1].set_result(None)

    def _written(self, request: Request) -> Written:
        at = self._asked - 1
        if self.follow == "conversation":
            at = sum(message.role == "assistant" for message in request.messages)
        if self.repeat and self._turns:
            at %= len(self._turns)
        if at >= len(self._turns):
            raise ConfigError(
                f"The script of the model {self.name!r} is over: it has {len(self._turns)} turns, and this is request "
                f"{at + 1}. Add a turn, or let it repeat."
            )
        return self._turns[at]

    def _whole(self, turn: Turn) -> Reply:
        if turn.failure is not None:
            raise copy(turn.failure)
        calls = tuple(one if one.id else replace(one, id=self._fresh()) for one in turn.calls)
        text = "".join(turn.pieces) if turn.pieces else turn.text
        stop = turn.stop or ("tool_calls" if calls else "stop")
        return Reply(text, calls, stop, turn.usage, turn.reasoning, self.name)

    def _fresh(self) -> str:
        self._calls += 1
        return f"call_{self._calls}"


async def _settled(given: Any) -> Any:
    """What a function gave, once it is there."""
    waits = not isinstance(given, Reply | Turn | str) and inspect.isawaitable(given)
    return await given if waits else given


def _turn(written: Any) -> Turn | Reply:
    if isinstance(written, Turn | Reply):
        return written
    if isinstance(written, str):
        return Turn(written)
    if isinstance(written, ToolCall):
        return Turn(calls=(written,))
    if isinstance(written, Failure):
        return Turn(failure=written)
    if isinstance(written, Sequence) and all(isinstance(one, ToolCall) for one in written):
        return Turn(calls=tuple(written))
    raise ConfigError(
        f"A script holds {type(written).__name__}, which is no turn. Expected a text, ToolCall, a list of ToolCall, "
        "Failure, Turn, Reply, or a function that gives one of those."
    )
