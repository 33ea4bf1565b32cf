"""An action's input as flags: which field a flag means, and which flag to show for a field.

A field is known by its exact name and by its kebab-case and snake_case spellings. Where one of them is a flag
of the command line itself, `--field-NAME` reaches the field.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from fairlead.surfaces.cli.shapes import Shape

#: The flags of every action call, without the dashes.
CALL_FLAGS: Final = (
    "json",
    "output",
    "ndjson",
    "confirm",
    "idempotency-key",
    "timeout-ms",
    "verbose",
    "schema",
    "help",
)
_RESERVED: Final = frozenset({flag for name in CALL_FLAGS for flag in (name, name.replace("-", "_"))})
_DEEPEST = 4
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class Field(NamedTuple):
    """One value that a flag can set."""

    path: tuple[str, ...]
    shape: Shape
    required: bool
    flag: str


class Fields:
    """The fields of one input schema."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        #: The input as a whole.
        self.root = Shape(dict(schema), schema.get("$defs", {}))
        self._levels: dict[tuple[str, ...], _Level] = {}

    @property
    def by_flag(self) -> bool:
        """Whether the input is an object, so that flags can set its members."""
        return self.root.kind in ("object", "record")

    @property
    def top(self) -> list[Field]:
        return list(self._level(None).fields.values())

    @property
    def spellings(self) -> list[str]:
        """Every flag of the first level, without the dashes."""
        return list(self._level(None).spellings)

    def find(self, flag: str) -> Field | None:
        """The field that a flag (without its dashes) means: a member, or one reached by dots."""
        outer: Field | None = None
        rest = flag
        while True:
            level = self._level(outer)
            name = level.spellings.get(rest)
            if name is not None:
                return level.fields[name]
            head, dot, rest = rest.partition(".")
            name = level.spellings.get(head)
            if not dot or name is None or level.fields[name].shape.kind != "object":
                return None
            outer = level.fields[name]

    def all(self) -> Iterator[Field]:
        """Every field, members of nested objects after the object; recursive shapes are not opened again."""
        for field in self.top:
            yield from self._opened(field, frozenset())

    def flag(self, path: Iterable[str | int]) -> str:
        """A path of the input as a flag, for messages: `--address.city`, `--tags[0]`."""
        steps = list(path)
        field: Field | None = None
        while steps:
            known = self._level(field).fields if field is None or field.shape.kind == "object" else {}
            if steps[0] not in known:
                break
            field = known[str(steps.pop(0))]
        rest = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
        return field.flag + rest if field is not None else "--" + rest.removeprefix(".")

    def _level(self, outer: Field | None) -> _Level:
        path = outer.path if outer is not None else ()
        level = self._levels.get(path)
        if level is None:
            level = self._levels[path] = _Level(outer, self.root if outer is None else outer.shape)
        return level

    def _opened(self, field: Field, inside: frozenset[str]) -> Iterator[Field]:
        yield field
        shape = field.shape
        if shape.kind != "object" or len(field.path) >= _DEEPEST or shape.reference in inside:
            return
        if shape.reference is not None:
            inside |= {shape.reference}
        for member in self._level(field).fields.values():
            yield from self._opened(member, inside)


class _Level:
    """The members of one object: the input itself, or one inside it."""

    __slots__ = ("fields", "spellings")

    def __init__(self, outer: Field | None, shape: Shape) -> None:
        members = shape.members
        path = outer.path if outer is not None else ()
        prefix = f"{outer.flag}." if outer is not None else "--"
        needed = shape.required if outer is None or outer.required else frozenset()
        self.spellings = _spellings(members, _RESERVED if outer is None else ())
        shown = _shown(self.spellings)
        self.fields = {
            name: Field((*path, name), member, name in needed, prefix + shown[name])
            for name, member in members.items()
        }


def _shown(spellings: Mapping[str, str]) -> dict[str, str]:
    """The spelling to show for each name: the kebab-case one if it has it, else the first."""
    shown: dict[str, str] = {}
    for spelling, name in spellings.items():
        if spelling == kebab(name) or name not in shown:
            shown[name] = spelling
    return shown


def snake(name: str) -> str:
    return re.sub(r"[-\s_]+", "_", _HUMP.sub("_", name)).lower()


def kebab(name: str) -> str:
    return snake(name).replace("_", "-")


def _spellings(names: Collection[str], reserved: Collection[str]) -> dict[str, str]:
    """Every flag that means one of these names. Exact names go first; what two names share means neither."""
    table = {name: name for name in names if name not in reserved}
    derived: dict[str, list[str]] = {}
    for name in names:
        for spelling in dict.fromkeys((kebab(name), snake(name))):
            derived.setdefault(spelling, []).append(name)
    for spelling, owners in derived.items():
        if len(owners) == 1 and spelling not in reserved:
            table.setdefault(spelling, owners[0])
    for name in names:
        for spelling in (f"field-{kebab(name)}", f"field_{snake(name)}", f"field-{name}"):
            table.setdefault(spelling, name)
    return table
