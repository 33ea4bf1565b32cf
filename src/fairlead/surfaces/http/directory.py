"""The actions that the surface shows: found by name, and listed as bytes that are made once."""

from __future__ import annotations

from typing import Any

from fairlead._json import encode
from fairlead.actions import Action, Exposure, describe_action
from fairlead.runtime import Runtime
from fairlead.surfaces.exposed import find, missing, named
from fairlead.surfaces.http.pages import Page, page

Hidden = frozenset[Action[..., Any]]
_NOTHING: Hidden = frozenset()
#: Lists that are kept, one for each set of actions that some callers are not shown.
_MOST_LISTS = 16


class Directory:
    """One surface's view of a runtime's actions. The exposure's filter is asked each time; the rest is remembered."""

    def __init__(self, runtime: Runtime, surface: str, exposure: Exposure) -> None:
        self._runtime = runtime
        self._surface = surface
        self._exposure = exposure
        self._filter = exposure.filter
        self._fixed = exposure._replace(filter=None)
        #: What was found by its own name, until the catalogue changes.
        self._found: dict[str, Action[..., Any]] = {}
        self._revision = -1
        self._shown: dict[Action[..., Any], bool] = {}
        self._described: dict[Action[..., Any], Page] = {}
        self._lists: dict[Hidden, tuple[tuple[Action[..., Any], ...], Page]] = {}

    def names(self) -> list[str]:
        """The names of the actions that are shown."""
        return [action.name for action in self._runtime.list_actions(self._surface, self._exposure)]

    def find(self, name: str, hidden: Hidden = _NOTHING) -> Action[..., Any]:
        """The action of this name or `name@version`; hyphens may stand for underscores.

        Args:
            name: As the caller spells it.
            hidden: What is not there for this caller.

        Raises:
            Failure: nothing of that name is shown here. A hidden action is not told apart from a missing one.
        """
        if hidden:
            return find(self._runtime, name, self._surface, self._exposure.without(hidden))
        if self._revision != (revision := self._runtime.catalogue.revision):
            self._found.clear()
            self._revision = revision
        known = self._found.get(name)
        if known is not None:
            return known
        action = named(self._runtime, name)
        if action is None or not self._shows(action):
            raise missing(self._runtime, name, self._surface, self._exposure)
        if self._filter is None and name == action.name:
            self._found[name] = action
        return action

    def describe(self, action: Action[..., Any]) -> Page:
        """One action's description."""
        known = self._described.get(action)
        if known is None:
            known = page(encode({"ok": True, "action": describe_action(action)}))
            self._described[action] = known
        return known

    def list(self, hidden: Hidden = _NOTHING) -> Page:
        """The descriptions of all that is shown to a caller from whom some is hidden."""
        actions = tuple(self._runtime.list_actions(self._surface, self._exposure.without(hidden)))
        known = self._lists.get(hidden)
        if known is None or known[0] != actions:
            if len(self._lists) >= _MOST_LISTS:
                self._lists.clear()
            described = [describe_action(action) for action in actions]
            known = self._lists[hidden] = actions, page(encode({"ok": True, "actions": described}))
        return known[1]

    def _shows(self, action: Action[..., Any]) -> bool:
        shown = self._shown.get(action)
        if shown is None:
            shown = self._shown[action] = self._fixed.allows(action, self._surface)
        return shown and (self._filter is None or bool(self._filter(action)))
