"""How a call reaches the developer's function: what it takes, what it gives, and where the context goes.

It reads the signature once, at definition time, and compiles the shapes. It knows no policy and runs nothing.
"""

from __future__ import annotations

import collections.abc
import copy
import functools
import inspect
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeVar

from fairlead.actions.policy import DefinitionError
from fairlead.schema import Schema, Signature, s, schema_of
from fairlead.schema.typed import module_around

Style = Literal["async", "sync", "async_stream", "sync_stream"]

_STREAMS = (
    collections.abc.AsyncGenerator,
    collections.abc.AsyncIterator,
    collections.abc.AsyncIterable,
    collections.abc.Generator,
    collections.abc.Iterator,
    collections.abc.Iterable,
)
#: A function that returns one of these gives nothing that could be told as a whole.
_ONLY_STREAMS = (
    collections.abc.AsyncGenerator,
    collections.abc.AsyncIterator,
    collections.abc.AsyncIterable,
    collections.abc.Iterator,
)
_CONTEXT_NAMES = ("ctx", "context")

T = TypeVar("T")
Make = Callable[[], Schema]


class Injected:
    """A parameter annotated with a subclass of this receives the call's context, wherever it stands."""

    __slots__ = ()


_defers: ContextVar[bool] = ContextVar("defers", default=False)


@contextmanager
def deferred() -> Iterator[None]:
    """Actions that are defined meanwhile compile their shapes when these are first read.

    For a program that needs one action of many. What only compiling can find wrong with a type is then raised
    at that time, as the same DefinitionError.
    """
    token = _defers.set(True)
    try:
        yield
    finally:
        _defers.reset(token)


class Shapes(NamedTuple):
    """How to compile what goes in and out; None where nothing is declared."""

    input: Make
    output: Make | None
    #: For streams: one yielded item.
    chunk: Make | None


class Binding:
    """A function made callable with a validated input and a context."""

    def __init__(
        self,
        owner: str,
        call: Callable[[], Callable[[Any, Any], Any]],
        style: Style,
        wants_context: bool,
        shapes: Shapes,
    ) -> None:
        self._call = call
        self.style = style
        self.wants_context = wants_context
        self._owner = owner
        self._shapes = shapes

    @cached_property
    def call(self) -> Callable[[Any, Any], Any]:
        """The function, taking the validated input and the context."""
        return self._call()

    @cached_property
    def input(self) -> Schema:
        return _built(self._owner, "input", lambda: self._shapes.input().checked("validation"))

    @cached_property
    def output(self) -> Schema | None:
        return self._given(self._shapes.output)

    @cached_property
    def chunk(self) -> Schema | None:
        """For streams: the schema of one yielded item."""
        return self._given(self._shapes.chunk)

    def _given(self, make: Make | None) -> Schema | None:
        return make and _built(self._owner, "output", lambda: make().checked("serialization"))

    def compile(self) -> None:
        """Have all shapes ready. Raises DefinitionError."""
        _ = self.input, self.chunk, self.output


def bind(owner: str, function: Callable[..., Any], input: Any, output: Any) -> Binding:
    parameters = dict(_signature(owner, function).parameters)
    hints = hints_of(function)
    context = _context_parameter(parameters, hints)
    others = [name for name in parameters if name != context]
    model = input if input is not None else _model_hint(parameters, hints, others)
    style = _style(function)
    module = module_around()
    call: Callable[[], Callable[[Any, Any], Any]]
    if model is not None and len(others) == 1:
        call = functools.partial(_whole, function, parameters, others[0], context)
    elif model is None and _stand_in_order(parameters):
        call = functools.partial(_placed, function, parameters, context)
    else:
        call = functools.partial(_spread, _with_fresh_defaults(function, parameters), others, context)
    taken = _input(owner, function, model, parameters, others, module)
    binding = Binding(
        owner,
        call,
        style,
        context is not None,
        Shapes(taken, *_output(style, output, hints.get("return"), module)),
    )
    # Names inside a function can be seen while it runs, and not later.
    if module is None or not _defers.get():
        binding.compile()
    return binding


