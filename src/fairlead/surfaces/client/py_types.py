"""Shapes as Python types: TypedDicts for objects, literals for choices."""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from fairlead import _json
from fairlead.surfaces.client.contracts import one_line
from fairlead.surfaces.client.shapes import (
    Both,
    Definition,
    Either,
    Exactly,
    Field,
    Fields,
    ListOf,
    Named,
    Names,
    Plain,
    Shape,
    TupleOf,
    either,
    pascal,
)

STEP: Final = "    "
_WIDEST: Final = 88
_PLAIN: Final = {
    "string": "str",
    "number": "float",
    "integer": "int",
    "boolean": "bool",
    "null": "None",
    "unknown": "Any",
    "never": "Never",
}
_HARD: Final = {"float": "float", "list": "list[Any]", "dict": "dict[str, Any]"}


@dataclass(frozen=True, slots=True)
class Of:
    """`head[arguments]`."""

    head: str
    arguments: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class Union:
    """`a | b`."""

    options: tuple[Type, ...]


Type: TypeAlias = str | Of | Union


class Types:
    """Turns definitions into classes and aliases; objects inside of others get names of their own."""

    def __init__(self, definitions: Iterable[Definition], names: Names) -> None:
        definitions = list(definitions)
        self._names = names
        self._shapes: Mapping[str, Shape] = {each.name: each.shape for each in definitions}
        self._joint: dict[Both, str] = {}
        #: The statements, in order.
        self.written: list[str] = []
        for definition in definitions:
            self._define(definition)

    def is_keywords(self, shape: Shape) -> bool:
        """Whether the shape's members can be given by name."""
        fields = self._merged(shape)
        return fields is not None and bool(_is_class(fields))

    def _define(self, definition: Definition) -> None:
        fields = self._merged(definition.shape)
        if fields is not None and (fields.fields or fields.rest is None):
            self._class(definition.name, fields, definition.description)
            return
        kind = self._type(definition.shape, definition.name)
        self.written.append(_alias(definition.name, kind) + docstring(definition.description))

    def _class(self, name: str, fields: Fields, description: str) -> None:
        about = description
        if fields.rest is not None:
            about = f"{about}\n\nIt may have other members."
        rows = [(field, self._type(field.shape, name + pascal(field.name))) for field in fields.fields]
        write = _class if _is_class(fields) else _called
        self.written.append(write(name, rows, about))

    def _type(self, shape: Shape, name: str) -> Type:
        """The type; an object in it that needs a class gets one, named after where it was found."""
        match shape:
            case Plain(kind):
                return _PLAIN[kind]
            case Named(other):
                return other
            case Exactly(values):
                return _literal(values)
            case Either(options):
                return union(self._type(option, name) for option in options)
            case Both():
                return self._joined(shape, name)
            case ListOf(item):
                return Of("list", (self._type(item, f"{name}Item"),))
            case TupleOf(items, _, rest):
                # JSON knows lists only: what comes back is one.
                item = either(items if rest is None else (*items, rest))
                return Of("list", (self._type(item, f"{name}Item"),))
            case Fields((), rest) if rest is not None:
                return Of("dict", ("str", self._type(rest, f"{name}Value")))
            case Fields():
                taken = self._names.take(name)
                self._class(taken, shape, "")
                return taken

    def _joined(self, shape: Both, name: str) -> Type:
        """One class for each shape that is described in parts: it may contain itself."""
        if shape in self._joint:
            return self._joint[shape]
        fields = self._merged(shape)
        if fields is None:
            return "Any"
        if not fields.fields:
            return self._type(fields, name)
        self._joint[shape] = self._names.take(name)
        self._class(self._joint[shape], fields, "")
        return self._joint[shape]

    def _merged(self, shape: Shape) -> Fields | None:
        """An object that may have been described in parts; None where it is anything else."""
        if isinstance(shape, Fields):
            return shape
        if isinstance(shape, Named):
            return self._merged(self._shapes[shape.name])
        if not isinstance(shape, Both):
            return None
        parts = [self._merged(part) for part in shape.parts]
        found = [part for part in parts if part is not None]
        if len(found) < len(parts):
            return None
        merged: dict[str, Field] = {}
        for field in (field for part in found for field in part.fields):
            earlier = merged.get(field.name)
            merged[field.name] = field if earlier is None or field.required else earlier
        rests = [part.rest for part in found]
        return Fields(tuple(merged.values()), None if None in rests else rests[0])


