"""Agents: models that use actions, as actions. It knows no surface and no provider's words outside `models`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead._lazy import on_demand

if TYPE_CHECKING:
    from fairlead.agents.agent import Agent
    from fairlead.agents.conversations import Conversation, Conversations
    from fairlead.agents.loop.policy import Limits, Policy
    from fairlead.agents.memory import memory
    from fairlead.agents.models.model import Settings
    from fairlead.agents.operator import OPERATOR, Approval, Clarification, Operator, Verdict

__all__ = [
    "OPERATOR",
    "Agent",
    "Approval",
    "Clarification",
    "Conversation",
    "Conversations",
    "Limits",
    "Operator",
    "Policy",
    "Settings",
    "Verdict",
    "memory",
]

__getattr__ = on_demand(
    __name__,
    {
        "OPERATOR": "operator",
        "Agent": "agent",
        "Approval": "operator",
        "Clarification": "operator",
        "Conversation": "conversations",
        "Conversations": "conversations",
        "Limits": "loop.policy",
        "Operator": "operator",
        "Policy": "loop.policy",
        "Settings": "models.model",
        "Verdict": "operator",
        "memory": "memory",
    },
)
