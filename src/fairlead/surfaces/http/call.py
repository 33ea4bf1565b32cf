"""A request's body as a call: its members checked, what is wrong with it told all at once.

It knows nothing of HTTP but this one JSON object; a batch holds many of them. Who is calling is not in it:
members that claim an identity are ignored, and the envelope's `meta.warnings` says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairlead._json import DEEPEST, is_deep, loads
from fairlead.actions import Action
from fairlead.actions.policy import near_miss
from fairlead.failures import Failure, Issue
from fairlead.failures.action import InvalidJsonBody, ValidationError
from fairlead.runtime.runtime import NOTHING
from fairlead.surfaces.refusal import LONGEST

#: Unknown members that are told one by one; the rest are counted.
_TOLD = 10
_LONGEST_WAIT = 10**12
#: Characters of an idempotency key: keys are kept for a while, and anybody may send them.
LONGEST_KEY = 255

_IDENTITY = ("user", "auth")
_IGNORED = "The body's {!r} was ignored: who is calling is found from the request's credentials."
_TYPES = {bool: "boolean", int: "number", float: "number", str: "string", list: "array", dict: "object"}


class Call:
    """A call that was understood. An input of null is null; only one that is left out is nothing."""

    # Most calls have an input and nothing else: what a call does not say keeps its default here.
    confirm: bool | str | None = None
    metadata: Mapping[str, Any] | None = None
    idempotency_key: str | None = None
    #: Seconds.
    timeout: float | None = None
    warnings: tuple[str, ...] = ()
    #: Only in a batch: elsewhere the path names it.
    action: str = ""

    def __init__(self, input: Any = NOTHING) -> None:
        self.input = input


def parsed(body: bytes) -> Any:
    """The value of a JSON body; none at all is an empty object.

    Raises:
        InvalidJsonBody: it is not JSON.
    """
    if not body:
        return {}
    try:
        value = loads(body)
    except ValueError as exc:
        raise InvalidJsonBody(f"The request's body is not JSON: {exc}.") from exc
    if is_deep(value, body):
        raise InvalidJsonBody(f"The request's body has more than {DEEPEST} levels of lists and objects.")
    return value


def read_call(members: Any, action: Action[..., Any] | None) -> Call:
    """The call that a JSON object makes; in a batch, where no path names the action, it does.

    Raises:
        ValidationError: with an issue for each member that is wrong.
    """
    if type(members) is not dict:
        raise _invalid(Issue((), "invalid_type", "A call must be an object.", "object", type_of(members)))
    # Most calls have an input and nothing else.
    if len(members) == 1 and "input" in members and action is not None:
        return Call(members["input"])
    if not members and action is not None:
        return Call()
    return _read(members, action)


def with_key(call: Call, header: bytes) -> Call:
    """The call with the key of its `Idempotency-Key` header.

    Raises:
        ValidationError: the header is empty or too long, or the body has another key.
    """
    key = header.decode("latin-1").strip()
    if not _is_key(key):
        message = f"The Idempotency-Key header must be {_KEY}."
        raise _invalid(Issue(("Idempotency-Key",), "invalid_value", message, _KEY))
    if call.idempotency_key is None:
        call.idempotency_key = key
    elif call.idempotency_key != key:
        message = "The Idempotency-Key header and the body's idempotencyKey differ; give one, or the same."
        raise _invalid(Issue(("idempotencyKey",), "conflict", message))
    return call


def type_of(value: Any) -> str:
    """A JSON value's type, in JSON's word."""
    return "null" if value is None else _TYPES.get(type(value), type(value).__name__)


def _read(members: dict[str, Any], action: Action[..., Any] | None) -> Call:
    issues: list[Issue] = []
    given: dict[str, Any] = {}
    unknown: list[str] = []
    for key, value in members.items():
        if key in _IDENTITY:
            continue
        name = _NAMES.get(key) if key != "action" or action is None else None
        if name is None:
            unknown.append(key)
        elif name in given:
            issues.append(Issue((key,), "duplicate", f"{key!r} is given twice in a way; give one."))
        elif value is None and name not in _KEPT:
            continue
        elif (expected := _wrong(name, value)) is not None:
            issues.append(
                Issue((key,), "invalid_type", f"{key!r} must be {expected}.", expected, type_of(value))
            )
        else:
            given[name] = value
    if action is None and "action" not in members:
        issues.append(Issue(("action",), "required", "A call of a batch must name its action."))
    issues += [_unknown(key, action) for key in unknown[:_TOLD]]
    if len(unknown) > _TOLD:
        message = f"{len(unknown)} members are unknown; the first {_TOLD} are listed."
        issues.append(Issue((), "too_many_unknown_keys", message))
    if issues:
        raise _invalid(*issues)
    if "timeout" in given:
        # The least there is, for what rounds to nothing.
        given["timeout"] = given["timeout"] / 1000 or 5e-324
    call = Call()
    call.warnings = tuple(_IGNORED.format(key) for key in _IDENTITY if key in members)
    call.__dict__.update(given)
    return call


#: Members by their spellings.
_NAMES = {
    "action": "action",
    "input": "input",
    "arguments": "input",
    "confirm": "confirm",
    "metadata": "metadata",
    "idempotencyKey": "idempotency_key",
    "idempotency_key": "idempotency_key",
    "timeoutMs": "timeout",
    "timeout_ms": "timeout",
}
#: Where null is a value, not a member that is left out.
_KEPT = ("input", "action")
_KEY = f"a string of 1 to {LONGEST_KEY} characters"
_MEMBERS = ("input", "confirm", "metadata", "idempotencyKey", "timeoutMs")


def _wrong(name: str, value: Any) -> str | None:
    """What a member should have been; None if it is."""
    if name == "input":
        return None
    if name == "confirm":
        return None if isinstance(value, bool) or _is_text(value) else "true, false or a confirmation token"
    if name == "metadata":
        return None if isinstance(value, dict) else "an object"
    if name == "timeout":
        return None if _is_time(value) else f"a positive number of milliseconds, at most {_LONGEST_WAIT}"
    if name == "idempotency_key":
        return None if _is_key(value) else _KEY
    return None if _is_text(value) else "a non-empty string"


def _is_key(value: Any) -> bool:
    return _is_text(value) and len(value) <= LONGEST_KEY


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_time(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 < value <= _LONGEST_WAIT


def _unknown(key: str, action: Action[..., Any] | None) -> Issue:
    name = key[:LONGEST]
    known = _MEMBERS if action is not None else ("action", *_MEMBERS)
    hint = near_miss(name, known)
    if action is not None and key in action.input.json_schema.get("properties", {}):
        hint = f" It is a field of {action.name!r}: fields go into 'input'."
    message = f"A call has no such member.{hint} Members are {', '.join(known)}."
    return Issue((name,), "unknown_key", message)


def _invalid(*issues: Issue) -> Failure:
    return ValidationError("The request's body is not a call.", issues=issues)
