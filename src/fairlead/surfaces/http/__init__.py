"""The HTTP surface: an ASGI app for programs, with streams, batches, discovery, OpenAPI and MCP beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead._lazy import on_demand

if TYPE_CHECKING:
    from fairlead.surfaces.http.app import HttpApp
    from fairlead.surfaces.http.routes import ActionRoutes

__all__ = ["ActionRoutes", "HttpApp"]

__getattr__ = on_demand(__name__, {"ActionRoutes": "routes", "HttpApp": "app"})
