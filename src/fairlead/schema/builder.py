"""The `s` builder: shapes written in the seed's words, compiled to the same `Schema` as type hints.

Every modifier returns a changed copy. Builders and plain type hints nest in each other.
Nothing of pydantic is loaded until a builder is compiled or given a default.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from copy import copy, deepcopy
from enum import Enum as PythonEnum
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NotRequired, Self, Union

if TYPE_CHECKING:
    from fairlead.failures import Issue
    from fairlead.schema.compiled import Schema

_MISSING: Any = type("Missing", (), {"__repr__": lambda self: "MISSING"})()


class Checked(NamedTuple):
    """What `validate` found: the typed value, or the issues."""

    ok: bool
    value: Any
    issues: list[Issue]


class Builder:
    """A shape under construction."""

    kind = "any"

    def __init__(self) -> None:
        self.description: str | None = None
        self.default_value: Any = _MISSING
        self.is_optional = False
        self.is_nullable = False
        self._meta: dict[str, Any] = {}
        self._schema: Schema | None = None

    def describe(self, text: str) -> Self:
        """Say what the value is for; shown to callers."""
        return self._with(description=text)

    def default(self, value: Any) -> Self:
        """Fill this in when the key is left out of an object. Raises TypeError when it does not fit."""
        return self._with(default_value=deepcopy(value), is_optional=True)

    def optional(self) -> Self:
        """Allow the key to be left out of an object."""
        return self._with(is_optional=True)

    def nullable(self) -> Self:
        """Allow null."""
        return self._with(is_nullable=True)

    def meta(self, data: Mapping[str, Any]) -> Self:
        """Attach data for tools, shown as `x-fairlead`; merged with what is there."""
        return self._with(_meta={**self._meta, **data})

    @property
    def schema(self) -> Schema:
        """The compiled shape."""
        if self._schema is None:
            from fairlead.schema.typed import typed

            self._schema = typed(self.annotation)
        return self._schema

    def validate(self, value: Any) -> Checked:
        """Check a value as it is, without repair."""
        from fairlead.schema.compiled import Invalid

        try:
            return Checked(True, self.parse(value), [])
        except Invalid as error:
            return Checked(False, None, error.issues)

    def parse(self, value: Any, *, repair: bool = False) -> Any:
        """The typed value. Raises Invalid."""
        return self.schema.parse(value, repair=repair)

    def to_json_schema(self) -> dict[str, Any]:
        """The shape as JSON Schema 2020-12."""
        return self.schema.json_schema

    @property
    def annotation(self) -> Any:
        """The shape as a type hint."""
        if not self.has_default:
            return self._hint()
        from fairlead.schema.signature import advertise

        return advertise(self._hint(), self.default_value)

    @property
    def field(self) -> Any:
        """The shape as the type of an object's key, with its default."""
        from pydantic import Field

        if self.has_default:
            return Annotated[self._hint(), Field(default=self.default_value)]
        return NotRequired[self._hint()] if self.is_optional else self._hint()

    @property
    def has_default(self) -> bool:
        return self.default_value is not _MISSING

    def _bare(self) -> Any:
        """The hint of the value itself."""
        return Any

    def _hint(self) -> Any:
        hint = self._bare()
        if self.is_nullable:
            hint = Union[hint, None]  # noqa: UP007
        extra: dict[str, Any] | None = {"x-fairlead": self._meta} if self._meta else None
        if self.description is None and extra is None:
            return hint
        from pydantic import Field

        return Annotated[hint, Field(description=self.description, json_schema_extra=extra)]

    def _with(self, **changes: Any) -> Self:
        changed = copy(self)
        changed._schema = None
        vars(changed).update(changes)
        if changed.has_default:
            changed._check_default()
        return changed

    def _check_default(self) -> None:
        from fairlead.schema.compiled import Invalid
        from fairlead.schema.typed import typed

        try:
            self.default_value = typed(self._hint()).parse(self.default_value, repair=False)
        except Invalid as error:
            raise TypeError(f"The default of s.{self.kind}() does not fit it. {error}") from error


def _length(kind: str, length: object) -> int:
    if isinstance(length, bool) or not isinstance(length, int) or length < 0:
        raise TypeError(
            f"The length of s.{kind}() is bounded by a whole number of at least 0, not {length!r}."
        )
    return length


def _bound(value: object) -> int | float:
    endless = isinstance(value, float) and not isfinite(value)
    if endless or isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"s.number() is bounded by a finite number, not {value!r}.")
    return value


class String(Builder):
    kind = "string"

    def __init__(self) -> None:
        super().__init__()
        self._min: int | None = None
        self._max: int | None = None
        self._pattern: str | None = None
        self._format: str | None = None

    def min(self, length: int) -> Self:
        """Require at least so many characters."""
        return self._with(_min=_length(self.kind, length))

    def max(self, length: int) -> Self:
        """Require at most so many characters."""
        return self._with(_max=_length(self.kind, length))

    def pattern(self, pattern: str | re.Pattern[str]) -> Self:
        """Require a match anywhere in the text; anchor it with ^ and $ to match the whole."""
        if isinstance(pattern, re.Pattern):
            if pattern.flags & ~re.UNICODE:
                raise TypeError(
                    "JSON Schema patterns have no flags. Write the pattern without them, e.g. [aA]."
                )
            pattern = pattern.pattern
        try:
            re.compile(pattern)
        except re.error as error:
            raise TypeError(f"{pattern!r} is not a regular expression: {error}.") from error
        return self._with(_pattern=pattern)

    def url(self) -> Self:
        """Require an http or https URL."""
        return self._with(_format="uri")

    def datetime(self) -> Self:
        """Require an RFC 3339 date-time with its offset."""
        return self._with(_format="date-time")

    def _bare(self) -> Any:
        from fairlead.schema.shapes import Text

        return Annotated[str, Text(self._min, self._max, self._pattern, self._format)]


