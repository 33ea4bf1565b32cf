"""A broad app, and servers for it and for others: real uvicorn on a free port, in a thread."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Generic, Literal, TypedDict, TypeVar
from uuid import UUID

import pytest
import uvicorn
from pydantic import BaseModel, ConfigDict, Field

from fairlead import App, Context, Failure, Kind, s
from fairlead.surfaces.auth import ApiKeys

KEY = "flk_" + "A" * 12 + "_" + "b" * 43

T = TypeVar("T")


class Colour(Enum):
    red = "red"
    deep = "deep blue"


class Size(IntEnum):
    small = 1
    large = 2


class Tree(BaseModel):
    """A tree of named things."""

    name: str
    children: list[Tree] = []
    parent: Tree | None = None


class Even(BaseModel):
    """Recursive by way of another model."""

    odd: Odd | None = None


class Odd(BaseModel):
    even: Even | None = None


class Box(BaseModel, Generic[T]):
    held: T
    inner: Box[T] | None = None


class Circle(BaseModel):
    kind: Literal["circle"]
    radius: Annotated[float, Field(gt=0, le=1e6)]


class Label(BaseModel):
    model_config = ConfigDict(extra="forbid")

    kind: Literal["label"]
    words: Annotated[str, Field(alias="theText", max_length=40)]


@dataclass
class Span:
    start: int = 0
    end: int | None = None


class Row(TypedDict, total=False):
    id: int
    note: str


class OutOfPaper(Failure, code="out_of_paper", kind=Kind.unavailable, http_status=503):
    """The printer has no paper."""


def broad_app() -> App:
    """As many kinds of actions as come to mind. It takes input as it is, so that the document is the whole truth."""
    app = App(
        "broad",
        description="Everything at once.",
        version="2.1.0",
        attribution={"text": "By us", "vendor": "Us", "url": "https://us.example", "license_notice": "MIT"},
        docs={"summary": "A broad app."},
        preflight="strict",
    )

    @app.action(docs={"input_example": {"tree": {"name": "oak"}}, "output_example": {"name": "oak"}})
    def grow_tree(tree: Tree, times: int = 1) -> Tree:
        """Give a tree back."""
        return tree

    @app.action
    def swing(start: Even, box: Box[int] | None = None) -> dict[str, Even]:
        """Swing between two shapes."""
        return {"start": start}

    @app.action
    def paint(
        shape: Annotated[Circle | Label, Field(discriminator="kind")],
        colour: Colour = Colour.red,
        size: Size = Size.small,
        sides: Annotated[list[Literal["top", "left"]], Field(max_length=3)] | None = None,
    ) -> Annotated[Circle | Label, Field(discriminator="kind")]:
        """Paint a shape."""
        return shape

    @app.action
    def fill_form(
        id: UUID,
        day: date,
        at: Annotated[datetime | None, "When."] = None,
        span: Span | None = None,
        flag: bool = False,
        share: Annotated[float, Field(ge=0, le=1)] = 0.5,
        name: Annotated[str, Field(min_length=1, max_length=20, pattern=r"^[a-z ]+$")] = "ann",
        pair: tuple[int, str] | None = None,
        unique: Annotated[set[int], Field(max_length=5)] | None = None,
        rows: list[Row] | None = None,
        table: dict[str, float] | None = None,
    ) -> dict[str, Any]:
        """Fill in a long form."""
        return {"id": id, "day": day}

    @app.action
    def tell_times(
        moment: time | None = None, wait: timedelta | None = None, price: Decimal | None = None
    ) -> list[str]:
        """Tell what was understood."""
        return [type(each).__name__ for each in (moment, wait, price)]

    @app.action(
        input=s.object({"q": s.string().min(1), "most": s.number().optional()}), output=s.array(s.string())
    )
    def look_up(input: Any) -> list[str]:
        """Look something up."""
        return [input["q"]]

    @app.action
    def anything(value: Any = None) -> Any:
        """Give anything back."""
        return value

    @app.action
    def nothing() -> None:
        """Do nothing."""

    @app.action(side_effects="write", permissions=["jobs:write"], idempotency="idempotent", timeout=30)
    async def run_job(ctx: Context, steps: Annotated[int, Field(ge=0, le=3)] = 1) -> int:
        """Run a job in steps."""
        for step in range(steps):
            ctx.logger.info("step", number=step)
            await ctx.progress.report("working", percent=100 * step / steps)
        ctx.artifacts.add("job.txt", mime_type="text/plain", uri="file:///job.txt")
        return steps

    @app.action
    async def count_up(to: Annotated[int, Field(ge=0, le=5)]) -> Any:
        """Count, a number at a time."""
        for number in range(to):
            yield number

    @app.action(side_effects="destructive", permissions=["jobs:delete"])
    def drop_all(sure: bool) -> None:
        """Drop everything."""

    @app.action(deprecation={"message": "It was too slow.", "replacement": "look_up"}, version="0.9.0")
    def find_old(q: str = "") -> str:
        """Find something, slowly."""
        return q

    @app.action(visibility="private")
    def hidden_one() -> None:
        """Not for others."""

    return app


@contextmanager
def served(app: Any) -> Iterator[str]:
    """The address of an ASGI app while it is served."""
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    bound.listen(128)
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", ws="none", timeout_graceful_shutdown=5))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
        bound.close()


@pytest.fixture
def broad() -> App:
    return broad_app()


@pytest.fixture(scope="module")
def serve_asgi() -> Iterator[Callable[..., str]]:
    """Serve an ASGI app until the module's tests are done; gives its address."""
    with ExitStack() as stack:
        yield lambda app: stack.enter_context(served(app))


@pytest.fixture(scope="module")
def serve(serve_asgi: Callable[..., str]) -> Callable[..., str]:
    """The same for an app of ours."""
    return lambda app, **options: serve_asgi(app.http(**options))


@pytest.fixture(scope="module")
def broad_url(serve: Callable[..., str]) -> str:
    keys = ApiKeys({KEY: {"name": "tester", "permissions": ["*"]}})
    return serve(broad_app(), resolve_context=keys, include_destructive=True)


@pytest.fixture(scope="session")
def key() -> str:
    return KEY