def _input(
    owner: str,
    function: Callable[..., Any],
    model: Any,
    parameters: Mapping[str, inspect.Parameter],
    others: list[str],
    module: str | None,
) -> Make:
    if model is None:
        skip = [name for name in parameters if name not in others]
        signature = _built(owner, "input", lambda: Signature(function, skip))
        return lambda: signature.schema(module)
    if len(others) < 2:
        return lambda: schema_of(model, module)

    def fitting() -> Schema:
        schema = schema_of(model, module)
        _check_fields(owner, model, schema, parameters, others)
        return schema

    return fitting


def _built(owner: str, role: str, make: Callable[[], T]) -> T:
    try:
        return make()
    except DefinitionError:
        raise
    except (
        Exception
    ) as exc:  # whatever a type, a plugin or a schema library raises here is the developer's to mend
        raise DefinitionError(f"{owner}: the {role} type cannot be used: {exc}") from exc


def _signature(owner: str, function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except ValueError as exc:
        raise DefinitionError(
            f"{owner}: the signature of {function!r} cannot be read; wrap it in a function."
        ) from exc


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """A function's type hints, as far as they can be read."""
    target = _unwrap(function)
    try:
        return typing.get_type_hints(target, include_extras=True, localns=_names_around(target))
    except (NameError, TypeError, AttributeError):
        # A name that only a type checker sees: Signature reports it if it is part of the input.
        return dict(getattr(target, "__annotations__", {}))


def _names_around(function: Callable[..., Any]) -> dict[str, Any] | None:
    """What a function that is written inside another one sees of it."""
    if "<locals>" not in getattr(function, "__qualname__", ""):
        return None
    from fairlead.schema.hints import names_around

    return names_around(function, getattr(function, "__globals__", {}))


def _unwrap(function: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isroutine(function):
        return function
    return type(function).__call__ if not inspect.isclass(function) else function


def _context_parameter(parameters: Mapping[str, inspect.Parameter], hints: Mapping[str, Any]) -> str | None:
    for name in parameters:
        hint = hints.get(name, inspect.Parameter.empty)
        if _is_context(hint) or (hint is inspect.Parameter.empty and name in _CONTEXT_NAMES):
            return name
    return None


def _is_context(hint: Any) -> bool:
    if isinstance(hint, str):
        return hint.split("|")[0].strip().rsplit(".", 1)[-1] == "Context"
    if isinstance(hint, type):
        return issubclass(hint, Injected)
    return any(_is_context(part) for part in typing.get_args(hint) if isinstance(part, type))


def _model_hint(
    parameters: Mapping[str, inspect.Parameter], hints: Mapping[str, Any], others: list[str]
) -> Any:
    """The hint of a lone parameter that is a model: then the model is the whole input."""
    if len(others) != 1:
        return None
    parameter = parameters[others[0]]
    hint = hints.get(parameter.name)
    bare = typing.get_args(hint)[0] if typing.get_origin(hint) is typing.Annotated else hint
    bare = typing.get_origin(bare) or bare  # a generic model, such as Page[int]
    if parameter.default is not inspect.Parameter.empty or not isinstance(bare, type):
        return None
    marks = (
        "__pydantic_fields__",
        "__dataclass_fields__",
        "__struct_fields__",
        "__attrs_attrs__",
        "__total__",
    )
    return hint if any(hasattr(bare, mark) for mark in marks) else None


def _style(function: Callable[..., Any]) -> Style:
    target = _unwrap(function)
    if inspect.isasyncgenfunction(target):
        return "async_stream"
    if inspect.isgeneratorfunction(target):
        return "sync_stream"
    return "async" if inspect.iscoroutinefunction(target) else "sync"


def _whole(
    function: Callable[..., Any], parameters: Mapping[str, inspect.Parameter], name: str, context: str | None
) -> Callable[[Any, Any], Any]:
    if any(parameter.kind is inspect.Parameter.KEYWORD_ONLY for parameter in parameters.values()):
        if context is None:
            return lambda value, ctx: function(**{name: value})
        return lambda value, ctx: function(**{name: value, context: ctx})
    if context is None:
        return lambda value, ctx: function(value)
    if list(parameters).index(context) == 0:
        return lambda value, ctx: function(ctx, value)
    return lambda value, ctx: function(value, ctx)


def _check_fields(
    owner: str, model: Any, schema: Schema, parameters: Mapping[str, inspect.Parameter], others: list[str]
) -> None:
    """An explicit input for several parameters must be an object with a field for each of them."""
    fields = schema.json_schema.get("properties", {})
    needed = [name for name in others if parameters[name].default is inspect.Parameter.empty]
    strangers = [name for name in fields if name not in others]
    missing = [name for name in needed if name not in fields]
    gives_instance = isinstance(model, type) and not typing.is_typeddict(model)
    if missing or strangers or gives_instance:
        raise DefinitionError(
            f"{owner}: input does not fit the function's parameters {', '.join(others)}. "
            "Take the whole input as one parameter, or give an object with a field for each parameter."
        )


def _stand_in_order(parameters: Mapping[str, inspect.Parameter]) -> bool:
    """Whether every argument is always there, and has a place."""
    return all(
        each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD and each.default is inspect.Parameter.empty
        for each in parameters.values()
    )


def _placed(
    function: Callable[..., Any], parameters: Mapping[str, inspect.Parameter], context: str | None
) -> Callable[[Any, Any], Any]:
    """The call with its arguments by place, which takes half as long as by name."""
    given = ", ".join("ctx" if name == context else f"value[{name!r}]" for name in parameters)
    # What is compiled are the names of a function's parameters, and nothing else can be one.
    call: Callable[[Any, Any], Any] = eval(f"lambda value, ctx: function({given})", {"function": function})  # noqa: S307
    return call


def _with_fresh_defaults(
    function: Callable[..., Any], parameters: Mapping[str, inspect.Parameter]
) -> Callable[..., Any]:
    """The function with new copies of the defaults that can be changed: what one call does to them stays its own."""
    fresh = {name: each.default for name, each in parameters.items() if _can_be_changed(each.default)}
    if not fresh:
        return function

    def filled(**given: Any) -> Any:
        for name, default in fresh.items():
            if name not in given:
                given[name] = copy.deepcopy(default)
        return function(**given)

    return filled


def _can_be_changed(default: Any) -> bool:
    """Lists, dicts, sets and ordinary models have no hash. What cannot be copied stays as it is."""
    try:
        hash(default)
    except TypeError:
        with suppress(Exception):
            copy.deepcopy(default)
            return True
    return False


def _spread(
    function: Callable[..., Any], others: list[str], context: str | None
) -> Callable[[Any, Any], Any]:
    if not others:
        return (
            (lambda value, ctx: function())
            if context is None
            else (lambda value, ctx: function(**{context: ctx}))
        )
    if context is None:
        return lambda value, ctx: function(**value)
    if context == "ctx":
        return lambda value, ctx: function(ctx=ctx, **value)
    return lambda value, ctx: function(**{context: ctx}, **value)


def _output(style: Style, output: Any, hint: Any, module: str | None) -> tuple[Make | None, Make | None]:
    """How to compile the whole result and one chunk (streams only); None where nothing is declared."""
    if style in ("async", "sync"):
        declared = output if output is not None else hint
        return None if declared in (None, Any) else lambda: _result(declared, module), None
    item = output
    if item is None and typing.get_origin(hint) in _STREAMS:
        item = typing.get_args(hint)[0]
    if item in (None, Any):
        return None, None
    listed = {"type": "array", "items": item} if isinstance(item, Mapping) else s.array(item)
    return lambda: schema_of(listed, module), lambda: schema_of(item, module)


def _result(declared: Any, module: str | None) -> Schema:
    """The schema of what a function that is no generator returns."""
    if (typing.get_origin(declared) or declared) in _ONLY_STREAMS:
        raise TypeError(
            "it is that of a generator, and the function is none: yield the items, or return a list of them. "
            "A decorator around a generator has to be one, too."
        )
    return schema_of(declared, module)
