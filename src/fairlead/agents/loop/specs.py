"""Actions as models are told of them, in words that every provider takes, and the way back from a model's arguments.

Which provider will be asked is not known here: a tool that one of them refuses costs the whole request.
"""

from __future__ import annotations

from typing import Any, Final
from weakref import WeakKeyDictionary

from fairlead.actions import Action
from fairlead.agents.models.model import ToolSpec
from fairlead.schema.dialects.nodes import Nodes
from fairlead.schema.dialects.roots import Root, rooted

_ROOTS: Final[WeakKeyDictionary[Action[..., Any], Root]] = WeakKeyDictionary()


def spec_of(action: Action[..., Any]) -> ToolSpec:
    """An action as a model is told of it."""
    return ToolSpec(action.name, action.description, root_of(action).schema)


def root_of(action: Action[..., Any]) -> Root:
    """What a model is told of an action's input, and how its arguments become one."""
    known = _ROOTS.get(action)
    if known is None:
        document = {key: value for key, value in action.input.json_schema.items() if key != "$schema"}
        known = _ROOTS[action] = rooted(Nodes(document), document, "any")
    return known
