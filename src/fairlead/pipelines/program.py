"""A checked program: its processes with their types, and the graphs of its plumbs. This is what runs and is drawn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from fairlead.failures.runtime import ConfigError
from fairlead.pipelines import tree
from fairlead.pipelines.problems import Problem, Source
from fairlead.pipelines.types import BOOL, JSON, STRING, UNIT, Alias, Field, Record, Type, shown

#: What an agent is told on the side, and what an operator says.
CONTROL: Final = JSON
REPLY: Final = Record((Field("id", STRING), Field("approve", BOOL), Field("reason", STRING, optional=True)))
REQUEST: Final = Record(
    (Field("id", STRING), Field("tool", STRING), Field("input", JSON), Field("agent", STRING))
)


@dataclass(frozen=True, slots=True)
class Port:
    """Where messages of one type go in or come out."""

    name: str
    type: Type


SIDE_INPUTS: Final = {
    "agent": (Port("ctrl_in", CONTROL), Port("operator_in", REPLY)),
}
SIDE_OUTPUTS: Final = {
    "agent": (Port("ctrl_out", JSON), Port("telemetry", JSON), Port("operator_out", REQUEST)),
    "action": (Port("telemetry", JSON),),
    "exec": (Port("telemetry", JSON),),
}


@dataclass(eq=False, slots=True)
class Process:
    """A process with its ports. The first ports are those that wiring means when it names none."""

    name: str
    kind: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    source: Source
    at: int
    bare: bool = False
    #: Side ports, which are addressed with `@`.
    side_inputs: tuple[Port, ...] = ()
    side_outputs: tuple[Port, ...] = ()
    #: The settings as plain values; references are processes.
    settings: dict[str, Any] = field(default_factory=dict)
    #: Of map and filter: Python code over `v`. Of project: the index.
    code: str | int | None = None
    #: Of a plumb: its inside.
    graph: Graph | None = None
    #: Of an action: its name. Of a tool or another name: the process behind it.
    action: str | None = None
    behind: Process | None = None
    #: Whether it gives exactly one output for each input.
    total: bool = True
    #: Of a filter: whether what is not of its type is let go in silence.
    selective: bool = False

    @property
    def line(self) -> int:
        """Where it is declared."""
        return self.source.place(self.at)[0]

    def within(self) -> Iterator[Process]:
        """The processes that it is made of, or has as tools."""
        if self.behind is not None:
            yield self.behind
        yield from (tool for _, tool in self.settings.get("tools", ()))
        if self.graph is not None:
            yield from (node.process for node in self.graph.nodes if node.process is not None)

    def port_in(self, name: str) -> Port | None:
        """The input of a name, or None."""
        return next((each for each in (*self.inputs, *self.side_inputs) if each.name == name), None)

    def port_out(self, name: str) -> Port | None:
        """The output of a name, or None."""
        return next((each for each in (*self.outputs, *self.side_outputs) if each.name == name), None)

    def signature(self) -> str:
        """The signature as it is written."""
        return f"{side_shown(self.inputs, self.bare)} -> {side_shown(self.outputs, self.bare)}".strip()

    def input_type(self) -> Type:
        """The type of the first input; `unit` where there is none."""
        return self.inputs[0].type if self.inputs else UNIT

    def output_type(self) -> Type:
        """The type of the first output."""
        return self.outputs[0].type if self.outputs else UNIT


def side_shown(ports: tuple[Port, ...], bare: bool) -> str:
    """One side of a signature as it is written."""
    mark = "" if bare else "!"
    parts = [f"{mark}{shown(each.type, inside=not bare)}" for each in ports]
    return parts[0] if len(parts) == 1 else f"({', '.join(parts)})" if parts else ""


@dataclass(eq=False, slots=True)
class Node:
    """One place of a graph. `input`, `output`, `channel` and `session` have no process."""

    number: int
    kind: str
    label: str
    at: int
    process: Process | None = None
    #: Of `input`, `output` and `channel`: the type of the messages.
    type: Type | None = None
    #: Of a node inside `budget { }`: the number of that block.
    budget: int | None = None
    session: Any = None


@dataclass(frozen=True, slots=True)
class Edge:
    """A wire: from an output of one node to an input of another."""

    source: Node
    out: str
    target: Node
    into: str
    type: Type
    at: int


@dataclass(eq=False, slots=True)
class Graph:
    """The inside of a plumb."""

    nodes: list[Node] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    budgets: list[dict[str, Any]] = field(default_factory=list)

    def of(self, kind: str) -> list[Node]:
        """The nodes of a kind."""
        return [each for each in self.nodes if each.kind == kind]

    def into(self, node: Node) -> Iterator[Edge]:
        """The wires that end at a node."""
        return (each for each in self.edges if each.target is node)


@dataclass(eq=False, slots=True)
class Protocol:
    """A session by its name."""

    name: str
    session: tree.Session
    module: Any
    source: Source


@dataclass(eq=False, slots=True)
class Checked:
    """A program that was checked: everything in it, and what is wrong with it."""

    source: Source
    types: dict[str, Alias]
    processes: dict[str, Process]
    protocols: dict[str, Protocol]
    problems: list[Problem]
    modules: dict[str, Checked] = field(default_factory=dict)

    @property
    def errors(self) -> list[Problem]:
        """What keeps it from running."""
        return [each for each in self.problems if each.severity == "error"]

    @property
    def warnings(self) -> list[Problem]:
        """What does not."""
        return [each for each in self.problems if each.severity == "warning"]

    @property
    def main(self) -> Process | None:
        """The process that runs."""
        return self.processes.get("main")

    def texts(self) -> dict[str, str]:
        """All that was read for it, by file: its own text, and those of the modules that it uses."""
        return {each.source.file: each.source.text for each in self._whole()}

    def agents(self) -> list[Process]:
        """Its agents and those of its modules, wherever they are written, in order."""
        seen: dict[int, Process] = {}
        todo = [process for each in self._whole() for process in each.processes.values()]
        while todo:
            process = todo.pop()
            if id(process) not in seen:
                seen[id(process)] = process
                todo.extend(process.within())
        agents = [each for each in seen.values() if each.kind == "agent"]
        return sorted(agents, key=lambda each: (each.source.file, each.at))

    def _whole(self) -> list[Checked]:
        """It, and each of the modules that it uses, once: many ways may lead to one."""
        found: dict[str, Checked] = {}
        todo = [self]
        while todo:
            each = todo.pop()
            if each.source.file not in found:
                found[each.source.file] = each
                todo.extend(each.modules.values())
        return list(found.values())

    def to_dict(self) -> dict[str, Any]:
        """The program as data: bindings with their types, types, protocols, and problems."""
        return {
            "version": 1,
            "ok": not self.errors,
            "file": self.source.file,
            "bindings": [_told(name, each) for name, each in self.processes.items()],
            "types": [
                {"name": name, "type": shown(each.target or JSON, limit=10_000)}
                for name, each in self.types.items()
            ],
            "protocols": [{"name": name} for name in self.protocols],
            "modules": sorted(self.modules),
            "problems": [{**_wire(each), **each.to_dict()} for each in self.problems],
        }


def _wire(problem: Problem) -> dict[str, Any]:
    """An error as every wire of pipelines tells it; a warning is none."""
    if problem.severity != "error":
        return {}
    return {"error": ConfigError.code, "category": "config", "detail": problem.message}


def _told(name: str, process: Process) -> dict[str, Any]:
    told: dict[str, Any] = {
        "name": name,
        "input": [shown(each.type, limit=10_000) for each in process.inputs],
        "output": [shown(each.type, limit=10_000) for each in process.outputs],
        "input_type": side_shown(process.inputs, process.bare),
        "output_type": side_shown(process.outputs, process.bare),
        "impl": process.kind,
        "attrs": {key: _plain(value) for key, value in process.settings.items()},
        "total": process.total,
        "line": process.line,
    }
    return {**told, **({"action": process.action} if process.action else {})}


def _plain(value: Any) -> Any:
    if isinstance(value, Process):
        return value.name
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return value
