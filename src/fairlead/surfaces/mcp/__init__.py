"""MCP: an app for models and their clients, over stdio and Streamable HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead._lazy import on_demand

if TYPE_CHECKING:
    from fairlead.surfaces.mcp.client import Client, Elicit, Elicited, Roots, Sample, Sampled, client_of
    from fairlead.surfaces.mcp.connection import Connection
    from fairlead.surfaces.mcp.content import (
        Audio,
        Block,
        Embedded,
        Image,
        Link,
        Message,
        Text,
        audio,
        embedded,
        image,
        link,
        message,
        text,
    )
    from fairlead.surfaces.mcp.http import McpEndpoint
    from fairlead.surfaces.mcp.server import Server

__all__ = [
    "Audio",
    "Block",
    "Client",
    "Connection",
    "Elicit",
    "Elicited",
    "Embedded",
    "Image",
    "Link",
    "McpEndpoint",
    "Message",
    "Roots",
    "Sample",
    "Sampled",
    "Server",
    "Text",
    "audio",
    "client_of",
    "embedded",
    "image",
    "link",
    "message",
    "text",
]

_HOMES = {
    "client": ("Client", "Elicit", "Elicited", "Roots", "Sample", "Sampled", "client_of"),
    "connection": ("Connection",),
    "content": (
        "Audio", "Block", "Embedded", "Image", "Link", "Message", "Text",
        "audio", "embedded", "image", "link", "message", "text",
    ),
    "http": ("McpEndpoint",),
    "server": ("Server",),
}  # fmt: skip

__getattr__ = on_demand(__name__, {name: home for home, names in _HOMES.items() for name in names})
