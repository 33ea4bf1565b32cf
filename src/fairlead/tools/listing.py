"""What is in a folder, as the `listing` kind: a few levels, the names a project leaves out left out, and bounded.

It knows no tool; `ignored` serves searches too.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from fairlead.tools.fence import TEMPORARY, Fence, Outside, entries
from fairlead.tools.globs import BadGlob, compiled, expression

DEPTH: Final = 3
MOST_FILES: Final = 300
MOST_FOLDERS: Final = 300
MOST_FILES_IN_ONE: Final = 20

#: The warning that goes with a listing that is not whole.
INCOMPLETE: Final = (
    f"This listing is not complete: it stops at {MOST_FILES_IN_ONE} files for each folder and {MOST_FILES} in all. "
    "Use file_search to find a file by its name or content instead of listing further."
)

#: Made by tools, whatever the project says of them.
_MADE: Final = frozenset(
    "node_modules bower_components __pycache__ __pypackages__ venv site-packages DerivedData Pods".split()  # noqa: SIM905
)
_MADE_ENDINGS: Final = (".pyc", ".pyo", ".egg-info")
_RULES: Final = ".gitignore"
_MOST_RULES: Final = 500
_MOST_BYTES: Final = 64 * 1024


class Entry(NamedTuple):
    """One name in a listing. Its path can be given to the next call as it is."""

    name: str
    path: str
    folder: bool

    def to_dict(self) -> dict[str, Any]:
        """The entry as JSON."""
        return {
            "name": readable(self.name),
            "path": readable(self.path),
            "type": "directory" if self.folder else "file",
        }


class Listing(NamedTuple):
    entries: list[Entry]
    truncated: bool


def listing(fence: Fence, path: str, depth: int = DEPTH) -> Listing:
    """What is below a folder: folders first, then files, each in the order of names, whatever their case.

    The upper levels come first when not all can be shown.
    """
    collected = _Collected(fence)
    collected.add_all(fence.spelled(path), depth)
    return Listing(list(_flat(collected.inside, fence.spelled(path))), collected.truncated)


class _Collected:
    """What was found so far, by folder."""

    def __init__(self, fence: Fence) -> None:
        self.inside: dict[str, list[Entry]] = {}
        self.truncated = False
        self._fence = fence
        self._ignored = Ignored(fence)
        self._files, self._folders = MOST_FILES, MOST_FOLDERS

    def add_all(self, top: str, depth: int) -> None:
        waiting = deque([(top, 1)])
        while waiting:
            path, level = waiting.popleft()
            try:
                folders = self._add(path)
            except (OSError, Outside):
                if path == top:
                    raise
                continue  # it may be closed to us, or gone by now
            if level < depth:
                waiting.extend((each, level + 1) for each in folders)

    def _add(self, path: str) -> list[str]:
        """Take in one folder; gives the folders to look into."""
        with self._fence.folder(path) as handle:
            names, whole = entries(handle)
            found = [(entry, kind) for entry in names if (kind := self._kind(path, entry)) is not None]
        found.sort(key=lambda each: (not each[1], each[0].name.casefold(), each[0].name))
        self.truncated |= not whole
        real = {entry.name for entry, _ in found if entry.is_dir(follow_symlinks=False)}
        kept = self._kept([Entry(entry.name, _join(path, entry.name), kind) for entry, kind in found])
        self.inside[path] = kept
        # A link to a folder is shown, and not entered: it may lead back up.
        return [each.path for each in kept if each.name in real]

    def _kept(self, found: list[Entry]) -> list[Entry]:
        folders = [each for each in found if each.folder]
        files = [each for each in found if not each.folder]
        kept_folders = folders[: self._folders]
        kept_files = files[: min(MOST_FILES_IN_ONE, self._files)]
        self._folders -= len(kept_folders)
        self._files -= len(kept_files)
        self.truncated |= len(kept_folders) < len(folders) or len(kept_files) < len(files)
        return kept_folders + kept_files

    def _kind(self, folder: str, entry: os.DirEntry[str]) -> bool | None:
        """Whether it is a folder; None for what is not shown."""
        path = _join(folder, entry.name)
        if not entry.is_symlink():
            is_folder = entry.is_dir(follow_symlinks=False)
            if not is_folder and not entry.is_file(follow_symlinks=False):
                return None
            return None if self._ignored(path, is_folder) else is_folder
        try:
            mode = self._fence.stat(path).st_mode
        except (OSError, Outside):
            return None  # a link that leads nowhere, or out of here
        is_folder = (mode & 0o170000) == 0o040000
        return None if self._ignored(path, is_folder) else is_folder


class Ignored:
    """Whether a path is left out: hidden, made by tools, or by the rules of the project's `.gitignore` files."""

    def __init__(self, fence: Fence) -> None:
        self._fence = fence
        self._rules: dict[str, _Rules] = {}

    def __call__(self, path: str, is_folder: bool, folder: int = -1) -> bool:
        name = path.rpartition("/")[2]
        if name.startswith(".") or name in _MADE or name.endswith(_MADE_ENDINGS):
            return True
        for above in _folders_above(path):
            verdict = self._rules_in(above)(path if above == "." else path[len(above) + 1 :], is_folder)
            if verdict is not None:
                return verdict
        return False

    def _rules_in(self, folder: str) -> _Rules:
        if folder not in self._rules:
            try:
                data, _ = self._fence.read(_join(folder, _RULES), _MOST_BYTES)
            except (OSError, Outside):
                data = b""
            lines = data.decode(errors="replace").splitlines()[:_MOST_RULES]
            self._rules[folder] = _Rules([rule for line in lines if (rule := _rule(line)) is not None])
        return self._rules[folder]


