"""Results that fit a budget of characters, as JSON still: long texts and lists lose their middle, and say how much.

The budget is shared out fairly: what is small stays whole, and what is large is cut to an equal part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fairlead._json import dumps
from fairlead.failures import tool as wire

#: The smallest budget; below it there would be marks and no result.
LEAST: Final = 500
#: How much of what is kept comes from the beginning.
_HEAD: Final = 2 / 3
#: Room for any mark.
_MARK: Final = 64
#: A list whose items would get less than this keeps some of them whole rather than all in part.
_WORTHWHILE: Final = 200
#: What a model must see of an envelope, whatever else is in it.
_FIRST: Final = ("kind", "retryable", "tool", "message", "field", "expected", "warnings")
#: JSON with an integer beyond 64 bits is written with all but ASCII escaped.
_ESCAPING: Final = 2**64


def fitted(envelope: dict[str, Any], most: int) -> dict[str, Any]:
    """The envelope with at most so many characters as text; itself when it has no more."""
    size = len(wire.dumps(envelope))
    if size <= most:
        return envelope
    told: dict[str, Any] = {key: envelope[key] for key in _FIRST if key in envelope}
    told |= {key: value for key, value in envelope.items() if key != "ok"}
    if envelope["ok"]:
        note = f"The result has {size} characters; the middle was left out. Ask for less at once."
        told["warnings"] = [*told.get("warnings", ()), note]
    else:
        told |= {"truncated": True, "original_chars": size}
    escaped = "ü" not in dumps([envelope, "ü"])[-4:]
    smaller = _Shrinker(escaped).shrunk(told, most - len('{"ok":false,}'))
    return {"ok": envelope["ok"], **smaller}


class _Shrinker:
    """Cuts values to size, as the text they are part of will be written."""

    def __init__(self, escaped: bool) -> None:
        self._beside: list[Any] = [_ESCAPING] if escaped else []
        self._frame = len(dumps([*self._beside, 0])) - 1

    def shrunk(self, value: Any, room: int) -> Any:
        """A value of at most so many characters, which are no fewer than a mark needs."""
        if self._size(value) <= room:
            return value
        if isinstance(value, str):
            return self._text(value, room)
        if isinstance(value, dict):
            return self._object(value, room)
        if isinstance(value, list):
            return self._array(value, room)
        return "[a number too long to show]"

    def _text(self, text: str, room: int) -> str:
        content = room - len(_mark(len(text), len(text), "characters")) - 2
        first = self._longest(text, int(content * _HEAD))
        last = self._longest(text[first:][::-1], content - self._size(text[:first]) + 2)
        mark = _mark(len(text) - first - last, len(text), "characters")
        return text[:first] + mark + text[len(text) - last :]

    def _longest(self, text: str, room: int) -> int:
        """How many characters from the beginning fit, as JSON writes them."""
        low, high = 0, min(len(text), max(room, 0))
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._size(text[:middle]) - 2 <= room else (low, middle - 1)
        return low

    def _object(self, value: dict[str, Any], room: int) -> dict[str, Any]:
        names = [self._size(key) + 2 for key in value]
        content = room - 2 - sum(names)
        if content >= _MARK * len(value):
            shares = _shares([self._size(each) for each in value.values()], content)
            return {
                key: self.shrunk(each, share)
                for (key, each), share in zip(value.items(), shares, strict=True)
            }
        items = list(value.items())
        sizes = [name + self._size(each) for name, each in zip(names, value.values(), strict=True)]
        mark = "..."
        while mark in value:
            mark += "."
        first, last = _kept(sizes, room - 2 - _MARK - len(mark) - 4)
        middle = (mark, _mark(len(items) - first - last, len(items), "entries"))
        return dict([*items[:first], middle, *items[len(items) - last :]])

    def _array(self, value: list[Any], room: int) -> list[Any]:
        sizes = [self._size(each) + 1 for each in value]
        content = room - 2
        if content >= _WORTHWHILE * len(value):
            shares = _shares(sizes, content)
            return [self.shrunk(each, share - 1) for each, share in zip(value, shares, strict=True)]
        first, last = _kept(sizes, content - _MARK)
        if not first and content >= 2 * _MARK:
            # Not even the first fits: a part of it tells more than a mark alone.
            rest = [_mark(len(value) - 1, len(value), "items")] if len(value) > 1 else []
            return [self.shrunk(value[0], content - _MARK), *rest]
        middle = _mark(len(value) - first - last, len(value), "items")
        return [*value[:first], middle, *value[len(value) - last :]]

    def _size(self, value: Any) -> int:
        return len(dumps([*self._beside, value])) - self._frame


def _kept(sizes: Sequence[int], room: int) -> tuple[int, int]:
    """How many of the first and of the last fit into the room, whole."""
    first = _count(sizes, int(room * _HEAD))
    return first, _count(sizes[first:][::-1], room - sum(sizes[:first]))


def _count(sizes: Sequence[int], room: int) -> int:
    for count, size in enumerate(sizes):
        room -= size
        if room < 0:
            return count
    return len(sizes)


def _shares(sizes: Sequence[int], room: int) -> list[int]:
    """How much each gets: all that it needs if that is little, and else an equal part of what is left."""
    shares = [0] * len(sizes)
    order = sorted(range(len(sizes)), key=sizes.__getitem__)
    for position, index in enumerate(order):
        shares[index] = min(sizes[index], room // (len(order) - position))
        room -= shares[index]
    return shares


def _mark(left: int, total: int, what: str) -> str:
    return f"[... {left} of {total} {what} left out ...]"
