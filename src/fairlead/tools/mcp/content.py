"""What an MCP tool answers, as data: structured content first, else text; images and files become artifacts.

It reads the SDK's objects by their members and imports nothing of it.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from fairlead.runtime import Context


def data_of(result: Any, ctx: Context, *, structured: bool) -> Any:
    """The data of a result that is no error; `structured` says that the tool promised structured content."""
    blocks = list(result.content)
    others = [_told(block, ctx) for block in blocks if block.type != "text"]
    text = text_of(result)
    # Null is a value, too; but servers that promise nothing send it beside the text that is meant.
    given = "structured_content" in result.model_fields_set
    if result.structured_content is not None or (given and structured):
        return result.structured_content
    return text if not others else {"text": text, "content": others}


def text_of(result: Any) -> str:
    """All text of a result, one block a paragraph."""
    return "\n".join(block.text for block in result.content if block.type == "text")


def _told(block: Any, ctx: Context) -> dict[str, Any]:
    if block.type in ("image", "audio"):
        return _artifact(
            ctx, block.type, f"{block.type}.{_ending(block.mime_type)}", block.data, block.mime_type
        )
    if block.type == "resource_link":
        return _link(block, ctx)
    if block.type == "resource":
        return _resource(block.resource, ctx)
    return {"type": block.type}


def _link(block: Any, ctx: Context) -> dict[str, Any]:
    uri = str(block.uri)
    ctx.artifacts.add(block.name, uri=uri, mime_type=block.mime_type, size_bytes=block.size, type="link")
    told = {"type": "link", "uri": uri, "name": block.name}
    return {**told, "description": block.description} if block.description else told


def _resource(resource: Any, ctx: Context) -> dict[str, Any]:
    uri = str(resource.uri)
    text = getattr(resource, "text", None)
    if text is not None:
        return {"type": "resource", "uri": uri, "text": text}
    name = uri.rstrip("/").rsplit("/", 1)[-1] or "resource"
    return {**_artifact(ctx, "resource", name, resource.blob, resource.mime_type), "uri": uri}


def _artifact(ctx: Context, kind: str, name: str, encoded: str, mime_type: str | None) -> dict[str, Any]:
    try:
        data = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        return {"type": kind, "name": name, "problem": "The data is not base64, and was left out."}
    made = ctx.artifacts.add(name, data=data, mime_type=mime_type, type=kind)
    told = {"type": kind, "name": name, "artifact": made["id"], "size_bytes": len(data)}
    return {**told, "mime_type": mime_type} if mime_type else told


def _ending(mime_type: str | None) -> str:
    return (mime_type or "application/bin").rpartition("/")[2].partition("+")[0].partition(";")[0] or "bin"
