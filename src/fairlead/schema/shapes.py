"""The shapes of the `s` builder that type hints cannot say, as annotations that pydantic understands."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pydantic_core import PydanticKnownError, SchemaError, SchemaValidator, Url, core_schema

_RFC3339 = re.compile(
    r"\d{4}-\d\d-\d\d[Tt]([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)"
)
_HTTP = "^[hH][tT][tT][pP][sS]?://"


class Text:
    """A string with its limits and format; stays a string."""

    def __init__(self, least: int | None, most: int | None, pattern: str | None, form: str | None) -> None:
        self._limits = {"min_length": least, "max_length": most}
        self._pattern = pattern
        self._format = form

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        limits: dict[str, Any] = {key: value for key, value in self._limits.items() if value is not None}
        if self._pattern is not None:
            limits.update(pattern=self._pattern, regex_engine=_engine(self._pattern))
        text = core_schema.str_schema(**limits)
        if self._format is None:
            return text
        return core_schema.no_info_after_validator_function(_CHECKS[self._format], text)

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        schema: dict[str, Any] = handler(core)
        if self._format is not None:
            schema["format"] = self._format
        if self._format == "uri":
            schema.setdefault("pattern", _HTTP)
        return schema


class Amount:
    """A finite number; whole ones stay whole."""

    def __init__(self, least: float | None, most: float | None, whole: bool) -> None:
        self._limits: dict[str, Any] = {
            key: value for key, value in (("ge", least), ("le", most)) if value is not None
        }
        self._whole = whole

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        if self._whole:
            return core_schema.int_schema(strict=True, **self._limits)
        return core_schema.no_info_wrap_validator_function(
            _as_given,
            core_schema.float_schema(strict=True, allow_inf_nan=False, **self._limits),
            serialization=core_schema.simple_ser_schema("any"),
        )


class Values:
    """Exactly one of some JSON scalars."""

    def __init__(self, values: list[Any]) -> None:
        self._values = values

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return core_schema.literal_schema(self._values)


class FirstThatFits:
    """Alternatives, tried in the order they were given."""

    def __init__(self, hints: list[Any]) -> None:
        self._hints = hints

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        choices = [handler.generate_schema(hint) for hint in self._hints]
        return core_schema.union_schema(choices, mode="left_to_right")


def _as_given(value: Any, check: Callable[[Any], Any]) -> Any:
    check(value)
    return value


def _engine(pattern: str) -> str:
    """Rust's engine is linear but knows no look-around."""
    try:
        SchemaValidator(core_schema.str_schema(pattern=pattern))
    except SchemaError:
        return "python-re"
    return "rust-regex"


def _url(text: str) -> str:
    try:
        url = Url(text)
    except ValueError:
        raise PydanticKnownError("url_parsing", {"error": "not a URL"}) from None
    if url.scheme not in ("http", "https") or not url.host or not re.match(_HTTP, text):
        raise PydanticKnownError("url_scheme", {"expected_schemes": "http or https"})
    return text


def _datetime(text: str) -> str:
    from datetime import datetime

    try:
        if not _RFC3339.fullmatch(text):
            raise ValueError
        datetime.fromisoformat(text[:10])
    except ValueError:
        raise PydanticKnownError("datetime_parsing", {"error": "not RFC 3339"}) from None
    return text


_CHECKS: dict[str, Callable[[str], str]] = {"uri": _url, "date-time": _datetime}
