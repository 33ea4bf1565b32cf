"""A server of FastMCP, as it was."""

import asyncio

from fastmcp import Client, Context, FastMCP
from fastmcp.exceptions import ToolError

server = FastMCP("shop")
stock = {"rope": 3}


@server.tool(annotations={"readOnlyHint": True})
async def price(ctx: Context, item: str, count: int = 1) -> dict[str, int]:
    """Tell the price."""
    if item not in stock:
        raise ToolError("There is no such item.")
    await ctx.report_progress(1, 1, "Looked on the shelf.")
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
    async with Client(server) as client:
        told = await client.call_tool("price", {"item": "rope", "count": 2})
        assert told.structured_content == {"price": 6}
        assert (await client.call_tool("price", {"item": "sail"}, raise_on_error=False)).is_error
        assert (await client.read_resource("stock://rope"))[0].text == "3"
        assert (await client.get_prompt("offer", {"item": "rope"})).messages


if __name__ == "__main__":
    asyncio.run(main())
