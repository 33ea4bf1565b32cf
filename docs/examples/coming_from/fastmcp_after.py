"""The same as an action; FastMCP's own client asks it, over stdio."""

import asyncio
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from fairlead import App, Context, Failure, Kind

app = App("shop", description="Sell things.")
server = app.mcp()
stock = {"rope": 3}


@app.action
async def price(ctx: Context, item: str, count: int = 1) -> dict[str, int]:
    """Tell the price."""
    if item not in stock:
        raise Failure(Kind.not_found, "There is no such item.", field="item")
    await ctx.progress.report("Looked on the shelf.", percent=100)
    return {"price": stock[item] * count}


@server.resource("stock://{item}")
def shelf(item: str) -> str:
    """How many there are."""
    return str(stock[item])


@server.prompt
def offer(item: str) -> str:
    """Offer something."""
    return f"Offer {item}, and say its price."


async def main() -> None:
    # What `fairlead mcp install` puts into a client's settings.
    command = ["-m", "fairlead", "--app", __file__, "mcp", "--stdio", "--server", "fastmcp_after:server"]
    async with Client(StdioTransport(sys.executable, command)) as client:
        told = await client.call_tool("price", {"item": "rope", "count": 2})
        assert told.structured_content == {"price": 6}
        assert (await client.call_tool("price", {"item": "sail"}, raise_on_error=False)).is_error
        assert (await client.read_resource("stock://rope"))[0].text == "3"
        assert (await client.get_prompt("offer", {"item": "rope"})).messages


if __name__ == "__main__":
    asyncio.run(main())
