"""Types to functions that check a value: compiled to Python code once, since every message passes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fairlead.failures.runtime import ValidationError
from fairlead.pipelines.types import (
    JSON,
    Alias,
    Array,
    Primitive,
    Product,
    Record,
    Sum,
    Type,
    received,
    resolve,
    shown,
    variants,
)

Check = Callable[[Any], bool]
_MISSING: Final = object()
#: From this depth on a part becomes a function of its own: Python allows only so many brackets.
_INLINE: Final = 6


class Coder:
    """Python code for checks, and the names it uses. One coder makes one module of code."""

    def __init__(self) -> None:
        self.namespace: dict[str, Any] = {"M": _MISSING}
        self.functions: list[str] = []
        #: Functions that are named and not yet written: one after the other, however deep types lead into each other.
        self._due: list[tuple[str, Type, bool]] = []
        self._made: dict[int, str] = {}
        #: What ids were made for has to live as long as the ids are used.
        self._kept: list[Type] = []
        self._count = 0

    def name(self) -> str:
        """A name that is not taken."""
        self._count += 1
        return f"_{self._count}"

    def constant(self, value: Any) -> str:
        """The name of a value."""
        name = self.name()
        self.namespace[name] = value
        return name

    def check(self, type: Type, value: str, depth: int = 0) -> str:
        """An expression that is true when the variable holds a value of the type."""
        if isinstance(type, Alias) and isinstance(resolve(type), Record | Array | Product | Sum):
            return f"{self._function(type)}({value})"
        type = resolve(type)
        if depth > _INLINE and not isinstance(type, Primitive):
            return f"{self._function(type)}({value})"
        match type:
            case Primitive(name=name):
                return _PRIMITIVES[name].format(v=value)
            case Sum(variants=()):
                return "False"
            case Sum():
                return "(" + " or ".join(self.check(each, value, depth + 1) for each in variants(type)) + ")"
            case Array(item=item):
                if _anything(item):
                    return f"(type({value}) is list)"
                return f"(type({value}) is list and {self._every(item)}({value}))"
            case Product(items=items):
                parts = [f"type({value}) is list", f"len({value}) == {len(items)}"]
                return self._all(parts, ((f"{value}[{i}]", each) for i, each in enumerate(items)), depth)
            case Record():
                return self._record(type, value, depth)
        raise AssertionError(type)

    def _record(self, type: Record, value: str, depth: int) -> str:
        needed = [each for each in type.fields if not each.optional]
        optional = [each for each in type.fields if each.optional]
        size = " + ".join([str(len(needed)), *(f"({each.name!r} in {value})" for each in optional)])
        parts = [f"type({value}) is dict", f"len({value}) == {size}"]
        for each in needed:
            if _anything(each.type):
                parts.append(f"{each.name!r} in {value}")
        pairs = [(f"{value}.get({each.name!r}, M)", each.type) for each in needed if not _anything(each.type)]
        for each in optional:
            if not _anything(each.type):
                part = self.name()
                inner = self.check(each.type, part, depth + 2)
                parts.append(f"(({part} := {value}.get({each.name!r}, M)) is M or {inner})")
        return self._all(parts, iter(pairs), depth)

    def _all(self, parts: list[str], pairs: Any, depth: int) -> str:
        for code, type in pairs:
            plain = resolve(type)
            if isinstance(plain, Primitive) and plain.name in _ONCE:
                parts.append(_PRIMITIVES[plain.name].format(v=code))
                continue
            part = self.name()
            # The assignment is always true: a missing field is caught by the check of its value.
            parts.append(f"(({part} := {code}) is {part} and {self.check(type, part, depth + 1)})")
        return "(" + " and ".join(parts) + ")"

    def _every(self, item: Type) -> str:
        name = self.name()
        self._due.append((name, item, True))
        return name

    def _function(self, type: Type) -> str:
        if id(type) not in self._made:
            self._kept.append(type)
            self._made[id(type)] = name = self.name()
            self._due.append((name, resolve(type), False))
        return self._made[id(type)]

    def _write(self, name: str, type: Type, every: bool) -> None:
        if every:
            lines = (
                f"def {name}(values):",
                " for v in values:",
                f"  if not {self.check(type, 'v', 1)}: return False",
                " return True",
            )
            self.functions.append("\n".join(lines))
        else:
            self.functions.append(f"def {name}(v): return {self.check(type, 'v')}")

    def finish(self, code: str, name: str) -> Any:
        """Run the code after the functions that it uses, and give what it defines under a name."""
        while self._due:
            self._write(*self._due.pop())
        source = "\n".join([*self.functions, code])
        exec(compile(source, "<pipeline>", "exec"), self.namespace)  # noqa: S102 our own code, made from types
        return self.namespace[name]


def _anything(type: Type) -> bool:
    """Whether every value is of the type: even what stands for a missing field would pass its check."""
    return any(resolve(each) == JSON for each in variants(type))


_PRIMITIVES: Final = {
    "string": "type({v}) is str",
    "int": "type({v}) is int",
    "number": "(type({v}) is float and {v} - {v} == 0.0 or type({v}) is int)",
    "bool": "type({v}) is bool",
    "unit": "{v} is None",
    "json": "True",
}
_ONCE: Final = frozenset(("string", "int", "bool", "unit"))


def checker(type: Type) -> Check:
    """A function that says whether a value is of a type."""
    coder = Coder()
    return guarded(coder.finish(f"def check(v): return {coder.check(type, 'v')}", "check"))


def guarded(check: Check) -> Check:
    """The same check, which refuses values that are nested too deeply to be looked at."""

    def guard(value: Any) -> bool:
        try:
            return check(value)
        except RecursionError:
            return False

    return guard


def refusal(type: Type, value: Any, source: str, what: str = "input") -> ValidationError:
    """The failure for a value that is not of a type: where it is wrong, and what would be right."""
    try:
        path, expected, found = _explain(type, value, "")
    except RecursionError:
        path, expected, found = "", shown(type), "a value that is nested too deeply"
    where = f" at {path}" if path else ""
    message = f"The {what} of {source!r} is not of its type{where}: expected {expected}, found {found}."
    details = {"source": source, "path": path, "expected": expected, "actual": found}
    return ValidationError(message, expected=expected, details=details)


def _explain(type: Type, value: Any, path: str) -> tuple[str, str, str]:
    plain = resolve(type)
    match plain:
        case Record() if isinstance(value, dict):
            for each in plain.fields:
                here = f"{path}/{each.name}"
                if each.name not in value:
                    if not each.optional:
                        return here, shown(each.type), "nothing"
                elif not checker(each.type)(value[each.name]):
                    return _explain(each.type, value[each.name], here)
            for name in value:
                if plain.get(name) is None:
                    return f"{path}/{name}", "no such field", received(value[name])
        case Array(item=item) if isinstance(value, list):
            for index, each in enumerate(value):
                if not checker(item)(each):
                    return _explain(item, each, f"{path}/{index}")
        case Product(items=items) if isinstance(value, list) and len(value) == len(items):
            for index, (part, one) in enumerate(zip(items, value, strict=True)):
                if not checker(part)(one):
                    return _explain(part, one, f"{path}/{index}")
        case Sum() if isinstance(value, dict):
            near = [each for each in variants(plain) if isinstance(resolve(each), Record)]
            if len(near) == 1:
                return _explain(near[0], value, path)
    return path, shown(type), received(value)
