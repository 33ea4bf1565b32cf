"""The parameters of a function as JSON Schema, for the types that JSON has.

Loaded alone in a plugin's process, so it imports nothing: what `typing` makes is told by its looks.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object", list: "array"}
_UNION = type(int | str)
#: What the host adds to the arguments of a tool; no parameters of it.
ADDED = ("_secrets", "_context")
_REST, _ASYNC = 0x08, 0x80 | 0x200


def parameters_of(function: "Callable[..., Any]") -> "dict[str, Any]":
    """The schema of a function's parameters. Raises ValueError for what cannot be called with JSON."""
    function = plain(function)
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    optional = {*names[code.co_argcount - len(function.__defaults__ or ()) : code.co_argcount]}
    optional |= set(function.__kwdefaults__ or ())
    properties, required = {}, []
    for name in names:
        if name in ADDED:
            continue
        annotation = _resolved(function, function.__annotations__.get(name))
        try:
            properties[name] = schema_of(annotation)
        except ValueError as exc:
            raise ValueError(f"The parameter {name!r} of the tool {function.__name__!r}: {exc}") from None
        if name not in optional:
            required.append(name)
    told: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        told["required"] = required
    if not code.co_flags & _REST:
        told["additionalProperties"] = False
    return told


def plain(function: "Callable[..., Any]") -> "Callable[..., Any]":
    """The function within its decorators. Raises ValueError for what is none, or none that a call can wait for."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code = getattr(function, "__code__", None)
    if code is None:
        raise ValueError(f"{function!r} is no function: write one with def.")
    if code.co_flags & _ASYNC:
        raise ValueError(
            f"{function.__name__!r} is async. Write a plain function: each call has its own thread."
        )
    if code.co_posonlyargcount:
        raise ValueError(f"{function.__name__!r} has parameters without names, before a '/'.")
    return function


def schema_of(annotation: "Any") -> "dict[str, Any]":
    """The schema of a type. Raises ValueError."""
    if annotation is None or getattr(annotation, "__name__", "") == "Any":
        return {}
    if annotation in _PLAIN:
        return {"type": _PLAIN[annotation]}
    if hasattr(annotation, "__metadata__"):  # Annotated
        words = [each for each in annotation.__metadata__ if isinstance(each, str)]
        return schema_of(annotation.__origin__) | ({"description": words[0]} if words else {})
    args: tuple[Any, ...] = getattr(annotation, "__args__", ())
    origin = getattr(annotation, "__origin__", None)
    if isinstance(annotation, _UNION) or repr(origin) == "typing.Union":
        return _union(args)
    if repr(origin) == "typing.Literal":
        return _choice(args)
    if origin is list:
        return {"type": "array", "items": schema_of(args[0])}
    if origin is dict:
        return {"type": "object"}
    raise ValueError(
        f"{annotation!r} has no form in JSON. Write the schema yourself: @plugin.tool(parameters=...)"
    )


def _union(args: "tuple[Any, ...]") -> "dict[str, Any]":
    rest = [each for each in args if each is not type(None)]
    if len(rest) != 1:
        return {"anyOf": [schema_of(each) if each is not type(None) else {"type": "null"} for each in args]}
    told = schema_of(rest[0])
    if isinstance(told.get("type"), str):
        told["type"] = [told["type"], "null"]
    if "enum" in told:
        told["enum"] = [*told["enum"], None]
    return told


def _choice(args: "tuple[Any, ...]") -> "dict[str, Any]":
    kinds = {type(each) for each in args}
    told: dict[str, Any] = {"enum": list(args)}
    return {"type": _PLAIN[kinds.pop()], **told} if len(kinds) == 1 else told


def _resolved(function: "Callable[..., Any]", annotation: "Any") -> "Any":
    if not isinstance(annotation, str):
        return annotation
    # The plugin's own words, in a file with `from __future__ import annotations`.
    return eval(annotation, function.__globals__)  # noqa: S307
