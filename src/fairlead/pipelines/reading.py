"""What each rule of the grammar makes: one function a rule, from its children to a node of the tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fairlead import _json
from fairlead.pipelines import tree
from fairlead.pipelines.tokens import Token

#: How deep an expression or a session may be.
DEEPEST: Final = 100

Action = Callable[[list[Any], Token], Any]
ACTIONS: dict[str, Action] = {}


class Refused(Exception):
    """A sentence that the grammar allows and the language does not."""

    def __init__(self, at: int, message: str, hint: str = "") -> None:
        self.at, self.message, self.hint = at, message, hint
        super().__init__(message)


def _action(function: Action) -> Action:
    ACTIONS[function.__name__.removeprefix("_")] = function
    return function


def _of(children: list[Any], *types: Any) -> list[Any]:
    return [each for each in children if isinstance(each, types)]


def _nodes(children: list[Any]) -> list[Any]:
    """The children that are not signs."""
    return [each for each in children if type(each) is not Token]


def text_of(token: Token) -> str:
    """The text that a quoted token stands for."""
    if token.type != "STRING":
        return token.value
    try:
        text = _json.loads(token.value.replace("\t", "\\t"))
    except ValueError:
        raise Refused(
            token.start, "This text has an escape that there is not.", "Escapes are those of JSON."
        ) from None
    assert isinstance(text, str)
    return text


def _deep(at: int, *inner: Any) -> int:
    depth = 1 + max((each.depth for each in inner), default=0)
    if depth > DEEPEST:
        raise Refused(at, f"This is nested deeper than {DEEPEST}.", "Do a part of it in a step before.")
    return depth


# Declarations


@_action
def _top(c: list[Any], _: Token) -> Any:
    return c[0]


@_action
def _use(c: list[Any], _: Token) -> Any:
    return tree.Use(c[1].start, text_of(c[1]), c[1].type != "NAME")


@_action
def _type_declaration(c: list[Any], _: Token) -> Any:
    return tree.TypeDeclaration(c[0].start, c[1].value, c[1].start, c[3])


@_action
def _protocol(c: list[Any], _: Token) -> Any:
    return tree.Protocol(c[0].start, c[1].value, c[1].start, c[3])


@_action
def _binding(c: list[Any], _: Token) -> Any:
    return tree.Binding(c[0].start, c[1].value, c[1].start, c[3], c[5])


ACTIONS["inner_binding"] = ACTIONS["binding"]


@_action
def _signature(c: list[Any], _: Token) -> Any:
    if len(c) == 1:
        return tree.Signature(c[0].at, None, c[0], arrow=False)
    if len(c) == 2:
        return tree.Signature(c[0].start, None, c[1], arrow=True)
    return tree.Signature(c[0].at, c[0], c[2], arrow=True)


# Types


@_action
def _sum(c: list[Any], _: Token) -> Any:
    return tree.Sum(c[0].at, tuple(_nodes(c)))


@_action
def _primitive(c: list[Any], _: Token) -> Any:
    return tree.Primitive(c[0].start, c[0].value)


@_action
def _named(c: list[Any], _: Token) -> Any:
    return tree.Named(c[0].start, c[0].value)


@_action
def _array(c: list[Any], _: Token) -> Any:
    return tree.Array(c[0].start, c[1])


@_action
def _group(c: list[Any], _: Token) -> Any:
    return c[1]


@_action
def _product(c: list[Any], _: Token) -> Any:
    return tree.Product(c[0].start, tuple(_nodes(c)))


@_action
def _stream(c: list[Any], _: Token) -> Any:
    if isinstance(c[1], tree.Stream):
        raise Refused(c[0].start, "A stream of streams is none.", "Write a single `!`.")
    return tree.Stream(c[0].start, c[1])


@_action
def _record(c: list[Any], _: Token) -> Any:
    return tree.Record(c[0].start, tuple(_nodes(c)))


@_action
def _optional_field(c: list[Any], _: Token) -> Any:
    return tree.RecordField(c[0].start, text_of(c[0]), True, c[3])


@_action
def _required_field(c: list[Any], _: Token) -> Any:
    return tree.RecordField(c[0].start, text_of(c[0]), False, c[2])


@_action
def _qname(c: list[Any], _: Token) -> Any:
    return c[0]


ACTIONS["field_name"] = ACTIONS["qname"]

# Processes


def _configured(c: list[Any], _: Token) -> Any:
    return tree.Configured(c[0].start, c[0].value, c[1])


for _kind in ("agent", "tool", "exec"):
    ACTIONS[_kind] = _configured


@_action
def _action_call(c: list[Any], _: Token) -> Any:
    config = c[2] if len(c) > 2 else None
    return tree.ActionCall(c[0].start, text_of(c[1]), c[1].start, config)


ACTIONS["action"] = ACTIONS.pop("action_call")


@_action
def _structural(c: list[Any], _: Token) -> Any:
    return tree.Structural(c[0].start, c[0].value)


def _computed(c: list[Any], _: Token) -> Any:
    return tree.Computed(c[0].start, c[0].value, c[2])


ACTIONS["map"] = ACTIONS["filter"] = _computed


@_action
def _project(c: list[Any], _: Token) -> Any:
    return tree.Project(c[0].start, _integer(c[2]))


@_action
def _plumb(c: list[Any], _: Token) -> Any:
    names = tuple(
        tree.Parameter(each.start, each.value) for each in c if type(each) is Token and each.type == "NAME"
    )
    return tree.Plumb(c[0].start, names, tuple(_nodes(c)))


@_action
def _channel(c: list[Any], _: Token) -> Any:
    return tree.Channel(c[0].start)


@_action
def _rebinding(c: list[Any], _: Token) -> Any:
    return tree.Rebinding(c[0].start, c[0].value)


# Settings


@_action
def _config(c: list[Any], _: Token) -> Any:
    return tree.Config(c[0].start, tuple(_nodes(c)))


@_action
def _setting(c: list[Any], _: Token) -> Any:
    value = c[2] if isinstance(c[2], tree.Value) else tree.Value(c[2].at, c[2])
    return tree.Setting(c[0].start, text_of(c[0]), value)


@_action
def _text(c: list[Any], _: Token) -> Any:
    return tree.Value(c[0].start, text_of(c[0]))


@_action
def _integer_value(c: list[Any], _: Token) -> Any:
    return tree.Value(c[0].start, _integer(c[-1]) * (-1 if len(c) == 2 else 1))


ACTIONS["integer"] = ACTIONS["negative_integer"] = ACTIONS.pop("integer_value")


@_action
def _decimal(c: list[Any], _: Token) -> Any:
    return tree.Value(c[0].start, _decimal_of(c[-1]) * (-1 if len(c) == 2 else 1))


ACTIONS["negative_decimal"] = ACTIONS["decimal"]


@_action
def _yes(c: list[Any], _: Token) -> Any:
    return tree.Value(c[0].start, True)


@_action
def _no(c: list[Any], _: Token) -> Any:
    return tree.Value(c[0].start, False)


@_action
def _reference(c: list[Any], _: Token) -> Any:
    return tree.Value(c[0].start, tree.Reference(c[0].start, c[0].value))


@_action
def _values(c: list[Any], _: Token) -> Any:
    made = [each if isinstance(each, tree.Value) else tree.Value(each.at, each) for each in _nodes(c)]
    return tree.Value(c[0].start, made)


# Wiring


@_action
def _wiring(c: list[Any], _: Token) -> Any:
    return c[0]


@_action
def _spawn(c: list[Any], _: Token) -> Any:
    return tree.Spawn(c[0].start, c[1].value, c[1].start, tuple(_nodes(c)))


@_action
def _budget(c: list[Any], _: Token) -> Any:
    return tree.Budget(c[0].start, c[1], tuple(_nodes(c[2:])))


@_action
def _named_argument(c: list[Any], _: Token) -> Any:
    return tree.Argument(c[0].start, c[0].value, c[2].value)


@_action
def _placed_argument(c: list[Any], _: Token) -> Any:
    return tree.Argument(c[0].start, None, c[0].value)


@_action
def _chain(c: list[Any], _: Token) -> Any:
    elements = tuple(_nodes(c))
    return tree.Chain(elements[0].at, elements)


@_action
def _element(c: list[Any], _: Token) -> Any:
    steps = []
    for each in c[1:]:
        if each.type == "DOTINT":
            steps.append(tree.Step(each.start, _integer(each)))
        elif each.type != "DOT":
            steps.append(tree.Step(each.start, text_of(each)))
    return tree.Element(
        c[0].at, c[0] if isinstance(c[0], tree.Atom | tree.Tensor) else tree.Atom(c[0].at, c[0]), tuple(steps)
    )


@_action
def _reference_atom(c: list[Any], _: Token) -> Any:
    return tree.Atom(c[0].start, c[0].value)


def _port(c: list[Any], _: Token) -> Any:
    what = c[0].value if type(c[0]) is Token else c[0]
    at = c[0].start if type(c[0]) is Token else c[0].at
    return tree.Atom(at, what, c[1].value[1:], c[1].start, c[3] if len(c) > 2 else None)


for _kind in ("port_atom", "typed_port_atom", "inline_port", "inline_typed_port"):
    ACTIONS[_kind] = _port


@_action
def _tensor(c: list[Any], _: Token) -> Any:
    return tree.Tensor(c[0].start, tuple(_nodes(c)))


# Expressions


@_action
def _variable(c: list[Any], _: Token) -> Any:
    return tree.Variable(c[0].start, c[0].value)


@_action
def _text_literal(c: list[Any], _: Token) -> Any:
    return tree.Literal(c[0].start, text_of(c[0]))


@_action
def _integer_literal(c: list[Any], _: Token) -> Any:
    return tree.Literal(c[0].start, _integer(c[0]))


@_action
def _decimal_literal(c: list[Any], _: Token) -> Any:
    return tree.Literal(c[0].start, _decimal_of(c[0]))


@_action
def _truth_literal(c: list[Any], _: Token) -> Any:
    return tree.Literal(c[0].start, c[0].value == "true")


@_action
def _unit_literal(c: list[Any], _: Token) -> Any:
    if c[0].value != "unit":
        hint = 'A field of that name is written in quotes after a dot: `value."' + c[0].value + '"`.'
        raise Refused(c[0].start, f"`{c[0].value}` is a type and no value.", hint)
    return tree.Literal(c[0].start, None)


@_action
def _parenthesis(c: list[Any], _: Token) -> Any:
    return c[1]


@_action
def _access(c: list[Any], _: Token) -> Any:
    return tree.Access(c[2].start, c[0], text_of(c[2]), _deep(c[2].start, c[0]))


@_action
def _component(c: list[Any], _: Token) -> Any:
    return tree.Component(c[1].start, c[0], _integer(c[1]), _deep(c[1].start, c[0]))


@_action
def _unary(c: list[Any], _: Token) -> Any:
    return tree.Unary(c[0].start, c[0].value, c[1], _deep(c[0].start, c[1]))


@_action
def _binary(c: list[Any], _: Token) -> Any:
    sign = {"≠": "!="}.get(c[1].value, c[1].value)
    return tree.Binary(c[1].start, sign, c[0], c[2], _deep(c[1].start, c[0], c[2]))


def _made(c: list[Any], _: Token) -> Any:
    items = tuple(_nodes(c))
    kind = "array" if c[0].type == "LSQB" else "tuple"
    return tree.Made(c[0].start, kind, items, _deep(c[0].start, *items))


ACTIONS["tuple_literal"] = ACTIONS["array_literal"] = _made


@_action
def _record_literal(c: list[Any], _: Token) -> Any:
    members = tuple(each for each in c if type(each) is tuple)
    return tree.MadeRecord(c[0].start, members, _deep(c[0].start, *(each[2] for each in members)))


@_action
def _member(c: list[Any], _: Token) -> Any:
    return (c[0].start, text_of(c[0]), c[2])


@_action
def _pun(c: list[Any], _: Token) -> Any:
    name = text_of(c[0])
    return (c[0].start, name, tree.Access(c[0].start, tree.Variable(c[0].start, "value"), name, 2))


# Sessions


def _exchange(c: list[Any], _: Token) -> Any:
    return tree.Exchange(c[0].start, c[0].value, c[1], c[3], _deep(c[0].start, c[3]))


ACTIONS["send"] = ACTIONS["receive"] = _exchange


def _ending(c: list[Any], _: Token) -> Any:
    return tree.Ending(c[0].start, c[0].value)


ACTIONS["end"] = ACTIONS["loop"] = _ending


@_action
def _choice(c: list[Any], _: Token) -> Any:
    names = [each for each in c if type(each) is Token and each.type == "NAME"]
    sessions = _nodes(c)
    labels = tuple((name.start, name.value, session) for name, session in zip(names, sessions, strict=True))
    return tree.Choice(c[0].start, labels, _deep(c[0].start, *sessions))


def _integer(token: Token) -> int:
    digits = token.value.lstrip(".")
    if len(digits) > 400:
        raise Refused(token.start, "This number has more than 400 digits.")
    return int(digits)


def _decimal_of(token: Token) -> float:
    number = float(token.value)
    if number == float("inf"):
        raise Refused(token.start, "This number is too large.", "Numbers go up to about 1.8e308.")
    return number
