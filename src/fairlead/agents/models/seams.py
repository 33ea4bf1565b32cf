"""Texts that a server cuts between the two halves of one character: put together again.

A half that stays alone, which UTF-8 cannot carry, gives way to the character that stands for such.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def sewn(text: str) -> str:
    """The text as UTF-8 can carry it."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def sewn_through(value: Any) -> Any:
    """JSON, with all of its texts as UTF-8 can carry them."""
    if isinstance(value, str):
        return sewn(value)
    if isinstance(value, Mapping):
        return {sewn(name): sewn_through(each) for name, each in value.items()}
    return [sewn_through(each) for each in value] if isinstance(value, list) else value


class Seam:
    """Where the pieces of a stream meet. The first half of a character waits here for the second."""

    def __init__(self) -> None:
        self._half = ""

    def piece(self, text: str) -> str:
        """What can be shown once this has come."""
        if not text:
            return text
        text = self._half + text
        self._half = text[-1] if "\ud800" <= text[-1] <= "\udbff" else ""
        return sewn(text[:-1] if self._half else text)
