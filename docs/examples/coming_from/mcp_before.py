"""A server of the official MCP SDK, as it was; FastMCP's decorators look the same."""

import asyncio

from mcp import Client
from mcp.server import MCPServer

server = MCPServer("shop")


@server.tool()
async def price(item: str, count: int = 1) -> dict[str, int]:
    """Tell the price."""
    return {"price": 3 * count}


async def main() -> None:
    async with Client(server) as client:
        told = await client.call_tool("price", {"item": "rope", "count": 2})
        assert told.structured_content == {"price": 6}


if __name__ == "__main__":
    asyncio.run(main())
