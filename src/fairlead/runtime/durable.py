"""What a call knows of the task it is run for, when it is. Tasks live in a room of their own; this is their side."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Protocol

#: The task that is being run, for everything that is called on the way.
CURRENT: ContextVar[Durable | None] = ContextVar("fairlead_task", default=None)


class Durable(Protocol):
    """A run of a task. A call may be run again from its beginning: what it has kept and been told stays."""

    id: str
    #: Which try this is, from 1; a pause begins anew.
    attempt: int
    #: Which run this is of all that there were, pauses and hand-backs too: of two, the later is the one that counts.
    run: int
    #: What `checkpoint` last kept, in whatever run.
    state: Any
    #: How many answers this run has used. A run that goes on from what it kept says here how many that was.
    asked: int

    @property
    def answers(self) -> Sequence[Any]:
        """What was answered so far, in the order of the questions."""
        ...

    def checkpoint(self, state: Any) -> Awaitable[None]:
        """Keep where this is, as JSON: the next run finds it in `state`."""
        ...

    def ask(
        self,
        question: str,
        options: Sequence[str] = (),
        *,
        allow_multiple: bool = False,
        auth: bool = False,
        details: Mapping[str, Any] | None = None,
    ) -> Any:
        """Wait for an answer without holding a worker.

        The first time it ends the run; the next one, which begins with the answer, gets it here. Answers go to
        questions by their order.
        """
        ...

    def activity(self, kind: str, title: str, detail: str | None = None) -> None:
        """Tell those who watch what is being done."""
        ...

    def draft(self, draft: Mapping[str, Any]) -> None:
        """Show those who watch what there is so far; the newest counts."""
        ...

    def output(self, text: str) -> None:
        """Tell those who watch a finished piece of the answer."""
        ...


def waits(task: Durable | None) -> bool:
    """Whether a task has asked something in this run that is not answered yet."""
    return task is not None and task.asked > len(task.answers)
