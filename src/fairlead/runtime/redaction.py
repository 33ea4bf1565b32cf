"""The app's redactor, from what the developer gave: more keys, another placeholder, or a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fairlead.actions import DefinitionError
from fairlead.actions.policy import known_keys
from fairlead.failures import Failure, Kind
from fairlead.failures.redaction import Redactor
from fairlead.runtime.hooks import report


def redactor_of(given: Mapping[str, Any] | Callable[[Any], Any] | None) -> Redactor:
    if given is None:
        return Redactor()
    if isinstance(given, Redactor):
        return given
    if isinstance(given, Mapping):
        known_keys("redact", given, ("keys", "placeholder"))
        return Redactor(**given)
    if callable(given):
        return _FunctionRedactor(given)
    raise DefinitionError(
        f"redact must be a dict with 'keys' and 'placeholder', or a function, not {given!r}."
    )


def redacted(redactor: Redactor, failure: Failure) -> Failure:
    """The failure as others may hear of it."""
    try:
        return redactor.failure(failure)
    except Exception:
        report("A failure was made wrongly and cannot be told.", redactor)
        return Failure(Kind.internal)


def for_callers(redactor: Redactor, failure: Failure) -> Failure:
    """The failure as those hear of it who do not run the program; what is kept from them is logged."""
    told = failure.for_callers()
    if told is not failure:
        import logging

        logging.getLogger("fairlead").warning("%s", redactor.text(failure.message))
    return told


class _FunctionRedactor(Redactor):
    """The developer's function hides structured values; texts are still searched for secrets."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self._function = function

    def value(self, value: Any) -> Any:
        try:
            hidden = self._function(value)
        except Exception:
            # Showing nothing is safer than showing what could not be redacted.
            report("The app's redact function failed.", self)
            hidden = self.placeholder
        if isinstance(value, Mapping) and not isinstance(hidden, Mapping):
            return {"redacted": self.placeholder}
        return hidden
