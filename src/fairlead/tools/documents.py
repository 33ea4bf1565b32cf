"""A folder of documents as tools: read, write, edit, grep, list, delete, and exec where it is switched on.

    for each in documents("~/notes"):
        app.add(each)

Failures are the runtime family's docstore codes. A path is refused by its text, before the disk is touched, so that
what is said of it does not depend on what is there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final

from pydantic import Field

from fairlead.actions import Action
from fairlead.actions.surfaces import near_surfaces
from fairlead.failures.runtime import DocstoreDenied, DocstoreInvalid, DocstoreIoError, DocstoreNotFound
from fairlead.failures.tool import CAPS
from fairlead.runtime.context import Context
from fairlead.tools.documents_exec import execute
from fairlead.tools.fence import Changed, Fence, NotAFile, Outside
from fairlead.tools.files_edits import fitted
from fairlead.tools.files_lines import Binary, lines_of
from fairlead.tools.globs import BadGlob, Glob
from fairlead.tools.listing import readable, temporary
from fairlead.tools.searching import BadPattern, Search, TooSlow, matching

__all__ = ["documents"]

MOST_MATCHES: Final = 500
MOST_LISTED: Final = 10_000
#: Bytes of a document that is edited.
MOST_EDITED: Final = 10 * 1024 * 1024

_CUT: Final = "Only the beginning is given: the rest does not fit. Read on with offset {}."

Path = Annotated[str, Field(min_length=1)]


def documents(
    root: str | os.PathLike[str] | None = None, *, exec: bool = False, prefix: str = ""
) -> list[Action[..., Any]]:
    """The tools for the documents below `root`; without one, each of them answers `docstore_denied`.

    Whatever changes something asks for confirmation. `exec` runs programs in the folder, with the rights of this
    one: nothing fences them in, and so it is not offered over HTTP and MCP. `prefix` goes before each name:
    `prefix="doc_"` makes `doc_read`.
    """
    tools = _Documents(root)
    found: list[Action[..., Any]] = [
        Action(tools.read, name=f"{prefix}read", idempotency="idempotent"),
        Action(tools.write, name=f"{prefix}write", side_effects="write", requires_confirmation=True),
        Action(tools.edit, name=f"{prefix}edit", side_effects="write", requires_confirmation=True),
        Action(tools.grep, name=f"{prefix}grep", idempotency="idempotent"),
        Action(tools.list, name=f"{prefix}list", idempotency="idempotent"),
        Action(tools.delete, name=f"{prefix}delete", side_effects="destructive", requires_confirmation=True),
    ]
    if exec:
        run: Action[..., Any] = Action(
            tools.exec,
            name=f"{prefix}exec",
            side_effects="destructive",
            requires_confirmation=True,
            supported_surfaces=near_surfaces(),
        )
        found.append(run)
    return found


def document(root: str | os.PathLike[str] | None, path: str, most: int) -> bytes:
    """The first bytes of one document. Raises Failure with a docstore code."""
    with _Documents(root)._fenced(path) as fence:
        return fence.read(path, most)[0]


class _Documents:
    def __init__(self, root: str | os.PathLike[str] | None) -> None:
        self._fence = None if root is None else Fence(root)

    def read(
        self,
        ctx: Context,
        path: Path,
        offset: Annotated[int, Field(ge=0)] = 0,
        limit: Annotated[int, Field(ge=1)] | None = None,
    ) -> dict[str, Any]:
        """Read a document.

        Args:
            path: The document, such as 'notes/today.md'.
            offset: How many lines to leave out at the beginning.
            limit: How many lines to read at most.
        """
        with self._fenced(path) as fence, fence.open(path) as handle:
            last = None if limit is None else offset + limit
            try:
                part = lines_of(handle, offset + 1, last, CAPS["any"])
            except Binary:
                words = f"{_named(path)} is not a text document, and only text can be read."
                raise DocstoreInvalid(words, field="path") from None
        if part.truncated:
            ctx.warn(_CUT.format(part.last))
        return {"content": part.text}

    def write(self, path: Path, content: str) -> dict[str, Any]:
        """Write a document whole: it is made, with its folders, or replaced.

        Args:
            path: The document, such as 'notes/today.md'.
            content: All that is to be in it.
        """
        data = _encoded(content, "content")
        with self._fenced(path) as fence:
            return {"bytes": fence.write(path, data).size}

    def edit(
        self, path: Path, old: Annotated[str, Field(min_length=1)], new: str, all: bool = False
    ) -> dict[str, Any]:
        """Replace a piece of a document's text. It must be there exactly once, unless all is true.

        Args:
            path: The document, such as 'notes/today.md'.
            old: The text to replace, exactly as it is there.
            new: What to put there; empty to remove the old text.
            all: Replace it wherever it is.
        """
        _encoded(new, "new")
        count = 0

        def change(data: bytes) -> bytes:
            nonlocal count
            text = _editable(data, path)
            here, there = fitted(text, old, new)
            count = text.count(here)
            if count == 0 or (count > 1 and not all):
                raise _not_once(path, count)
            return text.replace(here, there).encode()

        with self._fenced(path) as fence:
            fence.edit(path, MOST_EDITED + 1, change)
        return {"replacements": count}

    def grep(
        self,
        ctx: Context,
        pattern: Annotated[str, Field(min_length=1)],
        glob: str | None = None,
        max: Annotated[int, Field(ge=1, le=MOST_LISTED)] = MOST_MATCHES,
    ) -> list[dict[str, Any]]:
        """Find lines in documents.

        Args:
            pattern: A regular expression, such as 'TODO|FIXME'.
            glob: Look only into documents that this means, such as '*.md' or 'notes/**/*.md'.
            max: Stop after so many lines.
        """
        found: list[dict[str, Any]] = []
        with self._fenced() as fence, _patterns(), matching(pattern, check=ctx.signal.check) as find:
            search = Search(fence, ".", temporary, ctx.signal.check, _glob(glob))
            for hit in search.lines(find):
                if len(found) == max:
                    ctx.warn(f"There are more than {max} lines. Narrow the pattern, or give a glob.")
                    break
                found.append({"path": hit.path, "line": hit.line, "text": hit.text})
            if search.incomplete:
                ctx.warn("Not all documents were looked through: there is too much of them. Give a glob.")
        return found

    def list(self, ctx: Context, glob: str | None = None) -> list[dict[str, Any]]:
        """List documents with their sizes in bytes.

        Args:
            glob: List only what this means, such as '*.md' or 'notes/**/*.md'.
        """
        found: list[dict[str, Any]] = []
        with self._fenced() as fence, _patterns():
            search = Search(fence, ".", temporary, ctx.signal.check, _glob(glob))
            for each in search.names():
                if len(found) == MOST_LISTED:
                    search.incomplete = True
                    break
                try:
                    about = os.stat(each.name, dir_fd=each.folder, follow_symlinks=False)
                except FileNotFoundError:
                    continue
                found.append({"path": readable(each.path), "size": about.st_size})
        if search.incomplete:
            ctx.warn(f"There are more than {MOST_LISTED} documents, or too many files. Give a glob.")
        return found

    def delete(self, path: Path) -> dict[str, Any]:
        """Delete a document.

        Args:
            path: The document, such as 'notes/old.md'.
        """
        with self._fenced(path) as fence:
            fence.delete(path)
        return {"deleted": True}

    async def exec(
        self,
        cmd: Annotated[str, Field(min_length=1)],
        args: tuple[str, ...] = (),
        stdin: str = "",
        timeout: Annotated[float, Field(gt=0, le=3600)] = 120.0,
    ) -> dict[str, Any]:
        """Run a program in the folder of the documents.

        Args:
            cmd: The program, such as 'wc'. It is no shell command: arguments go into args.
            args: The arguments, each as one text.
            stdin: What the program is given to read.
            timeout: Seconds after which it is stopped.
        """
        with self._fenced() as fence:
            root = str(fence.root)
        return await execute([cmd, *args], root, _encoded(stdin, "stdin"), timeout)

    @contextmanager
    def _fenced(self, path: str = ".") -> Iterator[Fence]:
        """The fence, for a path that may be looked for; what it raises then is told in docstore codes."""
        if self._fence is None:
            raise DocstoreDenied("No folder of documents is configured. Start with one: documents(root).")
        _check(path)
        try:
            yield self._fence
        except Outside as exc:
            raise DocstoreDenied(f"The path may not be used: {exc}.", field="path") from None
        except NotAFile:
            words = f"{_named(path)} is a device, a pipe or a socket, and none of these is opened."
            raise DocstoreDenied(words, field="path") from None
        except (FileNotFoundError, NotADirectoryError) as exc:
            words = f"There is no document {_named(path)}. Use list to see which there are."
            raise DocstoreNotFound(words, field="path", cause=exc) from None
        except PermissionError as exc:
            words = f"The system does not let this program use {_named(path)}."
            raise DocstoreDenied(words, field="path", cause=exc) from None
        except Changed:
            words = (
                f"{_named(path)} was changed by somebody else meanwhile. Read it again, then repeat the edit."
            )
            raise DocstoreIoError(words, field="path") from None
        except OSError as exc:
            why = os.strerror(exc.errno) if exc.errno else type(exc).__name__
            raise DocstoreIoError(f"{_named(path)}: {why}.", field="path", cause=exc) from None


def _check(path: str) -> None:
    """Refuse a path by its text."""
    if path.startswith("/"):
        why = "it is absolute"
    elif ".." in path.split("/"):
        why = "it has '..' in it"
    elif "\0" in path:
        why = "it holds a NUL character"
    else:
        return
    words = f"The path may not be used: {why}. Give a path from the top of the documents, such as 'notes/today.md'."
    raise DocstoreDenied(words, field="path")


@contextmanager
def _patterns() -> Iterator[None]:
    try:
        yield
    except BadPattern as exc:
        words = f"The pattern is no regular expression: {exc}."
        raise DocstoreInvalid(words, field="pattern") from None
    except TooSlow:
        words = "The pattern takes too long to match. Make it simpler: no repetition inside a repetition."
        raise DocstoreInvalid(words, field="pattern") from None
    except BadGlob as exc:
        raise DocstoreInvalid(f"The glob is no pattern for paths: {exc}.", field="glob") from None


def _glob(text: str | None) -> Glob | None:
    return Glob(text) if text else None


def _not_once(path: str, count: int) -> DocstoreInvalid:
    found = "not there" if count == 0 else f"there {count} times"
    way = (
        "Read the document, and copy the text from it"
        if count == 0
        else "Give more of it, or set all to true"
    )
    return DocstoreInvalid(
        f"The old text is {found} in {_named(path)}. {way}.", field="old", details={"matches": count}
    )


def _editable(data: bytes, path: str) -> str:
    if len(data) > MOST_EDITED:
        words = f"{_named(path)} has more than {MOST_EDITED} bytes, and is not edited."
        raise DocstoreInvalid(words, field="path")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise DocstoreInvalid(f"{_named(path)} is not UTF-8 text, and is not edited.", field="path") from None


def _encoded(text: str, field: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        words = f"The {field} holds half of a surrogate pair. Send whole characters."
        raise DocstoreInvalid(words, field=field) from None


def _named(path: str) -> str:
    return repr(readable(path if len(path) <= 200 else path[:200] + "..."))
