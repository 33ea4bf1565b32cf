"""What a text can be read as: the number, word, array or object that a model wrote as a string.

Each reader gives the value, or `UNREAD` when the text does not say it clearly. They know no schemas.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import isfinite
from typing import Any

from fairlead import _json

UNREAD: Any = type("Unread", (), {"__repr__": lambda self: "UNREAD"})()

_LONGEST_NUMBER = 4000
LONGEST_LITERAL = 20_000
_LONGEST_TEXT = 8_000_000
_LAYERS = 3

_INTEGER = re.compile(r"([+-]?[0-9]+)(?:\.0*)?")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_FENCE = re.compile(r"```[\w+-]*[ \t]*\r?\n(.*?)\r?\n?```", re.DOTALL)
_WORDS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_LITERAL_TOKEN = re.compile(
    r"""(?P<string>'(?:[^'\\\n]|\\['"\\abfnrtv])*'|"(?:[^"\\\n]|\\['"\\abfnrtv])*")"""
    r"""|(?P<word>True|False|None|true|false|null)\b|(?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?)"""
    r"""|(?P<other>[\[\]{}(),:\s-]+)"""
)
_PYTHON_WORDS = {"true": "True", "false": "False", "null": "None"}


def integer(text: str) -> Any:
    """`15`, ` 15 ` and `15.0`, of any size; not `15.5`, not `1_000`."""
    text = _unquoted(text)
    found = _INTEGER.fullmatch(text)
    return int(found[1]) if found and len(text) <= _LONGEST_NUMBER else UNREAD


def number(text: str) -> Any:
    """A finite decimal number; whole ones stay whole."""
    text = _unquoted(text)
    if len(text) > _LONGEST_NUMBER or not _NUMBER.fullmatch(text):
        return UNREAD
    if text.lstrip("+-").isdigit():
        return int(text)
    value = float(text)
    return value if isfinite(value) else UNREAD


def boolean(text: str) -> Any:
    """true, 1, yes, false, 0 and no, in any case."""
    return _WORDS.get(_unquoted(text).lower(), UNREAD)


def null(text: str) -> Any:
    """null and none, in any case."""
    return None if _unquoted(text).lower() in ("null", "none") else UNREAD


def array(text: str) -> Any:
    """The array that a text spells as JSON or as a Python literal, fenced or encoded twice."""
    return _container(text, list)


def mapping(text: str) -> Any:
    """The object that a text spells as JSON or as a Python literal, fenced or encoded twice."""
    return _container(text, dict)


def _unquoted(text: str) -> str:
    """The text without blanks around it, and without the quotes of a second encoding."""
    text = text.strip()
    for _ in range(_LAYERS):
        if not (len(text) > 1 and text[0] == text[-1] == '"' and len(text) <= _LONGEST_NUMBER):
            break
        inner = _decoded(text)
        if not isinstance(inner, str):
            break
        text = inner.strip()
    return text


def _container(text: str, kind: type) -> Any:
    if len(text) > _LONGEST_TEXT:
        return UNREAD
    for _ in range(_LAYERS + 1):
        text = _unfenced(text.strip())
        if not text or text[0] not in '[{"(':
            return UNREAD
        value = _decoded(text)
        if value is UNREAD:
            value = _literal(text)
        if not isinstance(value, str):
            return value if isinstance(value, kind) else UNREAD
        text = value
    return UNREAD


def _unfenced(text: str) -> str:
    if not text.startswith("```"):
        return text
    found = _FENCE.fullmatch(text)
    return found[1].strip() if found else text


def _decoded(text: str) -> Any:
    try:
        return _json.loads(text)
    except (ValueError, RecursionError):
        return UNREAD


def _literal(text: str) -> Any:
    """A Python literal of JSON values: single quotes, True, None, trailing commas, tuples."""
    if len(text) > LONGEST_LITERAL:
        return UNREAD
    source = _python_source(text)
    if source is None:
        return UNREAD
    from ast import literal_eval

    try:
        return _plain(literal_eval(source))
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError, SystemError):
        return UNREAD


def _python_source(text: str) -> str | None:
    """The text with JSON's words in Python's spelling; None when it has anything but literals."""
    parts = []
    position = 0
    while position < len(text):
        token = _LITERAL_TOKEN.match(text, position)
        if token is None:
            return None
        parts.append(_PYTHON_WORDS.get(token[0], token[0]))
        position = token.end()
    return "".join(parts)


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise ValueError("keys are strings")
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, float) and not isfinite(value):
        raise ValueError("numbers are finite")
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    raise ValueError("only JSON values")


READERS: dict[str, Callable[[str], Any]] = {
    "integer": integer,
    "number": number,
    "boolean": boolean,
    "null": null,
    "array": array,
    "object": mapping,
}
