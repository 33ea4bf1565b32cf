"""Replacing a piece of a text, and saying what was found where it cannot be done. It knows no files."""

from __future__ import annotations

from typing import Final, NamedTuple

from fairlead.failures.tool import InvalidArgs

_MOST_SHOWN: Final = 10
#: Lines that are compared with a missing one, at most.
_MOST_COMPARED: Final = 2000
_LONGEST: Final = 120


class Replaced(NamedTuple):
    text: str
    #: The numbers of the lines where something was replaced.
    lines: list[int]


def replaced(text: str, old: str, new: str, all: bool) -> Replaced:
    """The text with `new` in the place of `old`.

    Raises:
        InvalidArgs: the old text is not there, or at several places and `all` is false, or nothing would change.
    """
    if old == new:
        raise InvalidArgs("The new text is the old one: nothing would change.", field="new")
    old, new = fitted(text, old, new)
    lines = _places(text, old)
    if not lines:
        raise InvalidArgs(
            f"The old text is not in the file. {_closest(text, old)}",
            field="old",
            expected="text exactly as it is in the file",
            details={"matches": 0},
        )
    if len(lines) > 1 and not all:
        shown = ", ".join(map(str, lines[:_MOST_SHOWN])) + (", ..." if len(lines) > _MOST_SHOWN else "")
        raise InvalidArgs(
            f"The old text is at {len(lines)} places, on the lines {shown}. "
            "Add lines around it until it is only one, or set all to true.",
            field="old",
            expected="text that is in the file exactly once",
            details={"matches": len(lines), "lines": lines[:_MOST_SHOWN]},
        )
    return Replaced(text.replace(old, new), lines)


def fitted(text: str, old: str, new: str) -> tuple[str, str]:
    """Both with line ends as the text has them, if it has Windows lines, which a model does not see.

    Who spells them out means what was said. In a text that has both kinds, nothing is read into an old text that is
    there as it is.
    """
    windows = text.count("\r\n")
    if not windows or "\r" in old or (windows < text.count("\n") and old in text):
        return old, new
    return old.replace("\n", "\r\n"), new.replace("\r\n", "\n").replace("\n", "\r\n")


def _places(text: str, old: str) -> list[int]:
    lines, at, line, before = [], text.find(old), 1, 0
    while at >= 0:
        line += text.count("\n", before, at)
        lines.append(line)
        before = at
        at = text.find(old, at + len(old))
    return lines


def _closest(text: str, old: str) -> str:
    """Where something like the old text is."""
    lines = text.split("\n")
    wanted = [" ".join(line.split()) for line in old.split("\n")]
    first = next((line for line in wanted if line), "")
    if not first:
        return "Read the file, and copy the text from there."
    bare = [" ".join(line.split()) for line in lines]
    for number, line in enumerate(bare, 1):
        if first in line:
            found = f"Line {number} is like its beginning: {_cut(lines[number - 1])!r}."
            return f"{found} Copy the text from there, with its spaces."
    near = _near(first, bare)
    if near is None:
        return f"Nothing in its {len(lines)} lines is like it. Read the file, and copy the text from there."
    return f"The nearest is line {near + 1}: {_cut(lines[near])!r}. Copy the text from the file, with its spaces."


def _near(wanted: str, lines: list[str]) -> int | None:
    from difflib import get_close_matches

    short = [line[:_LONGEST] for line in lines[:_MOST_COMPARED]]
    close = get_close_matches(wanted[:_LONGEST], short, n=1, cutoff=0.6)
    return short.index(close[0]) if close else None


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST else line[:_LONGEST] + "..."
