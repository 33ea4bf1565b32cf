"""JSON Schemas as shapes: the little of them that a type in a programming language can say.

What types cannot say (lengths, patterns, conditions) is left out, so that a shape takes at least what its schema
takes. The printers know languages; this knows none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from urllib.parse import unquote

from fairlead import _json


@dataclass(frozen=True, slots=True)
class Plain:
    """A type that every language has; `unknown` is any JSON value, `never` is none."""

    kind: Literal["string", "number", "integer", "boolean", "null", "unknown", "never"]


@dataclass(frozen=True, slots=True)
class Exactly:
    """One of these JSON values, each as its JSON text: 1 and true are not the same there."""

    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Either:
    options: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class Both:
    parts: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class ListOf:
    item: Shape


@dataclass(frozen=True, slots=True)
class TupleOf:
    """The first `required` items are always there; `rest` is what may follow, None for nothing."""

    items: tuple[Shape, ...]
    required: int
    rest: Shape | None


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    shape: Shape
    required: bool
    description: str = ""
    deprecated: bool = False


@dataclass(frozen=True, slots=True)
class Fields:
    """An object; `rest` is what other members may hold, None where there are none."""

    fields: tuple[Field, ...]
    rest: Shape | None


@dataclass(frozen=True, slots=True)
class Named:
    """A shape that is defined elsewhere under this name."""

    name: str


Shape: TypeAlias = Plain | Exactly | Either | Both | ListOf | TupleOf | Fields | Named

UNKNOWN: Final = Plain("unknown")
NEVER: Final = Plain("never")
NULL: Final = Plain("null")
_OPEN: Final = Fields((), UNKNOWN)

_OBJECT_WORDS: Final = frozenset({"properties", "additionalProperties", "patternProperties", "required"})
_LIST_WORDS: Final = frozenset({"items", "prefixItems"})


class Definition(NamedTuple):
    """A named shape, and what it is."""

    name: str
    shape: Shape
    description: str = ""


class Names:
    """Names that are given out once."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)

    def take(self, wish: str) -> str:
        name, number = wish, 2
        while name in self._taken:
            name, number = f"{wish}{number}", number + 1
        self._taken.add(name)
        return name


def pascal(text: str) -> str:
    """`create_task` as `CreateTask`."""
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[^A-Za-z0-9]+", text) if part)


def read(schema: Any, name: str, names: Names, description: str = "") -> list[Definition]:
    """The schema's shape under this name, and after it those that it refers to."""
    return _Reading(schema, name, names, description).definitions()


class _Reading:
    """One schema document being read; what is referred to gets a name when it is first met."""

    def __init__(self, schema: Any, name: str, names: Names, description: str) -> None:
        self._root = schema
        self._name = name
        self._names = names
        self._description = description
        self._waiting: list[tuple[str, Any]] = []
        self._named: dict[str, str] = {"": name}

    def definitions(self) -> list[Definition]:
        found = [Definition(self._name, self._shape(self._root), self._description)]
        for name, schema in self._waiting:  # grows while schemas are read
            about = schema.get("description") if isinstance(schema, dict) else None
            found.append(Definition(name, self._shape(schema), about if isinstance(about, str) else ""))
        return _grounded(found)

    def _shape(self, schema: Any) -> Shape:
        if schema is False:
            return NEVER
        if not isinstance(schema, dict):
            return UNKNOWN
        parts = [self._own(schema)]
        for word in ("anyOf", "oneOf"):
            if isinstance(schema.get(word), list):
                parts.append(either(map(self._shape, schema[word])))
        if isinstance(schema.get("allOf"), list):
            parts += map(self._shape, schema["allOf"])
        shape = both(parts)
        return either([shape, NULL]) if schema.get("nullable") is True else shape

    def _own(self, schema: dict[str, Any]) -> Shape:
        """What the schema says without its combinations."""
        if isinstance(schema.get("$ref"), str):
            return self._referred(schema["$ref"])
        if "const" in schema:
            return Exactly((_json.dumps(schema["const"]),))
        if isinstance(schema.get("enum"), list):
            return (
                Exactly(tuple(dict.fromkeys(map(_json.dumps, schema["enum"])))) if schema["enum"] else NEVER
            )
        types = schema.get("type")
        if isinstance(types, list):
            return either(self._typed(each, schema) for each in types)
        if types is None:
            types = (
                "object"
                if schema.keys() & _OBJECT_WORDS
                else "array"
                if schema.keys() & _LIST_WORDS
                else None
            )
        return self._typed(types, schema)

    def _typed(self, kind: Any, schema: dict[str, Any]) -> Shape:
        if kind == "object":
            return self._object(schema)
        if kind == "array":
            return self._list(schema)
        known = ("string", "number", "integer", "boolean", "null")
        return Plain(kind) if kind in known else UNKNOWN

    def _object(self, schema: dict[str, Any]) -> Shape:
        declared = _members(schema.get("properties"))
        needed = [name for name in schema.get("required") or () if isinstance(name, str)]
        fields = [self._field(name, each, name in needed) for name, each in declared.items()]
        fields += [Field(name, UNKNOWN, True) for name in needed if name not in declared]
        others = [*_members(schema.get("patternProperties")).values()]
        if schema.get("additionalProperties") is not False:
            others.append(schema.get("additionalProperties", True))
        return Fields(tuple(fields), either(map(self._shape, others)) if others else None)

    def _field(self, name: str, schema: Any, required: bool) -> Field:
        about = _members(schema)
        text = about.get("description")
        return Field(
            name,
            self._shape(schema),
            required,
            text if isinstance(text, str) else "",
            about.get("deprecated") is True,
        )

    def _list(self, schema: dict[str, Any]) -> Shape:
        items = schema.get("items", True)
        first = schema.get("prefixItems")
        if isinstance(items, list):  # how drafts before 2020-12 spell a tuple
            first, items = items, schema.get("additionalItems", True)
        if not isinstance(first, list) or not first:
            return ListOf(self._shape(items))
        least, most = schema.get("minItems"), schema.get("maxItems")
        required = min(least, len(first)) if isinstance(least, int) else 0
        closed = items is False or (isinstance(most, int) and most <= len(first))
        return TupleOf(tuple(map(self._shape, first)), required, None if closed else self._shape(items))

    def _referred(self, reference: str) -> Shape:
        if not reference.startswith("#"):
            return UNKNOWN
        pointer = unquote(reference[1:])
        if pointer not in self._named:
            found = _pointed(self._root, pointer)
            if found is None:
                return UNKNOWN
            name = self._names.take(self._name + pascal(pointer.rpartition("/")[2]))
            self._named[pointer] = name
            self._waiting.append((name, found))
        return Named(self._named[pointer])


