"""The small values an action is declared with, and the checks that refuse a wrong one at definition time.

It knows no function, no schema and no runtime: it turns what a developer wrote into one frozen value,
or says what is wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal, NamedTuple, TypeVar, cast

from fairlead.schema import NotJsonable, jsonable

Visibility = Literal["public", "local", "private"]
SideEffects = Literal["read", "write", "destructive"]
Idempotency = Literal["idempotent", "non_idempotent", "conditional", "unspecified"]
Preflight = Literal["repair", "strict"]

F = TypeVar("F")

VISIBILITIES = ("public", "local", "private")
SIDE_EFFECTS = ("read", "write", "destructive")
IDEMPOTENCIES = ("idempotent", "non_idempotent", "conditional", "unspecified")
PREFLIGHTS = ("repair", "strict")


class DefinitionError(TypeError):
    """The developer's wiring is wrong: raised while actions and apps are defined, never during a call."""


def near_miss(word: str, choices: Iterable[str]) -> str:
    """`' Did you mean "x"?'`, or nothing when no choice is close."""
    from fairlead.schema.wording import closest

    close = closest(word, choices)
    return f" Did you mean {close!r}?" if close is not None else ""


def one_of(owner: str, field: str, value: object, choices: Collection[str]) -> str:
    if isinstance(value, str) and value in choices:
        return value
    hint = near_miss(value, choices) if isinstance(value, str) else ""
    raise DefinitionError(f"{owner}: {field} is {value!r}, not one of {', '.join(choices)}.{hint}")


def known_keys(owner: str, given: Iterable[str], allowed: Collection[str]) -> None:
    for key in given:
        if key not in allowed:
            raise DefinitionError(
                f"{owner}: unknown option {key!r}.{near_miss(key, allowed)} Options are {', '.join(sorted(allowed))}."
            )


