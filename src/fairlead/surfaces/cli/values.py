"""Text from the command line as values, by the shape a field has; and values as text, for examples.

Text that cannot be read as the field's type is refused here; whether the value is right is for the runtime.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import Any, Final

from fairlead import _json
from fairlead.surfaces.cli.console import Console
from fairlead.surfaces.cli.shapes import Shape, label

_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
WORDS: Final = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_JSON_KINDS: Final = frozenset({"array", "object", "record", "union", "any"})


class Unreadable(ValueError):
    """The text is not a value of the wanted kind; the message says what would be."""


class Source:
    """Where a value's text comes from: the command line, `@file`, or `-` for stdin."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._taken = False

    def text(self, raw: str) -> str:
        if raw == "-":
            return _utf8(self._stdin(), "stdin is not UTF-8 text")
        if raw.startswith("@") and not raw.startswith("@@"):
            return _file(raw[1:])
        return _argument(raw.removeprefix("@") if raw.startswith("@@") else raw)

    def _stdin(self) -> str:
        if self._taken:
            raise Unreadable("stdin is read by another flag already; only one value can be '-'")
        self._taken = True
        stdin = self._console.stdin
        # What is piped in is UTF-8 as files are, whatever the locale; what is typed is in the terminal's own.
        piped = None if stdin.isatty() else getattr(stdin, "buffer", None)
        try:
            return stdin.read() if piped is None else str(piped.read(), "utf-8")
        except UnicodeDecodeError:
            raise Unreadable("stdin is not UTF-8 text") from None


def _argument(text: str) -> str:
    """An argument as text. Where the locale knows no more than ASCII, Python keeps the bytes that it cannot read."""
    with suppress(UnicodeEncodeError):
        text.encode()
        return text
    try:
        return os.fsencode(text).decode()
    except UnicodeError:
        raise Unreadable("the text is not valid UTF-8") from None


def _utf8(text: str, otherwise: str) -> str:
    """The text, unless it has bytes that are no text, which Python keeps in arguments and in what is typed."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Unreadable(otherwise) from None
    return text


def _file(path: str) -> str:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except UnicodeDecodeError:
        raise Unreadable("the file after '@' is not UTF-8 text") from None
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else "not a path"
        raise Unreadable(
            f"the file after '@' cannot be read ({reason}); write '@@' for text that starts with '@'"
        ) from None


def read(shape: Shape, raw: str, source: Source, there: int = 0) -> Any:
    """One flag's text as a value; for an array, as a list of items after those that are there."""
    if shape.kind == "choice" and any(raw == label(choice) for choice in shape.choices):
        return parse(shape, raw)
    if shape.kind == "record" and not raw.startswith(("{", "@", "-")):
        return _pair(shape, raw, source)
    text = source.text(raw)
    from_outside = raw == "-" or (raw.startswith("@") and not raw.startswith("@@"))
    return parse(shape, text.strip() if from_outside and not shape.takes_text() else text, there)


def parse(shape: Shape, text: str, there: int = 0) -> Any:
    """A text as a value; for an array, as a list of items after those that are there."""
    if text == "null" and shape.nullable and not shape.takes_text() and shape.kind != "array":
        return None
    match shape.kind:
        case "string":
            return text
        case "boolean":
            return boolean(text)
        case "integer":
            return _integer(text)
        case "number":
            return _number(text)
        case "choice":
            return _choice(shape, text)
        case "array":
            return _items(shape.item(there), text)
        case "object" | "record":
            return _loaded(text, 'expected a JSON object, such as \'{"key": "value"}\'')
    return _open(shape, text)


def boolean(text: str) -> bool:
    value = WORDS.get(text.lower())
    if value is None:
        raise Unreadable("expected true or false (or 1, 0, yes, no)")
    return value


def _integer(text: str) -> int | float:
    if _INTEGER.fullmatch(text):
        try:
            return int(text)
        except ValueError:
            raise Unreadable("the number has too many digits") from None
    # 15.0 is a whole number too; the runtime says so, or says why not.
    if _NUMBER.fullmatch(text):
        return _number(text)
    raise Unreadable("expected a whole number, such as 42")


def _number(text: str) -> int | float:
    if _INTEGER.fullmatch(text):
        return int(_integer(text))
    if not _NUMBER.fullmatch(text):
        raise Unreadable("expected a number, such as 1.5")
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise Unreadable("the number is too large")
    return value


def _choice(shape: Shape, text: str) -> Any:
    for choice in shape.choices:
        if text == label(choice):
            return choice
    # A wrong word is the runtime's to judge: it knows about case.
    if any(isinstance(choice, str) for choice in shape.choices):
        return text
    raise Unreadable(f"expected one of {', '.join(shape.words())}")


def _items(item: Shape, text: str) -> list[Any]:
    if text.lstrip().startswith("["):
        try:
            value = _json.loads(text)
        except ValueError:
            value = None
        if isinstance(value, list):
            return value
        if not item.takes_text():
            raise Unreadable("expected a JSON array, such as '[1, 2]', or one item for each flag")
    return [parse(item, text)]


def _pair(shape: Shape, raw: str, source: Source) -> dict[str, Any]:
    key, equals, text = raw.partition("=")
    if not equals or not key:
        raise Unreadable("expected KEY=VALUE, or a JSON object")
    try:
        return {key: parse(shape.value, source.text(text))}
    except Unreadable as exc:
        raise Unreadable(f"after KEY=, {exc}") from None


def _open(shape: Shape, text: str) -> Any:
    """A union or anything: JSON where it is JSON of a wanted type, else the text where text will do."""
    try:
        value = _json.loads(text)
    except ValueError:
        value, is_json = None, False
    else:
        is_json = shape.admits(value) and not (shape.takes_text() and _loses_digits(shape, text, value))
    if is_json:
        return value
    for branch in shape.branches:
        if branch.kind == "choice" and any(text == label(choice) for choice in branch.choices):
            return parse(branch, text)
    if shape.takes_text():
        return text
    raise Unreadable(f"expected {' or '.join(shape.words())}")


def _loses_digits(shape: Shape, text: str, value: Any) -> bool:
    """Whether a float would not have all the digits of a number; of a decimal, the last zeros count as well."""
    if not isinstance(value, float):
        return False
    return shape.is_decimal or _digits(text) != _digits(repr(value))


def _digits(number: str) -> str:
    return "".join(filter(str.isdigit, number.lower().partition("e")[0])).strip("0")


def _loaded(text: str, expected: str) -> Any:
    try:
        return _json.loads(text)
    except ValueError:
        raise Unreadable(expected) from None


def write(shape: Shape, value: Any) -> str | None:
    """A value as one flag's text, such that `read` gives it back; None where no text can."""
    if shape.kind == "array" and not isinstance(value, list):
        return None
    if shape.kind in ("string", "choice") and isinstance(value, str):
        if value in map(label, shape.choices):
            return value
        return None if value == "-" else f"@{value}" if value.startswith("@") else value
    if value is None and (shape.takes_text() or shape.kind == "array") and shape.kind not in ("any", "union"):
        return None
    if isinstance(value, str) and not value.startswith(("@", "-")) and _stays(shape, value):
        return value
    return _json.dumps(value)


def _stays(shape: Shape, text: str) -> bool:
    """Whether text of an open shape reads as itself, without JSON's quotes."""
    try:
        return shape.kind in _JSON_KINDS and bool(parse(shape, text) == text)
    except Unreadable:
        return False
