"""Finding the action a caller named, among those that the surface shows."""

from __future__ import annotations

from typing import Any

from fairlead.actions import Action, Exposure
from fairlead.actions.policy import near_miss
from fairlead.actions.surfaces import is_local
from fairlead.failures import Failure, Kind
from fairlead.runtime import Runtime
from fairlead.runtime.refusals import unsupported
from fairlead.surfaces.refusal import LONGEST

_SHOWN = Exposure()


def shown(app: Runtime, surface: str, exposure: Exposure = _SHOWN) -> list[Action[..., Any]]:
    """The actions that the surface shows, in the app's order."""
    return app.list_actions(surface, exposure)


def find(app: Runtime, name: str, surface: str, exposure: Exposure = _SHOWN) -> Action[..., Any]:
    """The action of this name or `name@version`; hyphens may stand for underscores.

    Raises:
        Failure: nothing of that name is shown. A private action is not told apart from a missing one, nor is
            one that is offered elsewhere, unless the surface is a local one.
    """
    action = named(app, name)
    if action is None or (action.visibility == "private" and exposure.include_private is not True):
        raise missing(app, name, surface, exposure)
    if surface not in action.supported_surfaces and is_local(surface):
        raise unsupported(action.name, surface)
    if not exposure.allows(action, surface):
        raise missing(app, name, surface, exposure)
    return action


def named(app: Runtime, name: str) -> Action[..., Any] | None:
    """The action of this name, whoever may see it."""
    action = app.get(name)
    if action is not None:
        return action
    stem, at, version = name.partition("@")
    return app.get(stem.replace("-", "_") + at + version)


def full_name(app: Runtime, action: Action[..., Any]) -> str:
    """The name that finds just this action: with its version, where the bare name finds another."""
    return action.name if app.get(action.name) is action else f"{action.name}@{action.version}"


def missing(app: Runtime, name: str, surface: str, exposure: Exposure) -> Failure:
    """The failure of a name that nothing on the surface has, with the near miss among what is shown."""
    said = name[:LONGEST]
    hint = near_miss(said.replace("-", "_"), [action.name for action in shown(app, surface, exposure)])
    return Failure(Kind.unknown_action, f"No action is named {said!r}.{hint}")
