"""How long a tool may take that a model has called, where nobody says otherwise."""

from __future__ import annotations

from typing import Any, Final

from fairlead.actions import Action

#: Seconds, for a tool that has no time limit of its own.
SECONDS: Final = 120.0
#: Where an action says in its metadata that it watches over itself, as commands do.
UNLIMITED: Final = "unlimited"


def seconds_for(action: Action[..., Any], most: float = SECONDS) -> float | None:
    """The time limit to call an action with; None where it has one, or watches over itself."""
    return None if action.timeout or action.metadata.get(UNLIMITED) else most
