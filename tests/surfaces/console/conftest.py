"""A console on a real server, a browser to look at it, and an app with one action for every kind of thing."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from datetime import date, datetime, time, timedelta
from itertools import count
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

import pytest
import uvicorn
from playwright.sync_api import Browser, Page
from pydantic import BaseModel, Field, SecretStr

from fairlead import App, Context, Failure, Kind, s
from fairlead.surfaces.console import Console


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        code: str = self.json["error"]["code"]
        return code


class Served:
    """An ASGI app on a free port of this machine, and requests to it with every header as one likes."""

    def __init__(self, asgi: Any) -> None:
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self._socket.listen(64)
        self.port: int = self._socket.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        self.session = ""
        self.app: Any = None
        config = uvicorn.Config(asgi, log_level="critical", loop="asyncio", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]})
        self._thread.start()

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        session: bool = True,
        host: str | list[str] | None = None,
        **headers: str,
    ) -> Answer:
        """One request; a body that is not bytes goes as JSON, and names of headers are written with underscores."""
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            given.setdefault("content-type", "application/json")
        if session and self.session:
            given.setdefault("fairlead-session", self.session)
        line.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name in [host] if isinstance(host, str) else host or [f"127.0.0.1:{self.port}"]:
            line.putheader("Host", name)
        for name, value in given.items():
            line.putheader(name, value)
        if body is not None:
            line.putheader("content-length", str(len(body)))
        line.endheaders(body)
        answer = line.getresponse()
        with closing(line), answer:
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())

    def open(self, link: str) -> None:
        """Do what the page does with a link: change its token for a session."""
        token = link.partition("#token=")[2]
        self.session = self.send("POST", "/api/session", {"token": token}).json["session"]


@pytest.fixture(scope="module")
def serve() -> Iterator[Callable[[Any], Served]]:
    """Serve ASGI apps until the module's tests are over."""
    running: list[Served] = []

    def start(asgi: Any) -> Served:
        running.append(Served(asgi))
        return running[-1]

    yield start
    for served in running:
        served.stop()


@pytest.fixture(scope="module")
def console(serve: Callable[[Any], Served]) -> Served:
    """The console of the harbour, with its session."""
    app = harbour()
    made = Console(app, program="harbour")
    served = serve(made)
    served.app = app
    served.open(made.link(served.address))
    return served


class Harbour(App):
    """Remembers what was done to it."""

    done: list[str]
    #: Set to let `wait_here` go on, and set by it when it was stopped.
    go: threading.Event
    stopped: threading.Event


class Address(BaseModel):
    street: str = Field(description="Street and number.")
    city: str
    zip: str | None = None


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    good: bool = True


class Node(BaseModel):
    name: str
    children: list[Node] = []


Colour = Literal["red", "orange", "yellow", "green", "blue", "violet", "ultramarine"]


