"""The checker: from a text to a program whose every wire is known to fit, or to the list of what is wrong."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from fairlead.pipelines import tree
from fairlead.pipelines.depths import DEEPEST, depth_of_process, depth_of_type
from fairlead.pipelines.modules import Library
from fairlead.pipelines.parsing import parse
from fairlead.pipelines.problems import TEXT, CheckError, Problems, Severity, Source, near
from fairlead.pipelines.processes import Processes
from fairlead.pipelines.program import Checked, Process, Protocol
from fairlead.pipelines.protocols import check_session
from fairlead.pipelines.types import (
    JSON,
    PRIMITIVES,
    Alias,
    Array,
    Field,
    Product,
    Record,
    Sum,
    Type,
    disjoint,
    shown,
)

_SHALLOW: Final = f"Chains of up to {DEEPEST} names are followed."


class ActionTypes(NamedTuple):
    """What an action takes and gives, as types; `output` is None where it does not say."""

    input: Type
    output: Type | None
    #: What its schema asks beyond types.
    beyond: tuple[str, ...] = ()
    #: Whether it can be tried again without doing things twice.
    idempotent: bool = False


#: The action of a name, or None; and all names, for near misses.
Actions = Callable[[str], ActionTypes | None]


@dataclass(slots=True)
class Options:
    """What a check depends on besides the text."""

    actions: Actions | None = None
    #: For near misses.
    action_names: Callable[[], Sequence[str]] | Sequence[str] = ()
    search_path: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    #: For agents that name no provider or model of their own.
    provider: str | None = None
    model: str | None = None
    require_main: bool = True
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)


@dataclass(eq=False, slots=True)
class Module:
    """One file: its names and what they stand for."""

    source: Source
    syntax: tree.Program
    types: dict[str, Alias] = field(default_factory=dict)
    protocols: dict[str, Protocol] = field(default_factory=dict)
    bindings: dict[str, tree.Binding] = field(default_factory=dict)
    processes: dict[str, Process] = field(default_factory=dict)
    uses: dict[str, Module] = field(default_factory=dict)
    #: Names that could not be read, or modules that could not be had: nothing more is told of them.
    broken: set[str] = field(default_factory=set)


class Side(NamedTuple):
    """One side of a signature."""

    types: tuple[Type, ...]
    streams: bool


class Checker:
    """One check of one program."""

    def __init__(self, options: Options, problems: Problems) -> None:
        self.options = options
        self.problems = problems
        self._library = Library(options.search_path, options.environ)
        self._modules: dict[str, Module] = {}
        self._loading: list[str] = []
        self._sums: list[tuple[Module, tree.Sum, Sum]] = []
        self.processes = Processes(self)

    def check(self, source: Source) -> Checked:
        """Check a program and everything that it uses."""
        try:
            module = self._module(source)
            checked = self._finished(module, {})
            for each in self._modules.values():
                self._followed(each)
        except RecursionError:
            message = "Types or plumbs lead through too many others to be followed."
            self.problems.add(source, 0, "recursive", message, _SHALLOW)
            return Checked(source, {}, {}, {}, [*self.problems.errors])
        if self.options.require_main:
            self._main(module)
        checked.problems = [*self.problems.errors, *self.problems.warnings]
        return checked

    def tell(
        self, module: Module, at: int, rule: str, message: str, hint: str = "", severity: Severity = "error"
    ) -> None:
        """Note a problem in a module."""
        self.problems.add(module.source, at, rule, message, hint, severity)

    def _finished(self, module: Module, done: dict[int, Checked]) -> Checked:
        if id(module) in done:
            return done[id(module)]
        made = Checked(module.source, module.types, module.processes, module.protocols, [])
        done[id(module)] = made
        made.modules = {name: self._finished(each, done) for name, each in module.uses.items()}
        return made

    def _module(self, source: Source) -> Module:
        """Read a module and what it uses, then check it."""
        key = os.path.realpath(source.file)
        module = Module(source, parse(source, self.problems))
        module.broken = set(module.syntax.broken)
        self._modules[key] = module
        self._loading.append(key)
        self._declare(module)
        self._loading.pop()
        self._define_types(module)
        for name in module.bindings:
            self.processes.get(module, name)
        return module

    def _declare(self, module: Module) -> None:
        for each in module.syntax.declarations:
            match each:
                case tree.Use():
                    self._use(module, each)
                case tree.TypeDeclaration(name=name, name_at=at):
                    if self._fresh(module, name, at, (module.types, module.protocols), "type"):
                        module.types[name] = Alias(name)
                        if name in PRIMITIVES:
                            self.tell(module, at, "duplicate", f"`{name}` is a primitive type.")
                case tree.Protocol(name=name, name_at=at):
                    if self._fresh(module, name, at, (module.types, module.protocols), "protocol"):
                        module.protocols[name] = Protocol(name, each.session, module, module.source)
                case tree.Binding(name=name, name_at=at):
                    if self._fresh(module, name, at, (module.bindings,), "binding"):
                        module.bindings[name] = each

    def _fresh(
        self, module: Module, name: str, at: int, taken: tuple[Mapping[str, Any], ...], what: str
    ) -> bool:
        if not any(name in each for each in taken):
            return True
        self.tell(
            module, at, "duplicate", f"There is a {what} {name!r} already.", "Give one of them another name."
        )
        return False

    # Modules

    def _use(self, module: Module, use: tree.Use) -> None:
        stem = os.path.basename(use.name).removesuffix(".plumb")
        name = stem[:1].upper() + stem[1:]
        folder = module.source.folder
        found = self._library.find(use.name, folder, path=use.path)
        if found is None:
            hint = near(stem, self._library.names()) or f"Modules are looked for in {self._library.places()}."
            if use.path and folder is None:
                hint = "This text is in no file, so nothing is beside it: write `use name`."
            self.tell(module, use.at, "unknown", f"There is no module {use.name!r}.", hint)
            module.broken.add(name)
            return
        key = os.path.realpath(found.file)
        if key in self._loading:
            circle = [os.path.basename(each) for each in (*self._loading[self._loading.index(key) :], key)]
            self.tell(module, use.at, "cycle", f"Modules use each other in a circle: {' -> '.join(circle)}.",
                      "Move what both need to a third module.")  # fmt: skip
            module.broken.add(name)
            return
        if name in module.uses:
            self.tell(module, use.at, "duplicate", f"The module {name!r} is used twice.", "Once is enough.")
            return
        module.uses[name] = self._modules[key] if key in self._modules else self._module(found)

    def scope(self, module: Module, name: str) -> tuple[Module, str] | None:
        """The module that a qualified name leads to, and the rest of the name; None where there is no such module."""
        head, dot, rest = name.partition(".")
        if not dot:
            return module, name
        inner = module.uses.get(head)
        return None if inner is None else self.scope(inner, rest)

    def _followed(self, module: Module) -> None:
        """Tell of what leads too deep into others: it could be checked, one by one, and not be run."""
        types: dict[int, int] = {}
        for declared in module.syntax.declarations:
            alias = module.types.get(declared.name) if isinstance(declared, tree.TypeDeclaration) else None
            if alias is not None and depth_of_type(alias, types) > DEEPEST:
                message = f"The type {alias.name!r} leads through more than {DEEPEST} others."
                self.tell(module, declared.at, "recursive", message, _SHALLOW)
                break
        processes: dict[int, int] = {}
        for process in module.processes.values():
            if depth_of_process(process, processes) > DEEPEST:
                message = f"The process {process.name!r} leads through more than {DEEPEST} others."
                self.tell(module, process.at, "recursive", message, _SHALLOW)
                break

    # Types

    def _define_types(self, module: Module) -> None:
        for each in module.syntax.declarations:
            alias = module.types.get(each.name) if isinstance(each, tree.TypeDeclaration) else None
            if isinstance(each, tree.TypeDeclaration) and alias is not None and alias.target is None:
                alias.target = self.data_type(module, each.type)
        for each in module.syntax.declarations:
            if isinstance(each, tree.TypeDeclaration) and each.name in module.types:
                self._guarded(module, each)
        self._check_sums()
        for protocol in module.protocols.values():
            check_session(self, module, protocol)

    def _guarded(self, module: Module, declared: tree.TypeDeclaration) -> None:
        alias = module.types[declared.name]
        if alias.target is not None and _unguarded(alias.target, alias, set()):
            hint = "A type may be part of itself inside a record or an array."
            self.tell(
                module,
                declared.name_at,
                "recursive",
                f"The type {declared.name!r} is defined as itself.",
                hint,
            )
            alias.target = JSON

    def _check_sums(self) -> None:
        sums, self._sums = self._sums, []
        for module, node, made in sums:
            several = made.variants
            for index, one in enumerate(several):
                other = next((each for each in several[index + 1 :] if not disjoint(one, each)), None)
                if other is not None:
                    self.tell(
                        module, node.at, "overlap",
                        f"{shown(one)} and {shown(other)} can hold the same value, so a sum cannot tell them apart.",
                        "Give one of them a required field that the other does not have, or join them.",
                    )  # fmt: skip
                    break

    def data_type(self, module: Module, node: tree.TypeNode) -> Type:
        """The type that a node describes, where data is described."""
        match node:
            case tree.Primitive(name=name):
                return PRIMITIVES[name]
            case tree.Named():
                return self._named(module, node)
            case tree.Array(item=item):
                return Array(self.data_type(module, item))
            case tree.Product(items=items):
                return Product(tuple(self.data_type(module, each) for each in items))
            case tree.Sum(variants=several):
                made = Sum(tuple(self.data_type(module, each) for each in several))
                self._sums.append((module, node, made))
                return made
            case tree.Record(fields=fields):
                return self._record(module, fields)
            case tree.Stream(at=at, item=item):
                hint = "Streams are what signatures are made of: `let name : !A -> !B`."
                self.tell(module, at, "stream", "`!` stands where data is described.", hint)
                return self.data_type(module, item)
        raise AssertionError(node)

    def _record(self, module: Module, fields: tuple[tree.RecordField, ...]) -> Record:
        made: dict[str, Field] = {}
        for each in fields:
            if each.name in made:
                self.tell(module, each.at, "duplicate", f"There is a field {each.name!r} already.")
                continue
            made[each.name] = Field(each.name, self.data_type(module, each.type), each.optional)
        return Record(tuple(made.values()))

    def _named(self, module: Module, node: tree.Named) -> Type:
        scope = self.scope(module, node.name)
        if scope is None:
            head = node.name.partition(".")[0]
            if head not in module.broken:
                hint = near(head, module.uses) or f"Add `use {head.lower()}`."
                self.tell(module, node.at, "unknown", f"There is no module {head!r} here.", hint)
            return JSON
        home, name = scope
        if name in home.types:
            return home.types[name]
        if name not in home.broken:
            known = [*home.types, *PRIMITIVES]
            if name in home.protocols:
                message, hint = f"{name!r} is a protocol, not a type.", "Only a channel can have a protocol."
            else:
                message, hint = (
                    f"There is no type {node.name!r}.",
                    near(name, known) or f"Declare it: `type {name} = ...`.",
                )
            self.tell(module, node.at, "unknown", message, hint)
        return JSON

    def sides(self, module: Module, signature: tree.Signature) -> tuple[Side, Side]:
        """What goes in and comes out by a signature."""
        before = Side((), True) if signature.before is None else self.side(module, signature.before)
        after = self.side(module, signature.after)
        self._check_sums()
        return before, after

    def side(self, module: Module, node: tree.TypeNode) -> Side:
        """The ports of one side: `!A`, `(!A, !B)`, or one bare value."""
        if isinstance(node, tree.Stream):
            made = Side((self.data_type(module, node.item),), True)
        elif isinstance(node, tree.Product) and any(isinstance(each, tree.Stream) for each in node.items):
            items = []
            for each in node.items:
                if not isinstance(each, tree.Stream):
                    hint = "Write `!` before each of them, or `!(A, B)` for a stream of pairs."
                    self.tell(module, each.at, "stream", "A side is all streams or none.", hint)
                items.append(self.data_type(module, each.item if isinstance(each, tree.Stream) else each))
            made = Side(tuple(items), True)
        else:
            made = Side((self.data_type(module, node),), False)
        self._check_sums()
        return made

    # The whole

    def _main(self, module: Module) -> None:
        end = len(module.source.text)
        main = module.processes.get("main")
        if "main" in module.broken:
            return
        if main is None:
            if "main" not in module.bindings:
                hint = "Add `let main : !A -> !B = plumb(input, output) { input ; ... ; output }`."
                self.tell(module, end, "main", "There is no `main`.", hint)
            return
        if main.bare or len(main.inputs) > 1 or len(main.outputs) != 1:
            hint = "It has one stream in and one out: `let main : !A -> !B = ...`."
            self.tell(module, main.at, "main", "`main` is not a stream process.", hint)


def _unguarded(type: Type, alias: Alias, seen: set[int]) -> bool:
    if type is alias:
        return True
    if isinstance(type, Alias):
        if id(type) in seen or type.target is None:
            return False
        seen.add(id(type))
        return _unguarded(type.target, alias, seen)
    if isinstance(type, Sum):
        return any(_unguarded(each, alias, seen) for each in type.variants)
    if isinstance(type, Product):
        return any(_unguarded(each, alias, seen) for each in type.items)
    return False


def check_text(text: str, file: str = TEXT, options: Options | None = None) -> Checked:
    """Check a program that is given as text."""
    return Checker(options or Options(), Problems()).check(Source(file, text))


def check_file(path: str | os.PathLike[str], options: Options | None = None) -> Checked:
    """Check a program in a file. Raises CheckError when the file cannot be read."""
    from fairlead.pipelines.modules import read

    return Checker(options or Options(), Problems()).check(read(os.fspath(path)))


def require(checked: Checked, kind: Any = None) -> Checked:
    """The program, if nothing is wrong with it. Raises CheckError."""
    if checked.errors:
        raise CheckError(checked.errors, *([kind] if kind else []))
    return checked
