"""OpenAPI documents as tools: each operation is an action."""

from fairlead.tools.openapi.tools import OpenApi, add_openapi, openapi_tools

__all__ = ["OpenApi", "add_openapi", "openapi_tools"]
