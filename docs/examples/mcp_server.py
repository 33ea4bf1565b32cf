"""An MCP server with a resource and a prompt of its own, asked by a client in the same process."""

import asyncio
import json

from fairlead import App
from fairlead.surfaces.mcp import Connection

app = App("tides", description="Tell the tides.")


@app.action(docs={"when_to_use": "Before a ship leaves.", "input_example": {"day": "monday"}})
async def high_water(day: str) -> dict[str, str]:
    """Say when the water is high."""
    return {"day": day, "time": "06:12"}


server = app.mcp()


@server.resource("tides://{day}", mime_type="text/plain")
def table(day: str) -> str:
    """The tide table of a day."""
    return f"{day}: high at 06:12 and 18:40"


@server.prompt
def plan_trip(day: str) -> str:
    """Ask for a plan that minds the tides."""
    return f"Plan a trip for {day}. Look at tides://{day} first."


async def main() -> None:
    answers: asyncio.Queue[bytes] = asyncio.Queue()
    connection = Connection(server, answers.put_nowait)

    async def ask(method: str, **params):
        connection.take({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        return json.loads(await answers.get())["result"]

    hello = {"clientInfo": {"name": "example", "version": "1"}, "capabilities": {}}
    await ask("initialize", protocolVersion="2025-11-25", **hello)

    [tool] = (await ask("tools/list"))["tools"]
    assert tool["annotations"]["readOnlyHint"] is True

    result = await ask("tools/call", name="high_water", arguments={"day": "monday"})
    assert result["structuredContent"] == {"day": "monday", "time": "06:12"}

    [content] = (await ask("resources/read", uri="tides://monday"))["contents"]
    assert content["text"].startswith("monday")
    await connection.close()


asyncio.run(main())
