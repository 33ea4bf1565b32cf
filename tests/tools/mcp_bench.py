"""An MCP server made with the official SDK, for tests of our client.

python mcp_bench.py stdio        serves on stdin and stdout
python mcp_bench.py http         serves on a free port, and prints the address
"""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import socket
import sys

from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import BaseModel

server = MCPServer("bench", instructions="Tools for tests.", version="3.1")
_cut_off = asyncio.Event()


@server.tool(annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True))
def pid() -> int:
    """The server's process."""
    return os.getpid()


@server.tool()
def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def label(tags: list[str], options: dict[str, int]) -> str:
    """Take nested things."""
    return f"{'/'.join(tags)} {sorted(options)}"


@server.tool(annotations=ToolAnnotations(destructive_hint=True), structured_output=False)
def wipe() -> str:
    """Destroy everything."""
    return "all gone"


@server.tool(structured_output=False)
def fail(why: str) -> str:
    """Fail."""
    raise ToolError(why)


@server.tool(structured_output=False)
def env(name: str) -> str:
    """An environment variable."""
    return os.environ.get(name, "")


@server.tool(structured_output=False)
def header(ctx: Context, name: str) -> str:
    """A header of the request."""
    return (ctx.headers or {}).get(name, "")


@server.tool(structured_output=False)
def picture() -> Image:
    """A picture."""
    return Image(data=base64.b64decode("iVBORw0KGgo="), format="png")


@server.tool(structured_output=False)
async def hang(ctx: Context) -> str:
    """Say something, and then nothing more."""
    await ctx.report_progress(1, 4, "Hanging")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        _cut_off.set()
        raise
    return "never"


@server.tool(structured_output=False)
async def until_cut_off() -> str:
    """Wait until a call of `hang` was cancelled."""
    await _cut_off.wait()
    return "cut off"


@server.tool(structured_output=False)
def die() -> str:
    """End without a word."""
    print("the bench breaks", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


@server.tool(structured_output=False)
async def shout(ctx: Context) -> str:
    """Write to the log."""
    await ctx.warning("so loud")  # pyright: ignore
    return "done"


@server.tool(structured_output=False)
async def grow(ctx: Context) -> str:
    """Have one tool more."""

    def grown() -> str:
        """A new tool."""
        return "grown"

    server.add_tool(grown, structured_output=False)
    await ctx.notify_tools_changed()
    if str(ctx.protocol_version) < "2026":
        await ctx.session.send_tool_list_changed()
    return "done"


class Colour(BaseModel):
    colour: str


@server.tool(structured_output=False)
async def ask(ctx: Context) -> str:
    """Ask for a colour."""
    answer = await ctx.elicit("Which colour?", Colour)
    return answer.data.colour if answer.action == "accept" else answer.action


def http() -> None:
    import uvicorn

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        print(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", flush=True)
        config = uvicorn.Config(server.streamable_http_app(), log_level="warning")
        uvicorn.Server(config).run(sockets=[listening])


def main(arguments: list[str]) -> None:
    http() if arguments == ["http"] else server.run("stdio")


if __name__ == "__main__":
    main(sys.argv[1:])
