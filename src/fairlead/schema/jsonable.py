"""JSON safety for values without a declared type.

Plain JSON values are copied quickly; well-known Python values get their JSON spelling; everything else is
refused with its path and type. It does not know schemas.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, Final

_PLAIN = frozenset({bool, type(None)})
# Python itself refuses to spell longer numbers.
_WIDEST = 10**4000
_DEEPEST = 200
LONE_SURROGATE: Final = "the text has a lone surrogate, which UTF-8 cannot carry"


class NotJsonable(ValueError):
    """A value has no JSON form; `path` says where it is and `reason` what it is."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path: tuple[str | int, ...] = ()

    def __str__(self) -> str:
        from fairlead.schema.compiled import spell

        where = spell(self.path)
        return f"{where}: {self.reason}" if where else self.reason


def jsonable(value: Any) -> Any:
    """A JSON-safe copy. Raises NotJsonable."""
    return _convert(value, set())


def located(error: NotJsonable, value: Any) -> NotJsonable:
    """The error with its place in the whole value. A serializer of pydantic's is given a part, and not told which."""
    try:
        # A model's own serializer takes more than we do, such as sets.
        jsonable(vars(value) if hasattr(type(value), "__pydantic_serializer__") else value)
    except NotJsonable as found:
        if found.reason == error.reason and found.path[len(found.path) - len(error.path) :] == error.path:
            return found
    except Exception:  # whatever the author's own types raise
        return error
    return error


def _convert(value: Any, open_ids: set[int]) -> Any:
    kind = type(value)
    if kind is str:
        return value if value.isascii() else _text(value)
    if kind is int:
        return (
            value if -_WIDEST < value < _WIDEST else _refuse("a number of more than 4000 digits is too long")
        )
    if kind in _PLAIN:
        return value
    if kind is float:
        return value if isfinite(value) else _refuse("a number that is not finite has no JSON form")
    if kind is dict:
        return _mapping(value, open_ids)
    if kind is list or kind is tuple:
        return _sequence(value, open_ids)
    return _other(value, open_ids)


def _mapping(value: Mapping[Any, Any], open_ids: set[int], owner: Any = None) -> dict[str, Any]:
    mark = _enter(value if owner is None else owner, open_ids)
    result = {}
    for key, item in value.items():
        try:
            name = key if type(key) is str and key.isascii() else _key(key)
            result[name] = _convert(item, open_ids)
        except NotJsonable as error:
            error.path = (_told(key), *error.path)
            raise
    open_ids.discard(mark)
    return result


def _sequence(value: Any, open_ids: set[int]) -> list[Any]:
    mark = _enter(value, open_ids)
    result = []
    for item in value:
        try:
            result.append(_convert(item, open_ids))
        except NotJsonable as error:
            error.path = (len(result), *error.path)
            raise
    open_ids.discard(mark)
    return result


def _enter(value: Any, open_ids: set[int]) -> int:
    mark = id(value)
    if mark in open_ids:
        _refuse("it contains itself")
    if len(open_ids) >= _DEEPEST:
        _refuse(f"it is nested deeper than {_DEEPEST} levels")
    open_ids.add(mark)
    return mark


def _other(value: Any, open_ids: set[int]) -> Any:
    """Subclasses of JSON types, then the well-known Python values."""
    if hasattr(type(value), "__pydantic_serializer__"):
        return _convert(_model(value), open_ids)
    if _is_enum_member(value):
        return _convert(value.value, open_ids)
    if isinstance(value, str):
        return _text(str.__str__(value))
    if isinstance(value, bool | int):
        return int(value)
    if isinstance(value, float):
        return _convert(float(value), open_ids)
    if isinstance(value, (list, tuple)):
        return _sequence(value, open_ids)
    if isinstance(value, Mapping):
        return _mapping(value, open_ids)
    names = _field_names(type(value))
    if names is not None:
        return _mapping({name: getattr(value, name) for name in names}, open_ids, value)
    return _known(value)


def _model(value: Any) -> Any:
    try:
        return value.__pydantic_serializer__.to_python(value, mode="json", by_alias=True, warnings=False)
    except ValueError as error:
        raise NotJsonable(
            f"the type {type(value).__name__!r} has no JSON form: {type(error).__name__}"
        ) from error


def _is_enum_member(value: Any) -> bool:
    return hasattr(type(value), "__members__") and hasattr(value, "value")


def _field_names(cls: type) -> list[str] | None:
    """The fields of a dataclass, a msgspec Struct or an attrs class."""
    if hasattr(cls, "__dataclass_fields__"):
        from dataclasses import fields

        return [field.name for field in fields(cls)]
    if hasattr(cls, "__struct_fields__"):
        return list(cls.__struct_fields__)
    if hasattr(cls, "__attrs_attrs__"):
        return [field.name for field in cls.__attrs_attrs__]
    return None


def _known(value: Any) -> Any:
    from datetime import date, time, timedelta
    from decimal import Decimal
    from pathlib import PurePath
    from uuid import UUID

    if isinstance(value, Decimal) and not value.is_finite():
        _refuse("a number that is not finite has no JSON form")
    if isinstance(value, PurePath):
        return _text(str(value))
    if isinstance(value, (date, time, timedelta, Decimal, UUID)) or _is_url(value):
        from pydantic_core import to_jsonable_python

        return to_jsonable_python(value)
    return _refuse(f"the type {type(value).__name__!r} has no JSON form")


def _is_url(value: Any) -> bool:
    return type(value).__name__ in ("Url", "MultiHostUrl") and type(value).__module__.startswith(
        "pydantic_core"
    )


def _key(key: Any) -> str:
    if isinstance(key, str):
        return _text(str.__str__(key))
    return str(_refuse(f"a key is of type {type(key).__name__}; JSON keys are strings"))


def _told(key: Any) -> str | int:
    """A key as a part of a path, which can be sent even where the key cannot."""
    if isinstance(key, str):
        return key.encode(errors="replace").decode()
    return key if isinstance(key, int) else type(key).__name__


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        _refuse(LONE_SURROGATE)
    return value


def _refuse(reason: str) -> Any:
    raise NotJsonable(reason)
