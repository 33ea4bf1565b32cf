"""Parameters of an HTTP request from an input: where each goes and how it is written (OpenAPI's styles).

Every value is percent-encoded for its place, so that no value can lead to another path or parameter.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from fairlead.failures import Failure, Kind

#: The order in which parameters of one name get it.
PLACES: Final = ("path", "query", "header", "cookie")
_STYLES: Final = {"path": "simple", "query": "form", "header": "simple", "cookie": "form"}
_RESERVED: Final = ":/?#[]@!$&'()*+,;="


class Parameter(NamedTuple):
    """One parameter: its name in the request, and its key in the input."""

    key: str
    name: str
    place: str
    style: str
    explode: bool
    reserved: bool = False
    #: Written as JSON, because the document gives it a media type.
    as_json: bool = False

    def write(self, value: Any) -> list[tuple[str, str]]:
        """The pairs of name and text that stand for the value in its place."""
        if self.as_json:
            return [(self.name, self._text(json.dumps(value, separators=(",", ":"))))]
        if self.place == "path":
            return [(self.name, self._path(value))]
        if self.style == "deepObject" and isinstance(value, Mapping):
            return [(f"{quote(self.name, '')}{key}", text) for key, text in self._deep(value)]
        if self.place in ("query", "cookie"):
            return list(self._form(value))
        return [(self.name, _joined(value, self.explode, _plain))]

    def _form(self, value: Any) -> Iterator[tuple[str, str]]:
        name = quote(self.name, "") if self.place == "query" else self.name
        if isinstance(value, list) and self.explode:
            yield from ((name, self._text(_plain(each))) for each in value)
        elif isinstance(value, Mapping) and self.explode:
            yield from ((quote(str(key), ""), self._text(_plain(each))) for key, each in value.items())
        elif isinstance(value, list | Mapping):
            parts = value if isinstance(value, list) else [part for pair in value.items() for part in pair]
            between = {"spaceDelimited": "%20", "pipeDelimited": "%7C"}.get(self.style, ",")
            yield name, between.join(self._text(_plain(each)) for each in parts)
        else:
            yield name, self._text(_plain(value))

    def _deep(self, value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        for key, each in value.items():
            inner = f"%5B{quote(str(key), '')}%5D"
            if isinstance(each, Mapping):
                yield from ((f"{inner}{deeper}", text) for deeper, text in self._deep(each))
            elif isinstance(each, list):
                yield from ((inner, self._text(_plain(item))) for item in each)
            else:
                yield inner, self._text(_plain(each))

    def _path(self, value: Any) -> str:
        def encoded(part: Any) -> str:
            return quote(_plain(part), "")

        if self.style == "label":
            text = "." + _joined(value, self.explode, encoded, "." if self.explode else ",")
        elif self.style == "matrix":
            text = self._matrix(value, encoded)
        else:
            text = _joined(value, self.explode, encoded)
        if text in ("", ".", ".."):
            # It would name another path.
            raise Failure(
                Kind.invalid_input,
                f"{self.key!r} is part of a path: it must not be empty, '.' or '..'.",
                field=self.key,
            )
        return text

    def _matrix(self, value: Any, encoded: Any) -> str:
        name = quote(self.name, "")
        if self.explode and isinstance(value, list):
            return "".join(f";{name}={encoded(each)}" for each in value)
        if self.explode and isinstance(value, Mapping):
            return "".join(f";{encoded(key)}={encoded(each)}" for key, each in value.items())
        return f";{name}={_joined(value, False, encoded)}"

    def _text(self, text: str) -> str:
        return quote(text, _RESERVED.replace("&", "").replace("#", "") if self.reserved else "")


def parameter_of(spec: Mapping[str, Any], key: str) -> Parameter:
    """The parameter that a document describes."""
    place = spec["in"]
    style = spec.get("style") or _STYLES[place]
    explode = spec.get("explode")
    return Parameter(
        key,
        spec["name"],
        place,
        style,
        style in ("form", "deepObject") if explode is None else bool(explode),
        bool(spec.get("allowReserved")) and place == "query",
        "schema" not in spec and bool(spec.get("content")),
    )


def _joined(value: Any, explode: bool, written: Any, between: str = ",") -> str:
    if isinstance(value, list):
        return between.join(written(each) for each in value)
    if isinstance(value, Mapping):
        pair = "=" if explode else between
        return between.join(f"{written(key)}{pair}{written(each)}" for key, each in value.items())
    text: str = written(value)
    return text


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return ""
    if isinstance(value, list | Mapping):
        return json.dumps(value, separators=(",", ":"))
    return str(value)
