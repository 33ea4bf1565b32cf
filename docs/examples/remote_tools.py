"""Tools from elsewhere: an MCP server's, an HTTP API's, and many of them at once."""

import asyncio
import sys
from pathlib import Path

from fairlead import App
from fairlead.tools.mcp import McpServer, add_mcp
from fairlead.tools.openapi import openapi_tools
from fairlead.tools.session import Session
from fairlead.tools.toolbox import Toolbox

app = App("desk")

# Any MCP server will do; this one is the example next door.
HARBOUR = str(Path(__file__).with_name("mcp_server.py"))
tides = McpServer("tides", [sys.executable, "-m", "fairlead", "--app", HARBOUR, "mcp", "--stdio"], trust=True)
add_mcp(app, tides)


async def ask_the_tides() -> None:
    async with app:
        tools = await tides.connect()
        assert [tool.name for tool in tools] == ["tides_high_water"]
        told = await app.invoke("tides_high_water", {"day": "monday"})
        assert told.data == {"day": "monday", "time": "06:12"}


ORDERS = {
    "openapi": "3.1.0",
    "info": {"title": "Orders", "version": "1"},
    "paths": {
        "/orders/{id}": {
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}],
            "get": {"operationId": "getOrder", "summary": "Find an order."},
            "delete": {"operationId": "dropOrder", "summary": "Drop an order."},
        }
    },
}

get_order, drop_order = openapi_tools(
    ORDERS, base_url="https://orders.example.com", headers={"Authorization": "Bearer secret:orders"}
)
assert (get_order.name, get_order.side_effects) == ("get_order", "read")
assert (drop_order.name, drop_order.requires_confirmation) == ("drop_order", True)

box = Toolbox([get_order, drop_order], most=1)
session = Session("a conversation")
assert [tool.name for tool in box.offered(session)] == ["capabilities_search", "capabilities_load"]
best, *_ = box.search("find orders")
box.load(session, [best.name])
assert box.offered(session)[-1] is get_order

asyncio.run(ask_the_tides())
