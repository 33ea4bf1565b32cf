"""The shared task as a tool of MCP, by the official server and by fastmcp: over HTTP, or over stdio when run.

Over HTTP both answer with plain JSON, which is the faster of their ways.
"""

import sys
from typing import Any

from task import create_task


def official() -> Any:
    from mcp.server import MCPServer

    server = MCPServer("bench", log_level="ERROR")
    server.tool(name="create_task")(create_task)
    return server


def fastmcp() -> Any:
    from fastmcp import FastMCP

    server = FastMCP("bench")
    server.tool(create_task, name="create_task")
    return server


def official_site() -> Any:
    return official().streamable_http_app(json_response=True)


def fastmcp_site() -> Any:
    return fastmcp().http_app(path="/mcp", json_response=True)


def main(name: str) -> None:
    if name == "official":
        official().run("stdio")
    else:
        fastmcp().run("stdio", show_banner=False, log_level="ERROR")


if __name__ == "__main__":
    main(sys.argv[1])
