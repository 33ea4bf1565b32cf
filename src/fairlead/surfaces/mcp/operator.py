"""The person at an MCP client as an agent's operator: asked by elicitation while the agent runs.

Since 2026-07-28 nobody can be asked while a call runs. There, what needs a yes is declined, and a question of the
agent's ends the call with `input_required`: the agent has paused, and the answer lets it go on where it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fairlead.agents.operator import OPERATOR, Approval, Clarification, Verdict
from fairlead.failures import Failure, Kind
from fairlead.failures.host import ClarifyRequested
from fairlead.failures.tool import Rejected
from fairlead.surfaces.mcp.asking import lines_of
from fairlead.surfaces.mcp.client import Client
from fairlead.surfaces.mcp.exchange import CLARIFY, Exchange
from fairlead.surfaces.mcp.revisions import R2025_06
from fairlead.surfaces.mcp.tools import Tool
from fairlead.surfaces.talking import CONVERSATION, keeps_conversations, message_member

_ANSWER: Final = "answer"
_ALWAYS: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "always": {
            "type": "boolean",
            "title": "Always",
            "description": "Agree to every use of this tool in this conversation.",
            "default": False,
        }
    },
}
_DECLINED: Final = "The person who was asked did not agree to this call."
_NOT_NOW: Final = (
    "This tool runs only after a person has agreed, and this MCP client cannot be asked while a call runs. "
    "Tell the user what you want to do."
)
#: How much of a value a person is shown when asked.
_BRIEF: Final = 400
_EFFECTS: Final = {"destructive": " This cannot be undone.", "write": "", "read": ""}


class Elicitor:
    """Asks the person at the client of one call."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._client = Client(exchange)

    @property
    def _reachable(self) -> bool:
        exchange = self._exchange
        can = exchange.line is not None and exchange.peer.can("elicitation")
        return can and not exchange.peer.revision.stateless

    async def approve(self, ask: Approval) -> Verdict:
        if not self._reachable:
            raise Rejected(_NOT_NOW)
        answer = await self._client.elicit(_question(ask), _ALWAYS)
        if not answer.accepted:
            return Verdict(False, _DECLINED)
        return Verdict(True, always=isinstance(answer.content, dict) and answer.content.get("always") is True)

    async def clarify(self, ask: Clarification) -> str | list[str] | None:
        if not self._reachable:
            return None
        one_by_one = self._exchange.peer.revision is R2025_06
        form = _form(list(ask.options), ask.allow_multiple and not one_by_one)
        try:
            answer = await self._client.elicit(ask.question, form)
        except Failure:
            return None  # what cannot be answered now is kept open
        return _said(answer.content) if answer.accepted else None


def operate(exchange: Exchange) -> None:
    """Make the client's person the operator of all that this call does."""
    OPERATOR.set(Elicitor(exchange))


def taken_up(exchange: Exchange, tool: Tool, arguments: Any) -> Any:
    """The input of a call whose agent has paused in the round before: the answer, in its conversation.

    None where there is no answer yet: then the question stands.

    Raises:
        Failure: the person would not answer.
    """
    assert exchange.paused is not None
    given = exchange.answers.get(CLARIFY)
    action = given.get("action") if isinstance(given, Mapping) else None
    if action in ("decline", "cancel"):
        told = "The user did not answer the agent. It waits in its conversation, and can be answered there later."
        about = {CONVERSATION: exchange.paused[CONVERSATION]}
        raise Failure(Kind.refused_by_user, told, details=about)
    said = _said(given.get("content")) if isinstance(given, Mapping) and action == "accept" else None
    member = message_member(tool.action)
    if said is None or member is None:
        exchange.want(CLARIFY, "elicitation/create", exchange.paused["ask"])
        return None
    words = said if isinstance(said, str) else "\n".join(said)
    return {**arguments, member: words, CONVERSATION: exchange.paused[CONVERSATION]}


def pause(exchange: Exchange, tool: Tool, failure: Failure | None) -> None:
    """Where a call ended with an agent's question, and another round can bring the answer, ask for it."""
    if not isinstance(failure, ClarifyRequested) or not exchange.peer.revision.stateless:
        return
    if not exchange.peer.can("elicitation") or not keeps_conversations(tool.action):
        return
    if message_member(tool.action) is None:
        return
    about = failure.details
    form = _form(list(about.get("options", ())), bool(about.get("allow_multiple")))
    question = {"message": failure.message, "requestedSchema": form}
    exchange.paused = {CONVERSATION: about[CONVERSATION], "ask": question}
    exchange.want(CLARIFY, "elicitation/create", question)


def _question(ask: Approval) -> str:
    lines = [f"{ask.agent} wants to use {ask.tool}.{_EFFECTS.get(ask.effects, '')}"]
    if ask.input is not None:
        lines += lines_of(ask.input, _BRIEF)
    return "\n".join([*lines, "Go ahead?"])


def _form(options: list[str], many: bool) -> dict[str, Any]:
    answer: dict[str, Any] = {"type": "string", "title": "Answer"}
    if options and many:
        answer = {"type": "array", "title": "Answer", "items": {"type": "string", "enum": options}}
    elif options:
        answer["enum"] = options
    return {"type": "object", "properties": {_ANSWER: answer}, "required": [_ANSWER]}


def _said(content: Any) -> str | list[str] | None:
    given = content.get(_ANSWER) if isinstance(content, Mapping) else None
    if isinstance(given, list) and given and all(isinstance(each, str) for each in given):
        return given
    return given if isinstance(given, str) and given.strip() else None
