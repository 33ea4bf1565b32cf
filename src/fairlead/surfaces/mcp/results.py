"""How a call ended, as the result of `tools/call`.

The data is the structured content, with a text beside it for clients that read only texts. A failure is told in
the tool envelope, as a text for the model. The rest of our own envelope travels in `_meta`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from orjson import dumps

from fairlead.failures import Failure
from fairlead.failures import action as action_wire
from fairlead.failures import tool as tool_wire
from fairlead.runtime.result import Result
from fairlead.surfaces.mcp.artifacts import Carried, Kept, carried
from fairlead.surfaces.mcp.content import audio, embedded, image, text
from fairlead.surfaces.mcp.peer import SERVER_INFO
from fairlead.surfaces.mcp.rpc import Prepared, encoded
from fairlead.surfaces.mcp.tools import RESULT, Tool
from fairlead.surfaces.refusal import refusal
from fairlead.tools.hiding import for_models

if TYPE_CHECKING:
    from fairlead.surfaces.mcp.exchange import Exchange

ENVELOPE: Final = "fairlead/envelope"
CONFIRMATION: Final = "fairlead/confirmation"
#: Up to this many bytes, what an artifact holds is put into the answer; a larger one is linked to.
_INLINE: Final = 1 << 20

#: How data stands in a result: not at all, as it is, or wrapped in an object.
_TEXT_ONLY: Final = b""
_PLAIN: Final = b',"structuredContent":%b'
_WRAPPED: Final = b',"structuredContent":{"' + RESULT.encode() + b'":%b}'


def success(tool: Tool, result: Result, exchange: Exchange, items: list[Any] | None) -> Prepared:
    """The result of a call that went well; `items` are the chunks of one that was heard while it ran."""
    data = items if items is not None and result.data is None else result.data
    if tool.hides:
        data = for_models(tool.action, data)
    if not result._quiet or tool.gives_blocks:
        return _spoken(tool, result, exchange, data)
    shape = _shape(tool, exchange, data)
    template = tool.templates.get((exchange.peer.revision.name, shape)) or _template(tool, exchange, shape)
    raw = encoded(data)
    shown = raw if type(data) is str else dumps(raw.decode())
    about = (dumps(result.invocation_id), round(result.duration * 1000))
    return Prepared(template % ((shown, *about) if shape is _TEXT_ONLY else (shown, raw, *about)))


def failure(tool: Tool, result: Result, exchange: Exchange) -> dict[str, Any]:
    """The result of a call that failed, of which the model hears."""
    assert result.failure is not None
    told, artifacts = _artifacts(result, exchange)
    error = action_wire.render(result.failure)
    envelope = {"ok": False, "error": error, "artifacts": told, "logs": result.logs, "meta": result.meta}
    return _failed(tool.name, result.failure, envelope, exchange, artifacts)


def refused(tool: Tool, failure: Failure, exchange: Exchange) -> dict[str, Any]:
    """The result of a call that was refused before it reached the runtime."""
    app = exchange.server.app
    shown = app.redactor.failure(failure.for_callers())
    return _failed(tool.name, shown, refusal(failure, "mcp", app, tool.name), exchange, [])


def _shape(tool: Tool, exchange: Exchange, data: Any) -> bytes:
    revision = exchange.peer.revision
    if not revision.structures:
        return _TEXT_ONLY
    if revision.stateless or (type(data) is dict and not tool.wraps_output):
        return _PLAIN
    return _WRAPPED


def _template(tool: Tool, exchange: Exchange, shape: bytes) -> bytes:
    """All that is the same in each result of a tool that says nothing but its data: made once."""
    revision = exchange.peer.revision
    head, identity = b"{", b""
    if revision.stateless:
        head, identity = b'{"resultType":"complete",', exchange.server.identity.replace(b"%", b"%%")
    template = (
        head + b'"content":[{"type":"text","text":%b}]' + shape + b',"isError":false,"_meta":{' + identity
        + b'"' + ENVELOPE.encode() + b'":{"ok":true,"artifacts":[],"logs":[],"meta":{"action":"'
        + tool.name.encode() + b'","invocationId":%b,"surface":"mcp","durationMs":%d}}}}'
    )  # fmt: skip
    tool.templates[revision.name, shape] = template
    return template


def _spoken(tool: Tool, result: Result, exchange: Exchange, data: Any) -> Prepared:
    """The result of a call with more to tell than its data."""
    told, artifacts = _artifacts(result, exchange)
    stateless = exchange.peer.revision.stateless
    whole: dict[str, Any] = {"resultType": "complete"} if stateless else {}
    if tool.gives_blocks:
        whole["content"] = [*(data if isinstance(data, list) else [data]), *artifacts]
    else:
        shown = data if type(data) is str else encoded(data).decode()
        whole["content"] = [text(shown), *artifacts]
        shape = _shape(tool, exchange, data)
        if shape is not _TEXT_ONLY:
            whole["structuredContent"] = data if shape is _PLAIN else {RESULT: data}
    meta: dict[str, Any] = {SERVER_INFO: exchange.server.info} if stateless else {}
    meta[ENVELOPE] = {"ok": True, "artifacts": told, "logs": result.logs, "meta": result.meta}
    return Prepared(encoded({**whole, "isError": False, "_meta": meta}))


def _failed(
    name: str, failure: Failure, envelope: dict[str, Any], exchange: Exchange, artifacts: list[Any]
) -> dict[str, Any]:
    said = tool_wire.dumps(tool_wire.render(failure, name, exchange.server.app.redactor))
    stateless = exchange.peer.revision.stateless
    meta: dict[str, Any] = {SERVER_INFO: exchange.server.info} if stateless else {}
    meta[ENVELOPE] = envelope
    confirmation = failure.details.get("confirmation")
    if isinstance(confirmation, dict):
        meta[CONFIRMATION] = confirmation
    told: dict[str, Any] = {"resultType": "complete"} if stateless else {}
    return {**told, "content": [text(said), *artifacts], "isError": True, "_meta": meta}


def _artifacts(result: Result, exchange: Exchange) -> tuple[list[dict[str, Any]], list[Any]]:
    """The artifacts as the envelope lists them, and as content."""
    told: list[dict[str, Any]] = []
    blocks: list[Any] = []
    for record in result.artifacts:
        content = carried(record.get("uri"))
        if content is None:
            told.append(record)
            blocks += _linked(record, exchange)
            continue
        kept = exchange.server.shelf.keep(record, content, exchange.caller_key)
        told.append(
            {**record, "uri": kept.uri, "mimeType": content.mime_type, "sizeBytes": len(content.data)}
        )
        blocks.append(_shown(kept, content, exchange))
    return told, blocks


def _shown(kept: Kept, content: Carried, exchange: Exchange) -> Any:
    revision = exchange.peer.revision
    kind = content.mime_type.partition("/")[0]
    if len(content.data) > _INLINE and revision.structures:
        return {"type": "resource_link", **kept.describe()}
    if kind == "image":
        return image(content.data, content.mime_type)
    if kind == "audio" and revision.annotates:
        return audio(content.data, content.mime_type)
    said = content.text
    return embedded(kept.uri, content.data if said is None else said, content.mime_type)


def _linked(record: dict[str, Any], exchange: Exchange) -> list[Any]:
    uri = record.get("uri")
    if not isinstance(uri, str):
        return []
    name = str(record.get("name") or record.get("id") or uri)
    if not exchange.peer.revision.structures:
        return [text(f"{name}: {uri}")]
    link: dict[str, Any] = {"type": "resource_link", "uri": uri, "name": name}
    if isinstance(record.get("mimeType"), str):
        link["mimeType"] = record["mimeType"]
    if isinstance(record.get("sizeBytes"), int):
        link["size"] = record["sizeBytes"]
    return [link]
