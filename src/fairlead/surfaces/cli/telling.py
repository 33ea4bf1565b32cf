"""A failure as people read it: what happened, what is wrong where, and the way out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from fairlead.failures import PIVOT, Kind
from fairlead.failures import action as wire
from fairlead.failures.runtime import BudgetExceeded
from fairlead.surfaces.cli.console import DIM, RED, Console, harmless, harmless_line

Label = Callable[[Iterable[str | int]], str]
#: The codes of a result that does not fit, which no flag of the caller's can mend.
_OF_OUTPUT = frozenset({PIVOT[Kind.invalid_output].action, PIVOT[Kind.unserializable].action})


class Teller:
    """Tells failures of one command on stderr.

    `program` is how the program is typed; no `command` means the program itself. `label` names an issue's
    place. `by_token` is for an action that only a token confirms.
    """

    def __init__(
        self, console: Console, program: str, command: str, label: Label, *, by_token: bool = False
    ) -> None:
        self._console = console
        self._program = program
        self._command = command
        self._label = label
        self._by_token = by_token

    def tell(self, error: Mapping[str, Any]) -> None:
        """Say an envelope's `error`."""
        console = self._console
        code = console.err(f"({_code(error)})", DIM)
        console.say(f"{console.err('error:', RED)} {harmless(error['message'])} {code}")
        label = _in_result if error["code"] in _OF_OUTPUT else self._label
        for issue in error["issues"]:
            console.say(f"  {_issue(issue, label)}")
        for hint in self._ways_out(error):
            console.say(hint)

    def _ways_out(self, error: Mapping[str, Any]) -> Iterator[str]:
        code = error["code"]
        if code == PIVOT[Kind.invalid_input].action:
            yield f"Try '{' '.join(filter(None, (self._program, self._command)))} --help'."
            return
        if code == PIVOT[Kind.needs_confirmation].action:
            asked = "question" in error.get("details", {})
            yield from self._answering(error["details"]) if asked else self._confirming(error)
            return
        if "retryAfter" in error:
            wait = error["retryAfter"]
            yield f"Try again in {wait:g} second{'' if wait == 1 else 's'}."
        elif error["retryable"]:
            yield "The same command may succeed if it is tried again."
        code = _code(error)
        if code == PIVOT[Kind.internal].action and not self._console.debug:
            yield "FAIRLEAD_DEBUG=1 in the environment shows the traceback."
        if self._command and not _says_it_all(error):
            yield f"'{self._program} errors {code}' explains the code."

    def _answering(self, details: Mapping[str, Any]) -> Iterator[str]:
        """An agent asked something, and goes on when it is answered."""
        for number, option in enumerate(details.get("options") or (), start=1):
            yield f"  {number}  {harmless_line(str(option))}"
        if "conversation" in details and self._command:
            said = harmless_line(str(details["conversation"]))
            yield f"Answer it with '{self._program} {self._command} --prompt ANSWER --conversation {said}'."

    def _confirming(self, error: Mapping[str, Any]) -> Iterator[str]:
        if not self._by_token:
            yield f"To go ahead, add --confirm to '{self._program} {self._command} ...'."
            return
        token = error.get("details", {}).get("confirmation", {}).get("code")
        if token is None:
            yield "The same command without --confirm gives a new token."
            return
        yield f"To go ahead, answer at a terminal, or add --confirm={harmless(str(token))}"
        yield "The token is good in another process only if the app has a confirmation_secret."


def _issue(issue: Mapping[str, Any], label: Label) -> str:
    where = label(issue["path"]) if issue["path"] else ""
    return harmless(f"{where}: {issue['message']}" if where else issue["message"])


def _in_result(path: Iterable[str | int]) -> str:
    return "result" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)


def _code(error: Mapping[str, Any]) -> str:
    """The code that says most: that something is set up wrongly, or was used up, is no internal error to people."""
    code: str = error["code"]
    if code != PIVOT[Kind.internal].action:
        return code
    failure = wire.parse(error)
    if failure.kind == Kind.internal:
        return code
    if failure.code != code:
        return failure.code
    # The runtime's word for what is used up is that of a model's reply, which not every one of them is.
    return BudgetExceeded.code if failure.kind == Kind.exhausted else PIVOT[failure.kind].runtime


def _kind(error: Mapping[str, Any]) -> str | None:
    """The kind, where it is not the one that the code is for."""
    kind: str | None = error.get("origin", {}).get("kind")
    return kind


def _says_it_all(error: Mapping[str, Any]) -> bool:
    """Whether nobody needs the code explained: they did it themselves, or were told what there is instead."""
    chosen = _kind(error) == Kind.refused_by_user.value
    return chosen or error["code"] in (PIVOT[Kind.cancelled].action, PIVOT[Kind.unknown_action].action)
