"""Agents as plugins know them: by UUIDs, which stay the same as long as the app and the agent keep their names."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from fairlead.agents.agent import Agent
    from fairlead.runtime import App

#: Bound to calls that come from no agent: a person's, or another program's. It has no values and may not dispatch.
DEFAULT_AGENT: Final = "00000000-0000-0000-0000-000000000001"
_HOUSE: Final = uuid.uuid5(uuid.NAMESPACE_DNS, "agents.fairlead")
#: Where an action says in its metadata of which agent it is.
_MARK: Final = "agent"


def agent_uuid(app_name: str, agent_name: str) -> str:
    """The id of an agent of an app."""
    return str(uuid.uuid5(uuid.uuid5(_HOUSE, app_name), agent_name)).upper()


def parsed(text: object) -> str | None:
    """A UUID in its one spelling, or None for what is none."""
    if not isinstance(text, str) or len(text) != 36:
        return None
    try:
        return str(uuid.UUID(text)).upper()
    except ValueError:
        return None


def fresh() -> str:
    """A new UUID."""
    return str(uuid.uuid4()).upper()


def is_default(agent: str | None) -> bool:
    """Whether this is no agent of the app's own: none at all, or the built-in one."""
    return agent is None or agent == DEFAULT_AGENT


def agents_of(app: Any) -> dict[str, Agent]:
    """The agents of an app by their ids."""
    marked = [action for action in app.catalogue if _MARK in action.metadata]
    return {agent_uuid(app.name, action.name): action.metadata[_MARK] for action in marked}


def agent_of(app: App, id: str | None) -> Agent | None:
    """The agent of an id; None for nobody, the built-in one, and those that are not there."""
    return None if is_default(id) else agents_of(app).get(str(id).upper())
