"""Expressions of `map` and `filter`: the type of one, and the Python code that computes it.

They are pure: no calls, no effects. What types cannot rule out (division by zero, a missing optional field, a number
that grows beyond bounds) is an evaluation error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from fairlead.pipelines import tree
from fairlead.pipelines.problems import near
from fairlead.pipelines.types import (
    BOOL,
    INT,
    JSON,
    NEVER,
    NUMBER,
    STRING,
    UNIT,
    Array,
    Field,
    Primitive,
    Product,
    Record,
    Type,
    assignable,
    disjoint,
    joined,
    resolve,
    shown,
    variants,
)
from fairlead.pipelines.validating import Coder
from fairlead.schema.fits import same

_LARGEST: Final = 10**400
#: Stands for the input in code. No text of a program can hold it: in code it would be escaped.
INPUT: Final = "\0"


class IllTyped(Exception):
    """An expression without a type, and the part that is to blame."""

    def __init__(self, at: int, message: str, hint: str = "", rule: str = "expression") -> None:
        self.at, self.message, self.hint, self.rule = at, message, hint, rule
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Typed:
    """An expression's type, and its code with `INPUT` where the input is meant."""

    type: Type
    code: str


def typed(node: tree.Expression, input: Type) -> Typed:
    """The type and the code of an expression over an input. Raises IllTyped."""
    match node:
        case tree.Variable():
            return _variable(node, input)
        case tree.Literal(value=value):
            return Typed(_literal(value), repr(value))
        case tree.Access(at=at, of=of, name=name):
            return _field(typed(of, input), name, at)
        case tree.Component(at=at, of=of, index=index):
            return _component(typed(of, input), index, at)
        case tree.Unary():
            return _unary(node, typed(node.of, input))
        case tree.Binary():
            return _binary(node, typed(node.left, input), typed(node.right, input))
        case tree.Made(kind=kind, items=items):
            made = [typed(each, input) for each in items]
            code = "[" + ", ".join(each.code for each in made) + "]"
            if kind == "tuple":
                return Typed(Product(tuple(each.type for each in made)), code)
            return Typed(Array(joined(each.type for each in made)), code)
        case tree.MadeRecord():
            return _record(node, input)
    raise AssertionError(node)


def _variable(node: tree.Variable, input: Type) -> Typed:
    if node.name == "value":
        return Typed(input, INPUT)
    if not any(isinstance(resolve(each), Record) for each in variants(input)):
        hint = f"The input is {shown(input)}; `value` is the whole of it."
        raise IllTyped(node.at, f"There is no field {node.name!r} here.", hint, "unknown")
    return _field(Typed(input, INPUT), node.name, node.at)


def _literal(value: Any) -> Type:
    match value:
        case None:
            return UNIT
        case bool():
            return BOOL
        case int():
            return INT
        case float():
            return NUMBER
    return STRING


def _field(of: Typed, name: str, at: int) -> Typed:
    found: list[Type] = []
    for each in variants(of.type):
        record = resolve(each)
        if record == JSON:
            hint = "Nothing is known about `json`: select it with a filter of the type you want first."
            raise IllTyped(at, f"A field {name!r} cannot be taken from json.", hint)
        field = record.get(name) if isinstance(record, Record) else None
        if field is None:
            known = [one.name for one in record.fields] if isinstance(record, Record) else []
            hint = near(name, known) or f"The input is {shown(of.type)}."
            raise IllTyped(at, f"There is no field {name!r} in {shown(each)}.", hint, "unknown")
        found.append(field.type)
    return Typed(joined(found), f"{of.code}[{name!r}]")


def _component(of: Typed, index: int, at: int) -> Typed:
    found: list[Type] = []
    for each in variants(of.type):
        product = resolve(each)
        if not isinstance(product, Product):
            raise IllTyped(
                at, f"{shown(each)} has no part {index}.", "Only products have numbered parts.", "project"
            )
        if index >= len(product.items):
            last = len(product.items) - 1
            raise IllTyped(
                at, f"There is no part {index}.", f"The parts of {shown(each)} are 0 to {last}.", "project"
            )
        found.append(product.items[index])
    return Typed(joined(found), f"{of.code}[{index}]")


def _numeric(type: Type) -> bool:
    return assignable(type, NUMBER)


def _unary(node: tree.Unary, of: Typed) -> Typed:
    if node.sign == "not":
        _needs(node.at, of.type, BOOL, "`not`")
        return Typed(BOOL, f"(not {of.code})")
    if not _numeric(of.type):
        raise IllTyped(node.at, f"`-` needs a number, not {shown(of.type)}.")
    return Typed(of.type, f"(-{of.code})")


