"""The tool family: the eight kinds a model is told, the tool envelope, and making one of what a tool said.

Retry advice here answers whether the model may try again, corrected. An envelope of ours is known by its head, so
a large one costs nothing to classify; one that others spelled is read. Running tools, and checking their arguments,
belongs elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from fairlead import _json
from fairlead.failures import wire
from fairlead.failures.failure import Entry, Failure, lookup, register_base, text_of
from fairlead.failures.kinds import PIVOT, Kind
from fairlead.failures.redaction import DEFAULT, Redactor

RESERVED = ("ok", "kind", "message", "retryable", "field", "expected", "tool")
HEAD = 2048
# How many characters of a result a model is shown, by what it is.
CAPS = {
    "any": 100_000,
    "exec_stdout": 50_000,
    "exec_stderr": 10_000,
    "exec_retry": 20_000,
    "exec_first_attempt": 10_000,
    "shell": 10_000,
    "git_diff": 20_000,
    "file_read": 15_000,
    "search": 12_000,
    "tree": 8_000,
}
# Room for what is around a text that is cut.
_FRAME = 400
_LEGACY = {"[REJECTED]": "rejected", "[TIMEOUT]": "timeout"}


class ToolFailure(Failure, family="tool"):
    """A failure in the tool family's words."""


register_base(ToolFailure)


class InvalidArgs(ToolFailure, code="invalid_args", kind=Kind.invalid_input, retryable=True):
    """An argument is missing, malformed or out of scope; call the tool again with it mended."""


class Rejected(ToolFailure, code="rejected", kind=Kind.forbidden, retryable=False):
    """The configured policy does not allow this call."""


class UserDenied(ToolFailure, code="user_denied", kind=Kind.refused_by_user, retryable=False):
    """The user declined this call."""


class Timeout(ToolFailure, code="timeout", kind=Kind.timeout, retryable=True):
    """The tool ran past the time it had."""


class ExecutionError(ToolFailure, code="execution_error", kind=Kind.upstream, retryable=True):
    """The tool ran, but failed."""


class NotFound(ToolFailure, code="not_found", kind=Kind.not_found, retryable=False):
    """The file or directory does not exist."""


class Unavailable(ToolFailure, code="unavailable", kind=Kind.unavailable, retryable=True):
    """The tool exists but cannot run right now."""


class ToolNotFound(ToolFailure, code="tool_not_found", kind=Kind.unknown_action, retryable=False):
    """There is no tool of this name."""


def retryable(failure: Failure) -> bool:
    """Whether the model may try again, corrected."""
    return _default_retryable(failure) if failure.retryable is None else failure.retryable


def from_exception(exc: BaseException) -> Failure:
    """What a tool's exception means to a model; a missing path and a lost connection are told apart."""
    if isinstance(exc, Failure):
        return exc
    said = DEFAULT.text(text_of(exc))
    if isinstance(exc, FileNotFoundError | NotADirectoryError):
        return NotFound(said, field="path", cause=exc)
    if isinstance(exc, TimeoutError):
        return Timeout(said, cause=exc)
    if isinstance(exc, ConnectionError):
        return Unavailable(said, cause=exc)
    lasting = isinstance(exc, UnicodeError) or any(c.__name__ == "CancelledError" for c in type(exc).__mro__)
    return ExecutionError(said, retryable=False if lasting else None, cause=exc)


def render(failure: Failure, tool: str | None = None, redactor: Redactor = DEFAULT) -> dict[str, Any]:
    """The failure envelope, redacted: `ok` first, the other keys sorted."""
    shown, kind = redactor.failure(failure), wire.word(failure, "tool")
    told = wire.extras(shown, "tool", kind, RESERVED)
    told |= {"kind": kind, "message": _explained(shown), "retryable": retryable(failure)}
    if name := tool or wire.text(shown.details.get("tool")):
        told["tool"] = name
    return {"ok": False, **dict(sorted(told.items()))}


def success(result: Any = None, *, tool: str | None = None, warnings: Sequence[str] = ()) -> dict[str, Any]:
    """The success envelope around a result."""
    envelope: dict[str, Any] = {"ok": True, "result": result}
    if tool is not None:
        envelope["tool"] = tool
    if warnings:
        envelope["warnings"] = list(warnings)
    return envelope


def text(text: str, *, tool: str | None = None, warnings: Sequence[str] = ()) -> dict[str, Any]:
    """The success envelope around a text a person can read."""
    return success({"text": text}, tool=tool, warnings=warnings)


def dumps(envelope: dict[str, Any]) -> str:
    """The envelope as text: `ok` first, all other keys sorted, slashes as they are."""
    rest = {key: value for key, value in envelope.items() if key != "ok"}
    first = '{"ok":' + ("true" if envelope.get("ok") is True else "false")
    return first + ("," + _json.dumps(rest, sort_keys=True)[1:] if rest else "}")


def is_error(said: str) -> bool:
    """Whether a tool's text is a failure, in today's form or an older one."""
    return _verdict(said) is False


def is_success(said: str) -> bool:
    """Whether a tool's text is a success envelope."""
    return _verdict(said) is True


def payload(said: str) -> Any:
    """The result in a success envelope, else None."""
    return wire.members(wire.load(said)).get("result") if is_success(said) else None


def message(said: str) -> str:
    """What a failure says; text that is no failure says itself."""
    envelope = wire.members(wire.load(said))
    return wire.text(envelope.get("message")) or wire.text(envelope.get("reason")) or said


