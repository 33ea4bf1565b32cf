"""A function's parameters as one object shape, validated to keyword arguments.

Defaults stay with the function: what a caller leaves out is left out of the result too.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Annotated, Any, NotRequired

from fairlead.schema.compiled import Schema

if TYPE_CHECKING:
    from inspect import Parameter


def signature_of(function: Callable[..., Any], skip: Collection[str] = ()) -> Schema:
    """The schema of a function's parameters, except those in `skip`.

    Raises:
        TypeError: a parameter cannot be passed by name, or its type has no JSON shape.
    """
    return Signature(function, skip).schema()


class Signature:
    """A function's parameters: read and checked at once, compiled when asked to."""

    def __init__(self, function: Callable[..., Any], skip: Collection[str] = ()) -> None:
        from inspect import signature

        self._function = function
        self._name: str = getattr(function, "__qualname__", None) or type(function).__qualname__
        self._shape_name = self._name.rpartition(".")[2] or "input"
        self._hints = _hints(function)
        self._parameters = [each for each in signature(function).parameters.values() if each.name not in skip]
        for parameter in self._parameters:
            _check_kind(parameter, self._name)

    def schema(self, module: str | None = None) -> Schema:
        """One object shape; names that are left in it are looked up as `schema_of` does."""
        from fairlead.schema.docstrings import parameters
        from fairlead.schema.hints import typed_dict
        from fairlead.schema.typed import Typed, typed

        told = parameters(getattr(self._function, "__doc__", None))
        basic = self._basic(told)
        if basic is not None:
            return Schema(Typed(basic))
        fields = {
            each.name: _field(each, self._hints.get(each.name, Any), told.get(each.name))
            for each in self._parameters
        }
        shape = typed_dict(self._shape_name, fields, {"extra": "forbid"})
        try:
            return typed(shape, module)
        except TypeError as error:
            raise TypeError(f"The parameters of {self._name}() cannot be described: {error}") from error

    def _basic(self, told: Mapping[str, str]) -> dict[str, Any] | None:
        """The core schema, where all parameters are of basic types."""
        from fairlead.schema import basics

        fields: dict[str, Any] = {}
        for each in self._parameters:
            hint = self._hints.get(each.name, Any)
            core = basics.core(hint)
            if core is None or type(each.default).__module__.startswith("pydantic."):
                return None
            extra = {} if each.default is each.empty else _shown_default(each.default)
            text = _description(hint, told.get(each.name))
            required = each.default is each.empty
            fields[each.name] = basics.field(core, required=required, description=text, **extra)
        return basics.record(self._shape_name, fields)


def advertise(hint: Any, default: Any) -> Any:
    """The hint with a default that is shown to callers but never filled in."""
    from pydantic import Field

    shown = _shown_default(default)
    extra: Any = next((e for e in map(_extra, _metadata(hint)) if e is not None), {})
    if not shown or not isinstance(extra, dict):
        return hint
    return Annotated[hint, Field(json_schema_extra={**extra, **shown})]


def _shown_default(default: Any) -> dict[str, Any]:
    """A default as JSON Schema tells it; nothing where JSON has no word for it."""
    if type(default) in (str, int, bool, type(None)):
        return {"default": default}
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        return {"default": to_jsonable_python(default, inf_nan_mode="strings")}
    except (PydanticSerializationError, RecursionError):
        return {}


def _field(parameter: Parameter, hint: Any, told: str | None) -> Any:
    from pydantic import Field
    from pydantic.fields import FieldInfo

    from fairlead.schema.hints import adapt

    if isinstance(parameter.default, FieldInfo):
        # Written in the style `x: int = Field(3)`: the function's own default would be the Field object.
        return Annotated[adapt(hint), parameter.default]
    text = _description(hint, told)
    hint = adapt(hint)
    if text:
        hint = Annotated[hint, Field(description=text)]
    if parameter.default is parameter.empty:
        return hint
    return NotRequired[advertise(hint, parameter.default)]


def _description(hint: Any, told: str | None) -> str | None:
    """The words nearest to the parameter win; a Field that has its own needs no help."""
    text = told
    for each in _metadata(hint):
        if getattr(each, "description", None):
            return None
        if isinstance(each, str):
            text = each
        elif isinstance(getattr(each, "documentation", None), str):
            text = each.documentation
    return text


def _metadata(hint: Any) -> tuple[Any, ...]:
    return tuple(getattr(hint, "__metadata__", ()))


def _extra(metadata: Any) -> Any:
    return getattr(metadata, "json_schema_extra", None)


def _check_kind(parameter: Parameter, name: str) -> None:
    if parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD):
        return
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise TypeError(
            f"{name}() takes {parameter.name!r} by position only, and callers pass arguments by name. "
            "Remove the '/' from its parameters."
        )
    star = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
    raise TypeError(
        f"{name}() takes '{star}{parameter.name}', which has no declared shape. Declare each parameter, "
        "or take one parameter with a list or dict type."
    )


def _hints(function: Any) -> dict[str, Any]:
    from fairlead.schema.hints import names_around

    while hasattr(function, "func") and hasattr(function, "keywords"):
        function = function.func
    if not hasattr(function, "__annotations__"):
        function = type(function).__call__
    around = names_around(function, getattr(function, "__globals__", {}))
    try:
        return typing.get_type_hints(function, include_extras=True, localns=around)
    except NameError as error:
        name = getattr(function, "__qualname__", repr(function))
        raise TypeError(
            f"{name}() mentions the type {error.name!r}, which is not defined where the function is."
        ) from error