class _Rule(NamedTuple):
    expression: str
    folders_only: bool
    #: A rule with `!`: what it fits is not left out after all.
    keeps: bool


class _Rules:
    """The rules of one file. The last one that fits counts."""

    def __init__(self, rules: list[_Rule]) -> None:
        self._for_folders = _together(rules)
        self._for_files = _together([rule for rule in rules if not rule.folders_only])

    def __call__(self, path: str, is_folder: bool) -> bool | None:
        """Whether the path is left out; None if no rule fits."""
        together = self._for_folders if is_folder else self._for_files
        if together is None:
            return None
        regex, keeps = together
        fits = regex.match(path)
        return None if fits is None else not keeps[(fits.lastindex or 1) - 1]


def _together(rules: list[_Rule]) -> tuple[re.Pattern[str], list[bool]] | None:
    """All rules as one expression, the last one first: the group that fits is the rule."""
    if not rules:
        return None
    latest = rules[::-1]
    return compiled("|".join(f"({rule.expression})" for rule in latest)), [rule.keeps for rule in latest]


def _rule(line: str) -> _Rule | None:
    text = line.rstrip()
    if not text or text.startswith("#"):
        return None
    keeps = text.startswith("!")
    text = text.removeprefix("!").removeprefix("\\")
    folders_only = text.endswith("/")
    text = text.rstrip("/")
    try:
        meant = expression(text.lstrip("/"), anchored="/" in text)
        compiled(meant)
    except BadGlob:
        return None
    return _Rule(meant, folders_only, keeps)


def readable(name: str) -> str:
    """A name as JSON can carry it."""
    if name.isascii():
        return name
    try:
        return name.encode(errors="surrogateescape").decode(errors="replace")
    except UnicodeEncodeError:  # not a name that the system gave us
        return name.encode(errors="replace").decode()


def temporary(path: str, is_folder: bool, folder: int) -> bool:
    """Leaves out nothing but what is being written."""
    return path.rpartition("/")[2].startswith(TEMPORARY)


def _folders_above(path: str) -> Iterator[str]:
    """The folders that a path is in, the nearest first."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path
    yield "."


def _join(folder: str, name: str) -> str:
    return name if folder == "." else f"{folder}/{name}"


def _flat(inside: dict[str, list[Entry]], folder: str) -> Iterator[Entry]:
    for entry in inside.get(folder, ()):
        yield entry
        if entry.folder:
            yield from _flat(inside, entry.path)
