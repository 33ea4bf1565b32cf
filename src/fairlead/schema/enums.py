"""Enums as JSON means their values: true is not 1, a text is no number, a list is a tuple, and flags add up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Flag
from functools import reduce
from operator import or_
from typing import Any

from pydantic_core import PydanticKnownError, core_schema

from fairlead.schema.jsonable import NotJsonable, jsonable

Core = dict[str, Any]


def exact(node: Mapping[str, Any]) -> Core:
    """The core schema of an enum that takes its members, and what JSON has for them, and nothing that is like it."""
    is_flag = issubclass(node["cls"], Flag)
    read = _number_of if is_flag else _member(node)
    inner: Any = _flags(node["cls"]) if is_flag else {key: node[key] for key in node if key != "ref"}
    return dict(core_schema.no_info_before_validator_function(read, inner, ref=node.get("ref")))


def _member(node: Mapping[str, Any]) -> Callable[[Any], Any]:
    cls = node["cls"]
    known = {_key(spelled): each for each in node["members"] for spelled in _spellings(each.value)}
    refused = {"expected": ", ".join(repr(each.value) for each in node["members"])}

    def read(value: Any) -> Any:
        if isinstance(value, cls):
            return value
        try:
            return known[_key(value)]
        except (KeyError, TypeError, RecursionError):
            found = _own_reading(cls, value)
        if found is None:
            raise PydanticKnownError("enum", refused)
        return found

    return read


def _own_reading(cls: Any, value: Any) -> Any:
    """The member that the author's own `_missing_` finds; None where there is none."""
    try:
        found = cls._missing_(value)
    except Exception:  # whatever it makes of a value that it does not expect
        return None
    return found if isinstance(found, cls) else None


def _spellings(value: Any) -> list[Any]:
    """What a member's value looks like in Python, and in JSON."""
    try:
        return [value, jsonable(value)]
    except NotJsonable:
        return [value]


def _key(value: Any) -> Any:
    """What is equal for values that JSON holds to be equal, and for no others."""
    if isinstance(value, list | tuple):
        return (list, *map(_key, value))
    if isinstance(value, dict):
        return (dict, frozenset((name, _key(item)) for name, item in value.items()))
    return (bool, value) if isinstance(value, bool) else (None, value)


def _number_of(value: Any) -> Any:
    return value.value if isinstance(value, Flag) else value


def _flags(cls: type[Flag]) -> Core:
    most = reduce(or_, (each.value for each in cls), 0)
    number = core_schema.int_schema(strict=True, ge=0, le=most)

    def read(value: int) -> Flag:
        if value & ~most:
            raise ValueError(f"Expected a sum of {', '.join(str(each.value) for each in cls)}.")
        return cls(value)

    return dict(
        core_schema.no_info_after_validator_function(
            read,
            number,
            serialization=core_schema.plain_serializer_function_ser_schema(
                _number_of, return_schema=number, when_used="json"
            ),
        )
    )
