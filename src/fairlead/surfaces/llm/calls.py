"""A provider's tool calls, read from its SDK's objects or from plain JSON: one call, some, or a whole message.

It reads shapes only. What the arguments say, and whether there is such a tool, is for others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from fairlead.actions import DefinitionError


class Call(NamedTuple):
    """What a model asks for."""

    id: str | None
    name: str
    arguments: Any


class Asked(NamedTuple):
    """The calls that were found, and whether it was one call that was given rather than something that holds calls."""

    calls: list[Call]
    alone: bool


Find = Callable[[Any], "Call | list[Any] | None"]


def asked(format: str, given: Any) -> Asked:
    """The calls in something of a provider's.

    Raises:
        DefinitionError: it is no call, no message and no list of them.
    """
    find = _FINDERS[format]
    if isinstance(given, list | tuple):
        return Asked(list(_flattened(find, given)), False)
    found = find(given)
    if isinstance(found, Call):
        return Asked([found], True)
    if found is None:
        raise DefinitionError(
            f"This {type(given).__name__} holds no tool call as the format {format!r} has them. Give a call, "
            "a list of calls or the model's whole message, or make the tools for the provider it came from."
        )
    return Asked(list(_flattened(find, found)), False)


def _flattened(find: Find, items: Iterable[Any]) -> Iterable[Call]:
    """Calls among other things that a message may hold, such as texts."""
    for item in items:
        found = find(item)
        if isinstance(found, Call):
            yield found
        elif found is not None:
            yield from _flattened(find, found)


def _get(thing: Any, *names: str) -> Any:
    """A member of an object or a mapping, by the first of its names that it has."""
    for name in names:
        value = thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)
        if value is not None:
            return value
    return None


def _has(thing: Any, *names: str) -> bool:
    return any(name in thing if isinstance(thing, Mapping) else hasattr(thing, name) for name in names)


def _call(id: Any, name: Any, arguments: Any) -> Call:
    return Call(None if id is None else str(id), str(name or ""), arguments)


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def _openai(given: Any) -> Call | list[Any] | None:
    function = _get(given, "function")
    if function is not None and _has(function, "arguments", "name"):
        return _call(_get(given, "id"), _get(function, "name"), _get(function, "arguments"))
    if _has(given, "choices"):
        return [
            message for choice in _listed(_get(given, "choices"))[:1] if (message := _get(choice, "message"))
        ]
    if _has(given, "tool_calls") or _get(given, "role") == "assistant":
        return _listed(_get(given, "tool_calls"))
    return None


def _responses(given: Any) -> Call | list[Any] | None:
    if _get(given, "type") == "function_call":
        return _call(_get(given, "call_id", "id"), _get(given, "name"), _get(given, "arguments"))
    return _listed(_get(given, "output")) if _has(given, "output") else None


def _anthropic(given: Any) -> Call | list[Any] | None:
    if _get(given, "type") == "tool_use":
        return _call(_get(given, "id"), _get(given, "name"), _get(given, "input"))
    return _listed(_get(given, "content")) if _has(given, "content") else None


def _gemini(given: Any) -> Call | list[Any] | None:
    inner = _get(given, "function_call", "functionCall")
    if inner is not None:
        return _gemini(inner)
    if _has(given, "candidates"):
        return [
            content for each in _listed(_get(given, "candidates"))[:1] if (content := _get(each, "content"))
        ]
    if _has(given, "parts"):
        return _listed(_get(given, "parts"))
    if _get(given, "name") is not None and _has(given, "args"):
        return _call(_get(given, "id"), _get(given, "name"), _get(given, "args"))
    return None


def _ai_sdk(given: Any) -> Call | list[Any] | None:
    name = _get(given, "toolName", "tool_name")
    if name is not None and _has(given, "input", "args"):
        return _call(_get(given, "toolCallId", "tool_call_id"), name, _get(given, "input", "args"))
    if _has(given, "toolCalls", "tool_calls"):
        return _listed(_get(given, "toolCalls", "tool_calls"))
    return _listed(_get(given, "content")) if _has(given, "content") else None


_FINDERS: Final[dict[str, Find]] = {
    "openai": _openai,
    "openai-responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "ai-sdk": _ai_sdk,
}
