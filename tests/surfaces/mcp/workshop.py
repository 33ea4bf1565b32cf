"""An app with a little of everything, for clients that nobody here wrote.

python workshop.py        serves it over HTTP on a free port, and prints the address
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict
from uuid import UUID

from pydantic import BaseModel, Field

from fairlead import App, Context, Failure, Kind
from fairlead.surfaces.mcp import Image, client_of, image

app = App("workshop", description="Tools for every job.", attribution={"text": "The workshop of the tests"})


class Wood(Enum):
    oak = "oak"
    ash = "ash"


class Board(BaseModel):
    """A board of wood."""

    wood: Wood
    length: Annotated[float, Field(gt=0, description="In metres.")]
    knots: list[int] = []
    label: str | None = None


@dataclass
class Cut:
    at: Decimal
    by: Literal["saw", "axe"] = "saw"
    notes: dict[str, str] = field(default_factory=dict)


class Tree(BaseModel):
    name: str
    branches: list[Tree] = []


class Sum(TypedDict):
    total: int


@app.action(docs={"when_to_use": "To add.", "input_example": {"a": 1, "b": 2}}, idempotency="idempotent")
async def add(a: int, b: int = 2) -> Sum:
    """Add two numbers."""
    return {"total": a + b}


@app.action
def everything(
    boards: list[Board],
    cut: Cut,
    tree: Tree | None = None,
    when: datetime | None = None,
    day: date | None = None,
    span: timedelta | None = None,
    id: UUID | None = None,
    choice: Literal[1, 2, "three"] = 1,
    either: int | str | list[bool] = 1,
    pair: tuple[int, str] = (1, "one"),
    bag: set[str] = frozenset(),  # type: ignore[assignment]
    path: Path | None = None,
    raw: bytes = b"",
    anything: Any = None,
    limits: Annotated[dict[str, Annotated[int, Field(ge=0, le=10)]], Field(max_length=3)] = {},  # noqa: B006
) -> Tree:
    """Take every kind of thing."""
    return Tree(name=boards[0].wood.value if boards else "none", branches=[Tree(name=cut.by)])


@app.action
async def greet(name: str) -> str:
    """Give a text."""
    return f"Hello, {name}."


@app.action
async def count(to: int) -> AsyncIterator[int]:
    """Give numbers one by one."""
    for number in range(to):
        yield number


@app.action
async def nothing() -> None:
    """Give nothing."""


@app.action
async def whatever(value: Any) -> Any:
    """Give back what it gets."""
    return value


heard = asyncio.Semaphore(0)


@app.action
async def plane(ctx: Context, strokes: int) -> str:
    """Report on the way, and go on when the report has been heard."""
    for stroke in range(strokes):
        await ctx.progress.report("Planing", percent=100 * (stroke + 1) / strokes)
        await heard.acquire()
    await ctx.logger.info("It is smooth.", {"strokes": strokes})
    return "smooth"


@app.action
async def go_on() -> None:
    """Say that a report has been heard."""
    heard.release()


@app.action
async def fail(how: Literal["expected", "unexpected"]) -> None:
    """Fail."""
    if how == "expected":
        raise Failure(Kind.not_found, "There is no such board.")
    raise RuntimeError("password=hunter2 in the wrong place")


@app.action
async def picture() -> Image:
    """Give a picture."""
    return image(b"\x89PNG\r\n\x1a\n", "image/png")


@app.action
async def carve(ctx: Context) -> str:
    """Leave something behind."""
    ctx.artifacts.add(name="spoon.txt", mime_type="text/plain", uri="data:text/plain,a%20spoon")
    return "carved"


running = 0
stopped = 0


@app.action
async def wait() -> None:
    """Wait until it is cancelled."""
    global running, stopped
    running += 1
    try:
        await asyncio.Event().wait()
    finally:
        running -= 1
        stopped += 1


@app.action
async def waiting() -> dict[str, int]:
    """Tell how many wait, and how many were stopped."""
    return {"running": running, "stopped": stopped}


@app.action(side_effects="destructive", idempotency="idempotent")
async def burn(what: str) -> str:
    """Burn something for good."""
    return f"{what} is ashes"


class Finish(BaseModel):
    colour: Literal["red", "blue"]
    coats: int | None = None


@app.action
async def paint(ctx: Context) -> str:
    """Ask for a colour."""
    client = client_of(ctx)
    if client is None:
        raise Failure(Kind.unsupported, "There is nobody to ask.")
    answer = await client.elicit("Which colour?", Finish)
    return answer.content.colour if answer.accepted else answer.action


server = app.mcp(include_destructive=True)

if __name__ == "__main__":
    import uvicorn

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        print(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", flush=True)
        config = uvicorn.Config(server.http(), log_level="warning", lifespan="off")
        uvicorn.Server(config).run(sockets=[listening])
