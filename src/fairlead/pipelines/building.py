"""Graphs in Python: `a >> b` is `a ; b`, `a @ b` is `(a * b)`. What is built is a program, checked like any other."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from fairlead import _json
from fairlead.pipelines.types import field_shown

if TYPE_CHECKING:
    from fairlead.actions import Action
    from fairlead.pipelines.host import Host
    from fairlead.pipelines.program import Checked, Process
    from fairlead.pipelines.running import Run
    from fairlead.runtime import App


class Part:
    """Something that can be wired."""

    def __rshift__(self, other: Part) -> Chain:
        """What comes out of this goes into the other."""
        return Chain((*_chain(self), *_chain(other)))

    def __matmul__(self, other: Part) -> Tensor:
        """The two side by side."""
        return Tensor((*_tensor(self), *_tensor(other)))

    def text(self) -> str:
        """The part as it is written."""
        raise NotImplementedError

    def named(self) -> Iterable[Named]:
        """The processes with a name that it is made of."""
        return ()

    def __repr__(self) -> str:
        return f"<{self.text()}>"


class Inline(Part):
    """A process that is written in place, or a port of the pipeline."""

    def __init__(self, text: str) -> None:
        self._text = text

    def text(self) -> str:
        return self._text

    def __getitem__(self, field: str | int) -> Inline:
        """A field of what comes out: `part["summary"]`."""
        return Inline(f"{self._text}.{field if isinstance(field, int) else field_shown(field)}")


class Named(Part):
    """A process with a name and a signature: one process, however often it is used."""

    def __init__(self, name: str, signature: str, impl: str, uses: Iterable[Named] = ()) -> None:
        self.name = name
        self.signature = signature
        self.impl = impl
        self._uses = tuple(uses)

    def text(self) -> str:
        return self.name

    def declaration(self) -> str:
        """The binding as it is written."""
        return f"let {self.name} : {self.signature} = {self.impl}"

    def named(self) -> Iterable[Named]:
        for each in self._uses:
            yield from each.named()
        yield self

    def port(self, name: str, type: str = "") -> _Port:
        """A side port: `agent.port("ctrl_in")`; with a type, what of it is of that type."""
        return _Port(self, f"@{name}{f'({type})' if type else ''}")

    def __getitem__(self, field: str | int) -> _Port:
        """A field of what comes out."""
        return _Port(self, f".{field if isinstance(field, int) else field_shown(field)}")


class _Port(Part):
    def __init__(self, of: Named, suffix: str) -> None:
        self._of = of
        self._suffix = suffix

    def text(self) -> str:
        return f"{self._of.text()}{self._suffix}"

    def named(self) -> Iterable[Named]:
        return self._of.named()


class Chain(Part):
    """`a ; b ; c`."""

    def __init__(self, parts: tuple[Part, ...]) -> None:
        self.parts = parts

    def text(self) -> str:
        return " ; ".join(each.text() for each in self.parts)

    def named(self) -> Iterable[Named]:
        for each in self.parts:
            yield from each.named()


class Tensor(Part):
    """`(a * b)`."""

    def __init__(self, parts: tuple[Part, ...]) -> None:
        self.parts = parts

    def text(self) -> str:
        return f"({' * '.join(each.text() for each in self.parts)})"

    def named(self) -> Iterable[Named]:
        for each in self.parts:
            yield from each.named()


def _chain(part: Part) -> tuple[Part, ...]:
    return part.parts if isinstance(part, Chain) else (part,)


def _tensor(part: Part) -> tuple[Part, ...]:
    return part.parts if isinstance(part, Tensor) else (part,)


#: The ports of a pipeline, for one that is made of several wires.
input: Final = Inline("input")
output: Final = Inline("output")
identity: Final = Inline("id")
copy: Final = Inline("copy")
merge: Final = Inline("merge")
barrier: Final = Inline("barrier")
discard: Final = Inline("discard")


def map(expression: Any) -> Inline:
    """Compute each message: an expression as text, one made with `F`, or a dict of them."""
    return Inline(f"map({_expression(expression)})")


def filter(expression: Any) -> Inline:
    """Keep the messages for which the expression is true."""
    return Inline(f"filter({_expression(expression)})")


def project(index: int) -> Inline:
    """A part of each product, counted from 0."""
    return Inline(f"project({index})")


def action(name: str, signature: str | None = None, **settings: Any) -> Part:
    """An action of the app; with a signature it is one process, however often it is used."""
    spelled = name if name.isidentifier() else _json.dumps(name)
    text = f"action {spelled}{' ' + _config(settings) if settings else ''}"
    return Inline(text) if signature is None else Named(name, signature, text)


def agent(name: str, signature: str, *, tools: Iterable[Named] = (), **settings: Any) -> Named:
    """An agent: `agent("sorter", "!Ticket -> !Triage", model="openai/gpt-5-mini", prompt="...")`."""
    used = list(tools)
    given = {**settings, **({"tools": [_Word(each.name) for each in used]} if used else {})}
    return Named(name, signature, f"agent {_config(given)}", used)


def exec(name: str, signature: str, cmd: str, args: Iterable[str] = (), **settings: Any) -> Named:
    """A program, with JSON Lines on its stdin and stdout."""
    return Named(name, signature, f"exec {_config({'cmd': cmd, 'args': list(args), **settings})}")


def tool(name: str, signature: str, process: Named | None = None, **settings: Any) -> Named:
    """A process as a tool for agents, or a built-in one."""
    given = {**({"process": _Word(process.name)} if process is not None else {}), **settings}
    return Named(name, signature, f"tool {_config(given)}", () if process is None else (process,))


class _Word:
    def __init__(self, name: str) -> None:
        self.name = name


def _config(settings: Mapping[str, Any]) -> str:
    return "{ " + ", ".join(f"{key}: {_value(each)}" for key, each in settings.items()) + " }"


def _value(value: Any) -> str:
    if isinstance(value, _Word):
        return value.name
    if isinstance(value, Mapping):
        return _config(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(each) for each in value)}]"
    return _json.dumps(value)


class Expression:
    """An expression that is written with Python's signs: `F.urgency > 3`, `(F.a == 1) & ~F.done`."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return self._text

    def __getattr__(self, name: str) -> Expression:
        if name.startswith("__"):
            raise AttributeError(name)
        return Expression(f"{self._text}.{field_shown(name)}")

    def __getitem__(self, field: str | int) -> Expression:
        return Expression(f"{self._text}.{field if isinstance(field, int) else field_shown(field)}")

    def _with(self, sign: str, other: Any) -> Expression:
        return Expression(f"({self._text} {sign} {_expression(other)})")

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return self._with("=", other)

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return self._with("!=", other)

    def __lt__(self, other: Any) -> Expression:
        return self._with("<", other)

    def __le__(self, other: Any) -> Expression:
        return self._with("<=", other)

    def __gt__(self, other: Any) -> Expression:
        return self._with(">", other)

    def __ge__(self, other: Any) -> Expression:
        return self._with(">=", other)

    def __add__(self, other: Any) -> Expression:
        return self._with("+", other)

    def __sub__(self, other: Any) -> Expression:
        return self._with("-", other)

    def __mul__(self, other: Any) -> Expression:
        return self._with("*", other)

    def __truediv__(self, other: Any) -> Expression:
        return self._with("/", other)

    def __and__(self, other: Any) -> Expression:
        return self._with("and", other)

    def __or__(self, other: Any) -> Expression:
        return self._with("or", other)

    def __invert__(self) -> Expression:
        return Expression(f"(not {self._text})")

    def __neg__(self) -> Expression:
        return Expression(f"(-{self._text})")


