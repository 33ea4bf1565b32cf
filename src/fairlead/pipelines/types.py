"""The types of messages: which fit into which, and which share no value.

Both answers are sound: what fits is never refused at run time, and what is disjoint has no value in common.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
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


class _Pairs:
    """What is known of pairs of types while a question is open, so that each pair is looked at a few times at most.

    A pair that is still open is taken to hold: a value is finite, and where it would be refused, it is refused without
    going in a circle. What was found to hold after that may rest on it, and is forgotten when it does not hold after
    all; what does not hold even so never does.
    """

    __slots__ = ("_fails", "_holds")

    def __init__(self) -> None:
        self._holds: dict[tuple[int, int], None] = {}
        self._fails: set[tuple[int, int]] = set()

    def known(self, pair: tuple[int, int]) -> bool | None:
        """The answer, if there is one; if not, the pair is open from now on."""
        if pair in self._holds:
            return True
        if pair in self._fails:
            return False
        self._holds[pair] = None
        return None

    def fails(self, pair: tuple[int, int]) -> None:
        """A pair that was open does not hold."""
        while self._holds.popitem()[0] != pair:
            pass
        self._fails.add(pair)


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
    """The types that a sum is of, sums within it opened too, each name once; a type that is no sum alone."""
    return list(_variants(type, set()))


def _variants(type: Type, seen: set[int]) -> Iterable[Type]:
    if isinstance(type, Alias):
        if isinstance(resolve(type), Sum):
            if id(type) not in seen:
                seen.add(id(type))
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
    return _fits(given, wanted, _Pairs())


def _fits(given: Type, wanted: Type, pairs: _Pairs) -> bool:
    if given is wanted:
        return True
    if isinstance(given, Primitive) and isinstance(wanted, Primitive):
        return wanted == JSON or given == wanted or (given == INT and wanted == NUMBER)
    pair = (id(given), id(wanted))
    known = pairs.known(pair)
    if known is None:
        known = _fits_anew(resolve(given), resolve(wanted), pairs)
        if not known:
            pairs.fails(pair)
    return known


def _fits_anew(given: Type, wanted: Type, pairs: _Pairs) -> bool:
    if isinstance(given, Sum) or isinstance(wanted, Sum):
        several = variants(wanted)
        return all(any(_fits(each, into, pairs) for into in several) for each in variants(given))
    match given, wanted:
        case _, Primitive(name="json"):
            return True
        case Primitive(), Primitive():
            return _fits(given, wanted, pairs)
        case Record(), Record():
            return _record_fits(given, wanted, pairs)
        case Array(item=item), Array(item=into):
            return _fits(item, into, pairs)
        case Product(items=items), Product(items=intos):
            return len(items) == len(intos) and all(
                _fits(a, b, pairs) for a, b in zip(items, intos, strict=True)
            )
        case Product(items=items), Array(item=into):
            return all(_fits(each, into, pairs) for each in items)
    return False


def _record_fits(given: Record, wanted: Record, pairs: _Pairs) -> bool:
    into = {each.name: each for each in wanted.fields}
    for each in given.fields:
        target = into.pop(each.name, None)
        if target is None or (each.optional and not target.optional):
            return False
        if not _fits(each.type, target.type, pairs):
            return False
    return all(each.optional for each in into.values())


def disjoint(one: Type, other: Type) -> bool:
    """Whether no value is of both types."""
    return _apart(one, other, _Pairs())


def _apart(one: Type, other: Type, pairs: _Pairs) -> bool:
    if isinstance(one, Primitive) and isinstance(other, Primitive):
        return JSON not in (one, other) and one != other and {one, other} != {INT, NUMBER}
    pair = (id(one), id(other))
    known = pairs.known(pair)
    if known is None:
        known = _apart_anew(resolve(one), resolve(other), pairs)
        if not known:
            pairs.fails(pair)
    return known


def _apart_anew(one: Type, other: Type, pairs: _Pairs) -> bool:
    if isinstance(one, Sum) or isinstance(other, Sum):
        return all(_apart(a, b, pairs) for a in variants(one) for b in variants(other))
    if JSON in (one, other):
        return False
    match one, other:
        case Primitive(), Primitive():
            return _apart(one, other, pairs)
        case Record(), Record():
            return _records_apart(one, other, pairs)
        case Array(), Array():
            return False
        case Product(items=items), Product(items=others):
            return len(items) != len(others) or any(
                _apart(a, b, pairs) for a, b in zip(items, others, strict=True)
            )
        case (Product(items=items), Array(item=item)) | (Array(item=item), Product(items=items)):
            return any(_apart(each, item, pairs) for each in items)
    return True


def _records_apart(one: Record, other: Record, pairs: _Pairs) -> bool:
    ones = {each.name: each for each in one.fields}
    others = {each.name: each for each in other.fields}
    for mine, theirs in ((ones, others), (others, ones)):
        if any(not each.optional and each.name not in theirs for each in mine.values()):
            return True
    return any(
        _apart(each.type, others[each.name].type, pairs)
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
#: Deeper than this is not shown.
_DEEPEST: Final = 60


def shown(type: Type, *, inside: bool = False, limit: int = 400) -> str:
    """The type as it is written, up to its limit: written out, a type may be far longer than the program."""
    parts, length = [], 0
    for part in _shown(type, inside, 0):
        parts.append(part)
        length += len(part)
        if length > limit:
            return f"{''.join(parts)[: limit - 3]}..."
    return "".join(parts)


def field_shown(name: str) -> str:
    """A field's name as it is written: in quotes where it is a word of the language, or no word at all."""
    return name if _PLAIN.match(name) and name not in RESERVED else _json.dumps(name)


def _shown(type: Type, inside: bool, depth: int) -> Iterator[str]:
    if depth > _DEEPEST:
        yield "..."
        return
    match type:
        case Primitive(name=name) | Alias(name=name):
            yield name
        case Record(fields=fields):
            for index, one in enumerate(fields):
                yield f"{', ' if index else '{ '}{field_shown(one.name)}{'?' if one.optional else ''}: "
                yield from _shown(one.type, False, depth + 1)
            yield " }" if fields else "{}"
        case Array(item=item):
            yield "["
            yield from _shown(item, False, depth + 1)
            yield "]"
        case Product(items=items):
            for index, each in enumerate(items):
                yield ", " if index else "("
                yield from _shown(each, False, depth + 1)
            yield ")" if items else "()"
        case Sum(variants=several):
            yield "(" if inside else ""
            for index, each in enumerate(several):
                yield " | " if index else ""
                yield from _shown(each, True, depth + 1)
            yield "" if several else "nothing"
            yield ")" if inside else ""


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
