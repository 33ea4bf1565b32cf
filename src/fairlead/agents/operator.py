"""The person in the loop: who is asked before a tool is used, and who answers an agent's question.

A surface that can reach somebody sets an `Operator` for the length of a call. Where there is none, what needs a yes
is refused, and a question pauses the run.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol


@dataclass(frozen=True, slots=True)
class Approval:
    """A tool that wants to be used. The input is what the tool would get, redacted."""

    id: str
    tool: str
    input: Any
    agent: str
    #: `read`, `write` or `destructive`.
    effects: str = "write"


class Verdict(NamedTuple):
    """Yes or no, and for the agent's ears why. `always` is a yes to all later uses in the conversation."""

    approve: bool
    reason: str = ""
    always: bool = False


@dataclass(frozen=True, slots=True)
class Clarification:
    """A question of the agent's. Without options it is answered in words."""

    id: str
    question: str
    options: tuple[str, ...] = ()
    allow_multiple: bool = False
    agent: str = ""


class Operator(Protocol):
    """Somebody who can be asked. Whatever is raised here is a no, which the model hears as nobody's in particular."""

    async def approve(self, ask: Approval) -> Verdict: ...

    async def clarify(self, ask: Clarification) -> str | list[str] | None:
        """The answer; None where it does not come now, and the run is to pause."""
        ...


#: Who can be asked, for everything that is called on the way.
OPERATOR: Final[ContextVar[Operator | None]] = ContextVar("fairlead_operator", default=None)
