"""`Glob`: which paths a pattern means. It looks at text alone, and no pattern makes it slow.

`*` and `?` stay inside one name, `**` is any number of folders, `[abc]` one of these characters, `{a,b}` either.
A pattern without a slash is for names at any depth; one with a slash is for paths from the top.

A pattern becomes one regular expression that never tries a thing twice: what stands between two stars is taken where
it is first found, and that is final.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

LONGEST: Final = 1000
_MOST_FORMS: Final = 64
_BRACES: Final = re.compile(r"\{([^{}]*)\}")
_TOKEN: Final = re.compile(r"\*+|\[[!^]?\]?[^\]]*\]|.", re.DOTALL)
_SPECIAL: Final = re.compile(r"([\\\[&~|])")
_FOLDERS: Final = "(?:[^/]+/)*"


class BadGlob(ValueError):
    """The text is no pattern for paths."""


class Glob:
    """A pattern for paths. `Glob("*.py").matches("src/app.py")`."""

    def __init__(self, pattern: str, *, ignore_case: bool = False) -> None:
        self.pattern = pattern
        self._regex = compiled(expression(pattern), ignore_case)

    def matches(self, path: str) -> bool:
        return self._regex.match(path) is not None


def expression(pattern: str, *, anchored: bool = False) -> str:
    """The pattern as a regular expression for whole paths. `anchored` ones begin at the top even without a slash.

    Raises:
        BadGlob: it is none.
    """
    forms = [_path(form, anchored) for form in _forms(_checked(pattern))]
    return f"(?:{'|'.join(forms)})\\Z"


def compiled(expression: str, ignore_case: bool = False) -> re.Pattern[str]:
    """An expression made of patterns, ready for use. Raises BadGlob."""
    try:
        return re.compile(expression, re.DOTALL | (re.IGNORECASE if ignore_case else 0))
    except re.error as exc:
        raise BadGlob(f"its [...] cannot be read: {exc.msg}") from None


def _checked(pattern: str) -> str:
    if not pattern.strip():
        raise BadGlob("it is empty")
    if len(pattern) > LONGEST:
        raise BadGlob(f"it has more than {LONGEST} characters")
    if "\0" in pattern:
        raise BadGlob("it holds a NUL character")
    if pattern.startswith("/") or ".." in pattern.split("/"):
        raise BadGlob("it leads out of the folder; begin at the folder's top, without '/' and '..'")
    return pattern.removeprefix("./")


def _forms(pattern: str) -> Iterator[str]:
    """The pattern once for each of its alternatives."""
    waiting, count = [pattern], 0
    while waiting:
        text = waiting.pop()
        braces = _BRACES.search(text)
        if braces is None:
            yield text
            continue
        choices = braces[1].split(",")
        count += len(choices)
        if count > _MOST_FORMS:
            raise BadGlob(f"it has more than {_MOST_FORMS} alternatives in braces")
        waiting += [text[: braces.start()] + choice + text[braces.end() :] for choice in choices]


def _path(pattern: str, anchored: bool) -> str:
    names = [name for name in pattern.split("/") if name not in ("", ".")]
    if not names:
        raise BadGlob("it names nothing")
    if not anchored and "/" not in pattern:
        names = ["**", *names]
    first, *later = _between_folders(names)
    if not later:
        return "/".join(first)
    *middle, last = later
    text = "".join(f"{name}/" for name in first)
    for some in middle:
        text += f"(?>{_FOLDERS}?{''.join(f'{name}/' for name in some)})" if some else ""
    return text + _FOLDERS + ("/".join(last) or "[^/]+")


def _between_folders(names: list[str]) -> list[list[str]]:
    """The names as expressions, in the groups that `**` makes of them."""
    groups: list[list[str]] = [[]]
    for name in names:
        if name == "**":
            groups.append([])
        elif "**" in name:
            raise BadGlob("'**' stands alone between slashes, as in 'docs/**/*.md'")
        else:
            groups[-1].append(_name(name))
    return groups


def _name(name: str) -> str:
    first, *later = _between_stars(name)
    if not later:
        return first
    *middle, last = later
    return first + "".join(f"(?>[^/]*?{each})" for each in middle) + f"[^/]*{last}"


def _between_stars(name: str) -> list[str]:
    pieces = [""]
    for part in _TOKEN.findall(name):
        if part.startswith("*"):
            pieces.append("")
        elif part == "?":
            pieces[-1] += "[^/]"
        elif part == "[":
            raise BadGlob("a '[' has no ']'")
        else:
            pieces[-1] += _class(part[1:-1]) if len(part) > 1 else re.escape(part)
    return pieces


def _class(inner: str) -> str:
    without = inner.startswith(("!", "^"))
    body = inner[1:] if without else inner
    if not body or "--" in body:
        raise BadGlob("a [...] cannot be read: name its characters, as in [abc] or [a-z]")
    escaped = _SPECIAL.sub(r"\\\1", body)
    return f"(?!/)[{'^' if without else ''}{escaped}]"
