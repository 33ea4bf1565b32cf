"""mcp: the official server's tool called by name in process, with no transport."""

from functools import partial
from typing import Any

from mcp.server import MCPServer

from task import Call


def make_call(function: Any) -> Call:
    server = MCPServer("bench")
    server.tool(name="create_task")(function)
    return partial(server.call_tool, "create_task")
