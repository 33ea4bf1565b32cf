"""Who is calling, as one stable text, and what was asked, as one spelling. No two callers or requests look alike.

Of a request counts what was sent, and each default that is always the same. What a function made anew for this one
call, such as an id or the time, does not: the same request could never be sent twice.

Keys, kept results, confirmations and rates all rest on this. What cannot be told apart is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

import orjson

from fairlead.failures import Failure, Kind
from fairlead.schema import Schema

#: Claims that change while the caller stays the same.
_PASSING = frozenset({"exp", "iat", "nbf", "jti", "nonce", "auth_time"})
#: Credentials do too, but they are all there is to know the caller by, unless one of these is there.
_CREDENTIALS = frozenset({"token", "access_token"})
_FLEETING = _PASSING | _CREDENTIALS
_NAMES = frozenset({"sub", "id", "user_id", "uid", "username", "email", "client_id"})
LONGEST_KEY = 255
_LONGEST_REQUEST = 256
#: Stands for what was sent where all of a value counts, whoever made it.
_WHOLE: Final[Any] = object()
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_CANONICAL = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_SUBCLASS


def caller_of(user: Any, auth: Any) -> str:
    """The caller as text: the user if there is one, else what the credentials say, else nobody."""
    if user is None:
        return "" if auth is None else f"auth:{_stable(auth)}"
    if type(user) is dict and _FLEETING.isdisjoint(user):
        # What nearly every user is, in few steps: each keyed or metered call comes by here.
        try:
            text = orjson.dumps(user, None, _CANONICAL).decode()
        except TypeError:
            return f"user:{_stable(user)}"
        if "null" not in text:
            return f"user:{text}"
    return f"user:{_stable(user)}"


def _stable(identity: Any) -> str:
    """The identity as text without line breaks, and without the credentials themselves."""
    if isinstance(identity, Mapping):
        identity = {key: value for key, value in identity.items() if key not in _PASSING}
        if not _CREDENTIALS.isdisjoint(identity):
            if _NAMES.isdisjoint(identity):
                return hashlib.sha256(_canonical(identity)).hexdigest()
            identity = {key: value for key, value in identity.items() if key not in _CREDENTIALS}
    try:
        return _canonical(identity).decode()
    except _Unspellable as exc:
        words = f"The caller cannot be told apart from others: who calls {exc}."
        raise Failure(Kind.misconfigured, words) from None
    except _Unreadable:
        pass
    try:
        return f"{type(identity).__qualname__}:{_canonical(identity.id).decode()}"
    except (AttributeError, _Unreadable) as exc:
        raise Failure(
            Kind.misconfigured,
            f"The caller cannot be told apart from others: {type(identity).__name__} has no id. "
            "Give users and auth as text, a dict, a model, or an object with an `id`.",
        ) from exc


def plain_request_of(value: dict[str, Any], sent: Any = None) -> bytes:
    """The same as `request_of`, for input that is JSON already: its nulls are nothing else."""
    try:
        spelled = orjson.dumps(value, None, _CANONICAL)
    except TypeError:  # integers beyond 64 bits
        return _request_of(value, sent)
    return spelled if len(spelled) <= _LONGEST_REQUEST else _digest(spelled)


def request_of(schema: Schema, value: Any, sent: Any) -> bytes:
    """Validated input in canonical form: equal requests have equal ones, however spelled, and others have not."""
    if type(value) is dict and isinstance(sent, Mapping) and sent.keys() < value.keys():
        # Parameters that were left out, and whose default the schema cannot tell.
        declared = schema.json_schema.get("properties", {})
        value = {
            name: item for name, item in value.items() if name in sent or "default" in declared.get(name, ())
        }
    return _request_of(value, sent)


def whole(value: Any) -> bytes:
    """All that a value holds, in one spelling. Raises what cannot be read."""
    return _canonical(value)


def _request_of(value: Any, sent: Any) -> bytes:
    try:
        spelled = _canonical(value, sent)
        return spelled if len(spelled) <= _LONGEST_REQUEST else _digest(spelled)
    except _Unspellable as exc:
        raise Failure(Kind.invalid_input, f"The input {exc}.") from None
    except _Unreadable as exc:
        raise Failure(
            Kind.misconfigured,
            f"The input cannot be told apart from others: {exc}. "
            "Take types that have a value of their own where calls have keys or need confirmation.",
        ) from exc
    except RecursionError:
        raise Failure(Kind.invalid_input, "The input is nested too deeply.") from None


def shortened(key: str) -> str:
    """A digest of a key that is longer than `LONGEST_KEY`: a key of any length takes little room."""
    return hashlib.sha256(key.encode(errors="replace")).hexdigest()


def _digest(spelled: bytes) -> bytes:
    """What is long is kept as a digest; the mark keeps it apart from what is short."""
    return b"sha256:" + hashlib.sha256(spelled).digest()


class _Unreadable(Exception):
    """A value whose content cannot be read without using it up, or at all."""


class _Unspellable(_Unreadable):
    """A value of plain things that JSON cannot spell."""


def _exact(value: Any) -> bytes | None:
    """The value as plain JSON, if that says all there is to it."""
    try:
        spelled = orjson.dumps(value, None, _CANONICAL)
    except TypeError:
        return None
    # Numbers that are not finite are spelled null, too. (`in` would take twice as long as `find`.)
    return spelled if spelled.find(b"null") < 0 else None


def _canonical(value: Any, sent: Any = _WHOLE) -> bytes:
    """One spelling for equal values. Nothing is left out, masked or made to look like something else, but for
    what was made anew where it is known what was sent."""
    return _exact(value) or _dumped(_tagged(value, sent))


def _dumped(tagged: Any) -> bytes:
    """What `_tagged` gave, as bytes: JSON that can only be too deep, or hold a text that is none."""
    try:
        return orjson.dumps(tagged, option=orjson.OPT_SORT_KEYS)
    except TypeError as exc:
        deep = "Recursion" in str(exc)
        words = "is nested too deeply" if deep else "has a text with half a character (a lone surrogate)"
        raise _Unspellable(words) from None


def _tagged(value: Any, sent: Any) -> Any:
    """The value as JSON in which each kind of thing has a mark of its own."""
    kind = type(value)
    if value is None or kind is bool or kind is str:
        return value
    if kind is int or kind is float:
        return [kind.__name__, repr(value)]
    if isinstance(value, Mapping):
        if not isinstance(sent, Mapping) or not sent.keys() <= value.keys():
            sent = _unknown(sent)  # under other names: which is which cannot be told
        return [
            "mapping",
            sorted(
                ([_tagged(key, sent), _tagged(item, _part(sent, key))] for key, item in value.items()),
                key=_dumped,
            ),
        ]
    if isinstance(value, list | tuple):
        if not isinstance(sent, list | tuple) or len(sent) != len(value):
            sent = _unknown(sent)
        return ["list", [_tagged(item, _part(sent, at)) for at, item in enumerate(value)]]
    if isinstance(value, set | frozenset):
        return ["set", sorted((_tagged(item, _unknown(sent)) for item in value), key=_dumped)]
    if isinstance(value, bytes | bytearray):
        return ["bytes", value.hex()]
    name = f"{kind.__module__}.{kind.__qualname__}"
    if hasattr(value, "get_secret_value"):
        return [name, _tagged(value.get_secret_value(), sent)]
    fields = _fields(value, sent)
    if fields is not None:
        return [name, _tagged(fields, sent)]
    return [name, _spelled(value)]


def _part(sent: Any, at: Any) -> Any:
    """What was sent for a member; nothing where it was left out."""
    if sent is None or sent is _WHOLE:
        return sent
    return sent.get(at, _NOTHING) if isinstance(sent, Mapping) else sent[at]


def _unknown(sent: Any) -> Any:
    """What was sent where it does not look like what it became: None, for it cannot be told."""
    return sent if sent is _WHOLE or sent is _NOTHING else None


def _fields(value: Any, sent: Any) -> dict[str, Any] | None:
    """The fields of a model, a dataclass, a struct or an attrs object, also those it does not dump."""
    cls: Any = type(value)
    names = _field_names(cls)
    if names is None:
        return None
    # A model knows what it was given. Of other records, the request must say so in their own names.
    given = getattr(value, "__pydantic_fields_set__", None)
    if given is None and isinstance(sent, Mapping) and sent.keys() <= names.keys():
        given = sent
    extra = getattr(value, "__pydantic_extra__", None) or {}
    if sent is _WHOLE:
        extra = {**extra, **(getattr(value, "__pydantic_private__", None) or {})}
    elif given is not None:
        names = {name: anew for name, anew in names.items() if name in given or not anew}
    held = getattr(value, "__dict__", {})  # asked for by its name, a deprecated field would warn
    return {**{name: held[name] if name in held else getattr(value, name) for name in names}, **extra}


@lru_cache(maxsize=1024)
def _field_names(cls: Any) -> dict[str, bool] | None:
    """A record's fields, and which of them a function makes anew when they are left out. None: it is no record."""
    factories: dict[str, Any] | None = None
    if hasattr(cls, "__pydantic_fields__"):
        factories = {name: field.default_factory for name, field in cls.__pydantic_fields__.items()}
    elif hasattr(cls, "__dataclass_fields__"):
        from dataclasses import MISSING, fields

        factories = {field.name: _unless(MISSING, field.default_factory) for field in fields(cls)}
    elif hasattr(cls, "__struct_fields__"):
        from msgspec import NODEFAULT
        from msgspec.structs import fields as members

        factories = {field.name: _unless(NODEFAULT, field.default_factory) for field in members(cls)}
    elif hasattr(cls, "__attrs_attrs__"):
        factories = {field.name: getattr(field.default, "factory", None) for field in cls.__attrs_attrs__}
    if factories is None:
        return None
    # A class, such as `list`, makes the same each time; a record's own fields are looked at in turn.
    return {
        name: factory is not None and not isinstance(factory, type) for name, factory in factories.items()
    }


def _unless(missing: object, given: Any) -> Any:
    return None if given is missing else given


def _spelled(value: Any) -> str:
    """Values of the standard library whose text says all there is to them."""
    from datetime import date, time, timedelta
    from decimal import Decimal
    from enum import Enum
    from pathlib import PurePath
    from uuid import UUID

    if isinstance(value, Enum):
        return value.name
    if isinstance(value, date | time | timedelta | Decimal | PurePath | UUID | str | int | float | complex):
        return repr(value)
    if type(value).__module__ in ("ipaddress", "re", "pydantic.networks", "pydantic_core._pydantic_core"):
        if hasattr(value, "__next__"):
            raise _Unreadable(f"a {type(value).__name__} can be read only once")
        return str(getattr(value, "pattern", value))
    raise _Unreadable(f"a {type(value).__name__} has no value of its own")
