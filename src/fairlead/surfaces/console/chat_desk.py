"""`Desk`: where an agent's questions lie until the person at the console's page answers them.

It is the operator of one run. A question that nobody answers in time is a no, or a pause. It knows no HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from fairlead.agents.operator import Approval, Clarification, Verdict
from fairlead.failures import Failure, Kind

#: Seconds that a person has for an answer.
PATIENCE: Final = 600.0
_LATE: Final = "Nobody answered in time, so this was not done."
#: What is told to those who look on, when a question has been answered.
ANSWERED: Final = "answered"
_LONGEST: Final = 2_000

#: Tells whoever looks on: kind, title, data.
Tell = Callable[[str, str, Mapping[str, Any]], None]


class Desk:
    """Holds the questions of one run."""

    def __init__(self, tell: Tell, patience: float = PATIENCE) -> None:
        self._tell = tell
        self._patience = patience
        #: By the question's id, whether it is about a tool, and where the answer goes.
        self._open: dict[str, tuple[bool, asyncio.Future[Mapping[str, Any]]]] = {}

    async def approve(self, ask: Approval) -> Verdict:
        given = await self._answer(ask.id, tool=True)
        if given is None:
            self._told(ask.id, approve=False, late=True)
            return Verdict(False, _LATE)
        verdict = Verdict(given["approve"], given["reason"], given["always"])
        self._told(ask.id, approve=verdict.approve, always=verdict.always)
        return verdict

    async def clarify(self, ask: Clarification) -> str | list[str] | None:
        given = await self._answer(ask.id, tool=False)
        if given is None:
            return None
        answer: str | list[str] = given["answer"]
        self._told(ask.id, answer=answer)
        return answer

    def answer(self, id: object, given: Mapping[str, Any]) -> None:
        """Take a person's answer.

        Raises:
            Failure: there is no such question any more, or this does not answer it.
        """
        tool, waiting = self._open.get(id if isinstance(id, str) else "", (False, None))
        if waiting is None or waiting.done():
            raise Failure(
                Kind.not_found, "This question is not open any more: it was answered, or its run is over."
            )
        waiting.set_result(_verdict(given) if tool else {"answer": _answer(given.get("answer"))})

    async def _answer(self, id: str, *, tool: bool) -> Mapping[str, Any] | None:
        waiting: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._open[id] = (tool, waiting)
        try:
            async with asyncio.timeout(self._patience):
                return await waiting
        except TimeoutError:
            return None
        finally:
            self._open.pop(id, None)

    def _told(self, id: str, **data: Any) -> None:
        self._tell(ANSWERED, "Answered", {"id": id, **data})


def _verdict(given: Mapping[str, Any]) -> dict[str, Any]:
    approve, reason = given.get("approve"), given.get("reason", "")
    if not isinstance(approve, bool):
        raise Failure(
            Kind.invalid_input, "An approval is answered by approve: true or false.", field="approve"
        )
    if not isinstance(reason, str):
        raise Failure(Kind.invalid_input, "The reason is a text.", field="reason")
    return {
        "approve": approve,
        "reason": reason[:_LONGEST],
        "always": approve and given.get("always") is True,
    }


def _answer(given: object) -> str | list[str]:
    if isinstance(given, str) and given.strip():
        return given
    if isinstance(given, list) and given and all(isinstance(each, str) for each in given):
        return given
    raise Failure(
        Kind.invalid_input, "A question is answered by a text, or by a list of texts.", field="answer"
    )
