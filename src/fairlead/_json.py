"""JSON in and out, by orjson; by the standard library where integers go beyond 64 bits, so that none is lost.

It knows nothing of what the JSON means. Every other module that reads or writes JSON does so here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import orjson

Default = Callable[[Any], Any]

_ZEROS = bytes.maketrans(b"123456789", b"0" * 9)
_BEYOND_64_BITS = b"0" * 19
_PLAIN = orjson.OPT_PASSTHROUGH_SUBCLASS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
#: An escape in JSON: of a whole character in two halves; of a half (group 1); any other.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_LARGEST = 1.7976931348623157e308
#: Levels of lists and objects in what others send: more than any input needs, and fewer than make code that walks
#: it fail.
DEEPEST = 128


def encode(
    value: Any, *, sort_keys: bool = False, indent: bool = False, default: Default | None = None
) -> bytes:
    """The value as UTF-8 JSON, compact unless `indent`. Raises TypeError for what JSON cannot hold.

    Half a character (a lone surrogate), which UTF-8 cannot carry, becomes the character that stands for such.
    """
    option = orjson.OPT_NON_STR_KEYS
    if sort_keys:
        option |= orjson.OPT_SORT_KEYS
    if indent:
        option |= orjson.OPT_INDENT_2
    try:
        return orjson.dumps(value, default, option)
    except orjson.JSONEncodeError as refused:
        return _encode_slowly(value, sort_keys, indent, default, refused)


def packed(text: bytes) -> bytes:
    """The same text, to be kept: orjson gives even the shortest one in 4 KiB of memory."""
    return b"%b" % text


def dumps(
    value: Any, *, sort_keys: bool = False, indent: bool = False, default: Default | None = None
) -> str:
    """The same as `encode`, as text."""
    return encode(value, sort_keys=sort_keys, indent=indent, default=default).decode()


def plain(value: Any) -> str | None:
    """The JSON of a value that is JSON already, at once; None where it needs a closer look."""
    try:
        text = orjson.dumps(value, None, _PLAIN)
    except orjson.JSONEncodeError:
        return None
    # It may be that a null was a number that is not finite, and that many brackets are too many levels. (A short text
    # has no room for them, and `in` would take twice as long as `find`.)
    if text.find(b"null") >= 0 or (len(text) > DEEPEST and text.count(b"[") + text.count(b"{") > DEEPEST):
        return None
    return text.decode()


def loads(data: str | bytes | bytearray | memoryview) -> Any:
    """The value of a JSON text. Raises ValueError when it is not JSON (`NaN` and `Infinity` are not)."""
    raw = data.encode(errors="surrogatepass") if isinstance(data, str) else data
    if type(raw) is not bytes:
        raw = bytes(raw)
    # (`in` would take half as long again as `find`.)
    if raw.translate(_ZEROS).find(_BEYOND_64_BITS) >= 0:
        return _load_exactly(raw)
    return orjson.loads(raw)


def whole_characters(text: bytes) -> bytes:
    """JSON as UTF-8 that has no half characters in it."""
    if not text.isascii():
        text = text.decode(errors="replace").encode()
    if b"\\ud" not in text and b"\\uD" not in text:
        return text
    return _ESCAPE.sub(lambda found: rb"\ufffd" if found[1] else found[0], text)


def is_deep(value: Any, raw: bytes) -> bool:
    """Whether a value that was read from these bytes has more than `DEEPEST` levels."""
    # A short text has no room for more, and one with few brackets has not as many in each other.
    if len(raw) <= DEEPEST or raw.count(b"[") + raw.count(b"{") <= DEEPEST:
        return False
    level = [value]
    for _ in range(DEEPEST):
        inner = (each.values() if type(each) is dict else each for each in level)
        level = [each for items in inner for each in items if type(each) in (dict, list)]
        if not level:
            return False
    return True


def _encode_slowly(
    value: Any, sort_keys: bool, indent: bool, default: Default | None, refused: TypeError
) -> bytes:
    import json

    def other(item: Any) -> Any:
        # Dates, UUIDs and the like, which orjson writes by itself.
        try:
            return orjson.loads(orjson.dumps(item))
        except orjson.JSONEncodeError:
            if default is None:
                raise
            return default(item)

    layout: dict[str, Any] = {"indent": 2} if indent else {"separators": (",", ":")}
    try:
        text = json.dumps(value, sort_keys=sort_keys, default=other, allow_nan=False, **layout)
    except (ValueError, RecursionError):
        raise refused from None
    # What is written as an escape is read by nobody, not even by us.
    return whole_characters(text.encode())


def _load_exactly(raw: bytes) -> Any:
    import json
    import sys

    def refuse(constant: str) -> Any:
        raise ValueError(f"{constant} is not JSON")

    def finite(digits: str) -> float:
        number = float(digits)
        return number if abs(number) <= _LARGEST else refuse(digits[:20])

    def whole(digits: str) -> int:
        count = len(digits.lstrip("-"))
        if count > most:
            raise ValueError(f"a number in it has {count} digits, {most} at most are read")
        return int(digits)

    # Python refuses longer ones in words that are for its own programs; counting takes three times as long.
    most = sys.get_int_max_str_digits()
    counted = most and raw.translate(_ZEROS).find(b"0" * (most + 1)) >= 0
    try:
        value = json.loads(
            raw, parse_constant=refuse, parse_float=finite, parse_int=whole if counted else None
        )
        if b"\\ud" in raw or b"\\uD" in raw:
            # Escapes may name half a character, which is no text.
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    return value
