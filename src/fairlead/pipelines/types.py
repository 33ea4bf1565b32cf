"""The types of messages: which fit into which, and which share no value.

Both answers are sound: what fits is never refused at run time, and what is disjoint has no value in common.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from fairlead import _json
from fairlead.pipelines.tokens import RESERVED


@dataclass(frozen=True, slots=True)
class Primitive:
    """One of the six types without parts."""

    name: str


STRING: Final = Primitive("string")
INT: Final = Primitive("int")
NUMBER: Final = Primitive("number")
BOOL: Final = Primitive("bool")
UNIT: Final = Primitive("unit")
JSON: Final = Primitive("json")
PRIMITIVES: Final = {each.name: each for each in (STRING, INT, NUMBER, BOOL, UNIT, JSON)}


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record."""

    name: str
    type: Type
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    """An object with exactly these fields."""

    fields: tuple[Field, ...]

    def get(self, name: str) -> Field | None:
        """The field of a name, or None."""
        return next((each for each in self.fields if each.name == name), None)


@dataclass(frozen=True, slots=True)
class Array:
    """A list of one type."""

    item: Type


@dataclass(frozen=True, slots=True)
class Product:
    """A list of fixed length, each place with its own type."""

    items: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class Sum:
    """One of several types; none at all when there are no variants."""

    variants: tuple[Type, ...]


@dataclass(eq=False, slots=True)
class Alias:
    """A type by its name, which may be part of itself."""

    name: str
    target: Type | None = field(default=None, repr=False)


Type: TypeAlias = Primitive | Record | Array | Product | Sum | Alias
#: The type without values: what never comes.
NEVER: Final = Sum(())

_Pairs: TypeAlias = frozenset[tuple[int, int]]
_NOTHING: Final[_Pairs] = frozenset()


def resolve(type: Type) -> Type:
    """The type behind its names. A name without a type, told as a problem elsewhere, is `json`."""
    seen: set[int] = set()
    while isinstance(type, Alias):
        if type.target is None or id(type) in seen:
            return JSON
        seen.add(id(type))
        type = type.target
    return type


def variants(type: Type) -> list[Type]:
    """The types that a sum is of, sums within it opened too; a type that is no sum alone."""
    return list(_variants(type, set()))


def _variants(type: Type, seen: set[int]) -> Iterable[Type]:
    if isinstance(type, Alias):
        if id(type) in seen:
            return
        if isinstance(resolve(type), Sum):
            seen = seen | {id(type)}
            yield from _variants(resolve(type), seen)
            return
        yield type
    elif isinstance(type, Sum):
        for each in type.variants:
            yield from _variants(each, seen)
    else:
        yield type


def assignable(given: Type, wanted: Type) -> bool:
    """Whether every value of one type is a value of the other."""
    return _fits(given, wanted, _NOTHING)


def _fits(given: Type, wanted: Type, assumed: _Pairs) -> bool:
    if given is wanted:
        return True
    if isinstance(given, Alias) or isinstance(wanted, Alias):
        pair = (id(given), id(wanted))
        if pair in assumed:
            # A value is finite: where it would be refused, it is refused without going in a circle.
            return True
        assumed = assumed | {pair}
    given, wanted = resolve(given), resolve(wanted)
    if wanted == JSON or given == wanted:
        return True
    if isinstance(given, Sum) or isinstance(wanted, Sum):
        return all(
            any(_one_fits(each, into, assumed) for into in variants(wanted)) for each in variants(given)
        )
    return _one_fits(given, wanted, assumed)


def _one_fits(given: Type, wanted: Type, assumed: _Pairs) -> bool:
    if isinstance(given, Alias) or isinstance(wanted, Alias):
        return _fits(given, wanted, assumed)
    match given, wanted:
        case _, Primitive(name="json"):
            return True
        case Primitive(), Primitive():
            return given == wanted or (given == INT and wanted == NUMBER)
        case Record(), Record():
            return _record_fits(given, wanted, assumed)
        case Array(item=item), Array(item=into):
            return _fits(item, into, assumed)
        case Product(items=items), Product(items=intos):
            return len(items) == len(intos) and all(
                _fits(a, b, assumed) for a, b in zip(items, intos, strict=True)
            )
        case Product(items=items), Array(item=into):
            return all(_fits(each, into, assumed) for each in items)
    return False


def _record_fits(given: Record, wanted: Record, assumed: _Pairs) -> bool:
    into = {each.name: each for each in wanted.fields}
    for each in given.fields:
        target = into.pop(each.name, None)
        if target is None or (each.optional and not target.optional):
            return False
        if not _fits(each.type, target.type, assumed):
            return False
    return all(each.optional for each in into.values())


def disjoint(one: Type, other: Type) -> bool:
    """Whether no value is of both types."""
    return _apart(one, other, _NOTHING)


