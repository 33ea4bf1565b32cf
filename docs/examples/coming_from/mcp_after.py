"""The same as an action, asked by the official MCP client over stdio."""

import asyncio
import sys

from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from fairlead import App

app = App("shop", description="Sell things.")


@app.action
async def price(item: str, count: int = 1) -> dict[str, int]:
    """Tell the price."""
    return {"price": 3 * count}


async def main() -> None:
    # What `fairlead mcp install` puts into a client's settings.
    command = ["-m", "fairlead", "--app", __file__, "mcp", "--stdio"]
    server = StdioServerParameters(command=sys.executable, args=command)
    async with Client(stdio_client(server)) as client:
        told = await client.call_tool("price", {"item": "rope", "count": 2})
        assert told.structured_content == {"price": 6}


if __name__ == "__main__":
    asyncio.run(main())
