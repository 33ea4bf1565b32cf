"""Masking: known secret values are not shown, also when a value arrives in pieces.

It knows values, not what a secret looks like. A value that was changed on the way (encoded, reversed, cut in the
middle) is not recognised.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

#: Characters. A shorter value is likely to be part of an ordinary word, and masking it would spoil the text.
SHORTEST: Final = 6


class Mask:
    """Replaces each known value by `[REDACTED:NAME]`; the longest value that fits wins."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._names: dict[str, str] = {}
        for name, value in secrets.items():
            if len(value) >= SHORTEST:
                self._names.setdefault(value, name)
        self.values: tuple[str, ...] = tuple(sorted(self._names, key=len, reverse=True))
        self._pattern = re.compile("|".join(map(re.escape, self.values))) if self.values else None

    def text(self, text: str) -> str:
        """A whole text, masked."""
        return text if self._pattern is None else self._pattern.sub(self._marker, text)

    def pieces(self) -> Pieces:
        """The same for a text that arrives in pieces."""
        return Pieces(self)

    def split(self, text: str) -> tuple[str, str]:
        """What of a text is certain by now, masked, and the rest, which may be the beginning of a value."""
        if self._pattern is None:
            return text, ""
        open_from = self._first_beginning(text)
        shown, at = [], 0
        for match in self._pattern.finditer(text):
            if match.start() >= open_from:
                break
            shown += [text[at : match.start()], self._marker(match)]
            at = match.end()
        until = max(at, open_from)
        shown.append(text[at:until])
        return "".join(shown), text[until:]

    def _first_beginning(self, text: str) -> int:
        """Where the text's end begins that a longer value could begin with."""
        for start in range(max(0, len(text) - len(self.values[0]) + 1), len(text)):
            end = text[start:]
            if any(len(value) > len(end) and value.startswith(end) for value in self.values):
                return start
        return len(text)

    def _marker(self, match: re.Match[str]) -> str:
        return f"[REDACTED:{self._names[match[0]]}]"


class Pieces:
    """Masks a text piece by piece; what may be the beginning of a value is held back until it is known."""

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._held = ""

    def feed(self, piece: str) -> str:
        shown, self._held = self._mask.split(self._held + piece)
        return shown

    def close(self) -> str:
        """What was held back: no more will come."""
        held, self._held = self._held, ""
        return self._mask.text(held)
