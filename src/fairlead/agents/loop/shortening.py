"""Old messages in few words: what a result was, and that it can be had again.

A message always gets the same short form, whenever it is asked for. When to shorten is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from fairlead import _json
from fairlead.agents.loop.state import LISTINGS, classify
from fairlead.agents.models.model import Message, ToolCall
from fairlead.failures import tool

#: What is not longer than this stays as it is.
SHORT: Final = 600
#: How much of the beginning of a longer text stays.
HEAD: Final = 240
_AGAIN: Final = "Left out to save room: call the tool again if you need it, do not recall it from memory."


def listing(message: Message) -> Message | None:
    """A listing as a count of its entries; None for what is no listing, or is short."""
    if message.role != "tool" or '"listing"' not in message.content or len(message.content) <= SHORT // 3:
        return None
    told = _loaded(message.content)
    if told is None or classify(told) not in LISTINGS:
        return None
    return _smaller(message, _listing(told["result"]))


def result(message: Message) -> Message | None:
    """A tool's long result in few words; None for another message, or a short one."""
    if message.role != "tool" or len(message.content) <= SHORT:
        return None
    told = _loaded(message.content)
    if told is None:
        return _smaller(message, _text(_cut(message.content)))
    if tool.is_error(message.content):
        return _smaller(message, _failure(told))
    data = told.get("result")
    if not isinstance(data, dict):
        return _smaller(message, _text(_cut(message.content)))
    if data.get("kind") == "file":
        return _smaller(message, _file(data))
    if data.get("kind") == "listing":
        return _smaller(message, _listing(data))
    said = data.get("text")
    return _smaller(message, _text(_cut(said if isinstance(said, str) else message.content)))


def words(message: Message) -> Message | None:
    """A model's long turn with the beginning of its text, and calls with the beginnings of their arguments.

    None for another message, a short one, or one that the provider wants back as it was.
    """
    if message.role != "assistant" or message.kept:
        return None
    content = _cut(message.content) if len(message.content) > SHORT else message.content
    calls = tuple(_call(call) for call in message.calls)
    if content is message.content and all(a is b for a, b in zip(calls, message.calls, strict=True)):
        return None
    return replace(message, content=content, calls=calls)


def _call(call: ToolCall) -> ToolCall:
    if len(call.arguments) <= SHORT:
        return call
    told = _loaded(call.arguments)
    if told is None:
        # Providers want an object back, whatever the model wrote.
        return replace(call, arguments=_json.dumps({"left_out": _cut(call.arguments)}))
    shorter = _json.dumps({key: _value(value) for key, value in told.items()})
    return replace(call, arguments=shorter) if len(shorter) < len(call.arguments) else call


def _value(value: Any) -> Any:
    if isinstance(value, str):
        return _cut(value) if len(value) > HEAD else value
    if not isinstance(value, dict | list):
        return value
    spelled = _json.dumps(value)
    return _cut(spelled) if len(spelled) > HEAD else value


def _cut(text: str) -> str:
    return f"{text[:HEAD]}... [{len(text) - HEAD} more characters were left out to save room]"


def _listing(data: Mapping[str, Any]) -> str:
    entries = data.get("entries")
    count = data.get("entry_count", len(entries) if isinstance(entries, list) else 0)
    return _text(f"{count} entries in {data.get('path') or '.'}. {_AGAIN}")


def _file(data: Mapping[str, Any]) -> str:
    lines = data.get("total_lines")
    told = f"The file {data.get('path')!r}" + (f", {lines} lines" if lines is not None else "")
    return _text(
        f"{told}, was read here. Left out to save room: re-read the file, do not recall it from memory."
    )


def _failure(told: Mapping[str, Any]) -> str:
    message = str(told.get("message") or told.get("reason") or told.get("error") or "")
    kept: dict[str, Any] = {"ok": False, "message": _cut(message) if len(message) > HEAD else message}
    for key in ("kind", "field", "retryable", "tool"):
        if key in told and len(str(told[key])) <= HEAD:
            kept[key] = told[key]
    return tool.dumps(kept)


def _text(said: str) -> str:
    return tool.dumps(tool.text(said))


def _smaller(message: Message, content: str) -> Message | None:
    return replace(message, content=content) if len(content) < len(message.content) else None


def _loaded(text: str) -> dict[str, Any] | None:
    try:
        told = _json.loads(text)
    except ValueError:
        return None
    return told if isinstance(told, dict) else None
