"""What a program says of a task when it submits one, checked before anything is kept.

What a database would keep otherwise than it was given, or fail on, is refused by the name of the argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from fairlead._json import dumps, plain
from fairlead.failures import Failure, Kind
from fairlead.runtime.identity import LONGEST_KEY, shortened
from fairlead.schema import NotJsonable, jsonable
from fairlead.store import Tx
from fairlead.store.store import writable

#: The longest deadline: seven days.
LONGEST: Final = 7 * 86_400.0


class Rate(NamedTuple):
    """At most `limit` submits in any `per` seconds under one key."""

    key: str
    limit: int
    per: float = 60.0


def checked(
    now: float,
    delay: float,
    deadline: float | None,
    priority: int,
    title: str | None,
    metadata: Mapping[str, Any] | None,
    parent: str | None,
    slot: str | None,
    slots: int,
    max_attempts: int,
) -> dict[str, Any]:
    """The columns of a row that these make.

    Raises:
        Failure: one of them makes no sense.
    """
    if not (is_number(delay) and 0 <= delay <= LONGEST * 52):
        raise _wrong("delay", "must be seconds from now, a year at most.")
    if deadline is not None and not (is_number(deadline) and 0 < deadline <= LONGEST):
        raise _wrong("deadline", "must be more than 0 and at most 604800 seconds (7 days).")
    whole("priority", priority, -1000, 1000)
    whole("slots", slots, 1)
    whole("max_attempts", max_attempts, 1)
    return {
        "due": now + delay,
        "deadline": None if deadline is None else now + deadline,
        "priority": priority,
        "created": now,
        "title": words("title", title),
        "metadata": text(_members("metadata", metadata)),
        "parent": None if parent is None else a_text("parent", parent),
        "slot": name("slot", slot),
        "slots": slots,
        "max_attempts": max_attempts,
    }


def whole(field: str, given: int, least: int, most: int = 2**31 - 1) -> None:
    """Refuse what not every database keeps as it is: SQLite would keep a part of a number, PostgreSQL none."""
    if type(given) is not int or not least <= given <= most:
        raise _wrong(field, f"must be a whole number from {least} to {most}.")


def words(field: str, given: str | None) -> str | None:
    """Words for people, as every database can keep them."""
    return None if given is None else writable(a_text(field, given))


def name(field: str, given: str | None) -> str | None:
    """A key or a slot as every database can keep and find it: what is long, as a digest.

    Raises:
        Failure: it has characters that cannot be kept.
    """
    if given is None:
        return None
    if writable(a_text(field, given)) != given:
        raise _wrong(field, "must be a text of whole characters, and without NUL.")
    return given if len(given) <= LONGEST_KEY else shortened(given)


def request(given: bytes | None) -> None:
    """Refuse what no digest can be made of."""
    if given is not None and not isinstance(given, bytes | bytearray | memoryview):
        raise _wrong("request", "must be bytes.")


def rate(given: Rate | None) -> None:
    """Refuse a rate that makes no sense."""
    if given is None:
        return
    if not isinstance(given, Rate):
        raise _wrong("rate", "must be a Rate: Rate(key, limit, per).")
    if not (is_number(given.limit) and given.limit >= 1 and is_number(given.per) and given.per > 0):
        raise _wrong("rate", "must allow at least 1 submit, in more than 0 seconds.")
    a_text("rate", given.key)


def limited(tx: Tx, rate: Rate, now: float) -> None:
    """Count a submit. Raises Failure where there were too many."""
    from fairlead.store.rates import window

    wait = window(tx, f"submit:{rate.key}", rate.limit, rate.per, now)
    if wait > 0:
        raise Failure(
            Kind.rate_limited,
            f"More than {rate.limit} tasks in {rate.per:g} s. Try again in {wait:.3g} s.",
            retry_after=wait,
        )


def text(value: Any) -> str:
    """A value as it is kept."""
    return plain(value) or dumps(json_of(value))


def json_of(value: Any) -> Any:
    """A value as JSON. Raises Failure where it has no such form."""
    try:
        return jsonable(value)
    except NotJsonable as exc:
        raise Failure(Kind.invalid_input, f"A task keeps JSON, and this is none: {exc}", cause=exc) from exc


def seconds(field: str, given: float | None, least: float | None = None) -> None:
    """Refuse what is no time to wait."""
    if given is not None and not (is_number(given) and (least is None or given >= least)):
        raise _wrong(field, "must be seconds." if least is None else f"must be seconds, {least:g} or more.")


def is_number(given: Any) -> bool:
    """Whether it is a number that can be counted with, and no truth value."""
    return isinstance(given, int | float) and not isinstance(given, bool)


def a_text(field: str, given: Any) -> str:
    """Refuse what is no text, as an id or a caller has to be."""
    if not isinstance(given, str):
        raise _wrong(field, "must be a text.")
    return given


def _members(field: str, given: Any) -> dict[Any, Any]:
    try:
        return dict(given or {})
    except (TypeError, ValueError):
        raise _wrong(field, "must be a mapping of names to values.") from None


def all_of(field: str, given: Any) -> Iterable[Any]:
    """Refuse what is no list of anything."""
    if not isinstance(given, Iterable):
        raise _wrong(field, "must be a list.")
    return given


def _wrong(field: str, what: str) -> Failure:
    return Failure(Kind.invalid_input, f"{field} {what}", field=field)
