"""Basic shapes: JSON's own types, their limits, and lists, maps and typed dicts, without pydantic's generators.

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
#: Limits: by the class that `Field` makes of each, what core schemas and JSON Schema call it.
_LIMITS = {
    "MinLen": "min_length", "MaxLen": "max_length",
    "Ge": "ge", "Gt": "gt", "Le": "le", "Lt": "lt", "MultipleOf": "multiple_of",
}  # fmt: skip
_RANGE = {
    "ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
}  # fmt: skip
#: The limits that each type may have, and what kinds of numbers they are.
_LIMITED: dict[str, tuple[dict[str, str], tuple[type, ...]]] = {
    "str": ({"min_length": "minLength", "max_length": "maxLength"}, (int,)),
    "list": ({"min_length": "minItems", "max_length": "maxItems"}, (int,)),
    "int": (_RANGE, (int,)),
    "float": (_RANGE, (int, float)),
}
#: All that a node of a basic shape may say; one that says more is not basic.
_SCALAR = frozenset({"type", "strict", "allow_inf_nan", "metadata"})
_KEYS = {
    **dict.fromkeys(_WORDS, _SCALAR),
    **{word: _SCALAR | _LIMITED[word][0].keys() for word in ("str", "int", "float")},
    "literal": frozenset({"type", "expected", "metadata"}),
    "nullable": frozenset({"type", "schema", "metadata"}),
    "list": frozenset({"type", "items_schema", "metadata", *_LIMITED["list"][0]}),
    "dict": frozenset({"type", "keys_schema", "values_schema", "metadata"}),
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
    if origin is Annotated:
        core = _core(arguments[0], around)
        for each in hint.__metadata__:
            _annotate(core, each)
        return core
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


def _annotate(core: Core, said: Any) -> None:
    """Add to a node what stands beside its type: words, limits, or a `Field` of no more than a few of these."""
    kind = type(said)
    if kind is str:
        return None
    if kind.__module__ == "annotated_types" and kind.__name__ in _LIMITS:
        return _limit(core, _LIMITS[kind.__name__], said)
    more = getattr(said, "_attributes_set", None)
    if kind.__module__ != "pydantic.fields" or more is None or not more.keys() <= {"description"}:
        raise _NotBasic
    for each in said.metadata:
        _annotate(core, each)
    if more:
        _describe(core, more["description"])
    return None


def _limit(core: Core, key: str, said: Any) -> None:
    keys, numbers = _LIMITED.get(core["type"], ({}, ()))
    limit = getattr(said, key)
    # Which of two limits wins, and what a limit of another type means, pydantic decides.
    if key not in keys or key in core or type(limit) not in numbers:
        raise _NotBasic
    core[key] = limit


def _describe(core: Core, words: Any) -> None:
    if core["type"] == "typed-dict" or type(words) is not str or not words:
        raise _NotBasic
    core["metadata"] = {"pydantic_js_updates": {"description": words}}


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
    if kind == "typed-dict":
        return _record(node)
    said = _bare_document(node, kind)
    for key, word in _LIMITED.get(kind, ({}, ()))[0].items():
        if key in node:
            said[word] = node[key]
    metadata = node.get("metadata") or {}
    updates = metadata.get("pydantic_js_updates", {})
    if not metadata.keys() <= {"pydantic_js_updates"} or not updates.keys() <= {"description"}:
        raise _NotBasic
    return tidy({**said, **updates})


def _bare_document(node: Mapping[str, Any], kind: str) -> dict[str, Any]:
    if kind in _WORDS:
        return {"type": _WORDS[kind]}
    if kind == "nullable":
        return {"anyOf": [_document(node["schema"]), {"type": "null"}]}
    if kind == "list":
        return {"type": "array", "items": _document(node["items_schema"])}
    if kind == "dict":
        if node.get("keys_schema") != {"type": "str"}:
            raise _NotBasic
        return {"type": "object", "additionalProperties": _document(node["values_schema"])}
    return _literal(node["expected"])


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
