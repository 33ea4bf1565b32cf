"""Finding the action a caller named, among those that the surface shows."""

from __future__ import annotations

from typing import Any

from fairlead.actions import Action, Exposure
from fairlead.actions.policy import near_miss
from fairlead.failures import Failure, Kind
from fairlead.runtime import App
from fairlead.runtime.refusals import unsupported
from fairlead.surfaces.refusal import LONGEST

_SHOWN = Exposure()


def shown(app: App, surface: str) -> list[Action[..., Any]]:
    """The actions that the surface shows, in the app's order."""
    return app.list_actions(surface, _SHOWN)


def find(app: App, name: str, surface: str) -> Action[..., Any]:
    """The action of this name or `name@version`; hyphens may stand for underscores.

    Raises:
        Failure: nothing of that name is shown. A private action is not told apart from a missing one.
    """
    stem, at, version = name.partition("@")
    action = app.get(name) or app.get(stem.replace("-", "_") + at + version)
    if action is None or action.visibility == "private":
        raise _missing(app, name[:LONGEST], surface)
    if surface not in action.supported_surfaces:
        raise unsupported(action.name, surface)
    if not _SHOWN.allows(action, surface):
        raise _missing(app, name[:LONGEST], surface)
    return action


def _missing(app: App, name: str, surface: str) -> Failure:
    hint = near_miss(name.replace("-", "_"), [action.name for action in shown(app, surface)])
    return Failure(Kind.unknown_action, f"No action is named {name!r}.{hint}")
