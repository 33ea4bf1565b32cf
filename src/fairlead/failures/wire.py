"""What the five wires share: choosing the word to tell, carrying the origin, and reading what a peer sent.

It knows that a failure may be told in a family's words, and nothing about any family's envelope.
Nothing here raises for what a peer sent, whatever its shape.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import isfinite
from typing import Any

from fairlead import _json
from fairlead.failures.failure import FAMILIES, Entry, Failure, Issue, Origin, default_message, lookup, revive
from fairlead.failures.kinds import PIVOT, Kind
from fairlead.failures.redaction import DEFAULT

#: What the runtime says of input that the schema refuses; the issues say what is wrong with it.
INVALID_INPUT = "Invalid action input."
OURS = ("field", "expected", "issues", "retry_after", "origin")
_LONGEST_CODE = 64
_LONGEST_TEXT = 2000


def word(failure: Failure, family: str) -> str:
    """The code to tell on a family's wire: its own there, else the pivot's word for the kind."""
    if failure.family == family:
        return failure.code
    if failure.origin is not None and failure.origin.family == family:
        return failure.origin.code
    return PIVOT[failure.kind].on(family)


def fact(failure: Failure, family: str, name: str) -> Any:
    """What the told code states for itself, else what the pivot's word states; None when neither does."""
    told = type(failure) if failure.family == family else lookup(family, word(failure, family))
    if name in told.facts:
        return told.facts[name]
    return lookup(family, PIVOT[failure.kind].on(family)).facts.get(name)


def origin(failure: Failure, family: str, told: str) -> dict[str, str] | None:
    """What a reader needs besides the told word to get the failure back; None when the word says it all."""
    home = failure.origin or Origin(failure.family, failure.code)
    known = lookup(home.family, home.code) if home.family in FAMILIES else Failure
    kind = getattr(known, "kind", None)
    carried = {"family": home.family, "code": home.code}
    if (home.family, home.code) == (family, told):
        return None if kind in (None, failure.kind) else {**carried, "kind": failure.kind.value}
    # A peer may not know a user's code; it knows the kind.
    if kind != failure.kind or not known.__module__.startswith("fairlead."):
        carried["kind"] = failure.kind.value
    return carried


def extras(shown: Failure, family: str, told: str, reserved: Collection[str]) -> dict[str, Any]:
    """The members that stand beside the three or four a flat envelope has of its own."""
    beside = {k: v for k, v in plain(shown.details).items() if k not in reserved and k not in OURS}
    if shown.field is not None:
        beside["field"] = shown.field
    if shown.expected is not None:
        beside["expected"] = shown.expected
    if shown.issues:
        beside["issues"] = issues(shown)
    if (seconds := number(shown.retry_after)) is not None:
        beside["retry_after"] = seconds
    if (carried := origin(shown, family, told)) is not None:
        beside["origin"] = carried
    return beside


def issues(shown: Failure) -> list[dict[str, Any]]:
    """The failure's issues as JSON."""
    return [issue.to_dict() for issue in shown.issues]


def plain(details: Mapping[str, Any]) -> dict[str, Any]:
    """Redacted details in JSON's own types: dates become text."""
    if not details:
        return {}
    try:
        told: dict[str, Any] = _json.loads(_json.encode(details))
    except (TypeError, ValueError):
        return {str(key): DEFAULT.text(_said(value)) for key, value in details.items()}
    return told


def _said(value: Any) -> str:
    try:
        return str(value)
    except Exception:  # a number of 5000 digits, or whatever somebody's own type raises
        return f"<{type(value).__name__}>"


def sample(cls: type[Failure]) -> Failure:
    """A failure of this code and nothing else."""
    return revive(cls.family, cls.code, cls.kind)


def entry(cls: type[Failure], *, http: int | None, exit: int | None, retry: bool, where: str = "") -> Entry:
    """A line of the catalogue."""
    message = default_message(cls, cls.code)
    return Entry(cls.family, cls.code, cls.kind, message, http, exit, retry, where)


