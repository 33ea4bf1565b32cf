"""An MCP server in an app: its tools are the app's actions once it is connected, and it ends when the app stops."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any

from fairlead.failures import Failure
from fairlead.runtime import App
from fairlead.tools.mcp.server import AnyAction, McpServer
from fairlead.tools.remote import secrets_of


def add_mcp(app: App, server: McpServer, *, connect: bool = False) -> McpServer:
    """Give a server to an app.

    The app's secrets are the server's, and the app's end is its end. Nothing is started here: the server is
    connected when somebody awaits `server.connect()`, or by the app's start with `connect=True`, which a dead
    server does not break. From then on its tools are actions of the app.
    """
    if server.secrets is None:
        server.secrets = secrets_of(app)

    async def living() -> AsyncIterator[McpServer]:
        if connect:
            await _tried(server)
        try:
            yield server
        finally:
            await server.close()

    living.__name__ = f"mcp_{server.name}"
    app.service(living)
    offered: list[AnyAction] = []
    told: dict[str, str] = {}

    def offer(actions: list[AnyAction]) -> None:
        _offer(app, server, actions, offered)
        for tool, why in server.left_out.items():
            if told.get(tool) != why:
                _logger(server).warning("The tool %r is left out: %s", tool, why)
        told.clear()
        told.update(server.left_out)

    server.watch(offer)
    return server


async def _tried(server: McpServer) -> None:
    try:
        await server.connect()
    except Failure as failure:
        _logger(server).warning("%s", failure)


def _logger(server: McpServer) -> logging.Logger:
    return logging.getLogger(f"fairlead.mcp.{server.name}")


def _offer(app: App, server: McpServer, actions: list[AnyAction], offered: list[AnyAction]) -> None:
    """Add what the app does not have, and take out of what was `offered` before what the server has no more.

    A tool that changed has a newer version, which takes the place of the one before: the server knows that no more.
    A name that is somebody else's stays theirs: no server can put itself in the place of an action.
    """
    catalogue = app.catalogue
    new: list[AnyAction] = []
    for action in actions:
        there = catalogue.find(action.name)
        if there is not None and _server_of(there) != server.name:
            tool = action.metadata["mcp"]["tool"]
            server.left_out[tool] = f"The app has another action {action.name!r}. Give the server a prefix."
        elif catalogue.find(f"{action.name}@{action.version}") is None:
            new.append(action)
    catalogue.add_all(new)
    there_are = set(map(id, actions))
    catalogue.remove_all([each for each in offered if id(each) not in there_are])
    offered[:] = [each for each in (*offered, *new) if id(each) in there_are]


def _server_of(action: AnyAction) -> Any:
    return action.metadata.get("mcp", {}).get("server")
