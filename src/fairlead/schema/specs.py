"""`schema_of`: one entry for every way of declaring a shape."""

from __future__ import annotations

from typing import Any

from fairlead.schema.builder import Builder
from fairlead.schema.compiled import Schema

_ACCEPTED = (
    "a type hint, a pydantic model, a dataclass, a TypedDict, a msgspec Struct, an attrs class, "
    "an `s` builder or a JSON Schema dict"
)


def schema_of(spec: Any, module: str | None = None) -> Schema:
    """Compile a declared shape. Raises TypeError for what is not one.

    Names that it mentions are looked up where the caller stands, or else in the module that is named.
    """
    if isinstance(spec, Schema):
        return spec
    if isinstance(spec, Builder) and module is None:
        return spec.schema
    if isinstance(spec, dict):
        from fairlead.schema.foreign import foreign

        return foreign(spec)
    if not isinstance(spec, Builder) and not _is_hint(spec):
        raise TypeError(f"An instance of {type(spec).__name__} is not a shape. Give {_ACCEPTED}.")
    from fairlead.schema.typed import typed

    return typed(spec, module)


def _is_hint(spec: Any) -> bool:
    if spec is None or isinstance(spec, (type, str)):
        return not isinstance(spec, str)
    return type(spec).__module__ in (
        "typing",
        "types",
        "typing_extensions",
        "annotationlib",
    ) and not callable(getattr(spec, "__code__", None))
