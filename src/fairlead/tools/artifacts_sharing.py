"""`share_artifact`: hand a file, a folder or a text to the user. Where it is kept is the business of `Artifacts`.

What the tool says is text with a block between two markers, which chat surfaces look for: metadata as JSON on one
line, then the content if it came with the call.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from fairlead._json import dumps, loads
from fairlead.actions import Action
from fairlead.failures import Failure
from fairlead.failures.tool import ExecutionError, InvalidArgs
from fairlead.runtime.context import Context
from fairlead.tools.artifacts import Artifact, Artifacts, basename
from fairlead.tools.fence import Fence, NotAFile, Outside, chunks
from fairlead.tools.listing import readable
from fairlead.tools.session import SESSION

__all__ = ["SandboxFolders", "shared", "sharing"]

START: Final = "---SHARED_ARTIFACT_START---"
END: Final = "---SHARED_ARTIFACT_END---"

_NAME: Final = "share_artifact"
_LONGEST_NAME: Final = 255
#: Bytes of an artifact that is carried along in the call's envelope; a larger one is only pointed to.
_CARRIED: Final = 64 * 1024
#: Characters of a text that is repeated in the result.
_REPEATED: Final = 50_000
#: Where builds put what they make.
_OUTPUTS: Final = ("output", "out", "build", "dist")


@dataclass(frozen=True, slots=True)
class SandboxFolders:
    """Where an agent's sandbox is on this machine: what it calls its home, and what its `/workspace` is, if any."""

    home: str
    folder: Path
    workspace: Path | None = None

    def __str__(self) -> str:
        return self.home if self.workspace is None else f"{self.home} and /workspace"


