"""From a checked program to what runs: plumbs are opened, and pure processes become code on the wires.

`map`, `filter` and `project` cost no task and no queue: all that lies between two places where something waits is one
Python function over a batch. `id`, `copy`, `merge` and channels are only ways, and cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from fairlead.failures.runtime import InternalError, ValidationError
from fairlead.pipelines.expressions import ERRORS, INPUT, NAMES, told
from fairlead.pipelines.network import Batch
from fairlead.pipelines.program import Process
from fairlead.pipelines.types import Type, assignable
from fairlead.pipelines.validating import Coder

#: Processes that only pass on what they get.
WAYS: Final = frozenset(("id", "copy", "merge", "channel", "input", "output"))
PURE: Final = frozenset(("map", "filter", "project"))
_DEEPEST: Final = 90
#: So many processes become one function at most, one after the other and all together.
_LONGEST: Final = 80
_LARGEST: Final = 400


@dataclass(eq=False, slots=True)
class Cell:
    """One place of the opened program."""

    kind: str
    name: str
    process: Process | None
    #: What leaves by each port: the cell and port it goes to, and its type on the way.
    out: dict[str, list[tuple[Cell, str, Type]]] = field(default_factory=dict)
    #: The block of a budget that it is in, by the plumb it was opened in.
    budget: Any = None
    session: Any = None
    #: Whether it has a task of its own.
    real: bool = True
    #: The node of the outermost plumb that it is a part of.
    node: int | None = None
    #: How many messages it is at work on.
    busy: int = 0


@dataclass(eq=False, slots=True)
class Unit:
    """An opened process: where its ports really are."""

    ins: dict[str, tuple[Cell, str]]
    outs: dict[str, tuple[Cell, str]]


class Opened:
    """A process with all plumbs inside it opened."""

    def __init__(self, main: Process) -> None:
        self.cells: list[Cell] = []
        self.source = self._cell("source", "input", None)
        self.sink = self._cell("sink", "output", None)
        #: Each budget block: its limits, and the one around it.
        self.budgets: list[tuple[dict[str, Any], int | None]] = []
        unit = self._open(main, main.name, None)
        self.main = main
        if main.inputs:
            self.source.out["output"] = [(*unit.ins[main.inputs[0].name], main.inputs[0].type)]
        cell, port = unit.outs[main.outputs[0].name]
        cell.out.setdefault(port, []).append((self.sink, "input", main.outputs[0].type))
        self._settle()

    def _cell(self, kind: str, name: str, process: Process | None, budget: int | None = None) -> Cell:
        cell = Cell(kind, name, process, budget=budget)
        self.cells.append(cell)
        return cell

    def _open(self, process: Process, path: str, budget: int | None) -> Unit:
        if process.kind == "rebinding" and process.behind is not None:
            unit = self._open(process.behind, path, budget)
            ins = [unit.ins[each.name] for each in process.behind.inputs]
            outs = [unit.outs[each.name] for each in process.behind.outputs]
            return Unit(
                {**unit.ins, **{port.name: each for port, each in zip(process.inputs, ins, strict=True)}},
                {**unit.outs, **{port.name: each for port, each in zip(process.outputs, outs, strict=True)}},
            )
        if process.graph is not None:
            return self._plumb(process, path, budget)
        cell = self._cell(process.kind, path, process, budget)
        into = [*process.inputs, *process.side_inputs]
        out = [*process.outputs, *process.side_outputs]
        if process.kind in WAYS or process.kind in PURE:
            return Unit(
                {each.name: (cell, "input") for each in into}, {each.name: (cell, "output") for each in out}
            )
        return Unit(
            {each.name: (cell, each.name) for each in into}, {each.name: (cell, each.name) for each in out}
        )

    def _plumb(self, process: Process, path: str, budget: int | None) -> Unit:
        graph = process.graph
        assert graph is not None
        offset = len(self.budgets)
        for each in graph.budgets:
            outer = budget if each["outer"] is None else offset + each["outer"]
            self.budgets.append(({key: value for key, value in each.items() if key != "outer"}, outer))
        units: dict[int, Unit] = {}
        for node in graph.nodes:
            inner = budget if node.budget is None else offset + node.budget
            label = node.label if path == "main" else f"{path}.{node.label}"
            first = len(self.cells)
            if node.process is not None:
                units[node.number] = self._open(node.process, label, inner)
                for inside in self.cells[first:]:
                    # Inner plumbs are opened first; the outermost has the last word.
                    inside.node = node.number
                continue
            cell = self._cell(node.kind, label, None, inner)
            cell.session, cell.node = node.session, node.number
            units[node.number] = Unit({"input": (cell, "input")}, {"output": (cell, "output")})
        for edge in graph.edges:
            source, target = units[edge.source.number], units[edge.target.number]
            cell, port = source.outs.get(edge.out) or (source.outs["output"][0], edge.out)
            into, name = target.ins.get(edge.into) or (target.ins["input"][0], edge.into)
            cell.out.setdefault(port, []).append((into, name, edge.type))
        heads = {node.label: units[node.number] for node in graph.nodes if node.kind in ("input", "output")}
        return Unit(
            {each.name: heads[each.name].ins["input"] for each in process.inputs},
            {each.name: heads[each.name].outs["output"] for each in process.outputs},
        )

    def _settle(self) -> None:
        """Say which cells have tasks: pure ones only where they would go round in a circle."""
        for cell in self.cells:
            cell.real = cell.kind not in WAYS and cell.kind not in PURE
        state: dict[int, int] = {}
        #: How much code a cell stands for, and how deep it is, on the wires that lead to it.
        weight: dict[int, tuple[int, int]] = {}
        for root in self.cells:
            stack = [(root, 0)] if id(root) not in state and not root.real else []
            while stack:
                cell, index = stack.pop()
                state[id(cell)] = 1
                targets = [each for each, _, _ in cell.out.get("output", ()) if not each.real]
                if index >= len(targets):
                    state[id(cell)] = 2
                    below = [weight.get(id(each), (0, 0)) for each in targets]
                    size, depth = (
                        1 + sum(each[0] for each in below),
                        1 + max((each[1] for each in below), default=0),
                    )
                    cell.real = cell.real or size > _LARGEST or depth > _LONGEST
                    weight[id(cell)] = (0, 0) if cell.real else (size, depth)
                    continue
                stack.append((cell, index + 1))
                target = targets[index]
                if state.get(id(target)) == 1:
                    target.real = True
                elif id(target) not in state:
                    stack.append((target, 0))


@dataclass(eq=False, slots=True)
class _Op:
    cell: Cell
    #: Whether what comes may be of another type, which a filter lets go.
    select: bool
    next: list[_Op | tuple[Cell, str]]


def paths(cell: Cell, port: str) -> list[Any]:
    """Where what leaves by a port goes: places to wait at, and pure processes on the way."""
    found: list[Any] = []
    for target, name, type in cell.out.get(port, ()):
        if target.real:
            if target.kind not in ("discard",):
                found.append((target, name))
        elif target.kind in PURE:
            assert target.process is not None
            wanted = target.process.inputs[0].type
            select = target.kind == "filter" and not assignable(type, wanted)
            found.append(_Op(target, select, paths(target, "output")))
        else:
            found.extend(paths(target, "output"))
    return found


def targets(found: list[Any]) -> list[tuple[Cell, str]]:
    """The places to wait at, each once, in order."""
    every: dict[tuple[int, str], tuple[Cell, str]] = {}
    for each in found:
        for place in targets(each.next) if isinstance(each, _Op) else [each]:
            every.setdefault((id(place[0]), place[1]), place)
    return list(every.values())


def compiled(found: list[Any]) -> Callable[[Batch], tuple[Batch, ...]] | None:
    """One function for all that happens to a batch on its way; None where nothing does."""
    places = targets(found)
    if len(found) == len(places) and not any(isinstance(each, _Op) for each in found):
        return None
    return _Fuser(places).function(found)


class _Fuser:
    """Writes the function."""

    def __init__(self, places: list[tuple[Cell, str]]) -> None:
        self._coder = Coder()
        self._coder.namespace.update(NAMES)
        self._numbers = {(id(cell), port): index for index, (cell, port) in enumerate(places)}

    def function(self, found: list[Any]) -> Callable[[Batch], tuple[Batch, ...]]:
        count = len(self._numbers)
        lines = ["def emit(batch):"]
        for index in range(count):
            lines += [f" l{index} = []", f" o{index} = l{index}.append"]
        lines += [" v = None", " try:", "  for v in batch:"]
        lines += self._branches(found, "v", "   ", last=True) or ["   pass"]
        self._coder.namespace["ERRORS"] = ERRORS
        self._coder.namespace["slowly"] = lambda value, error: _blame(found, value, error)
        lines += [" except ERRORS as error: raise slowly(v, error) from error"]
        lines.append(f" return ({', '.join(f'l{index}' for index in range(count))}{',' if count else ''})")
        made: Callable[[Batch], tuple[Batch, ...]] = self._coder.finish("\n".join(lines), "emit")
        return made

    def _branches(self, found: list[Any], value: str, indent: str, *, last: bool) -> list[str]:
        lines: list[str] = []
        for index, each in enumerate(found):
            if isinstance(each, _Op):
                lines += self._op(each, value, indent, last=last and index == len(found) - 1)
            else:
                lines.append(f"{indent}o{self._numbers[id(each[0]), each[1]]}({value})")
        return lines

    def _op(self, op: _Op, value: str, indent: str, *, last: bool) -> list[str]:
        process = op.cell.process
        assert process is not None
        if not targets(op.next):
            # Nobody is told, but an evaluation error is one all the same.
            if op.cell.kind == "project":
                return []
            wanted = f"{self._coder.check(process.inputs[0].type, value)} and " if op.select else ""
            return [f"{indent}{wanted}({self._code(process, value)})"]
        if op.cell.kind == "filter":
            return self._filter(op, process, value, indent, last=last)
        name = self._coder.name()
        code = f"{value}[{process.code}]" if op.cell.kind == "project" else self._code(process, value)
        return [f"{indent}{name} = {code}", *self._branches(op.next, name, indent, last=last)]

    def _filter(self, op: _Op, process: Process, value: str, indent: str, *, last: bool) -> list[str]:
        parts = [self._coder.check(process.inputs[0].type, value)] if op.select else []
        if process.code != "True":
            parts.append(self._code(process, value))
        if not parts:
            return self._branches(op.next, value, indent, last=last)
        condition = " and ".join(parts)
        if last:
            return [
                f"{indent}if not ({condition}): continue",
                *self._branches(op.next, value, indent, last=True),
            ]
        if len(indent) > _DEEPEST:
            raise InternalError("The wiring branches too deeply to be compiled.")
        return [
            f"{indent}if {condition}:",
            *(self._branches(op.next, value, indent + " ", last=False) or [f"{indent} pass"]),
        ]

    def _code(self, process: Process, value: str) -> str:
        assert isinstance(process.code, str)
        return process.code.replace(INPUT, value)


def _blame(found: list[Any], value: Any, error: BaseException) -> ValidationError:
    """The failure of an evaluation, with the process to blame, found by doing it again step by step."""
    for each in found:
        if not isinstance(each, _Op):
            continue
        process = each.cell.process
        assert process is not None
        coder = Coder()
        coder.namespace.update(NAMES)
        if each.select and not coder.finish(
            f"def f(v): return {coder.check(process.inputs[0].type, 'v')}", "f"
        )(value):
            continue
        code = f"v[{process.code}]" if each.cell.kind == "project" else str(process.code).replace(INPUT, "v")
        try:
            made = coder.finish(f"def g(v): return {code}", "g")(value)
        except ERRORS as wrong:
            line, column = process.source.place(process.at)
            where = {"file": process.source.file, "line": line, "column": column}
            message = f"{each.cell.name!r} cannot be computed: {told(wrong)}."
            return ValidationError(message, details={"source": each.cell.name, **where})
        if each.cell.kind == "filter":
            if not made:
                continue
            made = value
        deeper = _blame(each.next, made, error)
        if deeper.details.get("source"):
            return deeper
    return ValidationError("A value cannot be computed: " + told(error) + ".")
