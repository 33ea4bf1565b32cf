"""The inside of a plumb: from its statements to a graph in which every wire fits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from fairlead.pipelines import settings as known
from fairlead.pipelines import tree
from fairlead.pipelines.expressions import IllTyped, Typed, typed
from fairlead.pipelines.inlining import inline
from fairlead.pipelines.problems import near
from fairlead.pipelines.processes import Scope, ports
from fairlead.pipelines.program import Edge, Graph, Node, Port, Process
from fairlead.pipelines.protocols import PEER, Session, session_of
from fairlead.pipelines.totality import total
from fairlead.pipelines.types import Type, assignable, disjoint, reason, shown

if TYPE_CHECKING:
    from fairlead.pipelines.checking import Checker, Module

#: Processes written in place that take one stream.
_SINGLE: Final = ("map", "filter", "project", "action")


class End(NamedTuple):
    """An output of a node, with the type of what comes out."""

    node: Node
    port: str
    type: Type


@dataclass(slots=True)
class _Parameter:
    node: Node
    used: bool = False


class Body:
    """One plumb while it is checked."""

    def __init__(self, checker: Checker, module: Module, scope: Scope) -> None:
        self._checker = checker
        self._module = module
        self._scope: dict[str, Process] = dict(scope)
        self._graph = Graph()
        self._parameters: dict[str, _Parameter] = {}
        self._channels: dict[str, Node] = {}
        self._sessions: dict[str, Session] = {}
        self._named: dict[str, Node] = {}
        #: Local names that could not be made: nothing more is told of them.
        self._broken: set[str] = set()
        self._budget: int | None = None

    def plumb(self, process: Process, impl: tree.Plumb) -> Process | None:
        """Check the statements, and give the process its graph."""
        if not self._heads(process, impl):
            return None
        self._declare(impl.statements)
        self._statements(impl.statements)
        self._unused(impl)
        for session in self._sessions.values():
            session.finish(self._checker, self._module)
        process.graph = self._graph
        process.total = len(process.inputs) == len(process.outputs) == 1 and total(self._graph)
        return process

    def _tell(self, at: int, rule: str, message: str, hint: str = "", *, warning: bool = False) -> None:
        self._checker.tell(self._module, at, rule, message, hint, "warning" if warning else "error")

    def _heads(self, process: Process, impl: tree.Plumb) -> bool:
        wanted = [
            *(("input", each) for each in process.inputs),
            *(("output", each) for each in process.outputs),
        ]
        if len(impl.parameters) != len(wanted):
            shape = ", ".join(port.name for _, port in wanted)
            message = (
                f"The plumb has {len(impl.parameters)} ports, and {process.signature()} has {len(wanted)}."
            )
            self._tell(impl.at, "arity", message, f"Write `plumb({shape})`.")
            return False
        renamed = []
        for parameter, (kind, port) in zip(impl.parameters, wanted, strict=True):
            if parameter.name in self._parameters:
                self._tell(parameter.at, "duplicate", f"There is a port {parameter.name!r} already.")
                return False
            node = self._node(kind, parameter.name, parameter.at)
            node.type = port.type
            self._parameters[parameter.name] = _Parameter(node)
            renamed.append(Port(parameter.name, port.type))
        process.inputs = tuple(renamed[: len(process.inputs)])
        process.outputs = tuple(renamed[len(process.inputs) :])
        return True

    def _node(self, kind: str, label: str, at: int, process: Process | None = None) -> Node:
        node = Node(len(self._graph.nodes), kind, label, at, process, budget=self._budget)
        self._graph.nodes.append(node)
        return node

    # Declarations

    def _declare(self, statements: tuple[tree.Statement, ...]) -> None:
        for each in statements:
            if isinstance(each, tree.Budget):
                self._declare(each.statements)
            elif isinstance(each, tree.Binding):
                self._binding(each)

    def _binding(self, binding: tree.Binding) -> None:
        name = binding.name
        if (
            name in self._parameters
            or name in self._channels
            or name in self._broken
            or name in self._sessions
        ):
            self._tell(binding.name_at, "duplicate", f"There is a {name!r} in this plumb already.")
            return
        if isinstance(binding.impl, tree.Channel):
            self._channel(binding)
            return
        made = self._checker.processes.make(self._module, binding, self._scope)
        if made is None:
            self._broken.add(name)
        else:
            self._scope[name] = made

    def _channel(self, binding: tree.Binding) -> None:
        signature, name = binding.signature, binding.name
        node = signature.after
        if not signature.arrow and isinstance(node, tree.Named):
            place = self._checker.scope(self._module, node.name)
            protocol = place[0].protocols.get(place[1]) if place is not None else None
            if protocol is not None:
                made = session_of(self._checker, self._module, protocol, name, binding.name_at)
                self._sessions[name] = made
                place_ = self._node("session", name, binding.name_at)
                place_.session = made
                self._channels[name] = place_
                return
        side = None if signature.arrow else self._checker.side(self._module, node)
        if side is None or not side.streams or len(side.types) != 1:
            self._tell(
                signature.at,
                "signature",
                "A channel has the type of one stream.",
                "Write `let c : !T = channel`.",
            )
            self._broken.add(name)
            return
        channel = self._node("channel", name, binding.name_at)
        channel.type = side.types[0]
        self._channels[name] = channel

    # Statements

    def _statements(self, statements: tuple[tree.Statement, ...]) -> None:
        for each in statements:
            match each:
                case tree.Chain():
                    self._wiring(each)
                case tree.Spawn():
                    self._spawn(each)
                case tree.Budget():
                    self._budgeted(each)

    def _budgeted(self, statement: tree.Budget) -> None:
        read = known.read(
            "budget", statement.config, lambda at, message, hint: self._tell(at, "config", message, hint)
        )
        outer = self._budget
        self._graph.budgets.append(
            {key: known.plain(value) for key, value in read.items()} | {"outer": outer}
        )
        self._budget = len(self._graph.budgets) - 1
        self._statements(statement.statements)
        self._budget = outer

    def _wiring(self, chain: tree.Chain) -> None:
        if len(chain.elements) < 2:
            self._tell(chain.at, "syntax", "A wiring has at least two elements.", "Write `a ; b`.")
            self._mentioned(chain)
        elif self._chain(chain, None) is None:
            self._mentioned(chain)

    def _mentioned(self, chain: tree.Chain) -> None:
        """What a broken chain names counts as used, so that one mistake is told once."""
        for element in chain.elements:
            if isinstance(element.atom, tree.Tensor):
                for each in element.atom.chains:
                    self._mentioned(each)
            elif isinstance(element.atom.what, str) and element.atom.what in self._parameters:
                self._parameters[element.atom.what].used = True

    def _chain(self, chain: tree.Chain, given: list[End] | None) -> list[End] | None:
        """Follow a chain; what comes out of its last element, or None where it is broken."""
        ends = given
        for element in chain.elements:
            ends = self._element(element, ends)
            if ends is None:
                return None
        return ends

    def _element(self, element: tree.Element, given: list[End] | None) -> list[End] | None:
        if given is not None and not given:
            hint = "Only the last element of a chain may be one from which nothing comes."
            self._tell(element.at, "mismatch", "Nothing comes out of the element before this one.", hint)
            return None
        atom = element.atom
        if isinstance(atom, tree.Tensor):
            ends = self._tensor(atom, given)
        elif isinstance(atom.what, str):
            ends = self._name(atom, atom.what, given)
        else:
            ends = self._inline(atom, atom.what, given)
        for step in element.steps:
            if ends is None:
                return None
            ends = self._step(step, ends)
        return ends

    def _step(self, step: tree.Step, ends: list[End]) -> list[End] | None:
        if len(ends) != 1:
            self._tell(step.at, "arity", f"A field is taken from one stream, and here are {len(ends)}.")
            return None
        variable = tree.Variable(step.at, "value")
        node: tree.Expression
        if isinstance(step.name, int):
            node = tree.Component(step.at, variable, step.name, 2)
        else:
            node = tree.Access(step.at, variable, step.name, 2)
        try:
            made: Typed = typed(node, ends[0].type)
        except IllTyped as wrong:
            self._tell(wrong.at, wrong.rule, wrong.message, wrong.hint)
            return None
        process = Process(
            f".{step.name}", "map", ports((ends[0].type,), "input"), ports((made.type,), "output"),
            self._module.source, step.at, code=made.code,
        )  # fmt: skip
        place = self._node("map", f".{step.name}", step.at, process)
        self._join(ends, place, process.inputs, step.at, process)
        return [End(place, "output", made.type)]

    def _tensor(self, tensor: tree.Tensor, given: list[End] | None) -> list[End] | None:
        parts: list[list[End] | None] = [None] * len(tensor.chains)
        if given is not None:
            needs = [self._needs(each.elements[0]) for each in tensor.chains]
            if len(given) == 1:
                parts = [list(given) for _ in tensor.chains]
            elif sum(needs) == len(given):
                at = 0
                for index, need in enumerate(needs):
                    parts[index] = given[at : at + need]
                    at += need
            else:
                message = f"{len(given)} streams go into {len(needs)} processes that take {sum(needs)}."
                self._tell(
                    tensor.at, "arity", message, "One stream is copied to all; several go one to each."
                )
                return None
        ends: list[End] | None = []
        for chain, part in zip(tensor.chains, parts, strict=True):
            made = self._chain(chain, part)
            ends = None if made is None or ends is None else [*ends, *made]
        return ends

    def _needs(self, element: tree.Element) -> int:
        """How many streams an element takes."""
        atom = element.atom
        if isinstance(atom, tree.Tensor):
            return sum(self._needs(each.elements[0]) for each in atom.chains)
        if isinstance(atom.what, str) and atom.port is None and atom.what not in self._channels:
            if atom.what in self._parameters or atom.what in self._broken:
                return 1
            found = self._process(atom.what, atom.at)
            return len(found.inputs) if found is not None else 1
        return 1

    def _process(self, name: str, at: int) -> Process | None:
        if name in self._broken:
            return None
        local = [*self._parameters, *self._channels]
        if "." not in name and name not in self._scope and name not in self._module.bindings:
            close = near(name, [*local, *self._scope, *self._module.bindings])
            if close and name not in self._module.broken:
                self._tell(at, "unknown", f"There is no process {name!r}.", close)
                return None
        return self._checker.processes.find(self._module, name, at, self._scope)

    # Elements

    def _name(self, atom: tree.Atom, name: str, given: list[End] | None) -> list[End] | None:
        if name in self._sessions:
            return self._session(atom, self._sessions[name], given)
        if name in self._parameters and atom.port is None:
            return self._parameter(atom, self._parameters[name], given)
        if name in self._channels:
            return self._through(atom, self._channels[name], given)
        if name in self._parameters:
            self._tell(atom.port_at, "unknown", f"{name!r} is a port of this plumb and has none of its own.")
            return None
        process = self._process(name, atom.at)
        if process is None:
            return None
        if process.bare:
            self._tell(
                atom.at, "signature", f"{name!r} is a tool: it is called, and no stream flows through it.",
                "Tools are named in an agent's `tools`.",
            )  # fmt: skip
            return None
        node = self._named.get(name)
        if node is None:
            node = self._named[name] = self._node(process.kind, name, atom.at, process)
        if atom.port is not None:
            return self._side_port(atom, node, process, given)
        if given is not None and not self._join(given, node, process.inputs, atom.at, process):
            return None
        return [End(node, each.name, each.type) for each in process.outputs]

    def _parameter(self, atom: tree.Atom, parameter: _Parameter, given: list[End] | None) -> list[End] | None:
        node = parameter.node
        assert node.type is not None
        parameter.used = True
        if node.kind == "input":
            if given is not None:
                self._tell(
                    atom.at,
                    "mismatch",
                    f"{node.label!r} is an input of this plumb: nothing is sent to it here.",
                )
                return None
            return [End(node, "output", node.type)]
        if given is None:
            self._tell(
                atom.at, "mismatch", f"{node.label!r} is an output of this plumb: nothing comes from it here."
            )
            return None
        return [] if self._join(given, node, (Port("input", node.type),), atom.at, None) else None

    def _through(self, atom: tree.Atom, node: Node, given: list[End] | None) -> list[End] | None:
        assert node.type is not None
        if atom.port is not None:
            self._tell(atom.port_at, "unknown", f"The channel {node.label!r} has no side ports.")
            return None
        if given is not None and not self._join(given, node, (Port("input", node.type),), atom.at, None):
            return None
        return [End(node, "output", node.type)]

    def _session(self, atom: tree.Atom, session: Session, given: list[End] | None) -> list[End] | None:
        node = self._channels[session.name]
        step = session.use(self._checker, self._module, atom.port, atom.at, given is not None)
        if step is None:
            return None
        mine = not (atom.port or "").startswith(PEER)
        if given is None:
            return [End(node, f"{'i' if mine else 'p'}{step.number}", step.type)]
        port = Port(f"{'i' if mine else 'p'}{step.number}", step.type)
        return [] if self._join(given, node, (port,), atom.at, None) else None

    def _side_port(
        self, atom: tree.Atom, node: Node, process: Process, given: list[End] | None
    ) -> list[End] | None:
        assert atom.port is not None
        port = process.port_out(atom.port) if given is None else process.port_in(atom.port)
        if port is None:
            found = (
                (*process.outputs, *process.side_outputs)
                if given is None
                else (*process.inputs, *process.side_inputs)
            )
            names = [each.name for each in found]
            way = "comes out" if given is None else "goes in"
            hint = near(atom.port, names) or (
                f"There are: {', '.join('@' + each for each in names)}." if names else ""
            )
            self._tell(
                atom.port_at,
                "unknown",
                f"{process.name!r} has no port '@{atom.port}' where something {way}.",
                hint,
            )
            return None
        wanted = None
        if atom.port_type is not None:
            wanted = self._checker.side(self._module, atom.port_type).types[0]
            if disjoint(wanted, port.type):
                message = f"'@{port.name}' is of {shown(port.type)}, which has nothing in common with {shown(wanted)}."
                self._tell(atom.port_at, "mismatch", message)
                return None
        if given is not None:
            into = Port(
                port.name, wanted if wanted is not None and assignable(wanted, port.type) else port.type
            )
            return [] if self._join(given, node, (into,), atom.at, None) else None
        end = End(node, port.name, port.type)
        return [end if wanted is None else self._selected(end, wanted, atom.port_at)]

    def _selected(self, end: End, wanted: Type, at: int) -> End:
        """What of an output is of a type."""
        process = Process(
            f"({shown(wanted)})", "filter", ports((wanted,), "input"), ports((wanted,), "output"), self._module.source,
            at, code="True", total=False, selective=True,
        )  # fmt: skip
        node = self._node("filter", process.name, at, process)
        self._join([end], node, process.inputs, at, process)
        return End(node, "output", wanted)

    def _inline(self, atom: tree.Atom, impl: tree.Impl, given: list[End] | None) -> list[End] | None:
        if atom.port is not None:
            self._tell(
                atom.port_at,
                "unknown",
                "A process that is written in place has no side ports.",
                "Give it a name.",
            )
            return None
        if given is None and impl.kind != "empty":
            self._tell(
                atom.at, "arity", f"`{impl.kind}` stands first, and nothing goes into it.",
                "Begin the chain with where the messages come from.",
            )  # fmt: skip
            return None
        given = given or []
        if impl.kind in _SINGLE and len(given) != 1:
            hint = "Put `merge` or `barrier` before it."
            self._tell(atom.at, "arity", f"`{impl.kind}` takes one stream, and here are {len(given)}.", hint)
            return None
        if impl.kind == "empty" and given:
            self._tell(atom.at, "arity", "Nothing goes into `empty`.", "It stands first in a chain.")
            return None
        process = inline(self._checker.processes, self._module, impl, tuple(each.type for each in given))
        if process is None:
            return None
        node = self._node(process.kind, process.name, atom.at, process)
        if given and not self._join(given, node, process.inputs, atom.at, process):
            return None
        if impl.kind == "discard":
            return [End(node, "output", process.outputs[0].type)]
        return [End(node, each.name, each.type) for each in process.outputs]

    # Wires

    def _join(
        self, given: list[End], node: Node, into: tuple[Port, ...], at: int, process: Process | None
    ) -> bool:
        if len(into) == len(given):
            pairs = list(zip(given, into, strict=True))
        elif len(given) == 1 and into:
            pairs = [(given[0], each) for each in into]
        elif process is not None and process.kind == "merge" and len(into) == 1:
            pairs = [(each, into[0]) for each in given]
        else:
            hint = "Put `merge` between to mix them, or `barrier` to pair them." if len(into) == 1 else ""
            self._tell(
                at, "arity", f"{len(given)} streams go into {node.label!r}, which takes {len(into)}.", hint
            )
            return False
        joined = [self._wire(end, node, port, at, process) for end, port in pairs]
        return all(joined)

    def _wire(self, end: End, node: Node, port: Port, at: int, process: Process | None) -> bool:
        selective = process is not None and process.selective
        fits = not disjoint(end.type, port.type) if selective else assignable(end.type, port.type)
        if not fits:
            why = "no message would pass" if selective else reason(end.type, port.type)
            message = (
                f"{end.node.label!r} gives {shown(end.type)}, and {node.label!r} takes {shown(port.type)}."
            )
            self._tell(at, "mismatch", message, f"{why[:1].upper()}{why[1:]}.")
            return False
        self._graph.edges.append(Edge(end.node, end.port, node, port.name, end.type, at))
        return True

    def _spawn(self, spawn: tree.Spawn) -> None:
        process = self._process(spawn.name, spawn.name_at)
        if process is None:
            return
        if process.bare:
            self._tell(spawn.name_at, "signature", f"{spawn.name!r} is a tool and cannot be spawned.")
            return
        placed = (*process.inputs, *process.outputs)
        if any(each.port is None for each in spawn.arguments) and len(spawn.arguments) != len(placed):
            shape = ", ".join(each.name for each in placed)
            message = (
                f"`spawn` gives {len(spawn.arguments)} channels, and {spawn.name!r} has {len(placed)} ports."
            )
            self._tell(spawn.at, "arity", message, f"Write `spawn {spawn.name}({shape})`.")
            return
        node = self._node(process.kind, spawn.name, spawn.name_at, process)
        seen: set[str] = set()
        for index, argument in enumerate(spawn.arguments):
            name = argument.port or placed[index].name
            if name in seen:
                self._tell(argument.at, "duplicate", f"The port {name!r} is given twice.")
                continue
            seen.add(name)
            self._argument(node, process, name, argument)

    def _argument(self, node: Node, process: Process, name: str, argument: tree.Argument) -> None:
        into, out = process.port_in(name), process.port_out(name)
        if into is None and out is None:
            names = [
                each.name
                for each in (*process.inputs, *process.side_inputs, *process.outputs, *process.side_outputs)
            ]
            self._tell(
                argument.at,
                "unknown",
                f"{process.name!r} has no port {name!r}.",
                near(name, names) or f"There are {', '.join(names)}.",
            )
            return
        atom = tree.Atom(argument.at, argument.name)
        if argument.name not in self._parameters and argument.name not in self._channels:
            if argument.name not in self._broken:
                hint = (
                    near(argument.name, [*self._parameters, *self._channels])
                    or f"Declare it: `let {argument.name} : !T = channel`."
                )
                self._tell(argument.at, "unknown", f"There is no channel {argument.name!r}.", hint)
            return
        if into is not None:
            ends = self._name(atom, argument.name, None)
            if ends:
                self._join(ends, node, (into,), argument.at, process)
        elif out is not None:
            self._name(atom, argument.name, [End(node, out.name, out.type)])

    # The whole

    def _unused(self, impl: tree.Plumb) -> None:
        for name, parameter in self._parameters.items():
            node = parameter.node
            if not parameter.used:
                verb = "read" if node.kind == "input" else "written"
                hint = f"Write `{name} ; ...`." if node.kind == "input" else f"Write `... ; {name}`."
                self._tell(node.at, "unused", f"{name!r} is never {verb}.", hint)
        fed = {each.target.number for each in self._graph.edges}
        read = {each.source.number for each in self._graph.edges}
        for node in self._graph.nodes:
            if node.kind == "channel" and node.number not in fed:
                self._tell(node.at, "channel", f"Nobody writes to the channel {node.label!r}.", warning=True)
            if node.kind == "channel" and node.number not in read:
                self._tell(node.at, "channel", f"Nobody reads the channel {node.label!r}.", warning=True)
            takes = node.process is not None and node.process.inputs
            if takes and node.number not in fed and node.kind not in ("empty",):
                self._tell(node.at, "channel", f"Nothing is sent to {node.label!r}.", warning=True)
