"""Make pydantic core schemas say exactly what JSON can say.

Scalars that JSON has (string, integer, number, boolean) become strict and finite; what JSON lacks
(dates, enums, sets, ...) stays lax, so that its JSON spelling is accepted. Union branches get labels
that locations.py can tell from keys. Nothing here knows about errors or JSON Schema.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple

from pydantic_core import PydanticKnownError, core_schema

from fairlead.schema.enums import exact
from fairlead.schema.jsonable import jsonable
from fairlead.schema.nodes import nodes

Core = dict[str, Any]

BRANCH = "\x00"  # opens a union label; no JSON key of a declared shape starts so
_SCALARS = frozenset({"str", "int", "float", "bool"})
_RECORDS = frozenset({"typed-dict", "dataclass", "model"})
_TEMPORAL = {
    "date": "date_type",
    "time": "time_type",
    "datetime": "datetime_type",
    "timedelta": "time_delta_type",
}
_CHILDREN = (
    "schema",
    "values_schema",
    "extras_schema",
    "lax_schema",
    "strict_schema",
    "json_schema",
    "python_schema",
)
_OPAQUE = frozenset({"call", "arguments", "arguments-v3"})


class _How(NamedTuple):
    """What is known of the place of a node."""

    #: Scalars that the author's own configuration declares lax.
    lax: frozenset[str]
    #: An instance of a class is accepted without a second look, so its numbers are checked when dumped.
    passed_as_is: bool
    #: Whether records refuse keys that they do not declare.
    closed: bool


def tighten(core: Mapping[str, Any], *, closed: bool = True) -> Core:
    """A strict copy; the given schema, often cached on a class, is not changed.

    Records that are not `closed` leave out keys that they do not declare: what a model dumps has computed fields, too.
    """
    return _tighten(core, _How(frozenset(), False, closed))


def has_records(core: Any) -> bool:
    """Whether a core schema has objects of declared keys in it."""
    return any(node.get("type") in _RECORDS for node in nodes(core))


def _tighten(node: Mapping[str, Any], how: _How) -> Core:
    kind = node["type"]
    if kind in _OPAQUE:
        return dict(node)
    is_class = kind in ("model", "dataclass", "named-tuple")
    how = _How(how.lax | _left_lax(node), how.passed_as_is or is_class, how.closed)
    new = dict(node)
    for key in _CHILDREN:
        if isinstance(new.get(key), dict):
            new[key] = _tighten(new[key], how)
    _tighten_many(new, how)
    if kind == "generator":
        # Checked as a whole before anything runs: a stream of checks could fail half way through the work.
        return {**new, "type": "list"}
    if kind in _SCALARS:
        return _scalar(new, kind, how)
    if kind in _TEMPORAL and "ref" not in new and "strict" not in new:
        return dict(core_schema.no_info_before_validator_function(_no_number(_TEMPORAL[kind]), new))
    if kind == "literal" and any(_is_0_or_1(value) for value in new["expected"]):
        return dict(core_schema.no_info_before_validator_function(_exactly(new["expected"]), new))
    if kind == "enum":
        return exact(new)
    refuse = _refusing(new)
    if refuse is not None:
        return dict(core_schema.no_info_before_validator_function(refuse, new))
    if kind == "any" and "serialization" not in new:
        new["serialization"] = _JSONABLE
    if how.closed and kind in _RECORDS and not new.get("root_model"):
        _refuse_extras(new)
    return new


def _tighten_many(new: Core, how: _How) -> None:
    items = new.get("items_schema")
    if isinstance(items, dict):
        new["items_schema"] = _tighten(items, how)
    elif isinstance(items, list):
        new["items_schema"] = [_tighten(item, how) for item in items]
    fields = new.get("fields")
    if isinstance(fields, dict):
        new["fields"] = {name: _tighten(field, how) for name, field in fields.items()}
    elif isinstance(fields, list) and fields and isinstance(fields[0], dict):
        new["fields"] = [_tighten(field, how) for field in fields]
    choices = new.get("choices")
    if isinstance(choices, dict):
        new["choices"] = {tag: _tighten(choice, how) for tag, choice in choices.items()}
    elif isinstance(choices, list):
        bare = [choice[0] if isinstance(choice, tuple) else choice for choice in choices]
        new["choices"] = [(_tighten(each, how), f"{BRANCH}{n}") for n, each in enumerate(bare)]
    for key in ("steps", "definitions"):
        if key in new:
            new[key] = [_tighten(each, how) for each in new[key]]


def _left_lax(node: Mapping[str, Any]) -> frozenset[str]:
    config = node.get("config") or {}
    if config.get("strict") is False:
        return _SCALARS
    return frozenset({"str"}) if config.get("coerce_numbers_to_str") else frozenset()


def _scalar(new: Core, kind: str, how: _How) -> Core:
    if kind not in how.lax:
        new.setdefault("strict", True)
    if kind == "float":
        new.setdefault("allow_inf_nan", False)
        if how.passed_as_is and "serialization" not in new and not new["allow_inf_nan"]:
            new["serialization"] = _FINITE
    return new


def _refuse_extras(new: Core) -> None:
    cls = new.get("cls")
    declared = getattr(cls, "model_config", None) or getattr(cls, "__pydantic_config__", None) or {}
    if "extra" in declared or "extras_schema" in new:
        return
    if new["type"] == "typed-dict":
        new["extra_behavior"] = "forbid"
    else:
        new["config"] = {**(new.get("config") or {}), "extra_fields_behavior": "forbid"}


def _refusing(node: Core) -> Callable[[Any], Any] | None:
    """What refuses the values that pydantic takes for a shape beyond those that the shape's JSON Schema tells of."""
    if "ref" in node:
        return None
    if (
        node["type"] == "lax-or-strict"
        and getattr(_instances(node["strict_schema"]), "__module__", "") == "ipaddress"
    ):
        return _no_number_for_address
    if node["type"] == "json-or-python" and _instances(node) in (Sequence, typing.Sequence):
        return _no_text_for_sequence
    return None