def harbour() -> Harbour:
    app = Harbour("harbour", description="One action for every kind of thing.", version="2.1.0")
    app.done, app.go, app.stopped = [], threading.Event(), threading.Event()

    @app.action(docs={"when_to_use": "To see every kind of field.", "usage_notes": ["Gives its input back."]})
    async def everything(
        text: Annotated[str, "Any text."],
        count: Annotated[int, Field(ge=1, le=10)],
        ratio: float,
        day: date,
        moment: datetime,
        clock: time,
        span: timedelta,
        key: UUID,
        pet: Annotated[Cat | Dog, Field(discriminator="kind")],
        either: int | list[str],
        maybe: str | None,
        tags: list[str],
        pair: tuple[int, str],
        stock: dict[str, int],
        anything: Any,
        node: Node,
        address: Address,
        size: Literal["s", "m", "l"],
        colour: Colour = "red",
        second: Address | None = None,
        flag: bool = False,
        on: bool = True,
        limit: Annotated[int, Field(le=50)] = 20,
        note: str = "none",
    ) -> Any:
        """Take one of everything, and give it back."""
        return {name: value for name, value in locals().items() if name not in ("app",)}

    @app.action(docs={"input_example": {"value": {"boats": [1, 2]}}})
    async def echo(value: Any = None) -> Any:
        """Give back what was given."""
        return value

    @app.action(
        input={
            "type": "object",
            "properties": {
                "driver": {"type": "string"},
                "constructor": {"type": "string"},
                "__proto__": {"type": "string"},
            },
            "required": ["driver"],
        }
    )
    async def race(input: Any) -> Any:
        """Take members whose names every object of JavaScript has."""
        return input

    @app.action(input=s.array(s.number()))
    async def total(numbers: list[float]) -> float:
        """Add numbers up."""
        return sum(numbers)

    @app.action(input=s.string().min(2))
    async def shout(text: str) -> str:
        """Say it loud."""
        return text.upper()

    @app.action
    async def log_in(user: str, password: str, pin: SecretStr, api_key: str = "") -> str:
        """Take secrets."""
        return user

    @app.action(side_effects="destructive", permissions=["harbour:burn"], idempotency="non_idempotent")
    async def burn_down(pier: Annotated[int, Field(ge=1)] = 1) -> str:
        """Burn a pier down."""
        app.done.append(f"burnt {pier}")
        return "ash"

    @app.action(requires_confirmation="token", side_effects="write")
    async def sign(text: str = "I agree") -> str:
        """Sign a text, after a person has agreed to it."""
        app.done.append(f"signed {text}")
        return text

    @app.action(visibility="private", side_effects="write", idempotency="idempotent")
    async def whisper(ctx: Context) -> Any:
        """Say who is calling; only here."""
        app.done.append("whispered")
        return {"user": ctx.user, "auth": ctx.auth, "surface": ctx.surface}

    @app.action(
        visibility="local", deprecation={"message": "It is slow.", "since": "1.4", "replacement": "echo"}
    )
    async def old_echo(value: str) -> str:
        """Give text back, as one did before."""
        return value

    @app.action
    async def load(ctx: Context) -> int:
        """Load a ship: says much, makes something, waits half way."""
        ctx.logger.info("The first crate", crate=1)
        ctx.logger.warn("It is heavy")
        ctx.progress.report("Half of it", percent=50)
        ctx.artifacts.add(
            "bill.csv", uri="https://example.com/bill.csv", mime_type="text/csv", size_bytes=2048
        )
        ctx.artifacts.add("stamp.txt", uri="data:text/plain,stamp", mime_type="text/plain")
        await asyncio.to_thread(app.go.wait, 20)
        return 2

    @app.action
    async def wait_here() -> None:
        """Wait until it is cancelled."""
        try:
            await asyncio.sleep(60)
        finally:
            app.stopped.set()

    @app.action
    async def boats(n: int = 150) -> list[dict[str, Any]]:
        """List boats."""
        return [{"id": i, "name": f"Boat {(i * 7) % n:03}", "crew": {"size": i % 5}} for i in range(n)]

    @app.action
    async def drip(n: int = 3) -> AsyncIterator[dict[str, int]]:
        """Give numbers, one by one."""
        for i in range(n):
            yield {"number": i}

    @app.action
    async def fail(kind: Kind = Kind.conflict, retry_after: float | None = None) -> None:
        """Fail as asked."""
        raise Failure(kind, retry_after=retry_after)

    @app.action
    async def big() -> Any:
        """Give numbers that a double cannot hold."""
        return {"id": 9007199254740993, "all": [12345678901234567890]}

    @app.action
    async def wicked() -> Any:
        """Give text that would like to be HTML."""
        return {"<img src=x onerror=alert(1)>": "<script>window.bad = 1</script>"}

    return app


Visit = Callable[[str], Page]

#: A page of another visit than the last begins with nothing; one that is loaded again has what it kept.
FORGET = """if (origin !== 'null' && sessionStorage.getItem('visit') !== location.search) {
    sessionStorage.clear();
    localStorage.removeItem('fairlead:history:harbour');
    sessionStorage.setItem('visit', location.search);
}"""
_visits = count()


@pytest.fixture(scope="module")
def tab(browser: Browser, console: Served) -> Iterator[Page]:
    """One tab for the module's tests. Whatever goes wrong in the page fails the test that is looking."""
    context = browser.new_context(viewport={"width": 1280, "height": 860}, reduced_motion="reduce")
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.set_default_timeout(10_000)
    page.add_init_script(
        f"if (origin !== 'null') localStorage.setItem('fairlead:session', '{console.session}')"
    )
    page.add_init_script(FORGET)
    yield page
    context.close()


@pytest.fixture
def wrong() -> list[str]:
    """What went wrong in the page while a test looked at it."""
    return []


@pytest.fixture
def visit(tab: Page, console: Served, wrong: list[str]) -> Iterator[Visit]:
    """Look at an action on a page that remembers nothing."""

    def heard(message: Any) -> None:
        if message.type == "error" and "status of" not in message.text:
            wrong.append(message.text)

    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("console", heard)

    def go(place: str) -> Page:
        tab.goto(f"{console.address}/?visit={next(_visits)}#/{place}")
        tab.wait_for_selector("main article")
        return tab

    yield go
    assert wrong == []
