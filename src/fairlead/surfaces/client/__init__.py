"""Clients: actions as methods in Python, in process or over HTTP, and typed clients written for an app."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead._lazy import on_demand

if TYPE_CHECKING:
    from fairlead.surfaces.client.client import Client, ClientOptions
    from fairlead.surfaces.client.reply import Reply
    from fairlead.surfaces.client.sync import SyncClient
    from fairlead.surfaces.client.transport import NOTHING, Call, InvokeOptions, Transport, Unreachable

__all__ = [
    "NOTHING",
    "Call",
    "Client",
    "ClientOptions",
    "InvokeOptions",
    "Reply",
    "SyncClient",
    "Transport",
    "Unreachable",
]

__getattr__ = on_demand(
    __name__,
    {
        "NOTHING": "transport",
        "Call": "transport",
        "Client": "client",
        "ClientOptions": "client",
        "InvokeOptions": "transport",
        "Reply": "reply",
        "SyncClient": "sync",
        "Transport": "transport",
        "Unreachable": "transport",
    },
)
