"""Paths as models spell them, in one spelling: to know that two calls mean the same file.

It works on the text alone. It never looks at the disk, does not follow links, and does not know where a
tool's root is; whoever opens files decides that for itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

#: The arguments that hold a path, the first that is given counts.
ARGUMENTS = ("path", "file_path")


def canonical(path: str) -> str:
    """One spelling for all of a path's: no spaces around it, no `.`, no `..` that can be taken, no doubled slash."""
    trimmed = path.strip()
    root, rest = _split(trimmed)
    steps: list[str] = []
    for step in rest.split("/"):
        if step == "..":
            _climb(steps, root)
        elif step and step != ".":
            steps.append(step)
    body = "/".join(steps)
    if not root:
        return body or "."
    return root + body if root == "/" else f"{root}/{body}" if body else root


def argument(arguments: Mapping[str, Any]) -> str | None:
    """The path that a call is about, in its one spelling; None where it names none."""
    for name in ARGUMENTS:
        value = arguments.get(name)
        if isinstance(value, str) and value.strip():
            return canonical(value)
    # Models wrap arguments in what a schema is called, and preflight takes that off.
    inner = arguments.get("properties")
    return argument(inner) if isinstance(inner, dict) and "properties" not in inner else None


def same(one: str, other: str) -> bool:
    """Whether two canonical paths may be one file.

    A path from the root and one from a folder that is not known here may well be the same. They count as one
    then: what is wrongly taken for changed is only read again.
    """
    if one == other:
        return True
    fixed, loose = (one, other) if one.startswith("/") else (other, one)
    if not fixed.startswith("/") or loose.startswith("/"):
        return False
    tail = loose.removeprefix("~/")
    while tail.startswith("../"):
        tail = tail[3:]
    return tail in (".", "..", "~") or fixed.endswith("/" + tail)


def above(path: str) -> Iterator[str]:
    """The folders that a canonical path lies in, the nearest first."""
    while (cut := path.rfind("/")) > 0:
        path = path[:cut]
        yield path


def last(path: str) -> str:
    """The last step of a canonical path: what all its spellings share."""
    return path[path.rfind("/") + 1 :]


def _split(path: str) -> tuple[str, str]:
    """Where a path begins (`/`, a home, or nowhere in particular), and the rest of it."""
    if path.startswith("/"):
        return "/", path
    first, _, rest = path.partition("/")
    return (first, rest) if first.startswith("~") else ("", path)


def _climb(steps: list[str], root: str) -> None:
    if steps and steps[-1] != "..":
        steps.pop()
    elif root != "/":
        steps.append("..")
