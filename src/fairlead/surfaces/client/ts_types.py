"""Shapes as TypeScript."""

from __future__ import annotations

import re
from typing import Final

from fairlead import _json
from fairlead.surfaces.client.shapes import (
    Both,
    Definition,
    Either,
    Exactly,
    Field,
    Fields,
    ListOf,
    Named,
    Plain,
    Shape,
    TupleOf,
    either,
)

_STEP: Final = "  "
_WIDEST: Final = 100
_WORDS: Final = {"integer": "number"}


def declaration(definition: Definition) -> str:
    """An exported type."""
    return (
        f"{comment(definition.description)}export type {definition.name} = {expression(definition.shape)};\n"
    )


def comment(text: str, deprecated: str | None = None, indent: str = "") -> str:
    """JSDoc, or nothing when there is nothing to say. Nothing in the text can end it."""
    lines = text.strip().splitlines() if text.strip() else []
    if deprecated is not None:
        lines.append(f"@deprecated {deprecated}".rstrip())
    lines = [" ".join(line.replace("*/", "*\\/").split()) for line in lines]
    if not lines:
        return ""
    if len(lines) == 1:
        return f"{indent}/** {lines[0]} */\n"
    inside = "".join(f"{indent} * {line}".rstrip() + "\n" for line in lines)
    return f"{indent}/**\n{inside}{indent} */\n"


def expression(shape: Shape, indent: str = "") -> str:
    """A type, its first line wherever one is and the others indented."""
    match shape:
        case Plain(kind):
            return _WORDS.get(kind, kind)
        case Named(name):
            return name
        case Exactly(values):
            return _listed([_literal(_json.loads(value)) for value in values], indent)
        case Either(options):
            return _listed([expression(option, indent) for option in options], indent)
        case Both(parts):
            return " & ".join(_grouped(part, indent) for part in parts)
        case ListOf(item):
            return f"Array<{expression(item, indent)}>"
        case TupleOf():
            return _tuple(shape, indent)
        case Fields():
            return _object(shape, indent)


def _grouped(shape: Shape, indent: str) -> str:
    """As a part of an intersection."""
    text = expression(shape, indent)
    several = isinstance(shape, Either) or (isinstance(shape, Exactly) and len(shape.values) > 1)
    return f"({text})" if several else text


def _single(shape: Shape, indent: str) -> str:
    """As what a mark behind it is for."""
    text = expression(shape, indent)
    return f"({text})" if isinstance(shape, Either | Both | Exactly) else text


def _listed(options: list[str], indent: str) -> str:
    line = " | ".join(options)
    if len(indent) + len(line) <= _WIDEST or "\n" in line:
        return line
    return "".join(f"\n{indent}{_STEP}| {option}" for option in options)


def _literal(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + " ".join(f"{key(name)}: {_literal(each)};" for name, each in value.items()) + " }"
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    return _json.dumps(value)


def _tuple(shape: TupleOf, indent: str) -> str:
    parts = [expression(item, indent) for item in shape.items[: shape.required]]
    parts += [f"{_single(item, indent)}?" for item in shape.items[shape.required :]]
    if shape.rest is not None:
        # Not `...Array<T>`: only this form may mention the type that is being defined.
        parts.append(f"...{_single(shape.rest, indent)}[]")
    return f"[{', '.join(parts)}]"


def _object(shape: Fields, indent: str) -> str:
    if not shape.fields and shape.rest is None:
        return "{ [key: string]: never }"
    inside = indent + _STEP
    lines = [_member(field, inside) for field in shape.fields]
    if shape.rest is not None:
        lines.append(f"{inside}[key: string]: {expression(_others(shape), inside)};\n")
    if not shape.fields and "\n" not in lines[0].rstrip("\n"):
        return f"{{ {lines[0].strip().removesuffix(';')} }}"
    return "{\n" + "".join(lines) + indent + "}"


def _member(field: Field, indent: str) -> str:
    about = comment(field.description, "" if field.deprecated else None, indent)
    mark = "" if field.required else "?"
    return f"{about}{indent}{key(field.name)}{mark}: {expression(field.shape, indent)};\n"


def _others(shape: Fields) -> Shape:
    """What an index signature says of all members, those with names of their own too."""
    assert shape.rest is not None
    shapes = either([shape.rest, *(field.shape for field in shape.fields)])
    if any(not field.required for field in shape.fields):
        return either([shapes, Named("undefined")])
    return shapes


def key(name: str) -> str:
    """A member's name, quoted where it must be."""
    return name if re.fullmatch(r"[A-Za-z_$][A-Za-z0-9_$]*", name) else _json.dumps(name)
