"""Bindings to processes: whether a signature suits what is bound, and what a process written in place becomes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from fairlead.pipelines import settings as known
from fairlead.pipelines import tree
from fairlead.pipelines.expressions import IllTyped, Typed, selected, typed
from fairlead.pipelines.problems import near
from fairlead.pipelines.program import SIDE_INPUTS, SIDE_OUTPUTS, Port, Process
from fairlead.pipelines.types import (
    UNIT,
    Product,
    Type,
    assignable,
    reason,
    resolve,
    shown,
)

if TYPE_CHECKING:
    from fairlead.pipelines.checking import Checker, Module, Side

#: Those that may have a bare signature besides tools: functions already.
_BARE: Final = frozenset(("id", "map", "copy", "discard", "action", "rebinding"))
#: Those that do not give one output for each input.
PARTIAL: Final = frozenset(("filter", "merge", "barrier", "project", "empty"))
Scope = Mapping[str, Process]
_EMPTY: Final[Scope] = {}


def ports(types: tuple[Type, ...], word: str) -> tuple[Port, ...]:
    """Ports with the names that `spawn` uses: `input`, `input2` and so on."""
    return tuple(Port(word if index == 0 else f"{word}{index + 1}", each) for index, each in enumerate(types))


class Processes:
    """The processes of a program, each checked when it is first asked for."""

    def __init__(self, checker: Checker) -> None:
        self.checker = checker
        self._making: list[tuple[int, str]] = []

    def get(self, module: Module, name: str) -> Process | None:
        """The process of a binding; None where it cannot be had, which was told then."""
        if name in module.processes:
            return module.processes[name]
        if name in module.broken or name not in module.bindings:
            return None
        binding = module.bindings[name]
        if (id(module), name) in self._making:
            self.checker.tell(
                module, binding.name_at, "recursive", f"{name!r} is part of itself.",
                "A plumb cannot hold itself; a loop is a wire that leads back.",
            )  # fmt: skip
            module.broken.add(name)
            return None
        self._making.append((id(module), name))
        made = self.make(module, binding, _EMPTY)
        self._making.pop()
        if made is None:
            module.broken.add(name)
        elif name not in module.broken:
            module.processes[name] = made
        return module.processes.get(name)

    def find(self, module: Module, name: str, at: int, scope: Scope, rule: str = "unknown") -> Process | None:
        """The process of a name that was written; what is not there is told."""
        if name in scope:
            return scope[name]
        place = self.checker.scope(module, name)
        if place is None:
            head = name.partition(".")[0]
            if head not in module.broken:
                hint = near(head, module.uses) or f"Add `use {head.lower()}`."
                self.checker.tell(module, at, "unknown", f"There is no module {head!r} here.", hint)
            return None
        home, inner = place
        found = self.get(home, inner)
        if found is None and inner not in home.broken:
            hint = near(inner, [*home.bindings, *scope]) or f"Declare it: `let {inner} : !A -> !B = ...`."
            self.checker.tell(module, at, rule, f"There is no process {name!r}.", hint)
        return found

    # Bindings

    def make(self, module: Module, binding: tree.Binding, scope: Scope) -> Process | None:
        """The process of a binding."""
        signature, impl = binding.signature, binding.impl
        if not signature.arrow and not isinstance(impl, tree.Channel):
            self.checker.tell(
                module, signature.at, "signature", f"The signature of {binding.name!r} has no `->`.",
                "A process has one: `!A -> !B`. Only a channel inside a plumb has a type alone.",
            )  # fmt: skip
            return None
        if isinstance(impl, tree.Channel):
            self.checker.tell(
                module, impl.at, "signature", "A channel is declared inside a plumb.",
                "Write `let c : !T = channel` among the statements of a plumb.",
            )  # fmt: skip
            return None
        before, after = self.checker.sides(module, signature)
        if not self._suits(module, binding, before, after):
            return None
        process = Process(
            name=binding.name, kind=impl.kind, source=module.source, at=binding.name_at, bare=not after.streams,
            inputs=ports(before.types, "input"), outputs=ports(after.types, "output"),
        )  # fmt: skip
        return self._body(module, process, impl, scope)

    def _suits(self, module: Module, binding: tree.Binding, before: Side, after: Side) -> bool:
        kind, at = binding.impl.kind, binding.signature.at
        if before.types and before.streams != after.streams:
            self.checker.tell(
                module, at, "signature", "One side of the signature is a stream, the other is not.",
                "Write `!A -> !B`, or `A -> B` for a tool.",
            )  # fmt: skip
            return False
        if kind == "tool" and after.streams:
            self.checker.tell(
                module, at, "signature", "A tool takes and gives one value: its signature has no `!`.",
                "Write `A -> B`.",
            )  # fmt: skip
            return False
        if kind not in ("tool", *_BARE) and not after.streams:
            self.checker.tell(
                module, at, "signature", f"`{kind}` works on streams: its signature needs `!`.",
                "Write `!A -> !B`.",
            )  # fmt: skip
            return False
        return True

    def _body(self, module: Module, process: Process, impl: tree.Impl, scope: Scope) -> Process | None:
        match impl:
            case tree.Structural():
                return self._structural(module, process, impl)
            case tree.Computed():
                return self._computed(module, process, impl)
            case tree.Project():
                return self._project(module, process, impl)
            case tree.Plumb():
                from fairlead.pipelines.wiring import Body

                return Body(self.checker, module, scope).plumb(process, impl)
            case tree.Rebinding():
                return self._rebinding(module, process, impl, scope)
            case tree.ActionCall():
                return self._action(module, process, impl)
            case tree.Configured():
                return self._configured(module, process, impl, scope)
        raise AssertionError(impl)

    def _arity(
        self, module: Module, process: Process, inputs: tuple[int, ...], outputs: tuple[int, ...]
    ) -> bool:
        for ports_, wanted, word in ((process.inputs, inputs, "in"), (process.outputs, outputs, "out")):
            if len(ports_) not in wanted:
                allowed = " or ".join(map(str, wanted)) if len(wanted) < 5 else f"at least {wanted[0]}"
                self.checker.tell(
                    module, process.at, "arity",
                    f"`{process.kind}` has {allowed} streams {word}, and {process.name!r} has {len(ports_)}.",
                )  # fmt: skip
                return False
        return True

    def fits(self, module: Module, at: int, given: Type, wanted: Type, what: str) -> bool:
        """Whether a type fits another; told if it does not."""
        if assignable(given, wanted):
            return True
        message = f"{what} is {shown(given)}, and {shown(wanted)} is wanted."
        self.checker.tell(
            module,
            at,
            "mismatch",
            message,
            reason(given, wanted)[:1].upper() + reason(given, wanted)[1:] + ".",
        )
        return False

    def _structural(self, module: Module, process: Process, impl: tree.Structural) -> Process | None:
        kind, several = impl.kind, tuple(range(2, 65))
        arities = {
            "id": ((1,), (1,)), "copy": ((1,), (1, 2)), "merge": ((1, *several), (1,)), "discard": ((1,), (1,)),
            "empty": ((0,), (1,)), "barrier": (several, (1,)),
        }  # fmt: skip
        if not self._arity(module, process, *arities[kind]):
            return None
        process.total = kind not in PARTIAL
        given = [each.type for each in process.inputs]
        wanted = process.outputs[0].type
        if kind == "discard":
            self.fits(module, process.at, UNIT, wanted, "What `discard` gives")
        elif kind == "barrier":
            self.fits(module, process.at, Product(tuple(given)), wanted, "What `barrier` gives")
        elif kind == "copy" and process.bare:
            wide = Product((given[0], given[0]))
            made = wide if assignable(wide, wanted) else given[0]
            self.fits(module, process.at, made, wanted, "What `copy` gives")
        elif kind != "empty":
            for each in given:
                for port in process.outputs:
                    self.fits(module, process.at, each, port.type, f"What `{kind}` is given")
        return process

    def _computed(self, module: Module, process: Process, impl: tree.Computed) -> Process | None:
        if not self._arity(module, process, (1,), (1,)):
            return None
        made = self.expression(module, impl, process.inputs[0].type)
        if made is None:
            return process
        output, computed = made
        rule = "mismatch" if impl.kind == "filter" else "expression"
        if not assignable(output, process.outputs[0].type):
            self.checker.tell(
                module, impl.at, rule,
                f"`{impl.kind}` gives {shown(output)}, and {process.name!r} promises {shown(process.outputs[0].type)}.",
                reason(output, process.outputs[0].type) + ".",
            )  # fmt: skip
        process.code, process.total = computed.code, impl.kind == "map"
        process.selective = impl.kind == "filter"
        return process

    def expression(self, module: Module, impl: tree.Computed, input: Type) -> tuple[Type, Typed] | None:
        """What comes out of a map or filter over an input, and its code; None where that was told to be wrong."""
        try:
            if impl.kind == "filter":
                return selected(impl.expression, input)
            made = typed(impl.expression, input)
            return made.type, made
        except IllTyped as wrong:
            self.checker.tell(module, wrong.at, wrong.rule, wrong.message, wrong.hint)
            return None

    def _project(self, module: Module, process: Process, impl: tree.Project) -> Process | None:
        if not self._arity(module, process, (1,), (1,)):
            return None
        picked = self.picked(module, impl, process.inputs[0].type)
        if picked is not None:
            self.fits(module, impl.at, picked, process.outputs[0].type, "What `project` gives")
        process.code, process.total = impl.index, False
        return process

    def picked(self, module: Module, impl: tree.Project, input: Type) -> Type | None:
        """What `project` takes out of an input; None where that was told to be wrong."""
        product = resolve(input)
        if not isinstance(product, Product):
            self.checker.tell(
                module, impl.at, "project", f"`project` needs a product, not {shown(input)}.",
                "A product is written (A, B); `barrier` makes one.",
            )  # fmt: skip
            return None
        if impl.index >= len(product.items):
            self.checker.tell(
                module, impl.at, "project", f"There is no part {impl.index} in {shown(input)}.",
                f"The parts are 0 to {len(product.items) - 1}.",
            )  # fmt: skip
            return None
        return product.items[impl.index]

    def _rebinding(
        self, module: Module, process: Process, impl: tree.Rebinding, scope: Scope
    ) -> Process | None:
        target = self.find(module, impl.name, impl.at, scope)
        if target is None:
            return None
        if target.bare != process.bare and not (process.bare and target.kind in _BARE):
            self.checker.tell(
                module, process.at, "signature", f"{impl.name!r} is {target.signature()}.",
                "A tool is no stream process: `map` lifts a function, `tool { process: p }` lowers a process.",
            )  # fmt: skip
            return None
        if len(target.inputs) != len(process.inputs) or len(target.outputs) != len(process.outputs):
            message = f"{impl.name!r} is {target.signature()}, which has other ports."
            self.checker.tell(module, process.at, "arity", message)
            return None
        for mine, theirs in zip(process.inputs, target.inputs, strict=True):
            self.fits(module, process.at, mine.type, theirs.type, "What goes in")
        for mine, theirs in zip(process.outputs, target.outputs, strict=True):
            self.fits(module, process.at, theirs.type, mine.type, "What comes out")
        process.behind, process.total, process.selective = target, target.total, target.selective
        process.side_inputs, process.side_outputs = target.side_inputs, target.side_outputs
        return process

    # Actions

    def _action(self, module: Module, process: Process, impl: tree.ActionCall) -> Process | None:
        if not self._arity(module, process, (1,), (1,)):
            return None
        if not self.called(module, process, impl):
            return process
        found = self.checker.options.actions
        types = found(impl.name) if found is not None else None
        assert types is not None
        self.fits(
            module,
            process.at,
            process.inputs[0].type,
            types.input,
            f"What goes into the action {impl.name!r}",
        )
        if types.output is not None:
            self.fits(
                module,
                process.at,
                types.output,
                process.outputs[0].type,
                f"What the action {impl.name!r} gives",
            )
        return process

    def called(self, module: Module, process: Process, impl: tree.ActionCall) -> bool:
        """Set what a process of an action has besides its types; false where there is no such action."""
        options = self.checker.options
        if impl.config is not None:
            process.settings = self._settings(module, "action", impl.config)
        process.side_outputs = SIDE_OUTPUTS["action"]
        process.action = impl.name
        types = options.actions(impl.name) if options.actions is not None else None
        if types is None:
            names = options.action_names() if callable(options.action_names) else options.action_names
            hint = near(impl.name, names)
            if not names:
                hint = "No app is given: name it with --app MODULE:NAME, or check with `app=`."
            self.checker.tell(module, impl.name_at, "unknown", f"There is no action {impl.name!r}.", hint)
            return False
        if types.beyond:
            asked = "; ".join(types.beyond[:3]) + ("; ..." if len(types.beyond) > 3 else "")
            self.checker.tell(
                module, impl.at, "constraint", f"The action {impl.name!r} asks for more than types say: {asked}.",
                "What does not meet it is a validation_error at run time.", "warning",
            )  # fmt: skip
        return True

    # Agents, tools, programs

    def _settings(self, module: Module, kind: str, config: tree.Config) -> dict[str, Any]:
        read = known.read(
            kind, config, lambda at, message, hint: self.checker.tell(module, at, "config", message, hint)
        )
        return {key: known.plain(value) for key, value in read.items()}

    def _configured(
        self, module: Module, process: Process, impl: tree.Configured, scope: Scope
    ) -> Process | None:
        read = known.read(
            impl.kind,
            impl.config,
            lambda at, message, hint: self.checker.tell(module, at, "config", message, hint),
        )
        process.settings = {key: known.plain(value) for key, value in read.items()}
        if impl.kind == "agent":
            return self._agent(module, process, impl, read, scope)
        if impl.kind == "tool":
            return self._tool(module, process, impl, read, scope)
        if "cmd" not in read:
            self.checker.tell(
                module, impl.at, "config", "`exec` needs the program: `cmd`.", 'Write `cmd: "python3"`.'
            )
        if not self._arity(module, process, (1,), (1,)):
            return None
        process.side_outputs = SIDE_OUTPUTS["exec"]
        return process

    def _agent(
        self,
        module: Module,
        process: Process,
        impl: tree.Configured,
        read: dict[str, tree.Value],
        scope: Scope,
    ) -> Process | None:
        if not self._arity(module, process, (1, 2), (1, 2, 3)):
            return None
        tell, options, set_ = self.checker.tell, self.checker.options, process.settings
        set_.setdefault("provider", options.provider)
        set_.setdefault("model", options.model)
        if not set_["model"]:
            hint = 'Write `provider: "openai", model: "gpt-5-mini"`, or give --model or PLUMB_MODEL.'
            tell(module, impl.at, "config", "The agent has no model.", hint)
        elif not set_["provider"] and "/" not in set_["model"] and set_["model"] not in ("local", "default"):
            hint = 'Write `provider: "openai"`, or give --provider or PLUMB_PROVIDER.'
            tell(module, impl.at, "config", f"The agent's model {set_['model']!r} has no provider.", hint)
        if set_.get("thinking_budget", 0) >= set_.get("max_tokens", 8192):
            at = read["thinking_budget"].at if "thinking_budget" in read else impl.at
            tell(module, at, "config", "`thinking_budget` has to be less than `max_tokens`.",
                 f"`max_tokens` is {set_.get('max_tokens', 8192)}.")  # fmt: skip
        self._prompts(module, process, read)
        if "tools" in read:
            self._agent_tools(module, process, read["tools"], scope)
        for server in set_.get("mcp", ()):
            if not (isinstance(server.get("command"), str) or isinstance(server.get("url"), str)):
                hint = 'Write `mcp: [{ name: "files", command: "server", args: [] }]`.'
                tell(module, read["mcp"].at, "config", "An MCP server needs a `command` or a `url`.", hint)
        return self._agent_ports(process)

    def _agent_ports(self, process: Process) -> Process:
        """The first ports are data; the others are side ports with a type of their own."""
        sides_in = list(SIDE_INPUTS["agent"])
        sides_out = list(SIDE_OUTPUTS["agent"])
        for index, each in enumerate(process.inputs[1:]):
            sides_in[index] = Port(sides_in[index].name, each.type)
        for index, each in enumerate(process.outputs[1:]):
            sides_out[index] = Port(sides_out[index].name, each.type)
        process.inputs, process.outputs = process.inputs[:1], process.outputs[:1]
        process.side_inputs, process.side_outputs = tuple(sides_in), tuple(sides_out)
        return process

    def _prompts(self, module: Module, process: Process, read: dict[str, tree.Value]) -> None:
        options, found = self.checker.options, []
        given = options.environ.get("PLUMB_RESOURCES", "").split(os.pathsep)
        folders = (*options.resources, *(each for each in given if each))
        for value in read["prompts"].value if "prompts" in read else ():
            path = known.prompt_file(value.value, module.source.folder, folders)
            if path is None:
                where = "beside the program" if value.value.startswith(".") else "in PLUMB_RESOURCES"
                hint = f"It is looked for {where}."
                if value.value.startswith(".") and module.source.folder is None:
                    hint = "This text is in no file, so nothing is beside it."
                self.checker.tell(
                    module, value.at, "config", f"There is no prompt file {value.value!r}.", hint
                )
            else:
                found.append(path)
        if "prompts" in process.settings:
            process.settings["prompts"] = found

    def _agent_tools(self, module: Module, process: Process, value: tree.Value, scope: Scope) -> None:
        tools: list[Process] = []
        names: dict[str, str] = {}
        for each in value.value:
            reference = each.value
            tool = self.find(module, reference.name, reference.at, scope)
            if tool is None:
                continue
            if tool.kind != "tool" and not (tool.bare and tool.total):
                hint = f"Make it one: `let t : A -> B = tool {{ process: {reference.name} }}`."
                self.checker.tell(module, reference.at, "tool", f"{reference.name!r} is not a tool.", hint)
                continue
            spelled = reference.name.replace(".", "_")
            if spelled in names:
                message = (
                    f"{names[spelled]!r} and {reference.name!r} have the same name for a model: {spelled}."
                )
                self.checker.tell(
                    module, reference.at, "duplicate", message, "Give one of them another name."
                )
                continue
            names[spelled] = reference.name
            tools.append(tool)
        process.settings["tools"] = [(name, tool) for name, tool in zip(names, tools, strict=True)]

    def _tool(
        self,
        module: Module,
        process: Process,
        impl: tree.Configured,
        read: dict[str, tree.Value],
        scope: Scope,
    ) -> Process | None:
        tell = self.checker.tell
        if not self._arity(module, process, (1,), (1,)):
            return None
        if ("process" in read) == ("builtin" in read):
            hint = f"Built-in tools are {', '.join(known.BUILTINS)}."
            tell(module, impl.at, "tool", "A tool has either a `process` or a `builtin`.", hint)
            return None
        if "builtin" in read:
            if process.settings["builtin"] not in known.BUILTINS:
                hint = (
                    near(process.settings["builtin"], known.BUILTINS)
                    or f"There are {', '.join(known.BUILTINS)}."
                )
                tell(
                    module,
                    read["builtin"].at,
                    "tool",
                    f"There is no built-in {process.settings['builtin']!r}.",
                    hint,
                )
                return None
            return process
        reference = read["process"].value
        behind = self.find(module, reference.name, reference.at, scope, "tool")
        if behind is None:
            return None
        process.settings["process"] = process.behind = behind
        if not self._lowerable(module, reference, behind):
            return None
        self.fits(
            module, process.at, process.inputs[0].type, behind.inputs[0].type, "What goes into the tool"
        )
        self.fits(module, process.at, behind.outputs[0].type, process.outputs[0].type, "What the tool gives")
        return process

    def _lowerable(self, module: Module, reference: tree.Reference, behind: Process) -> bool:
        root = behind
        while root.kind == "rebinding" and root.behind is not None:
            root = root.behind
        if root.kind == "tool":
            hint = "Name the process behind that tool instead."
            self.checker.tell(
                module,
                reference.at,
                "tool",
                f"{reference.name!r} is a tool itself (tool_nesting_error).",
                hint,
            )
            return False
        if root.kind in PARTIAL or not root.total:
            why = (
                f"`{root.kind}`"
                if root.kind in PARTIAL
                else "a plumb that does not give one output for each input"
            )
            self.checker.tell(
                module, reference.at, "tool", f"{reference.name!r} is {why} (tool_not_lowerable).",
                "A tool needs exactly one output for each input, as id, map, copy, discard, agents, actions, exec and "
                "plumbs of those have.",
            )  # fmt: skip
            return False
        if len(root.inputs) != 1 or (len(root.outputs) != 1 and root.kind != "copy"):
            self.checker.tell(
                module,
                reference.at,
                "arity",
                f"{reference.name!r} is {root.signature()}.",
                "A tool has one input and one output.",
            )
            return False
        return True
