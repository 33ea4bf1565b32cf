"""The first reply of a run that nothing keeps and nobody hears.

Most such runs are over with it: a question, and an answer in words. What a run needs beyond that (the loop, its tools
and what it remembers of calls) is made when the reply asks for it, and the run then goes on from the reply.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from fairlead.agents.loop import estimates
from fairlead.agents.loop.accounts import Account
from fairlead.agents.loop.compaction import room
from fairlead.agents.loop.estimates import PER_MESSAGE
from fairlead.agents.loop.policy import UNSPENT, Spent
from fairlead.agents.models.model import Message, Model, Reply, Request
from fairlead.failures import Failure
from fairlead.runtime import App, Context
from fairlead.tools.session import Session

if TYPE_CHECKING:
    from fairlead.agents.agent import Agent


_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class First(NamedTuple):
    """A reply, the session that it was given in, and what had been used by then besides."""

    session: Session
    reply: Reply
    spent: Spent


class Asked(Session):
    """The session of a run that nothing keeps. Its id and its owner are found out when a tool wants to know them."""

    __slots__ = ("_ctx", "account")

    def __init__(self, ctx: Context, agent: Agent) -> None:
        self._ctx = ctx
        self.agent = agent.name
        self.todo = None
        self.commands = 0
        self.secrets = _NONE
        self.root = agent.folder
        #: An agent that the model itself asks counts here, as one that is a tool does.
        self.account = account = Account(agent.policy.limits, UNSPENT)
        self.kept = {"account": account}

    @property
    def id(self) -> str:  # type: ignore[override]
        return self._ctx.invocation_id

    @property
    def owner(self) -> str:  # type: ignore[override]
        return self._ctx.caller


def request_of(
    agent: Agent, app: App, name: str | Model | None, asked: Message
) -> tuple[Model, Request] | None:
    """What to ask first, and which model; None where that is for the loop to find out.

    The loop knows what to do without room, with limits, and with few steps; and what to tell where there is no model.
    """
    opening = agent.opening(app)
    if opening is None or not opening.plain:
        return None
    try:
        model = app.models.resolve(name)
    except Failure:
        return None
    settings = opening.settings
    tokens = opening.tokens + PER_MESSAGE + estimates.text(asked.content)
    if tokens > room(model.window, settings.max_tokens):
        return None
    return model, Request([*opening.system, asked], opening.specs, "auto", None, settings)
