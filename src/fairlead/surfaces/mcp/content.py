"""Content blocks: what a tool, a prompt or a resource may hold besides plain data.

    @app.action
    async def screenshot(ctx: Context) -> Image:
        "Take a picture of the screen."
        return image(png, "image/png")

An action that is declared to return blocks (`Image`, `list[Block]`, `Text | Image`) gives an MCP client exactly
those; on every other surface they are the JSON that they are. Blocks are plain dicts in the protocol's words.
"""

from __future__ import annotations

import typing
from base64 import b64encode
from types import UnionType
from typing import Any, Final, Literal, NotRequired, TypedDict, Union

Role = Literal["user", "assistant"]


class Text(TypedDict):
    """A text for the model."""

    type: Literal["text"]
    text: str


class Image(TypedDict):
    """A picture, as base64."""

    type: Literal["image"]
    data: str
    mimeType: str


class Audio(TypedDict):
    """A sound, as base64."""

    type: Literal["audio"]
    data: str
    mimeType: str


class Contents(TypedDict):
    """What is in a resource: a text, or bytes as base64."""

    uri: str
    mimeType: NotRequired[str]
    text: NotRequired[str]
    blob: NotRequired[str]


class Embedded(TypedDict):
    """A resource, with what is in it."""

    type: Literal["resource"]
    resource: Contents


class Link(TypedDict):
    """A resource, to be read if it is wanted."""

    type: Literal["resource_link"]
    uri: str
    name: str
    title: NotRequired[str]
    description: NotRequired[str]
    mimeType: NotRequired[str]
    size: NotRequired[int]


Block = Text | Image | Audio | Embedded | Link


class Message(TypedDict):
    """One message of a prompt."""

    role: Role
    content: Block


_BLOCKS: Final = frozenset((Text, Image, Audio, Embedded, Link))
_TYPES: Final = frozenset({"text", "image", "audio", "resource", "resource_link"})


def text(text: str) -> Text:
    return {"type": "text", "text": text}


def image(data: bytes | str, mime_type: str = "image/png") -> Image:
    """A picture; `data` is its bytes, or their base64."""
    return {"type": "image", "data": base64(data), "mimeType": mime_type}


def audio(data: bytes | str, mime_type: str = "audio/wav") -> Audio:
    """A sound; `data` is its bytes, or their base64."""
    return {"type": "audio", "data": base64(data), "mimeType": mime_type}


def embedded(uri: str, data: str | bytes, mime_type: str | None = None) -> Embedded:
    """A resource with its content: a text, or bytes."""
    return {"type": "resource", "resource": contents(uri, data, mime_type)}


def link(
    uri: str,
    name: str,
    *,
    title: str | None = None,
    description: str | None = None,
    mime_type: str | None = None,
) -> Link:
    """A resource by its URI."""
    block: Link = {"type": "resource_link", "uri": uri, "name": name}
    if title is not None:
        block["title"] = title
    if description is not None:
        block["description"] = description
    if mime_type is not None:
        block["mimeType"] = mime_type
    return block


def message(content: Block | str, role: Role = "user") -> Message:
    """A prompt's message; a text stands for a text block."""
    return {"role": role, "content": text(content) if isinstance(content, str) else content}


def contents(uri: str, data: str | bytes, mime_type: str | None = None) -> Contents:
    told: Contents = {"uri": uri}
    if mime_type is not None:
        told["mimeType"] = mime_type
    if isinstance(data, str):
        told["text"] = data
    else:
        told["blob"] = base64(data)
    return told


def base64(data: bytes | str) -> str:
    return data if isinstance(data, str) else b64encode(data).decode()


def is_block(value: Any) -> bool:
    return isinstance(value, dict) and value.get("type") in _TYPES


def declares_blocks(hint: Any) -> bool:
    """Whether a return type says: content blocks, and nothing else."""
    if hint in _BLOCKS:
        return True
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is Union or origin is UnionType:
        return all(declares_blocks(part) for part in parts)
    if origin is list:
        return declares_blocks(parts[0])
    if origin is tuple:
        return all(part is Ellipsis or declares_blocks(part) for part in parts)
    return False
