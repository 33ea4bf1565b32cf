"""URI templates: `{name}` stands for one segment, `{+name}` for what may have slashes.

A URI comes from whoever asks. It is matched in time that grows with its length alone, where a regular expression
would try every way to split it among the variables. As there, a variable takes as much as it can, the first first.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import unquote

VARIABLE: Final = re.compile(r"\{(\+?)([A-Za-z_][A-Za-z0-9_]*)\}")
#: Characters of a URI that is matched.
LONGEST: Final = 16_384


class _Part(NamedTuple):
    """A variable, and the text between it and the next."""

    name: str
    many: bool
    after: str


class Template:
    """A URI with variables in it."""

    def __init__(self, uri: str) -> None:
        found = list(VARIABLE.finditer(uri))
        starts = [*(each.start() for each in found), len(uri)]
        self._before = uri[: starts[0]]
        self._parts = [
            _Part(each[2], each[1] == "+", uri[each.end() : following])
            for each, following in zip(found, starts[1:], strict=True)
        ]

    @property
    def variables(self) -> list[str]:
        return [part.name for part in self._parts]

    def match(self, uri: str) -> dict[str, str] | None:
        """The variables by which this gives the URI; None where it does not."""
        if len(uri) > LONGEST or not uri.startswith(self._before):
            return None
        ways: list[list[int]] = []
        for part in reversed(self._parts):
            ways.append(_ends(uri, len(self._before), part, ways[-1] if ways else None))
        values: dict[str, str] = {}
        at = len(self._before)
        for part, way in zip(self._parts, reversed(ways), strict=True):
            if way[at] < 0:
                return None
            values[part.name] = unquote(uri[at : way[at]])
            at = way[at] + len(part.after)
        return values if at == len(uri) else None


def _ends(uri: str, first: int, part: _Part, following: list[int] | None) -> list[int]:
    """By where a variable begins, where it ends at the furthest so that the rest fits; -1 where it cannot begin."""
    ends = [-1] * (len(uri) + 1)
    furthest = -1
    for at in range(len(uri), first - 1, -1):
        if at < len(uri):
            if part.many or uri[at] != "/":
                ends[at] = furthest
            else:
                furthest = -1  # nothing that begins before here gets past it
        if furthest < 0 and uri.startswith(part.after, at):
            rest = at + len(part.after)
            if rest == len(uri) if following is None else following[rest] >= 0:
                furthest = at
    return ends