def _instances(node: Core) -> Any:
    """The class whose instances a shape takes from Python."""
    within = node.get("python_schema", node)
    return within["cls"] if within["type"] == "is-instance" else None


def _no_number_for_address(value: Any) -> Any:
    if isinstance(value, int):
        raise PydanticKnownError("string_type")
    return value


def _no_text_for_sequence(value: Any) -> Any:
    if isinstance(value, str | bytes | bytearray):
        raise PydanticKnownError("list_type")
    return value


def _no_number(error: Any) -> Callable[[Any], Any]:
    """Lax dates read numbers as epochs, which the advertised schema does not say."""

    def refuse(value: Any) -> Any:
        if isinstance(value, (int, float)) or (isinstance(value, str) and _reads_as_number(value)):
            raise PydanticKnownError(error)
        return value

    return refuse


def _reads_as_number(text: str) -> bool:
    return text.strip().lstrip("+-").replace(".", "", 1).isdigit()


def _is_0_or_1(value: Any) -> bool:
    return isinstance(value, (int, float)) and value in (0, 1)


def _exactly(expected: list[Any]) -> Callable[[Any], Any]:
    """Python says True == 1; JSON does not."""
    kinds = {(isinstance(value, bool), value) for value in expected if _is_0_or_1(value)}
    ctx = {"expected": " or ".join(repr(value) for value in expected)}

    def refuse(value: Any) -> Any:
        if _is_0_or_1(value) and (isinstance(value, bool), value) not in kinds:
            raise PydanticKnownError("literal_error", ctx)
        return value

    return refuse


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not isfinite(value):
        raise ValueError("a number that is not finite has no JSON form")
    return value


_FINITE = core_schema.plain_serializer_function_ser_schema(
    _finite, return_schema=core_schema.float_schema(), when_used="json"
)
_JSONABLE = core_schema.plain_serializer_function_ser_schema(
    jsonable, return_schema=core_schema.any_schema(), when_used="json"
)