def parse(data: Any) -> Failure:
    """The failure in an envelope, its JSON text, or an older form of it. Never raises."""
    sent = wire.load(data)
    if isinstance(sent, str):
        return _parse_text(sent)
    envelope = wire.members(sent)
    said = wire.text(envelope.get("message")) or wire.text(envelope.get("reason"))
    kind = wire.code_of(envelope.get("kind"))
    if kind is None and "retryable" in envelope:
        kind, said = _legacy(envelope.get("error"), said)
    if kind is None and (said is None or envelope.get("ok") is True):
        return wire.unreadable("tool", sent)
    failure = wire.receive(
        "tool",
        kind or ExecutionError.code,
        carried=envelope.get("origin"),
        message=said,
        **wire.read_extras(envelope, [key for key in RESERVED if key != "tool"]),
    )
    failure.retryable = wire.flag(envelope.get("retryable"), _default_retryable(failure))
    return failure


def truncate(said: str, cap: int = CAPS["exec_stdout"], *, head: float = 0.4, hint: str = "") -> str:
    """Text cut to about `cap` characters: its beginning, a line on what was left out, and its end."""
    if len(said) <= cap:
        return said
    first = int(cap * head)
    omitted = f"[{len(said) - cap} of {len(said)} characters omitted]"
    line = f"\n... {omitted}{' ' + hint if hint else ''} ...\n"
    return said[:first] + line + said[len(said) - (cap - first) :]


def normalize(said: str, tool: str | None = None) -> str:
    """Whatever a tool returned, as an envelope of bounded size; an envelope within bounds stays as it is."""
    cap = CAPS["any"]
    if len(said) <= cap:
        if is_error(said) or is_success(said):
            return said
        told = dumps(text(said, tool=tool))
        if len(told) <= cap + _FRAME:
            return told
    cut: dict[str, Any] = {"truncated": True, "original_chars": len(said), "content": _shortened(said, cap)}
    if is_error(said):
        told = f"The tool failed, and what it said is too long to show in full ({len(said)} characters)."
        return dumps(render(ExecutionError(told, details=cut), tool))
    warning = f"The result has {len(said)} characters; the middle was left out. Ask for less at once."
    return dumps(success({"kind": "truncated_output", **cut}, tool=tool, warnings=[warning]))


def _shortened(said: str, cap: int) -> str:
    """A text cut such that it has about so many characters where it is sent, with quotes and the like escaped."""
    room = cap
    while True:
        content = truncate(said, room, head=2 / 3)
        size = len(_json.dumps(content))
        if size <= cap + _FRAME:
            return content
        room = room * cap // size


def entry(cls: type[Failure]) -> Entry:
    """What the catalogue says of a code of this family."""
    return wire.entry(cls, http=None, exit=None, retry=retryable(wire.sample(cls)))


def _default_retryable(failure: Failure) -> bool:
    if failure.kind is Kind.cancelled:
        return False
    stated: bool | None = wire.fact(failure, "tool", "retryable")
    return PIVOT[failure.kind].retryable if stated is None else stated


def _explained(shown: Failure) -> str:
    """What a model is told first: of refused input, what is wrong with it."""
    if not shown.issues or shown.message != wire.INVALID_INPUT:
        return shown.message
    first, more = shown.issues[0], len(shown.issues) - 1
    where = ".".join(str(step) for step in first.path)
    if first.code == "missing" and where:
        kind = f" ({first.expected})" if first.expected else ""
        words = f"Missing required argument `{where}`{kind}."
    elif first.code == "malformed" or not where:
        words = first.message  # it is about all of the arguments, and says so
    else:
        words = f"Argument `{where}`: {first.message}"
    return f"{words} {more} more {'is' if more == 1 else 'are'} told in `issues`." if more else words


def _verdict(said: str) -> bool | None:
    """What a tool's text says of itself: that it went well, or not, or nothing."""
    if (first := _FIRST.match(said)) is not None:
        return first[1] == "true"
    start = len(said) - len(said.lstrip()) if said[:1].isspace() else 0
    head = said[start : start + HEAD]
    if head.startswith(tuple(_LEGACY)):
        return False
    if not head.startswith("{") or not any(key in said for key in ('"ok"', '"error"')):
        return None
    envelope = wire.load(said)
    if isinstance(envelope, dict):
        ok = envelope.get("ok")
        if isinstance(ok, bool):
            return ok
        return False if {"error", "retryable"} <= envelope.keys() else None
    # What is no JSON was cut off, most likely. The first mark counts; a later one belongs to the result.
    found = [(at, ok) for mark, ok in _MARKS if (at := head.find(mark)) >= 0]
    return min(found)[1] if found else None


_FIRST = re.compile(r'\s*\{\s*"ok"\s*:\s*(true|false)\b')
_MARKS = (('"ok":true', True), ('"ok": true', True), ('"ok":false', False), ('"ok": false', False))


def _legacy(error: Any, said: str | None) -> tuple[str | None, str | None]:
    """Kind and message of the older shape, whose `error` holds either."""
    code, prose = wire.code_of(error), wire.text(error)
    if code is not None and lookup("tool", code) is not ToolFailure:
        return code, said
    return (None, said) if prose is None else (ExecutionError.code, said or prose)


def _parse_text(said: str) -> Failure:
    start = said.strip()
    for prefix, kind in _LEGACY.items():
        if start.startswith(prefix):
            return wire.receive("tool", kind, message=start[len(prefix) :].strip() or None)
    return wire.unreadable("tool", said)