def union(types: Iterable[Type]) -> Type:
    apart = (each.options if isinstance(each, Union) else (each,) for each in types)
    options = list(dict.fromkeys(option for options in apart for option in options))
    if "Any" in options:
        return "Any"
    if "None" in options:
        options.remove("None")
        options.append("None")
    return options[0] if len(options) == 1 else Union(tuple(options))


def flat(kind: Type) -> str:
    """The type on one line."""
    match kind:
        case Of(head, arguments):
            return f"{head}[{', '.join(map(flat, arguments))}]"
        case Union(options):
            return " | ".join(map(flat, options))
        case _:
            return kind


def laid_out(kind: Type, indent: str, used: int) -> str:
    """The type after `used` columns of its first line, on several lines where one is too narrow."""
    line = flat(kind)
    if used + len(line) <= _WIDEST or not isinstance(kind, Of):
        return line
    inside = indent + STEP
    comma = "," if len(kind.arguments) > 1 else ""
    rows = "".join(f"{inside}{laid_out(each, inside, len(inside))}{comma}\n" for each in kind.arguments)
    return f"{kind.head}[\n{rows}{indent}]"


def docstring(text: str, indent: str = "") -> str:
    """A docstring, or nothing when there is nothing to say. Nothing in the text can end it."""
    paragraphs = [one_line(each) for each in text.split("\n\n") if each.strip()]
    if not paragraphs:
        return ""
    safe = [each.replace("\\", "\\\\").replace('"', '\\"') for each in paragraphs]
    if len(safe) == 1:
        return f'{indent}"""{safe[0]}"""\n'
    body = "\n".join(f"\n{indent}{each}" for each in safe[1:])
    return f'{indent}"""{safe[0]}\n{body}\n{indent}"""\n'


def quoted(text: str) -> str:
    """A string as the formatter writes it: in the quotes that need fewer escapes."""
    inside = _json.dumps(text)[1:-1]
    if text.count('"') <= text.count("'"):
        return f'"{inside}"'
    single = inside.replace('\\"', '"').replace("'", "\\'")
    return f"'{single}'"


def is_name(text: str) -> bool:
    return text.isidentifier() and text.isascii() and not keyword.iskeyword(text)


def _is_class(fields: Fields) -> bool:
    """Names with two leading underscores would be mangled in a class."""
    return all(is_name(field.name) and not field.name.startswith("__") for field in fields.fields)


def _class(name: str, rows: list[tuple[Field, Type]], about: str) -> str:
    said = docstring(about, STEP)
    lines = [f"class {name}(TypedDict):\n", said]
    if said and rows:
        lines.append("\n")
    for field, kind in rows:
        wanted = kind if field.required else Of("NotRequired", (kind,))
        lines.append(f"{STEP}{field.name}: {laid_out(wanted, STEP, len(STEP + field.name) + 2)}\n")
        lines.append(docstring(_about(field), STEP))
    if not said and not rows:
        lines.append(f"{STEP}pass\n")
    return "".join(lines)


def _alias(name: str, kind: Type) -> str:
    """Quoted: what it names may come later, or be itself."""
    text = quoted(flat(kind))
    line = f"{name}: TypeAlias = {text}"
    if len(line) <= _WIDEST or len(STEP + text) > _WIDEST:
        return f"{line}\n"
    return f"{name}: TypeAlias = (\n{STEP}{text}\n)\n"


def _called(name: str, rows: list[tuple[Field, Type]], about: str) -> str:
    """Where a member's name is none in Python. Types are quoted: these are read at once."""
    members = ""
    for field, kind in rows:
        text = quoted(flat(kind))
        wanted = text if field.required else f"NotRequired[{text}]"
        members += f"{STEP * 2}{quoted(field.name)}: {wanted},\n"
    return f'{name} = TypedDict(\n{STEP}"{name}",\n{STEP}{{\n{members}{STEP}}},\n)\n' + docstring(about)


def _about(field: Field) -> str:
    return f"{field.description}\n\nDeprecated." if field.deprecated else field.description


def _literal(values: tuple[str, ...]) -> Type:
    simple: list[Type] = []
    others: list[Type] = []
    for value in map(_json.loads, values):
        if value is None:
            others.append("None")
        elif isinstance(value, str | int):
            simple.append(quoted(value) if isinstance(value, str) else repr(value))
        else:
            others.append(_HARD[type(value).__name__])
    return union([*([Of("Literal", tuple(simple))] if simple else []), *others])
