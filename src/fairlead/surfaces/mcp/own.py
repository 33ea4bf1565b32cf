"""A server of the app's own, `server = app.mcp()` with its resources and prompts, found by MODULE:NAME."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

from fairlead.failures import Failure, Kind

if TYPE_CHECKING:
    from fairlead.surfaces.cli.program import Program
    from fairlead.surfaces.mcp.server import Server


def own_server(program: Program, flag: str, given: str | None) -> tuple[str, str] | None:
    """The server of the app's own that is meant, and who said so: a flag, or the project's settings.

    Settings count for the app that they name, not for one that the command names, or that has its own program.
    """
    if given is not None:
        return given, flag
    if program.target is not None or program.owned:
        return None
    configured = _configured()
    return None if configured is None else (configured, "mcp.server")


def _configured() -> str | None:
    """What `mcp.server` in the settings of the working directory says."""
    # The room of projects is above this one, and is found by name.
    config: Any = importlib.import_module("fairlead.project.config").load_project_config(os.getcwd())
    target: str | None = config.section("mcp").get("server")
    return target


def load_server(target: str, said_by: str) -> Server:
    """The server that a target names. Its app was imported before, from the same place.

    Raises:
        Failure: it cannot be imported, or is no server.
    """
    from fairlead.surfaces.mcp.server import Server

    module, colon, name = target.partition(":")
    if not colon or not module or not name:
        raise Failure(
            Kind.misconfigured, f"{said_by} is {target!r}; write MODULE:NAME, such as 'shop.main:server'."
        )
    try:
        found = getattr(importlib.import_module(module), name, None)
    except Exception as exc:  # whatever the module's own code raises while it is imported
        words = f"{said_by} names {target!r}, which cannot be imported: {type(exc).__name__}: {exc}."
        raise Failure(Kind.misconfigured, words, cause=exc) from exc
    if not isinstance(found, Server):
        raise Failure(
            Kind.misconfigured,
            f"{said_by} names {target!r}, which is no MCP server. Write `{name} = app.mcp()` there.",
        )
    return found
