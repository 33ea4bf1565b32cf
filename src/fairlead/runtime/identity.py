"""Who is calling, as one stable text, and what was asked, as one spelling. No two callers or requests look alike.

Keys, kept results, confirmations and rates all rest on this. What cannot be told apart is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import orjson

from fairlead.failures import Failure, Kind

#: Claims that change while the caller stays the same.
_PASSING = frozenset({"exp", "iat", "nbf", "jti", "nonce", "auth_time"})
#: Credentials do too, but they are all there is to know the caller by, unless one of these is there.
_CREDENTIALS = frozenset({"token", "access_token"})
_FLEETING = _PASSING | _CREDENTIALS
_NAMES = frozenset({"sub", "id", "user_id", "uid", "username", "email", "client_id"})
_LONGEST_KEY = 255
_LONGEST_REQUEST = 256
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


def plain_request_of(value: dict[str, Any]) -> bytes:
    """The same as `request_of`, for input that is JSON already: its nulls are nothing else."""
    try:
        spelled = orjson.dumps(value, None, _CANONICAL)
    except TypeError:  # integers beyond 64 bits
        return request_of(value)
    return spelled if len(spelled) <= _LONGEST_REQUEST else _digest(spelled)


def request_of(value: Any) -> bytes:
    """Validated input in canonical form: equal requests have equal ones, however spelled, and others have not."""
    try:
        spelled = _canonical(value)
        return spelled if len(spelled) <= _LONGEST_REQUEST else _digest(spelled)
    except _Unreadable as exc:
        raise Failure(
            Kind.misconfigured,
            f"The input cannot be told apart from others: {exc}. "
            "Take types that have a value of their own where calls have keys or need confirmation.",
        ) from exc
    except RecursionError:
        raise Failure(Kind.invalid_input, "The input is nested too deeply.") from None


def claim_key(label: str, caller: str, given: str) -> str:
    """What a keyed call is known by; a key of any length takes little room."""
    if len(given) > _LONGEST_KEY:
        given = hashlib.sha256(given.encode(errors="replace")).hexdigest()
    return f"{label}\n{caller}\n{given}"


def _digest(spelled: bytes) -> bytes:
    """What is long is kept as a digest; the mark keeps it apart from what is short."""
    return b"sha256:" + hashlib.sha256(spelled).digest()


class _Unreadable(Exception):
    """A value whose content cannot be read without using it up, or at all."""


def _exact(value: Any) -> bytes | None:
    """The value as plain JSON, if that says all there is to it."""
    try:
        spelled = orjson.dumps(value, None, _CANONICAL)
    except TypeError:
        return None
    # Numbers that are not finite are spelled null, too. (`in` would take twice as long as `find`.)
    return spelled if spelled.find(b"null") < 0 else None


def _canonical(value: Any) -> bytes:
    """One spelling for equal values. Nothing is left out, masked or made to look like something else."""
    return _exact(value) or orjson.dumps(_tagged(value), option=orjson.OPT_SORT_KEYS)


def _tagged(value: Any) -> Any:
    """The value as JSON in which each kind of thing has a mark of its own."""
    kind = type(value)
    if value is None or kind is bool or kind is str:
        return value
    if kind is int or kind is float:
        return [kind.__name__, repr(value)]
    if isinstance(value, Mapping):
        return [
            "mapping",
            sorted(([_tagged(key), _tagged(item)] for key, item in value.items()), key=orjson.dumps),
        ]
    if isinstance(value, list | tuple):
        return ["list", [_tagged(item) for item in value]]
    if isinstance(value, set | frozenset):
        return ["set", sorted((_tagged(item) for item in value), key=orjson.dumps)]
    if isinstance(value, bytes | bytearray):
        return ["bytes", value.hex()]
    name = f"{kind.__module__}.{kind.__qualname__}"
    if hasattr(value, "get_secret_value"):
        return [name, _tagged(value.get_secret_value())]
    fields = _fields(value)
    if fields is not None:
        return [name, _tagged(fields)]
    return [name, _spelled(value)]


def _fields(value: Any) -> dict[str, Any] | None:
    """All fields of a model, a dataclass, a struct or an attrs object, also those it does not dump."""
    cls = type(value)
    if hasattr(cls, "__pydantic_fields__"):
        return {**vars(value), **(value.__pydantic_extra__ or {}), **(value.__pydantic_private__ or {})}
    for mark in ("__dataclass_fields__", "__struct_fields__"):
        if hasattr(cls, mark):
            return {name: getattr(value, name) for name in getattr(cls, mark)}
    if hasattr(cls, "__attrs_attrs__"):
        return {field.name: getattr(value, field.name) for field in cls.__attrs_attrs__}
    return None


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