class _Fields:
    """`F.name` is the field of the message, `F.value` the message itself, `F["id"]` a field of any name."""

    def __getattr__(self, name: str) -> Expression:
        if name.startswith("__"):
            raise AttributeError(name)
        return Expression(name) if name == "value" else self[name]

    def __getitem__(self, name: str | int) -> Expression:
        written = name if isinstance(name, int) else field_shown(name)
        return Expression(written if isinstance(name, str) and written == name else f"value.{written}")


F: Final = _Fields()


def _expression(value: Any) -> str:
    if isinstance(value, Expression):
        return str(value)
    if isinstance(value, Mapping):
        parts = (f"{field_shown(key)}: {_literal(each)}" for key, each in value.items())
        return "{ " + ", ".join(parts) + " }"
    return value if isinstance(value, str) and not isinstance(value, Text) else _literal(value)


class Text(str):
    """A text that is meant as one, where a text would be read as an expression: `F.state == Text("done")`."""

    __slots__ = ()


def _literal(value: Any) -> str:
    if isinstance(value, Expression | Mapping):
        return _expression(value)
    if isinstance(value, Text):
        return _json.dumps(str(value))
    if isinstance(value, str):
        return value
    if value is None:
        return "unit"
    if isinstance(value, list | tuple):
        inner = ", ".join(_literal(each) for each in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    return _json.dumps(value)


class Pipeline:
    """A program made of wires: `Pipeline("!int -> !int", map("value * 2") >> filter("value > 4"))`.

    One wire without `input` and `output` goes from the one to the other. With several, name them.
    """

    def __init__(
        self, signature: str, *wires: Part, types: Mapping[str, str] | None = None, uses: Iterable[str] = (),
        app: App | None = None,
    ) -> None:  # fmt: skip
        self.signature = signature
        self.wires = wires
        self.types = dict(types or {})
        self.uses = tuple(uses)
        self.app = app
        self._checked: Checked | None = None

    def text(self) -> str:
        """The program, formatted. Raises CheckError where a part was written wrongly."""
        from fairlead.pipelines.formatting import format_text

        return format_text(self._text(), "<python>")

    __str__ = text

    def _text(self) -> str:
        named = {each.name: each for wire in self.wires for each in wire.named()}
        lines = [f"use {each}" for each in self.uses]
        lines += [f"type {name} = {type}" for name, type in self.types.items()]
        lines += [each.declaration() for each in named.values()]
        wires = [each.text() for each in self.wires]
        words = {part for wire in self.wires for part in _words(wire)}
        if len(wires) == 1 and not words & {"input", "output"}:
            wires = [f"input ; {wires[0]} ; output"]
        body = "\n".join(wires)
        lines.append(f"let main : {self.signature} = plumb(input, output) {{\n{body}\n}}")
        return "\n".join(lines) + "\n"

    def check(self) -> Checked:
        """The checked program. Raises CheckError with all that is wrong."""
        if self._checked is None:
            from fairlead.pipelines.apps import options_for
            from fairlead.pipelines.checking import check_text, require

            self._checked = require(check_text(self._text(), "<python>", options_for(self.app)))
        return self._checked

    @property
    def process(self) -> Process:
        """What runs. Raises CheckError."""
        main = self.check().main
        assert main is not None
        return main

    def render(self, format: str = "svg") -> str:
        """The picture: svg, dot, mermaid or json."""
        from fairlead.pipelines.rendering import render

        return render(self.process, format)

    def run(self, **options: Any) -> Run:
        """A run, for `async with`: `send`, `recv`, `close_input`, and `async for` over the results."""
        from fairlead.pipelines.running import Run

        return Run(self.process, self._host(options))

    async def call(self, value: Any, **options: Any) -> Any:
        """Send one message; the first result. Raises Failure."""
        from fairlead.pipelines.running import call

        return await call(self.process, value, self._host(options))

    def call_sync(self, value: Any, **options: Any) -> Any:
        """`call` for code without an event loop."""
        import asyncio

        return asyncio.run(self.call(value, **options))

    async def results(self, values: Iterable[Any], **options: Any) -> AsyncIterator[Any]:
        """Send messages; the results as they come."""
        import asyncio

        async with self.run(**options) as run:

            async def feed() -> None:
                try:
                    for value in values:
                        await run.send(value)
                except Exception as error:
                    run.network.fail(error)
                run.close_input()

            feeding = asyncio.get_running_loop().create_task(feed())
            try:
                async for result in run:
                    yield result
            finally:
                feeding.cancel()
                await asyncio.gather(feeding, return_exceptions=True)

    def action(self, name: str, **options: Any) -> Action[..., Any]:
        """The pipeline as an action of its app."""
        from fairlead.actions import DefinitionError
        from fairlead.pipelines.apps import action_of

        if self.app is None:
            raise DefinitionError("A pipeline needs an app to be an action: Pipeline(..., app=app).")
        return action_of(self.app, self._text(), name, text=True, **options)

    def _host(self, options: Mapping[str, Any]) -> Host:
        from fairlead.pipelines.host import Host

        return Host(**{"app": self.app, **options})


def _words(part: Part) -> Iterable[str]:
    if isinstance(part, Chain | Tensor):
        for each in part.parts:
            yield from _words(each)
    else:
        yield part.text()


# Programs in files


def check(path: str | os.PathLike[str], app: App | None = None, **options: Any) -> Checked:
    """Check a program in a file. Raises CheckError with all that is wrong, or Failure when it cannot be read."""
    from fairlead.pipelines.apps import load

    return load(path, app, **options)


def run(
    path: str | os.PathLike[str], app: App | None = None, *, verbose: bool = False, **options: Any
) -> Run:
    """A run of a program in a file, for `async with`. With `verbose`, what happens is printed on stderr."""
    from fairlead.pipelines.host import Host
    from fairlead.pipelines.running import Run

    search = tuple(options.pop("search_path", ()))
    if verbose:
        options.setdefault("listener", _print)
    main = check(path, app, search_path=search).main
    assert main is not None
    return Run(main, Host(app=app, search_path=search, **options))


async def call(path: str | os.PathLike[str], input: Any, app: App | None = None, **options: Any) -> Any:
    """Run a program in a file on one input; its first result. Raises CheckError or Failure."""
    from fairlead.pipelines.host import Host
    from fairlead.pipelines.running import call as once

    search = tuple(options.pop("search_path", ()))
    main = check(path, app, search_path=search).main
    assert main is not None
    return await once(main, input, Host(app=app, search_path=search, **options))


def call_sync(path: str | os.PathLike[str], input: Any, app: App | None = None, **options: Any) -> Any:
    """`call` for code without an event loop."""
    import asyncio

    return asyncio.run(call(path, input, app, **options))


def _print(event: dict[str, Any]) -> None:
    import sys

    sys.stderr.write(_json.dumps(event) + "\n")
