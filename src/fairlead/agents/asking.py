"""Questions of an agent that runs as a task: which answer is whose, however often and in whatever order it is run.

A task gives its answers by number. An agent asks many things, for itself and through its tools, and after a pause or
a crash it does not ask them in the same order again. So each question is entered under the call that it is asked
for: an answer never goes to another. What was told of a turn before a pause is known after it, and not told again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from fairlead.failures import Failure, Kind
from fairlead.runtime.durable import Durable, waits


class Book:
    """The questions of one agent in its open turn, by the call that they are asked for, and what it told of that turn.

    The state is the conversation's, and is kept with it.
    """

    def __init__(self, task: Durable, state: dict[str, Any]) -> None:
        self.task = root(task)
        self.entries: dict[str, list[int]] = state.setdefault("questions", {})
        self._state = state
        self._told: list[str] = [*state.get("told", ())]

    def news(self, what: str) -> bool:
        """Whether this is told of the turn for the first time."""
        if what in self._told:
            return False
        self._told.append(what)
        return True

    def turned(self) -> None:
        """A new turn: what was asked and told in the one before is done with."""
        self.entries.clear()
        self._told.clear()
        self._state.pop("told", None)

    def paused(self) -> None:
        """Enter what was told. A run that is killed enters nothing: its last words may have been lost with it."""
        self._state["told"] = self._told

    @property
    def waiting(self) -> bool:
        """Whether somebody is being asked, so that this run comes to nothing more."""
        return waits(self.task)

    def ask(self, whose: str, at: int, question: str, options: Sequence[str] = (), **about: Any) -> Any:
        """The answer to a call's question, the first at 0. Where there is none yet, this ends the run."""
        task = self.task
        number = self._number(whose, at)
        reached, task.asked = task.asked, number
        try:
            return task.ask(question, options, **about)
        finally:
            task.asked = max(reached, task.asked)

    def view(self, whose: str) -> Durable:
        """The task as a call sees it that asks for itself."""
        return cast("Durable", View(self, whose))

    def _number(self, whose: str, at: int) -> int:
        numbers = self.entries.setdefault(whose, [])
        if at < len(numbers) and numbers[at] < len(self.task.answers):
            return numbers[at]
        if self.waiting:
            # One question at a time: this one is asked when the other has its answer.
            raise Failure(Kind.cancelled, "The task waits for the answer to another question.")
        number = len(self.task.answers)
        for others in self.entries.values():
            # Entered by a run that was lost before anybody saw its question.
            others[:] = [each for each in others if each != number]
        numbers[at:] = [number]
        return number


class View:
    """A task for one call of an agent: all as it is, but the answers are those to its own questions."""

    def __init__(self, book: Book, whose: str) -> None:
        self.book = book
        self.asked = 0
        self._whose = whose

    def __getattr__(self, name: str) -> Any:
        return getattr(self.book.task, name)

    def ask(
        self,
        question: str,
        options: Sequence[str] = (),
        *,
        allow_multiple: bool = False,
        auth: bool = False,
        details: Mapping[str, Any] | None = None,
    ) -> Any:
        at = self.asked
        self.asked += 1
        about = {"allow_multiple": allow_multiple, "auth": auth, "details": details}
        return self.book.ask(self._whose, at, question, options, **about)


def root(task: Durable) -> Durable:
    """The task itself, where it is seen through a view."""
    return task.book.task if isinstance(task, View) else task
