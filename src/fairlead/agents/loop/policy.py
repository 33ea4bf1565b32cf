"""How far a run may go, and how it ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal

from fairlead.agents.models.model import NOTHING, Usage
from fairlead.agents.operator import Clarification
from fairlead.agents.values import value
from fairlead.tools.time_limits import SECONDS

#: What is done with a tool's use: go on, ask somebody, or refuse.
Gate = Literal["auto", "ask", "deny"]


class Exit(StrEnum):
    """Why a run ended."""

    final_response = "final_response"
    iteration_cap = "iteration_cap"
    tool_rejected = "tool_rejected"
    cancelled = "cancelled"
    ended_by_surface = "ended_by_surface"
    over_budget = "over_budget"


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run may use. None is no limit."""

    #: Steps of the model.
    iterations: int = 30
    tool_calls: int | None = None
    #: Tokens that go in and out, all steps together.
    tokens: int | None = None
    #: US dollars.
    cost: float | None = None
    #: Seconds for the whole run, without those in which it waits for a person.
    seconds: float | None = None
    #: Seconds for one tool; tools that watch over themselves are not held to it.
    tool_seconds: float = SECONDS
    #: Whether anything but the steps is counted. (Each run asks.)
    bounded: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        unbounded = self.tool_calls is self.tokens is self.cost is self.seconds is None
        object.__setattr__(self, "bounded", not unbounded)


@dataclass(frozen=True, slots=True)
class Policy:
    """How a run behaves. Chats and unattended runs differ."""

    limits: Limits = field(default_factory=Limits)
    #: From how many steps before the end the model is told of it.
    warn_at: int = 3
    #: Whether a tool that was declined ends the run.
    stop_on_rejection: bool = False
    #: Whether the model is told that a result is one it has had before.
    dedupe_notice: bool = False
    #: After how many steps a list of things to do counts as forgotten.
    todo_staleness: int = 4
    #: How often an empty turn is asked for again.
    empty_retries: int = 2
    #: How often a reply that is not of the declared type is asked for again.
    corrections: int = 3
    #: Whether the model may sum up, without tools, when it has no steps left.
    wrap_up: bool = False
    #: Whether the model is nudged when it wanders.
    nudges: bool = True


@value(frozen=True, slots=True)
class Spent:
    """What a run has used of what it may."""

    usage: Usage = NOTHING
    iterations: int = 0
    calls: int = 0
    seconds: float = 0.0


UNSPENT: Final = Spent()
CHAT = Policy(stop_on_rejection=True, dedupe_notice=True, wrap_up=True)


@value(frozen=True, slots=True)
class Outcome:
    """How a run ended, and what it came to."""

    exit: Exit
    text: str = ""
    #: Of the declared type, where there is one.
    value: Any = None
    usage: Usage = NOTHING
    iterations: int = 0
    #: Name and id of each call that was run, in order.
    calls: tuple[tuple[str, str], ...] = ()
    #: What the run waits for, when it was ended by a question.
    clarification: Clarification | None = None
    #: Why it ended, for those whom the exit does not tell enough.
    reason: str = ""
