"""`Schema`: a declared shape, compiled once, with its fast path as plain attributes.

It does not know what it was declared with; a `Backing` (typed.py, foreign.py) does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from fairlead.failures import Issue

Mode = Literal["validation", "serialization"]
Blanks = Callable[[Any], tuple[Any, list[str]]]


class Backing(Protocol):
    """What a way of declaring shapes provides."""

    @property
    def validate(self) -> Callable[[Any], Any]: ...

    @property
    def dump(self) -> Callable[[Any], Any]: ...

    @property
    def plain(self) -> bool:
        """Whether what `validate` gives is JSON already, so that `dump` need not be called."""

    @property
    def drop_blanks(self) -> Blanks | None: ...

    def validator_of_output(self) -> Callable[[Any], Any]:
        """What `validate_output` of the schema is to be."""

    def issues(self, error: Exception) -> list[Issue]: ...

    def check(self, mode: Mode) -> None:
        """Raise TypeError when JSON Schema has no words for the shape; cheap where it surely has."""

    def document(self, mode: Mode) -> dict[str, Any]: ...


class Invalid(ValueError):
    """The value does not have the declared shape; `issues` says where and why."""

    def __init__(self, issues: Sequence[Issue]) -> None:
        self.issues: list[Issue] = list(issues)
        super().__init__(_summary(self.issues))


class Mended(NamedTuple):
    """The typed value, what should have been sent for it, and what was read as what."""

    value: Any
    sent: Any
    notes: list[str]


class Schema:
    """A compiled shape.

    `validate` returns the typed value or raises a ValueError that `issues` can read. `dump` turns a
    validated value into JSON-safe Python. `drop_blanks` removes empty fillers of optional strings, and
    is None where there can be none.
    """

    __slots__ = ("_backing", "_documents", "_validate_output", "drop_blanks", "dump", "plain", "validate")

    def __init__(self, backing: Backing) -> None:
        self._backing = backing
        self._documents: dict[Mode, dict[str, Any]] = {}
        self._validate_output: Callable[[Any], Any] | None = None
        self.validate: Callable[[Any], Any] = backing.validate
        self.dump: Callable[[Any], Any] = backing.dump
        self.plain = backing.plain
        self.drop_blanks: Blanks | None = backing.drop_blanks

    @property
    def validate_output(self) -> Callable[[Any], Any]:
        """Validates what an action gives, by either side.

        Where `dump` need not be called, it refuses what JSON cannot carry, too. Keys that are not declared are left
        out, unless the type itself refuses them: what a model dumps may have more than it takes.
        """
        if self._validate_output is None:
            self._validate_output = self._backing.validator_of_output()
        return self._validate_output

    @property
    def json_schema(self) -> dict[str, Any]:
        """What callers may send, as JSON Schema 2020-12."""
        return self._document("validation")

    @property
    def output_json_schema(self) -> dict[str, Any]:
        """What `dump` produces, as JSON Schema 2020-12."""
        return self._document("serialization")

    def checked(self, mode: Mode) -> Schema:
        """The schema itself. Raises TypeError when JSON Schema has no words for it."""
        self._backing.check(mode)
        return self

    def issues(self, error: Exception) -> list[Issue]:
        """What an error of `validate` or `dump` means, without the rejected values."""
        if isinstance(error, Invalid):
            return error.issues
        return self._backing.issues(error)

    def mend(self, value: Any, error: Exception, *, repair: bool) -> tuple[Any, list[str]]:
        """Second chance for a value that `validate` refused: the typed value, and what was read as what.

        Raises:
            Invalid: nothing could be repaired, or the repaired value is still refused.
        """
        mended = self.mended(value, error, repair=repair)
        return mended.value, mended.notes

    def mended(self, value: Any, error: Exception, *, repair: bool) -> Mended:
        """The same as `mend`, with the value as it should have been sent."""
        from fairlead.schema.preflight import refusal
        from fairlead.schema.preflight import repair as repaired

        refused = refusal(value)
        if refused is not None:
            raise Invalid([refused])
        if not repair:
            raise Invalid(self.issues(error))
        sent, notes = repaired(value, self.json_schema)
        if not notes:
            raise Invalid(self.issues(error))
        if self.drop_blanks is not None:
            sent, dropped = self.drop_blanks(sent)
            notes += dropped
        try:
            return Mended(self.validate(sent), sent, notes)
        except (ValueError, RecursionError) as remaining:
            error = remaining
        raise Invalid(self.issues(error))

    def parse(self, value: Any, *, repair: bool = True) -> Any:
        """Validate, with repair unless told otherwise. Raises Invalid."""
        if repair and self.drop_blanks is not None:
            value, _ = self.drop_blanks(value)
        try:
            return self.validate(value)
        except (ValueError, RecursionError) as error:
            refused = error
        return self.mend(value, refused, repair=repair)[0]

    def _document(self, mode: Mode) -> dict[str, Any]:
        document = self._documents.get(mode)
        if document is None:
            document = self._documents[mode] = self._backing.document(mode)
        return document


def _summary(issues: Sequence[Issue]) -> str:
    if not issues:
        return "The value does not have the declared shape."
    first = issues[0]
    where = spell(first.path)
    text = f"{where}: {first.message}" if where else first.message
    more = len(issues) - 1
    return f"{text} ({more} more)" if more else text


def spell(path: Sequence[str | int]) -> str:
    """A path as people write it: `items[0].name`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text
