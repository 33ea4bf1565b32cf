"""Types as schemas of this house, so that actions and the extraction of replies can work with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairlead.failures import Issue
from fairlead.pipelines.schemas import schema_of
from fairlead.pipelines.types import Type
from fairlead.pipelines.validating import checker, refusal
from fairlead.schema import Invalid


class Shape:
    """A type as the backing of a `Schema`."""

    plain = True
    drop_blanks = None

    def __init__(self, type: Type) -> None:
        self._type = type
        self._check = checker(type)

    def validate(self, value: Any) -> Any:
        """The value, if it is of the type. Raises Invalid."""
        if self._check(value):
            return value
        failure = refusal(self._type, value, "reply", "reply")
        path = tuple(part for part in str(failure.details["path"]).split("/") if part)
        raise Invalid([Issue(path, "type", failure.message, failure.expected)])

    def validator_of_output(self) -> Callable[[Any], Any]:
        """The same check: what comes here was read from JSON."""
        return self.validate

    def dump(self, value: Any) -> Any:
        """The value as JSON, which it is."""
        return value

    def issues(self, error: Exception) -> list[Issue]:
        """What is wrong by an error of this shape."""
        return list(error.issues) if isinstance(error, Invalid) else []

    def check(self, mode: Any) -> None:
        """Every type of a pipeline is one of JSON's."""

    def document(self, mode: Any) -> dict[str, Any]:
        """The JSON Schema of the type."""
        return schema_of(self._type)
