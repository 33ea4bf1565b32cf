"""The syntax tree: what was written, with the offset of each part. What it means is found out by the checker."""

from __future__ import annotations

from typing import Any, ClassVar, TypeAlias, dataclass_transform


@dataclass_transform()
class Syntax:
    """A node. Much like a dataclass, but forty of them are made in no time when a program starts."""

    _names: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        cls._names = tuple(cls.__annotations__)

    def __init__(self, *values: Any, **named: Any) -> None:
        self.__dict__.update(zip(self._names, values, strict=False), **named)

    def __repr__(self) -> str:
        parts = (f"{name}={getattr(self, name)!r}" for name in self._names)
        return f"{type(self).__name__}({', '.join(parts)})"


# Types


class Primitive(Syntax):
    """`string`, `int`, `number`, `bool`, `json` or `unit`."""

    at: int
    name: str


class Named(Syntax):
    """A type by its name."""

    at: int
    name: str


class RecordField(Syntax):
    """One field of a record."""

    at: int
    name: str
    optional: bool
    type: TypeNode


class Record(Syntax):
    """`{ a: T, b?: U }`."""

    at: int
    fields: tuple[RecordField, ...]


class Array(Syntax):
    """`[T]`."""

    at: int
    item: TypeNode


class Sum(Syntax):
    """`T | U`."""

    at: int
    variants: tuple[TypeNode, ...]


class Product(Syntax):
    """`(T, U)`."""

    at: int
    items: tuple[TypeNode, ...]


class Stream(Syntax):
    """`!T`."""

    at: int
    item: TypeNode


TypeNode: TypeAlias = Primitive | Named | Record | Array | Sum | Product | Stream


class Signature(Syntax):
    """`A -> B`; without an arrow, `after` is a channel's type and `before` is None."""

    at: int
    before: TypeNode | None
    after: TypeNode
    arrow: bool


# Settings


class Reference(Syntax):
    """A name in a setting."""

    at: int
    name: str


class Value(Syntax):
    """A value of a setting: text, number, truth, `Reference`, a list of values, or a `Config`."""

    at: int
    value: Any


class Setting(Syntax):
    """One key and its value."""

    at: int
    key: str
    value: Value


class Config(Syntax):
    """`{ key: value, ... }`."""

    at: int
    settings: tuple[Setting, ...]

    def get(self, key: str) -> Value | None:
        """The value of a key, or None."""
        return next((each.value for each in self.settings if each.key == key), None)


# Expressions


class Variable(Syntax):
    """A field of the input, or `value` for the whole."""

    at: int
    name: str
    depth: int = 1


class Literal(Syntax):
    """A text, a number, a truth or `unit`."""

    at: int
    value: Any
    depth: int = 1


class Access(Syntax):
    """`e.field`."""

    at: int
    of: Expression
    name: str
    depth: int


class Component(Syntax):
    """`e.0`."""

    at: int
    of: Expression
    index: int
    depth: int


class Unary(Syntax):
    """`not e` or `-e`."""

    at: int
    sign: str
    of: Expression
    depth: int


class Binary(Syntax):
    """Two expressions and the sign between them, where `at` is."""

    at: int
    sign: str
    left: Expression
    right: Expression
    depth: int


class Made(Syntax):
    """An array or a tuple that is made."""

    at: int
    kind: str
    items: tuple[Expression, ...]
    depth: int


class MadeRecord(Syntax):
    """A record that is made."""

    at: int
    members: tuple[tuple[int, str, Expression], ...]
    depth: int


Expression: TypeAlias = Variable | Literal | Access | Component | Unary | Binary | Made | MadeRecord

# Processes


class Configured(Syntax):
    """`agent`, `tool` or `exec` with its settings."""

    at: int
    kind: str
    config: Config


class ActionCall(Syntax):
    """`action name`: an action of the app."""

    at: int
    name: str
    name_at: int
    config: Config | None
    kind: str = "action"


class Structural(Syntax):
    """`id`, `copy`, `merge`, `discard`, `empty` or `barrier`."""

    at: int
    kind: str


class Computed(Syntax):
    """`map(e)` or `filter(e)`."""

    at: int
    kind: str
    expression: Expression


class Project(Syntax):
    """`project(n)`."""

    at: int
    index: int
    kind: str = "project"


class Channel(Syntax):
    """`channel`."""

    at: int
    kind: str = "channel"


class Rebinding(Syntax):
    """Another name of a process."""

    at: int
    name: str
    kind: str = "rebinding"


class Parameter(Syntax):
    """A port's name at the head of a plumb."""

    at: int
    name: str


class Plumb(Syntax):
    """`plumb(input, output) { ... }`."""

    at: int
    parameters: tuple[Parameter, ...]
    statements: tuple[Statement, ...]
    kind: str = "plumb"


Impl: TypeAlias = Configured | ActionCall | Structural | Computed | Project | Channel | Rebinding | Plumb

# Wiring


class Step(Syntax):
    """`.field` or `.0` after an element."""

    at: int
    name: str | int


class Atom(Syntax):
    """A process by name or written in place, with the port that is meant."""

    at: int
    what: str | Impl
    port: str | None = None
    port_at: int = 0
    port_type: TypeNode | None = None


class Tensor(Syntax):
    """`(a * b)`."""

    at: int
    chains: tuple[Chain, ...]


class Element(Syntax):
    """One element of a chain."""

    at: int
    atom: Atom | Tensor
    steps: tuple[Step, ...] = ()


class Chain(Syntax):
    """`a ; b ; c`."""

    at: int
    elements: tuple[Element, ...]


class Argument(Syntax):
    """An argument of `spawn`, by name or by place."""

    at: int
    port: str | None
    name: str


class Spawn(Syntax):
    """`spawn p(input, output)`."""

    at: int
    name: str
    name_at: int
    arguments: tuple[Argument, ...]


class Budget(Syntax):
    """`budget { ... } { ... }`: what the statements inside may spend."""

    at: int
    config: Config
    statements: tuple[Statement, ...]


Statement: TypeAlias = "Binding | Spawn | Budget | Chain"

# Sessions


class Exchange(Syntax):
    """`send A . rest` or `recv A . rest`."""

    at: int
    way: str
    type: TypeNode
    rest: Session
    depth: int


class Ending(Syntax):
    """`end` or `loop`."""

    at: int
    way: str
    depth: int = 1


class Choice(Syntax):
    """`{ label: session, ... }`, chosen by who began."""

    at: int
    labels: tuple[tuple[int, str, Session], ...]
    depth: int


Session: TypeAlias = Exchange | Ending | Choice

# Declarations


class Use(Syntax):
    """`use module`."""

    at: int
    name: str
    path: bool


class TypeDeclaration(Syntax):
    """`type N = T`."""

    at: int
    name: str
    name_at: int
    type: TypeNode


class Protocol(Syntax):
    """`protocol P = session`."""

    at: int
    name: str
    name_at: int
    session: Session


class Binding(Syntax):
    """`let name : signature = impl`."""

    at: int
    name: str
    name_at: int
    signature: Signature
    impl: Impl


Declaration: TypeAlias = Use | TypeDeclaration | Protocol | Binding


class Program:
    """The declarations of one text, and the names of those that could not be read."""

    def __init__(self) -> None:
        self.declarations: list[Declaration] = []
        self.broken: set[str] = set()
