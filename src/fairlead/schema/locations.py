"""From a pydantic error location to the place in the value: union labels out, keys and indexes kept.

Walks the tightened core schema along the location, so it needs no value and cannot mistake a label for a key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fairlead.schema.strictness import BRANCH, Core

_ANY: Core = {"type": "any"}
_KEY = "[key]"
_FIELDS = frozenset({"typed-dict", "model-fields", "dataclass-args"})
_MAPS = frozenset({"dict", "frozendict", "ordered-dict", "counter"})


class Union(NamedTuple):
    """A union passed on the way to an error, the path to it and the branch taken."""

    path: tuple[str | int, ...]
    node: Core
    branch: str | int


class Place(NamedTuple):
    """Where an error is: its path, the shape declared there and around it, and the unions passed."""

    path: tuple[str | int, ...]
    node: Core
    parent: Core
    unions: tuple[Union, ...]
    is_key: bool = False


class Map:
    """The places of one core schema."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._definitions = {each["ref"]: each for each in core.get("definitions", ()) if "ref" in each}

    def find(self, location: Sequence[str | int]) -> Place:
        """The place that a pydantic location names."""
        path: tuple[str | int, ...] = ()
        unions: tuple[Union, ...] = ()
        node, parent = self._core, _ANY
        steps = list(location)
        for number, step in enumerate(steps):
            if step == _KEY and number == len(steps) - 1 and self.peel(parent)["type"] in _MAPS:
                return Place(path, self.peel(parent).get("keys_schema", _ANY), parent, unions, True)
            here = self.peel(node)
            if here["type"] in ("union", "tagged-union"):
                unions = (*unions, Union(path, here, step))
                node = _branch(here, step)
                continue
            path = (*path, step)
            parent, node = here, _child(here, step)
        return Place(path, node, parent, unions)

    def peel(self, node: Core) -> Core:
        """The shape under wrappers that do not show in locations."""
        for _ in range(100):
            kind = node["type"]
            if kind == "definition-ref":
                node = self._definitions.get(node["schema_ref"], _ANY)
            elif kind == "chain":
                node = node["steps"][0]
            elif kind == "lax-or-strict":
                node = node["lax_schema"]
            elif kind == "json-or-python":
                node = node["python_schema"]
            elif isinstance(node.get("schema"), dict):
                node = node["schema"]
            else:
                return node
        return _ANY

    def keys(self, node: Core) -> list[str]:
        """The declared keys of an object shape."""
        here = self.peel(node)
        if here["type"] not in _FIELDS:
            return []
        return [outer for name, field in _named(here) if (outer := _outer_name(name, field)) is not None]

    def needed(self, node: Core) -> list[str]:
        """The keys that an object shape cannot do without."""
        here = self.peel(node)
        if here["type"] not in _FIELDS:
            return []
        needed = [(name, field) for name, field in _named(here) if not _may_be_left_out(field)]
        return [outer for name, field in needed if (outer := _outer_name(name, field)) is not None]


def _named(node: Core) -> list[tuple[str, Mapping[str, Any]]]:
    fields = node["fields"]
    return list(fields.items()) if isinstance(fields, dict) else [(field["name"], field) for field in fields]


def _may_be_left_out(field: Mapping[str, Any]) -> bool:
    return field["schema"]["type"] == "default" or not field.get("required", True)


def _outer_name(name: str, field: Mapping[str, Any]) -> str | None:
    if field.get("init") is False:
        return None
    alias = field.get("validation_alias", name)
    if isinstance(alias, str):
        return alias
    first = next((path[0] for path in alias if isinstance(path, list) and len(path) == 1), None)
    return first if isinstance(first, str) else name


def _branch(node: Core, step: str | int) -> Core:
    choices = node["choices"]
    if isinstance(choices, dict):
        found = choices.get(step) or next((c for tag, c in choices.items() if str(tag) == str(step)), None)
        return found if isinstance(found, dict) else _ANY
    return branches(node)[int(str(step).removeprefix(BRANCH))] if str(step).startswith(BRANCH) else _ANY


def branches(node: Core) -> list[Core]:
    """The alternatives of a union."""
    choices = node["choices"]
    if isinstance(choices, dict):
        return [choice for choice in choices.values() if isinstance(choice, dict)]
    return [choice[0] if isinstance(choice, tuple) else choice for choice in choices]


def _child(node: Core, step: str | int) -> Core:
    kind = node["type"]
    if kind in _FIELDS:
        found = next((f for name, f in _named(node) if step in (name, _outer_name(name, f))), None)
        return found["schema"] if found is not None else _ANY
    if kind in _MAPS:
        return node.get("values_schema", _ANY)  # type: ignore[no-any-return]
    items = node.get("items_schema", _ANY)
    if isinstance(items, list):
        return items[step] if isinstance(step, int) and step < len(items) else _ANY
    return items  # type: ignore[no-any-return]
