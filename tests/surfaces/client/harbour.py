"""The app that the clients of these tests call; run as a program, it serves itself and prints its port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from datetime import date
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from pydantic import BaseModel, Field

from fairlead import App, Context, Failure, Kind, s

app = App("harbour", description="A harbour with boats.")


class Boat(BaseModel):
    name: str
    kind: Literal["sail", "motor"] = "sail"
    built: date | None = None


class Node(BaseModel):
    """A tree."""

    label: str
    children: list[Node] = []


Odd = TypedDict("Odd", {"odd-key": int, "class": NotRequired[str], "ünïcode": NotRequired[bool]})


class Shapes(TypedDict):
    pair: tuple[int, str]
    counts: dict[str, int]
    either: int | list[str] | None
    one: Literal[1, "two", True, None]
    odd: Odd
    tree: NotRequired[Node]


class HarbourFull(Failure, code="HARBOUR_FULL", kind=Kind.conflict):
    """There is no berth left."""


#: What happened, for tests to look at; and who waits for something to happen.
runs: dict[str, int] = {}
waiting: dict[str, list[Future[None]]] = {}


def ran(what: str) -> int:
    runs[what] = runs.get(what, 0) + 1
    for each in waiting.pop(what, ()):
        each.set_result(None)
    return runs[what]


async def until(what: str) -> None:
    """Wait until it has happened once, on whichever thread."""
    told: Future[None] = Future()
    waiting.setdefault(what, []).append(told)
    if what not in runs:
        await asyncio.wait_for(asyncio.wrap_future(told), 10)


@app.action
def greet(name: Annotated[str, Field(min_length=1, description="Whom to greet.")], loud: bool = False) -> str:
    """Say hello."""
    return f"HELLO {name.upper()}" if loud else f"Hello {name}"


@app.action(side_effects="write")
async def add_boat(boat: Boat, berth: Annotated[int | None, "Where it lies."] = None) -> Boat:
    """Let a boat in."""
    ran(f"add {boat.name}")
    return boat


@app.action(input=s.any().nullable())
async def echo(value: Any) -> Any:
    """Give back what came."""
    return value


@app.action(input=s.literal(None))
async def nothing(value: Any) -> str:
    """Take null, and nothing else."""
    return "null" if value is None else "something"


@app.action
async def sail(ctx: Context, legs: int = 2) -> dict[str, int]:
    """Sail some legs, and tell of each."""
    ctx.logger.info("Cast off.", legs=legs)
    for leg in range(1, legs + 1):
        await ctx.progress.report(f"Leg {leg}", percent=100 * leg / legs)
    ctx.artifacts.add("log.txt", uri="file:///log.txt", mime_type="text/plain")
    ctx.logger.info("Made fast.")
    return {"legs": legs}


@app.action
async def narrate(ctx: Context) -> str:
    """Tell a story as an agent does: in pieces, and with what it does meanwhile."""
    await ctx.delta("All is ")
    await ctx.activity("tool_call", "look", None, name="look")
    await ctx.delta("quiet.")
    return "All is quiet."


@app.action
async def buoys(count: int, size: int = 0) -> AsyncIterator[str]:
    """Count the buoys, one by one."""
    for number in range(count):
        yield f"buoy {number}" + "x" * size


@app.action
def berths(count: int) -> Iterator[int]:
    """Count the berths."""
    yield from range(count)


@app.action
async def anchor(ctx: Context, mark: str, seconds: float = 30) -> str:
    """Lie at anchor until somebody hauls it up."""
    ran(f"{mark} began")
    ctx.logger.info("At anchor.")
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        ran(f"{mark} cancelled")
        raise
    return "aweigh"


@app.action
async def seen(mark: str) -> int:
    """How often something happened."""
    return runs.get(mark, 0)


@app.action
async def wreck() -> None:
    """Run aground."""
    raise RuntimeError("The rudder broke.")


@app.action(side_effects="write")
async def moor(name: str) -> None:
    """Find that there is no room."""
    raise HarbourFull("No berth for you.", details={"berths": 3}, field="name")


@app.action(side_effects="write")
async def signal_station(
    mark: str,
    failures: int = 1,
    kind: Kind = Kind.unavailable,
    retry_after: float | None = None,
    retryable: bool | None = None,
) -> int:
    """Fail some times, then answer with how often it was called."""
    if ran(mark) <= failures:
        raise Failure(kind, "Fog.", retry_after=retry_after, retryable=retryable)
    return runs[mark]


@app.action(side_effects="write")
async def whoami(ctx: Context) -> dict[str, Any]:
    """Who is calling, and how."""
    return {
        "user": ctx.user,
        "auth": ctx.auth,
        "surface": ctx.surface,
        "metadata": dict(ctx.metadata),
        "key": ctx.idempotency_key,
    }


@app.action(side_effects="destructive", idempotency="idempotent")
async def scuttle(name: str) -> str:
    """Sink a boat."""
    return f"{name} is gone"


@app.action(requires_confirmation=True, side_effects="write")
async def launch(name: str) -> str:
    """Put a boat into the water; it needs to be confirmed."""
    return f"{name} floats"


@app.action(deprecation={"message": "It is too quiet.", "replacement": "greet"})
async def hail(name: str) -> str:
    """Say hello */ quietly."""
    return name


@app.action
async def shapes(given: Shapes) -> Shapes:
    """Take and give all sorts of shapes."""
    return given


@app.action
async def then(value: int) -> int:
    """Do the next thing."""
    return value


@app.action(visibility="private")
async def treasure() -> str:
    """Tell where it is."""
    return "here"


def serve() -> None:
    import uvicorn

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            print(self.servers[0].sockets[0].getsockname()[1], flush=True)

    Server(uvicorn.Config(app.http(), port=0, log_level="error", access_log=False)).run()


if __name__ == "__main__":
    serve()