class Number(Builder):
    kind = "number"

    def __init__(self) -> None:
        super().__init__()
        self._min: float | None = None
        self._max: float | None = None
        self._whole = False

    def min(self, value: float) -> Self:
        """Require at least this value."""
        return self._with(_min=_bound(value))

    def max(self, value: float) -> Self:
        """Require at most this value."""
        return self._with(_max=_bound(value))

    def int(self) -> Self:
        """Require a whole number."""
        return self._with(_whole=True)

    def _bare(self) -> Any:
        from fairlead.schema.shapes import Amount

        return Annotated[Any, Amount(self._min, self._max, self._whole)]


class Boolean(Builder):
    kind = "boolean"

    def _bare(self) -> Any:
        return bool


class Choice(Builder):
    """One of some values; `s.enum` and `s.literal`."""

    def __init__(self, kind: str, values: Iterable[Any]) -> None:
        super().__init__()
        self.kind = kind
        self._values = [each.value if isinstance(each, PythonEnum) else each for each in values]
        if not self._values:
            raise TypeError("s.enum() needs at least one value.")
        for value in self._values:
            if value is not None and not isinstance(value, (str, bool, int, float)):
                raise TypeError(
                    f"s.{kind}() takes strings, numbers, booleans and None; found {type(value).__name__}."
                )

    def _bare(self) -> Any:
        from fairlead.schema.shapes import Values

        return Annotated[Any, Values(self._values)]


class Array(Builder):
    kind = "array"

    def __init__(self, item: Any) -> None:
        super().__init__()
        self._item = item
        self._min: int | None = None
        self._max: int | None = None

    def min(self, length: int) -> Self:
        """Require at least so many items."""
        return self._with(_min=_length(self.kind, length))

    def max(self, length: int) -> Self:
        """Require at most so many items."""
        return self._with(_max=_length(self.kind, length))

    def _bare(self) -> Any:
        from pydantic import Field

        items: Any = list.__class_getitem__(_hint_of(self._item))
        if self._min is None and self._max is None:
            return items
        return Annotated[items, Field(min_length=self._min, max_length=self._max)]


class Object(Builder):
    kind = "object"

    def __init__(self, shape: Mapping[str, Any]) -> None:
        super().__init__()
        for key, spec in shape.items():
            if not isinstance(key, str):
                raise TypeError(f"The keys of s.object() are strings; found {type(key).__name__}.")
            if isinstance(spec, dict):
                raise TypeError(
                    f"The value of {key!r} is a dict. Write a nested object as s.object({{...}})."
                )
        self._shape = dict(shape)
        self._extra: str | None = None

    def passthrough(self) -> Self:
        """Keep keys that are not declared."""
        return self._with(_extra="allow")

    def strict(self) -> Self:
        """Refuse keys that are not declared, in what an action gives, too; by default they are left out there."""
        return self._with(_extra="forbid")

    def _bare(self) -> Any:
        from fairlead.schema.hints import typed_dict

        fields = {
            key: spec.field if isinstance(spec, Builder) else _hint_of(spec)
            for key, spec in self._shape.items()
        }
        return typed_dict("object", fields, {"extra": self._extra} if self._extra else None)


class AnyOf(Builder):
    kind = "union"

    def __init__(self, options: Iterable[Any]) -> None:
        super().__init__()
        self._options = list(options)
        if not self._options:
            raise TypeError("s.union() needs at least one shape.")

    def _bare(self) -> Any:
        from fairlead.schema.shapes import FirstThatFits

        return Annotated[Any, FirstThatFits([_hint_of(option) for option in self._options])]


class Record(Builder):
    kind = "record"

    def __init__(self, value: Any) -> None:
        super().__init__()
        self._value = value

    def _bare(self) -> Any:
        return dict.__class_getitem__((str, _hint_of(self._value)))


def _hint_of(spec: Any) -> Any:
    if isinstance(spec, Builder):
        return spec.annotation
    from fairlead.schema.hints import adapt

    return adapt(spec)


class Builders:
    """The entry points; use the ready instance `s`."""

    def string(self) -> String:
        """Text."""
        return String()

    def number(self) -> Number:
        """A finite number; whole ones stay whole."""
        return Number()

    def boolean(self) -> Boolean:
        """True or false."""
        return Boolean()

    def enum(self, values: Iterable[Any]) -> Choice:
        """One of the values, or of an Enum's values."""
        if isinstance(values, str):
            raise TypeError("s.enum() takes a list of values; found one string.")
        return Choice("enum", values)

    def array(self, item: Any) -> Array:
        """A list of one shape."""
        return Array(item)

    def object(self, shape: Mapping[str, Any]) -> Object:
        """An object with declared keys; others are refused unless `.passthrough()`."""
        return Object(shape)

    def literal(self, value: Any) -> Choice:
        """Exactly this value."""
        return Choice("literal", [value])

    def union(self, options: Iterable[Any]) -> AnyOf:
        """The first of the shapes that fits."""
        return AnyOf(options)

    def record(self, value: Any) -> Record:
        """An object with any keys, and values of one shape."""
        return Record(value)

    def any(self) -> Builder:
        """Any JSON value, null included."""
        return Builder()


s = Builders()