def either(shapes: Iterable[Shape]) -> Shape:
    """One of several, said as shortly as possible."""
    options: list[Shape] = []
    for shape in shapes:
        for option in shape.options if isinstance(shape, Either) else (shape,):
            last = options[-1] if options else None
            if isinstance(option, Exactly) and isinstance(last, Exactly):
                options[-1] = Exactly(tuple(dict.fromkeys(last.values + option.values)))
            elif option != NEVER and option not in options:
                options.append(option)
    if UNKNOWN in options:
        return UNKNOWN
    if not options:
        return NEVER
    return options[0] if len(options) == 1 else Either(tuple(options))


def both(shapes: Iterable[Shape]) -> Shape:
    """All of several at once, said as shortly as possible."""
    parts: list[Shape] = []
    for shape in shapes:
        for part in shape.parts if isinstance(shape, Both) else (shape,):
            if part != UNKNOWN and part not in parts:
                parts.append(part)
    if len(parts) > 1:
        # Any object at all says nothing beside something more exact.
        parts = [part for part in parts if part != _OPEN]
    if not parts:
        return UNKNOWN
    return parts[0] if len(parts) == 1 else Both(tuple(parts))


def inner(shape: Shape) -> Iterator[Shape]:
    """The shapes right inside a shape."""
    match shape:
        case Either(options):
            yield from options
        case Both(parts):
            yield from parts
        case ListOf(item):
            yield item
        case TupleOf(items, _, rest):
            yield from items
            if rest is not None:
                yield rest
        case Fields(fields, rest):
            yield from (field.shape for field in fields)
            if rest is not None:
                yield rest
        case _:
            return


def _grounded(definitions: list[Definition]) -> list[Definition]:
    """Without those that cannot be told without telling themselves first, which no language takes."""
    shapes = {each.name: each.shape for each in definitions}

    def told_first(shape: Shape, seen: set[str], *, apart: bool, at_once: bool = False) -> set[str]:
        """The names that must be known before the shape is; those `apart`, in a list or a tuple, need not be."""
        if isinstance(shape, Named) and not apart and shape.name not in seen:
            seen.add(shape.name)
            told_first(shapes[shape.name], seen, apart=False, at_once=at_once)
        for each in () if isinstance(shape, Fields) else inner(shape):
            within = isinstance(shape, ListOf | TupleOf)
            # TypeScript looks right through what may be missing from a tuple.
            seen_through = at_once or (isinstance(shape, TupleOf) and each in shape.items[shape.required :])
            told_first(each, seen, apart=(apart or within) and not seen_through, at_once=seen_through)
        return seen

    for each in definitions:
        if each.name in told_first(each.shape, set(), apart=False):
            shapes[each.name] = UNKNOWN
    return [each._replace(shape=shapes[each.name]) for each in definitions]


def _members(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _pointed(document: Any, pointer: str) -> Any:
    """What a JSON pointer points at; None for nothing."""
    for step in pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(document, dict):
            document = document.get(key)
        elif isinstance(document, list) and key.isdecimal() and int(key) < len(document):
            document = document[int(key)]
        else:
            return None
    return document
