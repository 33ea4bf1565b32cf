"""The JSON runner: a call as one JSON value, its answer as one envelope.

    runner = app.json_runner(user={"id": "u1"}, auth={"permissions": ["tasks:*"]})
    envelope = await runner.invoke({"action": "create_task", "input": {"title": "Write"}})

Who is calling is said by the host program when it makes the runner. A payload that names a user or
credentials is run as if it did not, and the envelope's `meta.warnings` says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairlead import _json
from fairlead.actions.policy import near_miss
from fairlead.failures import Failure, Issue, from_exception
from fairlead.failures import action as wire
from fairlead.runtime import App, Signal
from fairlead.surfaces.exposed import find
from fairlead.surfaces.refusal import LONGEST, refusal

__all__ = ["JsonRunner"]

SURFACE = "json"

#: Unknown members that are told one by one; the rest are counted.
_TOLD = 10
_LONGEST_WAIT = 10**12

#: What a payload may hold, by both spellings.
_KEYS = {
    "action": "action",
    "input": "input",
    "confirm": "confirm",
    "metadata": "metadata",
    "idempotencyKey": "idempotency_key",
    "idempotency_key": "idempotency_key",
    "timeoutMs": "timeout",
    "timeout_ms": "timeout",
}
_MEMBERS = [key for key in _KEYS if "_" not in key]
_IDENTITY = ("user", "auth")
_IGNORED = "The payload's {} was ignored: identity is given by the host program, not by the payload."


class JsonRunner:
    """Runs payloads for one caller, whom the host program vouches for."""

    def __init__(self, app: App, *, user: Any = None, auth: Any = None) -> None:
        self._app = app
        self._user = user
        self._auth = auth

    async def invoke(self, payload: Any, *, signal: Signal | None = None) -> dict[str, Any]:
        """Run a payload: a dict, or the JSON text of one. Always gives an envelope, never raises."""
        call: _Call | None = None
        try:
            call = _read(payload)
            action = find(self._app, call.action, SURFACE)
            result = await self._app.invoke(action, signal=signal, **self._options(call))
        except Exception as exc:
            return self._refusal(from_exception(exc), call)
        return _envelope(result.to_dict(), call)

    def invoke_sync(self, payload: Any) -> dict[str, Any]:
        """`invoke` for code without an event loop. Raises DefinitionError inside one."""
        call: _Call | None = None
        try:
            call = _read(payload)
            action = find(self._app, call.action, SURFACE)
        except Exception as exc:
            return self._refusal(from_exception(exc), call)
        return _envelope(self._app.invoke_sync(action, **self._options(call)).to_dict(), call)

    def _options(self, call: _Call) -> dict[str, Any]:
        return {"surface": SURFACE, "user": self._user, "auth": self._auth, **call.options}

    def _refusal(self, failure: Failure, call: _Call | None) -> dict[str, Any]:
        return _envelope(refusal(failure, SURFACE, self._app, None if call is None else call.action), call)


class _Call:
    """A payload that was understood."""

    __slots__ = ("action", "options", "warnings")

    def __init__(self, action: str, options: dict[str, Any], warnings: list[str]) -> None:
        self.action = action
        #: `input` is here only when the payload has one: an explicit null stays null.
        self.options = options
        self.warnings = warnings


def _read(payload: Any) -> _Call:
    if isinstance(payload, str | bytes | bytearray | memoryview):
        payload = _parsed(payload)
    if not isinstance(payload, Mapping):
        raise _invalid(Issue((), "invalid_type", "The payload must be an object.", "object", _type(payload)))
    issues: list[Issue] = []
    given: dict[str, Any] = {}
    unknown: list[Any] = []
    for key, value in payload.items():
        if key in _IDENTITY:
            continue
        name = _KEYS.get(key)
        if name is None:
            unknown.append(key)
        elif name in given:
            issues.append(Issue((key,), "duplicate", f"{key!r} is given in both spellings; give one."))
        else:
            given[name] = value
            if (issue := _wrong(key, name, value)) is not None:
                issues.append(issue)
    if "action" not in given:
        issues.append(Issue(("action",), "required", "The payload must name an action.", "string", None))
    issues += map(_unknown, unknown[:_TOLD])
    if len(unknown) > _TOLD:
        message = f"{len(unknown)} members are unknown; the first {_TOLD} are listed."
        issues.append(Issue((), "too_many_unknown_keys", message))
    if issues:
        raise _invalid(*issues)
    return _Call(
        given.pop("action"),
        _options(given),
        [_IGNORED.format(repr(key)) for key in _IDENTITY if key in payload],
    )


def _parsed(text: str | bytes | bytearray | memoryview) -> Any:
    try:
        return _json.loads(text)
    except ValueError as exc:
        raise _invalid(Issue((), "invalid_json", f"The payload is not JSON: {exc}.")) from exc


def _options(given: dict[str, Any]) -> dict[str, Any]:
    options = {key: value for key, value in given.items() if key == "input" or value is not None}
    if "timeout" in options:
        options["timeout"] /= 1000
    return options


def _wrong(key: str, name: str, value: Any) -> Issue | None:
    """What is wrong with one member; null stands for a member that is left out."""
    if name == "input" or (value is None and name != "action"):
        return None
    expected, fits = _EXPECTED[name]
    if fits(value):
        return None
    return Issue((key,), "invalid_type", f"{key!r} must be {expected}.", expected, _type(value))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_time(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 < value <= _LONGEST_WAIT and value / 1000 > 0


_EXPECTED: dict[str, tuple[str, Any]] = {
    "action": ("a non-empty string", _is_text),
    "confirm": (
        "true, false or a confirmation token",
        lambda value: isinstance(value, bool) or _is_text(value),
    ),
    "metadata": ("an object", lambda value: isinstance(value, Mapping)),
    "idempotency_key": ("a non-empty string", _is_text),
    "timeout": (f"a positive number of milliseconds, at most {_LONGEST_WAIT}", _is_time),
}


def _unknown(key: Any) -> Issue:
    name = str(key)[:LONGEST]
    hint = near_miss(name, _MEMBERS) if isinstance(key, str) else ""
    message = f"A payload has no such member.{hint} Members are {', '.join(_MEMBERS)}."
    return Issue((name,), "unknown_key", message)


def _type(value: Any) -> str:
    if value is None:
        return "null"
    words = {bool: "boolean", int: "number", float: "number", str: "string", list: "array", dict: "object"}
    return words.get(type(value), type(value).__name__)


def _invalid(*issues: Issue) -> Failure:
    return wire.InvalidJsonRunnerPayload(issues=issues)


def _envelope(envelope: dict[str, Any], call: _Call | None) -> dict[str, Any]:
    if call is not None and call.warnings:
        envelope["meta"]["warnings"] = [*call.warnings, *envelope["meta"].get("warnings", [])]
    return envelope