def _apart(one: Type, other: Type, assumed: _Pairs) -> bool:
    if isinstance(one, Alias) or isinstance(other, Alias):
        pair = (id(one), id(other))
        if pair in assumed:
            return True
        assumed = assumed | {pair}
    one, other = resolve(one), resolve(other)
    if isinstance(one, Sum) or isinstance(other, Sum):
        return all(_apart(a, b, assumed) for a in variants(one) for b in variants(other))
    if JSON in (one, other):
        return False
    match one, other:
        case Primitive(), Primitive():
            return one != other and {one, other} != {INT, NUMBER}
        case Record(), Record():
            return _records_apart(one, other, assumed)
        case Array(), Array():
            return False
        case Product(items=items), Product(items=others):
            return len(items) != len(others) or any(
                _apart(a, b, assumed) for a, b in zip(items, others, strict=True)
            )
        case (Product(items=items), Array(item=item)) | (Array(item=item), Product(items=items)):
            return any(_apart(each, item, assumed) for each in items)
    return True


def _records_apart(one: Record, other: Record, assumed: _Pairs) -> bool:
    ones = {each.name: each for each in one.fields}
    others = {each.name: each for each in other.fields}
    for mine, theirs in ((ones, others), (others, ones)):
        if any(not each.optional and each.name not in theirs for each in mine.values()):
            return True
    return any(
        _apart(each.type, others[each.name].type, assumed)
        for each in one.fields
        if each.name in others and not (each.optional and others[each.name].optional)
    )


def joined(types: Iterable[Type]) -> Type:
    """The smallest type that we can name with the values of all of them."""
    kept: list[Type] = []
    for type in types:
        for each in variants(type):
            if any(assignable(each, other) for other in kept):
                continue
            kept = [other for other in kept if not assignable(other, each)]
            kept.append(each)
    return kept[0] if len(kept) == 1 else Sum(tuple(kept))


def reason(given: Type, wanted: Type) -> str:
    """Why one type does not fit into another: the innermost part that does not."""
    return _reason(given, wanted, "", 0)


def _reason(given: Type, wanted: Type, path: str, depth: int) -> str:
    plain, into = resolve(given), resolve(wanted)
    where = f"at {path}: " if path else ""
    if depth < 20:
        if isinstance(plain, Sum):
            for each in variants(plain):
                if not assignable(each, into):
                    return f"{where}the variant {shown(each)} is not accepted"
        if isinstance(plain, Record) and isinstance(into, Record):
            return _record_reason(plain, into, path, depth)
        if isinstance(plain, Array) and isinstance(into, Array):
            return _reason(plain.item, into.item, f"{path}[]", depth + 1)
        if isinstance(plain, Product) and isinstance(into, Product):
            if len(plain.items) != len(into.items):
                return f"{where}{len(plain.items)} parts are given, {len(into.items)} are wanted"
            for index, (a, b) in enumerate(zip(plain.items, into.items, strict=True)):
                if not assignable(a, b):
                    return _reason(a, b, f"{path}.{index}", depth + 1)
    return f"{where}{shown(given)} does not fit {shown(wanted)}"


def _record_reason(given: Record, wanted: Record, path: str, depth: int) -> str:
    where = f"at {path}: " if path else ""
    for each in given.fields:
        target = wanted.get(each.name)
        if target is None:
            return f"{where}the field {each.name!r} is not wanted, and records take no others"
        if each.optional and not target.optional:
            return f"{where}the field {each.name!r} may be missing"
        if not assignable(each.type, target.type):
            return _reason(each.type, target.type, f"{path}.{each.name}".lstrip("."), depth + 1)
    missing = [each.name for each in wanted.fields if not each.optional and given.get(each.name) is None]
    return f"{where}the field {missing[0]!r} is missing" if missing else f"{where}it does not fit"


_PLAIN: Final = re.compile(r"[^\W\d]\w*\Z")


def shown(type: Type, *, inside: bool = False, limit: int = 400) -> str:
    """The type as it is written."""
    text = _shown(type, inside)
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def field_shown(name: str) -> str:
    """A field's name as it is written: in quotes where it is a word of the language, or no word at all."""
    return name if _PLAIN.match(name) and name not in RESERVED else _json.dumps(name)


def _shown(type: Type, inside: bool) -> str:
    match type:
        case Primitive(name=name) | Alias(name=name):
            return name
        case Record(fields=fields):
            parts = (
                f"{field_shown(each.name)}{'?' if each.optional else ''}: {_shown(each.type, False)}"
                for each in fields
            )
            return "{ " + ", ".join(parts) + " }" if fields else "{}"
        case Array(item=item):
            return f"[{_shown(item, False)}]"
        case Product(items=items):
            return "(" + ", ".join(_shown(each, False) for each in items) + ")"
        case Sum(variants=several):
            text = " | ".join(_shown(each, True) for each in several) or "nothing"
            return f"({text})" if inside else text


def received(value: Any) -> str:
    """What kind of value was found, without the value itself."""
    match value:
        case None:
            return "unit"
        case bool():
            return "bool"
        case int():
            return "int"
        case float():
            return "number"
        case str():
            return "string"
        case list() | tuple():
            return f"an array of {len(value)}"
        case dict():
            names = ", ".join(field_shown(str(each)) for each in list(value)[:5])
            return "{ " + names + (", ..." if len(value) > 5 else "") + " }" if value else "{}"
    return str(value.__class__.__name__)
