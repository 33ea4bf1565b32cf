"""fastmcp: a server's tool called by name in process, with no transport."""

from functools import partial
from typing import Any

from fastmcp import FastMCP

from task import Call


def make_call(function: Any) -> Call:
    server = FastMCP("bench")
    server.tool(function, name="create_task")
    return partial(server.call_tool, "create_task")