def receive(
    family: str, code: str, *, carried: Any = None, hint: Kind | None = None, **attributes: Any
) -> Failure:
    """The failure behind a told code: the one it began as, when its origin came along."""
    known = getattr(lookup(family, code), "kind", None)
    born = read_origin(carried)
    if born is None:
        return revive(family, code, known or hint or Kind.upstream, **attributes)
    home, kind = born
    kind = kind or getattr(lookup(*home), "kind", None) or known or hint or Kind.upstream
    if home.family == family:
        return revive(*home, kind, **attributes)
    if code != PIVOT[kind].on(family):
        return revive(family, code, kind, origin=home, **attributes)
    return revive(*home, kind, origin=home, **attributes)


def unreadable(family: str, data: Any) -> Failure:
    """What to say of an answer that holds no failure we can read."""
    said = text(data)
    message = said[:_LONGEST_TEXT] if said else "The answer could not be read as a failure."
    return revive(family, PIVOT[Kind.upstream].on(family), Kind.upstream, message=message)


def load(data: Any) -> Any:
    """The JSON value behind text or bytes; anything else as it is."""
    if not isinstance(data, str | bytes | bytearray):
        return data
    try:
        return _json.loads(data)
    except (ValueError, TypeError):
        return data.decode(errors="replace") if isinstance(data, bytes | bytearray) else data


def text(value: Any) -> str | None:
    """A non-blank string, else None."""
    return value if isinstance(value, str) and value.strip() else None


def code_of(value: Any) -> str | None:
    """A string that can stand as a code; prose and anything that looks like a secret cannot."""
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_CODE or not value.isascii():
        return None
    if not value.replace("_", "").replace("-", "").replace(".", "").isalnum() or DEFAULT.text(value) != value:
        return None
    return value


def number(value: Any) -> float | None:
    """A finite number of at least zero, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return value if isfinite(value) and value >= 0 else None
    except OverflowError:
        return None


def flag(value: Any, default: bool) -> bool | None:
    """An explicit yes or no where it differs from the default, else None."""
    return value if isinstance(value, bool) and value is not default else None


def members(value: Any) -> dict[str, Any]:
    """A JSON object, or an empty one."""
    return value if isinstance(value, dict) else {}


def read_origin(value: Any) -> tuple[Origin, Kind | None] | None:
    """The origin a peer sent along, when it is one."""
    sent = members(value)
    family, code = sent.get("family"), code_of(sent.get("code"))
    if family not in FAMILIES or code is None:
        return None
    return Origin(family, code), read_kind(sent.get("kind"))


def read_kind(value: Any) -> Kind | None:
    """The kind of that name, when there is one."""
    try:
        return Kind(value)
    except ValueError:
        return None


def read_issues(value: Any) -> tuple[Issue, ...]:
    """The issues a peer sent, as far as they can be read."""
    if not isinstance(value, list):
        return ()
    return tuple(_issue(item) for item in value if isinstance(item, dict))


def read_extras(data: dict[str, Any], reserved: Collection[str]) -> dict[str, Any]:
    """The common members of a flat envelope, as a failure's attributes; the rest becomes details."""
    return {
        "field": text(data.get("field")),
        "expected": text(data.get("expected")),
        "issues": read_issues(data.get("issues")),
        "retry_after": number(data.get("retry_after")),
        "details": {str(k): v for k, v in data.items() if k not in reserved and k not in OURS},
    }


def _issue(sent: dict[str, Any]) -> Issue:
    path = sent.get("path")
    steps = path if isinstance(path, list) else [path]
    return Issue(
        path=tuple(s for s in steps if isinstance(s, str | int) and not isinstance(s, bool)),
        code=code_of(sent.get("code")) or "invalid",
        message=text(sent.get("message")) or "The value is not valid.",
        expected=text(sent.get("expected")),
        received=text(sent.get("received")),
    )
