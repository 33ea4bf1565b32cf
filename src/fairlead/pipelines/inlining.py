"""Processes that are written in place: what each becomes for what flows into it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead.pipelines import tree
from fairlead.pipelines.processes import PARTIAL, Processes, ports
from fairlead.pipelines.program import Port, Process
from fairlead.pipelines.types import JSON, NEVER, UNIT, Product, Type, disjoint, joined, shown, variants

if TYPE_CHECKING:
    from fairlead.pipelines.checking import Module


def inline(processes: Processes, module: Module, impl: tree.Impl, given: tuple[Type, ...]) -> Process | None:
    """The process that is written in place, for what flows into it; None where that was told to be wrong."""
    process = Process(_label(impl), impl.kind, ports(given, "input"), (), module.source, impl.at)
    process.total = impl.kind not in PARTIAL
    match impl:
        case tree.Structural(kind=kind):
            return _structural(processes, module, process, kind, given)
        case tree.Computed():
            made = processes.expression(module, impl, given[0])
            if made is None:
                return None
            process.outputs, process.code = (Port("output", made[0]),), made[1].code
            process.selective = impl.kind == "filter"
            if process.selective:
                process.inputs = (Port("input", made[0]),)
            return process
        case tree.Project():
            picked = processes.picked(module, impl, given[0])
            process.code, process.outputs = impl.index, (Port("output", picked or JSON),)
            return process if picked is not None else None
        case tree.ActionCall():
            if not processes.called(module, process, impl):
                return None
            found = processes.checker.options.actions
            types = found(impl.name) if found else None
            assert types is not None
            process.inputs = (Port("input", types.input),)
            process.outputs = (Port("output", types.output or JSON),)
            return process
        case tree.Plumb() | tree.Configured():
            processes.checker.tell(
                module, impl.at, "signature", f"`{impl.kind}` has no signature here.",
                f"Give it a name and a type: `let name : !A -> !B = {impl.kind} ...`.",
            )  # fmt: skip
    return None


def _structural(
    processes: Processes, module: Module, process: Process, kind: str, given: tuple[Type, ...]
) -> Process | None:
    made: Type
    match kind:
        case "id" | "copy":
            process.outputs = ports(given, "output")
            return process
        case "discard":
            made = UNIT
        case "empty":
            made = NEVER
        case "barrier":
            if len(given) < 2:
                processes.checker.tell(
                    module, process.at, "arity", f"`barrier` joins at least two streams, and here is {len(given)}.",
                    "Put them side by side before it: `(a * b) ; barrier`.",
                )  # fmt: skip
                return None
            made = Product(given)
        case _:
            made = _merged(processes, module, process, given)
    process.outputs = (Port("output", made),)
    return process


def _merged(processes: Processes, module: Module, process: Process, given: tuple[Type, ...]) -> Type:
    made = joined(given)
    several = variants(made)
    for index, one in enumerate(several):
        for other in several[index + 1 :]:
            if not disjoint(one, other):
                message = f"`merge` of {shown(one)} and {shown(other)}: a sum cannot tell them apart."
                processes.checker.tell(
                    module, process.at, "overlap", message, "Map one of them to another shape first."
                )
                return made
    return made


def _label(impl: tree.Impl) -> str:
    match impl:
        case tree.ActionCall(name=name):
            return name
        case tree.Project(index=index):
            return f"project({index})"
    return impl.kind
