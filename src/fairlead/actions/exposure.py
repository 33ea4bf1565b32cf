"""Which actions a surface shows: one policy for calls, discovery, docs and manifests alike."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

from fairlead.actions.definition import Action
from fairlead.actions.surfaces import IN_PROCESS, is_local

Filter = Callable[[Action[..., Any]], bool]


class Exposure(NamedTuple):
    """What is shown beyond public, non-destructive actions; `None` means the surface's own default.

    A local surface (the command line, the JSON runner, the console) shows local and destructive actions;
    a remote one shows neither. Private actions are shown nowhere unless asked for.
    """

    include_private: bool = False
    include_local: bool | None = None
    include_destructive: bool | None = None
    filter: Filter | None = None

    def allows(self, action: Action[..., Any], surface: str) -> bool:
        if surface != IN_PROCESS and surface not in action.supported_surfaces:
            return False
        local = is_local(surface)
        if action.visibility == "private" and self.include_private is not True:
            return False
        if action.visibility == "local" and not _either(self.include_local, local):
            return False
        if action.side_effects == "destructive" and not _either(self.include_destructive, local):
            return False
        return self.filter is None or bool(self.filter(action))

    def without(self, hidden: Collection[Action[..., Any]]) -> Exposure:
        """The same, less some actions: to whom they are hidden, they are not there."""
        inner = self.filter
        if not hidden:
            return self
        return self._replace(
            filter=lambda action: action not in hidden and (inner is None or bool(inner(action)))
        )

    def select(self, actions: Iterable[Action[..., Any]], surface: str) -> list[Action[..., Any]]:
        return [action for action in actions if self.allows(action, surface)]


def _either(given: bool | None, default: bool) -> bool:
    return default if given is None else given is True
