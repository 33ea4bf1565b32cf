"""Files below a folder as tools: `file_read`, `file_write`, `file_edit` and `file_search`.

    for each in files("~/project"):
        app.add(each)

Where the files are is the fence's business; what a model is told of them, and how much, is decided here.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from fairlead.actions import Action
from fairlead.actions.surfaces import near_surfaces, surface_names
from fairlead.failures.tool import CAPS, ExecutionError, InvalidArgs, Timeout, Unavailable
from fairlead.runtime.context import Context
from fairlead.tools import files_edits
from fairlead.tools.fence import Fence
from fairlead.tools.files_lines import SCANNED, Binary, Slice, lines_of
from fairlead.tools.files_refusals import telling
from fairlead.tools.globs import BadGlob, Glob
from fairlead.tools.listing import INCOMPLETE, Ignored, listing, readable
from fairlead.tools.searching import BadPattern, Hit, Search, TooSlow, matching
from fairlead.tools.session import SESSION

__all__ = ["files"]

MOST_RESULTS: Final = 500
#: Bytes of a file that is edited.
MOST_EDITED: Final = 10 * 1024 * 1024

_CUT_SEARCH: Final = (
    "There are more matches than these. Narrow the search: a longer query, a glob, or a folder as path."
)
_UNFINISHED_SEARCH: Final = (
    "Not everything was looked through: there is too much of it. Give a folder as path, or a glob."
)
_DAMAGED: Final = "The file is not valid UTF-8: characters that could not be read are shown as \ufffd."

Path = Annotated[str, Field(min_length=1)]


def files(
    root: str | os.PathLike[str] | None = None, *, write: bool = True, write_from_afar: bool = False
) -> list[Action[..., Any]]:
    """The tools for files below `root`; without one, below the folder of the agent that calls them.

    `write=False` leaves out the two that change files. Those are not offered over HTTP and MCP, unless
    `write_from_afar` says so.
    """
    tools = _Files(root)
    reading: list[Action[..., Any]] = [
        Action(tools.read, name="file_read", idempotency="idempotent"),
        Action(tools.search, name="file_search", idempotency="idempotent"),
    ]
    if not write:
        return reading
    offered = surface_names() if write_from_afar else near_surfaces()
    writing: list[Action[..., Any]] = [
        Action(
            tools.write,
            name="file_write",
            side_effects="write",
            idempotency="idempotent",
            supported_surfaces=offered,
        ),
        Action(tools.edit, name="file_edit", side_effects="write", supported_surfaces=offered),
    ]
    return [reading[0], *writing, reading[1]]


class _Files:
    def __init__(self, root: str | os.PathLike[str] | None) -> None:
        self._fence = None if root is None else Fence(root)

    def read(
        self,
        ctx: Context,
        path: Path,
        start_line: Annotated[int, Field(ge=1)] | None = None,
        end_line: Annotated[int, Field(ge=1)] | None = None,
    ) -> dict[str, Any]:
        """Read a text file, or list what is in a folder. Large files are read in parts, by line numbers.

        Args:
            path: The file or folder, from the top of the project, such as 'src/app.py'; '.' is the top itself.
            start_line: The first line to read, counted from 1. Leave it out to begin at the top.
            end_line: The last line to read. Leave it out to read as far as fits.
        """
        if start_line is not None and end_line is not None and end_line < start_line:
            words = f"The last line, {end_line}, comes before the first, {start_line}. Give end_line >= start_line."
            raise InvalidArgs(words, field="end_line", expected=f"a number from {start_line} on")
        fence = self._here()
        with telling(fence, path):
            try:
                with fence.open(path) as handle:
                    part = lines_of(handle, start_line or 1, end_line, CAPS["file_read"])
            except IsADirectoryError:
                return _listed(fence, path, ctx)
            except Binary:
                raise _binary(fence.spelled(path)) from None
        return _shown(fence.spelled(path), part, ctx)

    def write(self, path: Path, content: str) -> dict[str, Any]:
        """Write a text file whole: it is made, with its folders, or replaced. To change a part, use file_edit.

        Args:
            path: The file, from the top of the project, such as 'docs/notes.md'.
            content: All that is to be in the file.
        """
        fence = self._here()
        data = _encoded(content, "content")
        with telling(fence, path):
            done = fence.write(path, data)
        lines = content.count("\n") + (not content.endswith("\n") if content else 0)
        spelled = readable(fence.spelled(path))
        return {"path": spelled, "bytes": done.size, "lines": lines, "created": done.created}

    def edit(
        self,
        path: Path,
        old: Annotated[str, Field(min_length=1)],
        new: str,
        all: bool = False,
    ) -> dict[str, Any]:
        """Replace a piece of text in a file. The old text must be there exactly once, unless all is true.

        Args:
            path: The file, from the top of the project, such as 'src/app.py'.
            old: The text to replace, exactly as in the file, with enough lines around it to be the only such place.
            new: What to put there; empty to remove the old text.
            all: Replace every place where the old text is.
        """
        fence = self._here()
        _encoded(new, "new")
        lines: list[int] = []

        def change(data: bytes) -> bytes:
            done = files_edits.replaced(_editable(data, fence.spelled(path)), old, new, all)
            lines.extend(done.lines)
            return done.text.encode()

        with telling(fence, path):
            fence.edit(path, MOST_EDITED + 1, change)
        return {"path": readable(fence.spelled(path)), "replacements": len(lines), "lines": lines[:20]}

    def search(
        self,
        ctx: Context,
        query: Annotated[str, Field(min_length=1)],
        target: Literal["content", "name"] = "content",
        path: Path = ".",
        glob: str | None = None,
        ignore_case: bool = False,
        max_results: Annotated[int, Field(ge=1, le=MOST_RESULTS)] = MOST_RESULTS,
    ) -> dict[str, Any]:
        """Find files by their name, or lines in files by their content.

        Args:
            query: For content a regular expression, such as 'def \\w+_price'; for names a glob, such as '*.py'.
            target: Whether the query is for the content of files or for their names.
            path: The folder to search, or one file; '.' is all of the project.
            glob: Look only at files that this means, such as '*.py' or 'docs/**/*.md'.
            ignore_case: Take upper and lower case as the same.
            max_results: Stop after so many.
        """
        fence = self._here()
        found = _Found(query, max_results)
        with telling(fence, path):
            if target == "name":
                search = _names(fence, path, query, glob, ignore_case, found, ctx)
            else:
                search = _lines(fence, path, query, glob, ignore_case, found, ctx)
        if found.truncated:
            ctx.warn(_CUT_SEARCH)
        elif search.incomplete:
            ctx.warn(_UNFINISHED_SEARCH)
        return found.to_dict(search.incomplete)

    def _here(self) -> Fence:
        if self._fence is not None:
            return self._fence
        session = SESSION.get()
        if session is None or session.root is None:
            words = (
                "No folder is open to this tool: files() was given no root, and it is not called by an agent that has "
                "a folder. Give files() a root, or the agent a folder."
            )
            raise Unavailable(words, retryable=False)
        return Fence(session.root)


class _Found:
    """The results of a search, as many as fit."""

    def __init__(self, query: str, most: int) -> None:
        self.truncated = False
        self._query = query
        self._most = most
        self._room = CAPS["search"]
        self._entries: list[dict[str, Any]] = []

    def add(self, entry: dict[str, Any]) -> bool:
        """Take a result in; whether there was room for it."""
        self._room -= sum(len(str(value)) for value in entry.values())
        self.truncated = self._room < 0 or len(self._entries) >= self._most
        if not self.truncated:
            self._entries.append(entry)
        return not self.truncated

    def to_dict(self, incomplete: bool) -> dict[str, Any]:
        return {
            "kind": "search",
            "query": self._query,
            "entries": self._entries,
            "match_count": len(self._entries),
            "truncated": self.truncated or incomplete,
        }


def _names(
    fence: Fence, path: str, query: str, glob: str | None, fold: bool, found: _Found, ctx: Context
) -> Search:
    wanted = _glob(query, "query", fold)
    search = _search(fence, path, glob, fold, ctx)
    try:
        for each in search.names():
            if wanted.matches(each.path):
                entry = {"name": readable(each.name), "path": readable(each.path), "type": "file"}
                if not found.add(entry):
                    break
    except NotADirectoryError:
        fence.stat(path)
        words = "The path is no folder, and names are looked for in one. Give a folder; '.' is all of the project."
        raise InvalidArgs(words, field="path", expected="a folder") from None
    return search


def _lines(
    fence: Fence, path: str, query: str, glob: str | None, fold: bool, found: _Found, ctx: Context
) -> Search:
    search = _search(fence, path, glob, fold, ctx)
    try:
        with matching(query, ignore_case=fold, check=ctx.signal.check) as find:
            try:
                _take(search.lines(find), found)
            except NotADirectoryError:
                _take(search.one(path, find), found)
    except BadPattern as exc:
        words = (
            f"The query is no regular expression: {exc}. Put a backslash before characters meant as they are."
        )
        raise InvalidArgs(words, field="query", expected="a regular expression") from None
    except TooSlow:
        words = "The query takes too long to match. Make it simpler: no repetition inside a repetition."
        raise Timeout(words, field="query") from None
    return search


def _take(hits: Any, found: _Found) -> None:
    hit: Hit
    for hit in hits:
        if not found.add({"path": hit.path, "line": hit.line, "text": hit.text}):
            return


def _search(fence: Fence, path: str, glob: str | None, fold: bool, ctx: Context) -> Search:
    wanted = _glob(glob, "glob", fold) if glob else None
    return Search(fence, path, Ignored(fence), _watch(ctx), wanted)


def _watch(ctx: Context) -> Callable[[], None]:
    """Called again and again in a search: it can be cancelled, and says that it goes on."""
    count = 0

    def check() -> None:
        nonlocal count
        count += 1
        ctx.signal.check()
        if count % 5000 == 0:
            ctx.progress.report(f"Looked at {count} files and parts of files.")

    return check


def _glob(text: str, field: str, fold: bool) -> Glob:
    try:
        return Glob(text, ignore_case=fold)
    except BadGlob as exc:
        words = f"The {field} is no pattern for paths: {exc}."
        raise InvalidArgs(words, field=field, expected="a glob, such as '*.py' or 'docs/**/*.md'") from None


def _listed(fence: Fence, path: str, ctx: Context) -> dict[str, Any]:
    found = listing(fence, path)
    if found.truncated:
        ctx.warn(INCOMPLETE)
    return {
        "kind": "listing",
        "path": readable(fence.spelled(path)),
        "entries": [entry.to_dict() for entry in found.entries],
        "entry_count": len(found.entries),
        "truncated": found.truncated,
    }


def _shown(path: str, part: Slice, ctx: Context) -> dict[str, Any]:
    if part.first > max(part.total, 1):
        known = "has" if part.exact else "was looked through for"
        words = f"The file {known} {part.total} lines; line {part.first} is beyond them."
        raise InvalidArgs(words, field="start_line", expected=f"a number from 1 to {max(part.total, 1)}")
    if part.damaged:
        ctx.warn(_DAMAGED)
    total = f"{part.total}" if part.exact else f"at least {part.total}"
    header = "" if part.whole else f"Lines {part.first}-{part.last} of {total}\n"
    return {
        "kind": "file",
        "text": header + part.text,
        "path": readable(path),
        "start_line": part.first,
        "end_line": part.last,
        "total_lines": part.total,
        "total_lines_exact": part.exact,
        "truncated": part.truncated,
        "partial_line": part.partial,
        "bytes_read": part.read,
        "byte_limit": SCANNED,
    }


def _binary(path: str) -> ExecutionError:
    words = (
        f"{readable(path)!r} is not a text file. Use a program that knows its format, or share it as it is."
    )
    return ExecutionError(words, field="path", retryable=False)


def _editable(data: bytes, path: str) -> str:
    if len(data) > MOST_EDITED:
        words = f"{readable(path)!r} has more than {MOST_EDITED} bytes. Change it with a command instead."
        raise ExecutionError(words, field="path", retryable=False)
    if b"\0" in data:
        raise _binary(path)
    try:
        return data.decode()
    except UnicodeDecodeError as exc:
        words = (
            f"{readable(path)!r} is not valid UTF-8 at byte {exc.start}, and an edit would damage it. "
            "Convert it first."
        )
        raise ExecutionError(words, field="path", retryable=False) from None


def _encoded(text: str, field: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        words = (
            f"The {field} holds half of a surrogate pair, which no text file can have. Send whole characters."
        )
        raise InvalidArgs(words, field=field, expected="text that can be written as UTF-8") from None
