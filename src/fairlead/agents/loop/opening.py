"""`Opening`: what an agent asks a model with first, beside the question; made once and used by many runs."""

from __future__ import annotations

from fairlead.agents.loop.brief import Brief
from fairlead.agents.loop.policy import Policy
from fairlead.agents.loop.toolset import Belt


class Opening:
    """What a fresh run is told and offered."""

    __slots__ = ("belt", "brief", "plain", "policy", "settings", "specs", "system", "tokens")

    def __init__(self, brief: Brief, belt: Belt, policy: Policy) -> None:
        self.brief = brief
        self.belt = belt
        self.policy = policy
        limits, offer = policy.limits, belt.offer(None)
        self.system = brief.system
        self.settings = brief.settings
        self.specs = offer.specs
        #: About how many tokens all this takes.
        self.tokens = brief.tokens + offer.tokens
        #: Whether the first step is one as any other: the loop knows what to do with limits, with few steps, and
        #: with an answer that has to be of a shape.
        self.plain = brief.output is None and not limits.bounded and 0 < limits.iterations > policy.warn_at
