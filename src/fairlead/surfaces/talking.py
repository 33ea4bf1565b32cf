"""What surfaces know of agents among the actions: which they are, and where a message goes in their input.

It is looked at for every action that is listed, so that agents themselves are imported only where there are any.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from fairlead.actions import Action

if TYPE_CHECKING:
    from fairlead.agents.agent import Agent
    from fairlead.runtime import App, Runtime

#: Where an agent's action says so in its metadata, and the member of its input that names a conversation.
_MARK: Final = "agent"
CONVERSATION: Final = "conversation"


def agent_of(action: Action[..., Any]) -> Agent | None:
    """The agent that an action is the face of, if it is one."""
    marked = action.metadata.get(_MARK)
    if marked is None:
        return None
    from fairlead.agents.agent import Agent

    return marked if isinstance(marked, Agent) else None


def agents_of(app: Runtime) -> list[Action[..., Any]]:
    """The actions that are agents."""
    return [action for action in app.catalogue if _MARK in action.metadata]


def gateway_of(app: App) -> Any:
    """The agents' gateway of an app that has agents, else None. It is in a room above, and found by name."""
    if not agents_of(app):
        return None
    room = importlib.import_module("fairlead.gateway.gateway")
    return room.Gateway(app, **room.told(app))


def keeps_conversations(action: Action[..., Any]) -> bool:
    """Whether an agent can be told which conversation to go on with."""
    return CONVERSATION in action.input.json_schema.get("properties", {})


def message_member(action: Action[..., Any]) -> str | None:
    """The one text that an agent needs; None where it needs more than that, or something else."""
    schema = action.input.json_schema
    members = {name: each for name, each in schema.get("properties", {}).items() if name != CONVERSATION}
    needed = [name for name in schema.get("required", ()) if name in members]
    if len(needed) != 1 or members[needed[0]].get("type") != "string" or "enum" in members[needed[0]]:
        return None
    return str(needed[0])
