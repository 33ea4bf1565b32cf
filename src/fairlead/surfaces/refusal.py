"""The envelope of a call that a surface refused before it reached the runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairlead._json import encode
from fairlead.actions.surfaces import is_local
from fairlead.failures import Failure
from fairlead.failures import action as wire
from fairlead.failures.action import OutputSerializationError
from fairlead.failures.redaction import DEFAULT
from fairlead.runtime.redaction import for_callers

if TYPE_CHECKING:
    from fairlead.runtime import Runtime

#: How much of a caller's own words is repeated.
LONGEST = 100
UNWRITABLE = "The action's result cannot be written as JSON."


def refusal(failure: Failure, surface: str, app: Runtime | None, action: str | None) -> dict[str, Any]:
    """It is thinner than the runtime's: there was no invocation, and perhaps no action."""
    if not is_local(surface):
        failure = for_callers(DEFAULT if app is None else app.redactor, failure)
    error = wire.render(failure) if app is None else wire.render(failure, app.redactor)
    named = {} if action is None else {"action": action[:LONGEST]}
    meta = {**named, "surface": surface, "durationMs": 0}
    return {"ok": False, "error": error, "artifacts": [], "logs": [], "meta": meta}


def writable(envelope: dict[str, Any]) -> dict[str, Any]:
    """The envelope; where its result cannot be written, as a number of 5000 digits cannot, one that says so."""
    try:
        encode(envelope)
    except TypeError:
        error = wire.render(OutputSerializationError(UNWRITABLE))
        return {"ok": False, "error": error, "artifacts": [], "logs": [], "meta": envelope["meta"]}
    return envelope
