"""Basic shapes: JSON's own types, and lists, maps and typed dicts of them, without pydantic's generators.

Loading those takes longer than everything else that a small program does. What this gives for a basic hint is
what they would give, and for any other hint it gives nothing. It validates nothing itself.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NotRequired, Required, Union

from fairlead.schema.strictness import Core

_SCALARS: dict[Any, str] = {
    str: "str",
    int: "int",
    float: "float",
    bool: "bool",
    type(None): "none",
    None: "none",
}
_WORDS = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "none": "null"}
#: All that a node of a basic shape may say; one that says more is not basic.
_KEYS = {
    **dict.fromkeys(_WORDS, frozenset({"type", "strict", "allow_inf_nan"})),
    "literal": frozenset({"type", "expected"}),
    "nullable": frozenset({"type", "schema"}),
    "list": frozenset({"type", "items_schema"}),
    "dict": frozenset({"type", "keys_schema", "values_schema"}),
    "typed-dict": frozenset({"type", "cls", "config", "extra_behavior", "fields"}),
}
_ORDER = {
    key: n
    for n, key in enumerate(
        ("$ref", "title", "description", "type", "const", "enum", "format", "pattern", "properties",
         "required", "additionalProperties", "prefixItems", "items", "anyOf", "oneOf", "allOf")
    )
}  # fmt: skip


class _NotBasic(Exception):
    """Only pydantic knows what this means."""


def core(hint: Any) -> Core | None:
    """The core schema of a basic hint; None for any other."""
    try:
        return _core(hint, ())
    except (_NotBasic, NameError):
        return None


def record(name: str, fields: dict[str, Core]) -> Core:
    """The core schema of an object of these fields and no others."""
    return {
        "type": "typed-dict",
        "fields": fields,
        "extra_behavior": "forbid",
        "config": {"title": name, "extra_fields_behavior": "forbid"},
    }


def field(schema: Core, *, required: bool, description: str | None = None, **extra: Any) -> Core:
    """A field of a record; what is extra is told to callers, as its description is."""
    metadata: Core = {}
    if description:
        metadata["pydantic_js_updates"] = {"description": description}
    if extra:
        metadata["pydantic_js_extra"] = extra
    return {"type": "typed-dict-field", "schema": schema, "required": required, "metadata": metadata}


def document(core: Core) -> dict[str, Any] | None:
    """The JSON Schema of a basic shape, given and taken; None for any other."""
    try:
        return _document(core)
    except _NotBasic:
        return None


def tidy(schema: dict[str, Any]) -> dict[str, Any]:
    """A JSON Schema with its keywords in one order."""
    if "properties" in schema:
        schema.setdefault("required", [])
    return dict(sorted(schema.items(), key=lambda item: (_ORDER.get(item[0], len(_ORDER)), item[0])))


def _core(hint: Any, around: tuple[type, ...]) -> Core:
    if hint is None or (isinstance(hint, type) and not isinstance(hint, types.GenericAlias)):
        return {"type": _SCALARS[hint]} if hint in _SCALARS else _typed_dict(hint, around)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated and all(type(each) is str for each in hint.__metadata__):
        return _core(arguments[0], around)
    if origin is list:
        return {"type": "list", "items_schema": _core(arguments[0], around)}
    if origin is dict and arguments[0] is str:
        return {"type": "dict", "keys_schema": {"type": "str"}, "values_schema": _core(arguments[1], around)}
    if origin is Literal and all(type(each) is str for each in arguments):
        return {"type": "literal", "expected": list(arguments)}
    if origin in (Union, types.UnionType) and len(arguments) == 2 and arguments[1] is type(None):
        inner = _core(arguments[0], around)
        if inner["type"] not in ("none", "nullable"):
            return {"type": "nullable", "schema": inner}
    raise _NotBasic


def _typed_dict(cls: Any, around: tuple[type, ...]) -> Core:
    special = ("__pydantic_config__", "__parameters__", "__closed__", "__extra_items__")
    if not typing.is_typeddict(cls) or cls in around or any(getattr(cls, each, None) for each in special):
        raise _NotBasic
    from fairlead.schema.hints import hints_of

    fields: dict[str, Core] = {}
    for name, hint in hints_of(cls).items():
        required = name in cls.__required_keys__
        while typing.get_origin(hint) in (Required, NotRequired):
            required = typing.get_origin(hint) is Required
            hint = typing.get_args(hint)[0]
        fields[name] = field(_core(hint, (*around, cls)), required=required)
    return {"type": "typed-dict", "cls": cls, "fields": fields, "config": {"title": cls.__name__}}


def _document(node: Mapping[str, Any]) -> dict[str, Any]:
    kind = node["type"]
    if not node.keys() <= _KEYS.get(kind, frozenset()):
        raise _NotBasic
    if kind in _WORDS:
        return {"type": _WORDS[kind]}
    if kind == "nullable":
        return {"anyOf": [_document(node["schema"]), {"type": "null"}]}
    if kind == "list":
        return {"type": "array", "items": _document(node["items_schema"])}
    if kind == "dict":
        return {"type": "object", "additionalProperties": _document(node["values_schema"])}
    return _literal(node["expected"]) if kind == "literal" else _record(node)


def _literal(expected: list[Any]) -> dict[str, Any]:
    if not all(type(each) is str for each in expected):
        raise _NotBasic
    return tidy({"type": "string", **({"const": expected[0]} if len(expected) == 1 else {"enum": expected})})


def _record(node: Mapping[str, Any]) -> dict[str, Any]:
    fields = node["fields"]
    said: dict[str, Any] = {
        "type": "object",
        "properties": {name: _field(each) for name, each in fields.items()},
        "required": [name for name, each in fields.items() if each["required"]],
        "additionalProperties": False,
    }
    words = getattr(node.get("cls"), "__doc__", None)
    if words:
        from inspect import cleandoc

        said["description"] = cleandoc(words)
    return tidy(said)


def _field(node: Mapping[str, Any]) -> dict[str, Any]:
    metadata = node["metadata"]
    said = {**metadata.get("pydantic_js_updates", {}), **metadata.get("pydantic_js_extra", {})}
    return tidy({**_document(node["schema"]), **said})