class Given(BaseModel):
    """What is shared: a path, or content with a file name."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"anyOf": [{"required": ["path"]}, {"required": ["content", "filename"]}]},
    )

    content: str = Field("", description="The text itself, for something that is in no file. Needs filename.")
    filename: str = Field("", description="What the content is to be called, such as 'report.md'.")
    description: str = Field("", description="One sentence for the user: what this is.")
    path: str = Field(
        "",
        description="The file or folder to share, such as 'output/chart.png'. It wins over content.",
        validate_default=True,
    )

    @field_validator("path")
    @classmethod
    def _something(cls, path: str, info: ValidationInfo) -> str:
        content, filename = info.data.get("content", ""), info.data.get("filename", "")
        if path.strip() or (content.strip() and filename.strip()):
            return path
        raise PydanticCustomError("nothing_given", "Give a path, or content together with a filename.")


def sharing(
    artifacts: Artifacts,
    *,
    root: str | os.PathLike[str] | None = None,
    sandbox: SandboxFolders | None = None,
) -> list[Action[..., Any]]:
    """The tool that shares artifacts, of a sandbox or of the folder `root`.

    Without either, of the folder of the agent that calls it; a call without one shares only content.
    """
    tool = _Sharing(artifacts, None if root is None else Fence(root), sandbox)
    return [Action(tool.share, name=_NAME, side_effects="write")]


class _Source(NamedTuple):
    fence: Fence
    path: str
    directory: bool


class _Sharing:
    def __init__(self, artifacts: Artifacts, fence: Fence | None, sandbox: SandboxFolders | None) -> None:
        self._artifacts = artifacts
        self._fence = fence
        self._sandbox = sandbox

    def share(self, given: Given, ctx: Context) -> dict[str, Any]:
        """Share a file, a folder or a text with the user. Do this with whatever the user asked to get."""
        path, description = given.path.strip(), given.description.strip()
        _check_markers(description, "description")
        if path:
            name = _named(basename(path), "path")
            record = self._keep_path(path, name, self._about(ctx, description))
            content = None
        else:
            content = _unescaped(given.content)
            name = _named(basename(given.filename), "filename")
            record = self._keep_content(content, name, self._about(ctx, description))
        self._announce(record, ctx)
        return {"text": self._text(record, path, content)}

    def _about(self, ctx: Context, description: str) -> dict[str, Any]:
        session = SESSION.get()
        if session is None:
            where = {"owner": ctx.caller, "context": ctx.invocation_id, "context_type": "call"}
        else:
            owner = session.owner or ctx.caller
            where = {"owner": owner, "context": session.id, "context_type": "conversation"}
        return where | {"description": description or None}

    def _keep_path(self, path: str, name: str, about: dict[str, Any]) -> Artifact:
        source = self._resolved(path)
        try:
            if source.directory:
                return self._artifacts.put_tree_now(name, source.fence, source.path, **about)
            with source.fence.open(source.path) as handle:
                return self._artifacts.put_now(name, chunks(handle, 1 << 62), **about)
        except (OSError, Outside, Failure) as exc:
            raise _copy_failed(readable(path), exc) from None

    def _keep_content(self, content: str, name: str, about: dict[str, Any]) -> Artifact:
        _check_markers(content, "content")
        try:
            return self._artifacts.put_now(name, content.encode(), **about)
        except UnicodeEncodeError:
            words = f"{_NAME}: the content holds half of a surrogate pair. Send whole characters."
            raise InvalidArgs(words, field="content") from None
        except (OSError, Failure) as exc:
            raise _copy_failed(name, exc) from None

    def _resolved(self, path: str) -> _Source:
        """The first of the places where the path may be that is there."""
        tried: list[str] = []
        for fence, inner, shown in self._candidates(path):
            try:
                about = fence.stat(inner)
            except Outside:
                raise _path_rejected(f"it leads out of {self._place()}") from None
            except (FileNotFoundError, NotADirectoryError):
                tried.append(shown)
                continue
            except OSError as exc:
                raise _copy_failed(shown, exc) from None
            if not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)):
                raise _copy_failed(shown, NotAFile("it is a device, a pipe or a socket"))
            return _Source(fence, inner, stat.S_ISDIR(about.st_mode))
        places = ", ".join(map(repr, tried))
        words = f"{_NAME}: the file was not found. Looked for {places}. Look for it with a search, or make it first."
        raise ExecutionError(words, field="path", details={"attempted": tried})

    def _candidates(self, path: str) -> Iterator[tuple[Fence, str, str]]:
        """Where a path may lead: the fence, the path below it, and how to call that."""
        if self._sandbox is not None:
            yield from _in_sandbox(self._sandbox, path)
            return
        fence = self._fence or _conversation()
        if fence is None:
            raise _path_rejected("no folder is open here to share files from; give content and filename")
        yield fence, path, readable(path)

    def _place(self) -> str:
        place = "the folder of the project" if self._sandbox is None else f"the sandbox ({self._sandbox})"
        return f"{place}; look for it with file_search"

    def _announce(self, record: Artifact, ctx: Context) -> None:
        place = self._artifacts.path(record)
        small = not record.directory and record.size <= _CARRIED
        metadata = {"sha256": record.sha256, "context": record.context, "description": record.description}
        ctx.artifacts.add(
            record.name,
            id=record.id,
            type="directory" if record.directory else "file",
            mime_type=record.mime_type,
            size_bytes=record.size,
            uri=None if small else place.as_uri(),
            data=place.read_bytes() if small else None,
            metadata={key: value for key, value in metadata.items() if value is not None},
        )

    def _text(self, record: Artifact, path: str, content: str | None) -> str:
        repeated = content is not None and len(content) <= _REPEATED
        metadata: dict[str, Any] = {
            "filename": record.name,
            "mime_type": record.mime_type,
            "host_path": str(self._artifacts.path(record)),
            "context_id": record.context,
            "context_type": record.context_type,
            "file_size": record.size,
            "is_directory": record.directory,
        }
        optional = {"path": readable(path), "has_content": repeated, "description": record.description}
        metadata |= {key: value for key, value in optional.items() if value}
        lines = [f"Shared {record.name} ({record.mime_type}, {record.size} bytes) with the user."]
        lines += [record.description] if record.description else []
        lines += [START, dumps(metadata, sort_keys=True)]
        lines += [content] if content is not None and repeated else []
        return "\n".join([*lines, END])


def shared(text: str) -> tuple[dict[str, Any], str | None]:
    """The metadata and the content in what the tool said.

    Raises:
        ExecutionError: there is no whole block between the markers.
    """
    _, started, rest = text.partition(f"{START}\n")
    block, ended, _ = rest.rpartition(END)
    first, _, content = block.removesuffix("\n").partition("\n")
    try:
        metadata = loads(first) if started and ended else None
    except ValueError:
        metadata = None
    if not isinstance(metadata, dict):
        words = f"{_NAME}: the result has no block between {START} and {END}. Share it again."
        raise ExecutionError(words)
    return metadata, content if metadata.get("has_content") else None


def _in_sandbox(sandbox: SandboxFolders, path: str) -> Iterator[tuple[Fence, str, str]]:
    home = sandbox.home.rstrip("/")
    path = path.removeprefix(f"{home}/")
    workspace = sandbox.workspace
    if workspace is not None and (path == "/workspace" or path.startswith("/workspace/")):
        yield Fence(workspace), path.removeprefix("/workspace").lstrip("/") or ".", readable(path)
        return
    if path.startswith(("/", "~")):
        raise _path_rejected(f"it is not below {sandbox}; look for it with file_search")
    fence = Fence(sandbox.folder)
    for inner in dict.fromkeys([path.removeprefix("./"), *(f"{each}/{basename(path)}" for each in _OUTPUTS)]):
        yield fence, inner, f"{home}/{readable(inner)}"


def _conversation() -> Fence | None:
    session = SESSION.get()
    return None if session is None or session.root is None else Fence(session.root)


def _named(name: str, field: str) -> str:
    """A file name that the artifact may have."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        size = _LONGEST_NAME + 1
    if name in (".", "..") or size > _LONGEST_NAME or name.startswith(".fairlead-"):
        words = (
            f"{_NAME}: this cannot be the name of an artifact. Give a plain file name, such as 'report.md'."
        )
        raise InvalidArgs(words, field=field, expected="a plain file name")
    _check_markers(name, field)
    return name


def _check_markers(text: str, field: str) -> None:
    if START in text or END in text:
        words = f"{_NAME}: the {field} holds a marker that only the result may hold. Leave it out."
        raise InvalidArgs(words, field=field, expected=f"text without {START} and {END}")


def _unescaped(content: str) -> str:
    """Models write the two characters where they mean a new line or a tab.

    Who writes real new lines means what he writes: a program's "\\n", or a formula's "\\theta".
    """
    return content if "\n" in content else content.replace("\\n", "\n").replace("\\t", "\t")


def _path_rejected(why: str) -> InvalidArgs:
    return InvalidArgs(
        f"{_NAME}: the path was refused: {why}.", field="path", expected="a path that is inside"
    )


def _copy_failed(shown: str, exc: Exception) -> ExecutionError:
    if isinstance(exc, OSError) and exc.errno:
        why = os.strerror(exc.errno)
    else:
        why = exc.message if isinstance(exc, Failure) else str(exc)
    words = f"{_NAME}: {shown!r} could not be copied: {why.rstrip('.')}."
    return ExecutionError(words, details={"source": shown}, cause=exc)