def seconds(owner: str, field: str, value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise DefinitionError(
            f"{owner}: {field} is {value!r}; give a positive number of seconds, or None for no limit."
        )
    return float(value)


def text(owner: str, field: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise DefinitionError(f"{owner}: {field} must be a non-empty string, not {value!r}.")
    return value


def boolean(owner: str, field: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise DefinitionError(f"{owner}: {field} must be True or False, not {value!r}.")
    return value


def function(owner: str, field: str, value: F) -> F:
    if not callable(value):
        raise DefinitionError(f"{owner}: {field} must be a function, not {value!r}.")
    return value


def functions(owner: str, field: str, value: object) -> tuple[Any, ...]:
    """A list of functions; a lone one is a list of one."""
    listed = (value,) if callable(value) else value
    if isinstance(listed, str) or not isinstance(listed, Iterable):
        raise DefinitionError(f"{owner}: {field} must be a function, or a list of them, not {value!r}.")
    return tuple(function(owner, field, each) for each in listed)


def names(owner: str, field: str, value: object) -> tuple[str, ...]:
    """A list of non-empty strings; a lone string is a common slip and is refused."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise DefinitionError(f"{owner}: {field} must be a list of strings, not {value!r}.")
    items = tuple(value)
    for item in items:
        text(owner, f"each of {field}", item)
    return items


def mapping(owner: str, field: str, value: object) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise DefinitionError(f"{owner}: {field} must be a dict with string keys, not {value!r}.")
    return dict(value)


def public(owner: str, field: str, value: object) -> dict[str, Any]:
    """A dict that manifests will show: JSON, and a copy of its own."""
    given = mapping(owner, field, value)
    try:
        return cast("dict[str, Any]", jsonable(given))
    except NotJsonable as exc:
        raise DefinitionError(f"{owner}: {field} is shown in manifests and must be JSON: {exc}.") from exc


class Retry(NamedTuple):
    """How often, and after what pause, a retryable failure is tried again."""

    retries: int = 0
    delay: float = 0.1
    backoff: Literal["linear", "exponential"] = "linear"
    max_delay: float = 30.0
    jitter: bool = False

    def pause(self, attempt: int, randomness: float) -> float:
        """Seconds before retry number `attempt` (from 1); `randomness` is in [0, 1)."""
        # The exponent is bounded so that a large retry count cannot overflow.
        factor = attempt if self.backoff == "linear" else 2.0 ** min(attempt - 1, 63)
        pause = min(self.delay * factor, self.max_delay)
        return pause * randomness if self.jitter else pause


class Concurrency(NamedTuple):
    """How many calls of one action run at once; `queue` more may wait, each for `wait` seconds at most."""

    max: int = 0
    queue: int = 0
    wait: float | None = None


class RateLimit(NamedTuple):
    """`limit` calls in `per` seconds, counted for each caller or for the action as a whole."""

    limit: int
    per: float = 60.0
    by: Literal["caller", "action"] = "caller"


class Deprecation(NamedTuple):
    message: str | None = None
    since: str | None = None
    remove_after: str | None = None
    replacement: str | None = None


_PERIODS = {
    "s": 1.0,
    "sec": 1.0,
    "second": 1.0,
    "m": 60.0,
    "min": 60.0,
    "minute": 60.0,
    "h": 3600.0,
    "hour": 3600.0,
}
_RATE = r"\s*(\d+)\s*/\s*([a-z]+)\s*"

T = TypeVar("T", Retry, Concurrency, RateLimit, Deprecation)


def _build(cls: type[T], owner: str, field: str, value: Mapping[str, Any]) -> T:
    known_keys(f"{owner}: {field}", value, cls._fields)
    try:
        return cls(**value)
    except TypeError as exc:
        raise DefinitionError(f"{owner}: {field} is incomplete: {exc}.") from exc


def _whole(owner: str, field: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise DefinitionError(f"{owner}: {field} must be a whole number of at least {least}, not {value!r}.")


def retry(owner: str, value: object) -> Retry:
    """`True` means two retries; a number says how many; a dict or `Retry` says all."""
    if value is None or value is False:
        return Retry()
    if value is True:
        return Retry(retries=2)
    if isinstance(value, int):
        value = Retry(retries=value)
    if isinstance(value, Mapping):
        value = _build(Retry, owner, "retry", value)
    if not isinstance(value, Retry):
        raise DefinitionError(f"{owner}: retry must be True, a number, a dict or a Retry, not {value!r}.")
    _whole(owner, "retry.retries", value.retries, 0)
    one_of(owner, "retry.backoff", value.backoff, ("linear", "exponential"))
    boolean(owner, "retry.jitter", value.jitter)
    for name in ("delay", "max_delay"):
        if getattr(value, name) != 0:
            seconds(owner, f"retry.{name}", getattr(value, name))
    return value


def concurrency(owner: str, value: object) -> Concurrency:
    if value is None:
        return Concurrency()
    if isinstance(value, int) and not isinstance(value, bool):
        value = Concurrency(max=value)
    if isinstance(value, Mapping):
        value = _build(Concurrency, owner, "concurrency", value)
    if not isinstance(value, Concurrency):
        raise DefinitionError(
            f"{owner}: concurrency must be a number, a dict or a Concurrency, not {value!r}."
        )
    _whole(owner, "concurrency.max", value.max, 0)
    _whole(owner, "concurrency.queue", value.queue, 0)
    seconds(owner, "concurrency.wait", value.wait)
    return value


def rate_limit(owner: str, value: object) -> RateLimit | None:
    if value is None:
        return None
    if isinstance(value, str):
        value = _parse_rate(owner, value)
    if isinstance(value, Mapping):
        value = _build(RateLimit, owner, "rate_limit", value)
    if not isinstance(value, RateLimit):
        raise DefinitionError(
            f"{owner}: rate_limit must be text like '10/minute', a dict or a RateLimit, not {value!r}."
        )
    _whole(owner, "rate_limit.limit", value.limit, 1)
    seconds(owner, "rate_limit.per", value.per)
    one_of(owner, "rate_limit.by", value.by, ("caller", "action"))
    return value


def _parse_rate(owner: str, value: str) -> RateLimit:
    match = re.fullmatch(_RATE, value.lower())
    if match is None or match[2] not in _PERIODS:
        raise DefinitionError(
            f"{owner}: rate_limit {value!r} is not of the form '10/second', '10/minute' or '10/hour'."
        )
    return RateLimit(int(match[1]), _PERIODS[match[2]])


def deprecation(owner: str, deprecated: object, value: object) -> Deprecation | None:
    """Either of the two makes an action deprecated."""
    if value is None:
        return Deprecation() if boolean(owner, "deprecated", deprecated) else None
    if isinstance(value, str):
        value = Deprecation(message=value)
    if isinstance(value, Mapping):
        value = _build(Deprecation, owner, "deprecation", value)
    if not isinstance(value, Deprecation):
        raise DefinitionError(f"{owner}: deprecation must be text, a dict or a Deprecation, not {value!r}.")
    for name, given in value._asdict().items():
        if given is not None:
            text(owner, f"deprecation.{name}", given)
    return value


def confirmation(owner: str, value: object, side_effects: str) -> Any:
    """`True` takes the caller's word; `"token"` asks for the token that was bound to this very input."""
    if value is None:
        return side_effects == "destructive"
    if isinstance(value, bool) or value == "token":
        return value
    raise DefinitionError(f"{owner}: requires_confirmation must be True, False or 'token', not {value!r}.")