def _needs(at: int, found: Type, wanted: Type, by: str) -> None:
    if not assignable(found, wanted):
        raise IllTyped(at, f"{by} needs {shown(wanted)}, not {shown(found)}.")


def _binary(node: tree.Binary, left: Typed, right: Typed) -> Typed:
    sign = node.sign
    if sign in ("and", "or"):
        _needs(node.at, left.type, BOOL, f"`{sign}`")
        _needs(node.at, right.type, BOOL, f"`{sign}`")
        return Typed(BOOL, f"({left.code} {sign} {right.code})")
    if sign in ("=", "!="):
        return _equality(node, left, right)
    numbers = _numeric(left.type) and _numeric(right.type)
    texts = assignable(left.type, STRING) and assignable(right.type, STRING)
    pair = f"{shown(left.type)} and {shown(right.type)}"
    if sign in ("<", "<=", ">", ">="):
        if not (numbers or texts):
            raise IllTyped(
                node.at, f"`{sign}` cannot compare {pair}.", "It compares two numbers or two strings."
            )
        return Typed(BOOL, f"({left.code} {sign} {right.code})")
    if sign == "+" and texts and not numbers:
        return Typed(STRING, f"({left.code} + {right.code})")
    if not numbers:
        more = " or two strings" if sign == "+" else ""
        raise IllTyped(node.at, f"`{sign}` cannot take {pair}.", f"It takes two numbers{more}.")
    whole = sign != "/" and assignable(left.type, INT) and assignable(right.type, INT)
    bound = "I" if whole else "F"
    return Typed(INT if whole else NUMBER, f"{bound}({left.code} {sign} {right.code})")


def _equality(node: tree.Binary, left: Typed, right: Typed) -> Typed:
    if disjoint(left.type, right.type):
        message = f"{shown(left.type)} and {shown(right.type)} can never be equal."
        raise IllTyped(node.at, message, "Compare values of the same type.")
    plain = resolve(left.type)
    if isinstance(plain, Primitive) and plain != JSON and resolve(right.type) == plain:
        sign = "==" if node.sign == "=" else "!="
        return Typed(BOOL, f"({left.code} {sign} {right.code})")
    negated = "" if node.sign == "=" else "not "
    return Typed(BOOL, f"({negated}E({left.code}, {right.code}))")


def _record(node: tree.MadeRecord, input: Type) -> Typed:
    fields: dict[str, Field] = {}
    code = []
    for at, name, member in node.members:
        if name in fields:
            raise IllTyped(at, f"The field {name!r} is given twice.", rule="duplicate")
        made = typed(member, input)
        fields[name] = Field(name, made.type)
        code.append(f"{name!r}: {made.code}")
    return Typed(Record(tuple(fields.values())), "{" + ", ".join(code) + "}")


def selected(node: tree.Expression, input: Type) -> tuple[Type, Typed]:
    """What a filter lets through, and its condition: of a sum, the variants that the condition can be asked of.

    Raises IllTyped when it can be asked of none, or is no condition.
    """
    try:
        return input, _condition(node, input)
    except IllTyped as first:
        several = variants(input)
        if len(several) < 2:
            raise
        kept = [each for each in several if _asked(node, each)]
        if not kept:
            raise first from None
    rest = joined(kept)
    return rest, _condition(node, rest)


def _asked(node: tree.Expression, input: Type) -> bool:
    try:
        _condition(node, input)
    except IllTyped:
        return False
    return True


def _condition(node: tree.Expression, input: Type) -> Typed:
    made = typed(node, input)
    if made.type is not NEVER and not assignable(made.type, BOOL):
        hint = "A filter keeps a message when its expression is true."
        raise IllTyped(node.at, f"The condition is {shown(made.type)}, not bool.", hint)
    return made


def _finite(number: Any) -> float:
    made = float(number)
    if made - made != 0.0:
        raise OverflowError("the number is too large")
    return made


def _bounded(number: int) -> int:
    if not -_LARGEST < number < _LARGEST:
        raise OverflowError("the number is too large")
    return number


#: What the code of expressions uses.
NAMES: Final = {"F": _finite, "I": _bounded, "E": same}
#: What evaluating may raise, and what is told of it.
ERRORS: Final = (ZeroDivisionError, KeyError, OverflowError, RecursionError)


def told(error: BaseException) -> str:
    """An evaluation error in words."""
    match error:
        case ZeroDivisionError():
            return "it divides by zero"
        case KeyError():
            return f"the optional field {error.args[0]!r} is missing"
        case RecursionError():
            return "the value is nested too deeply"
    return "a number becomes too large"


def compiled(made: Typed) -> Any:
    """A function of the input."""
    coder = Coder()
    coder.namespace.update(NAMES)
    return coder.finish(f"def compute(v): return {made.code.replace(INPUT, 'v')}", "compute")
