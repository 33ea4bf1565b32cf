"""`Gateway`: the agents' HTTP API as an ASGI app: who calls, how often, which route, and how it is answered.

    fairlead serve                      serves it under /api/v1
    Gateway(app)                        the same, to be mounted in another app

Each route is a function in a module of its own; this one knows no agent, no task and no conversation.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Sequence
from contextlib import aclosing
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack
from urllib.parse import parse_qsl
from weakref import WeakKeyDictionary

from fairlead._json import encode
from fairlead.actions import policy as checks
from fairlead.failures import Failure, from_exception
from fairlead.failures import gateway as wire
from fairlead.failures.gateway import (
    AgentNotFound,
    InvalidBody,
    InvalidParam,
    PayloadTooLarge,
    RateLimited,
)
from fairlead.gateway.call import OWNERS, Answer, Call, Caller, Content, Frames, Route, Served
from fairlead.gateway.callers import Callers, origin
from fairlead.gateway.exchange import GONE, Exchange, made_by
from fairlead.gateway.key_watch import KeyWatch
from fairlead.gateway.routing import Match, Router
from fairlead.gateway.streams import Beats, Streams
from fairlead.gateway.turns import for_callers, in_time, stopping
from fairlead.outgoing import Guard
from fairlead.runtime import App
from fairlead.runtime.hooks import report
from fairlead.surfaces.auth.resolve import Resolver
from fairlead.surfaces.http.asgi import (
    Disconnected,
    Receive,
    Request,
    Scope,
    Send,
    check_length,
    read_within,
    respond,
)
from fairlead.surfaces.http.disconnect import while_connected

if TYPE_CHECKING:
    from fairlead.gateway.agents import Agents
    from fairlead.gateway.audit import Audit
    from fairlead.gateway.background import Background
    from fairlead.gateway.entries import Entries
    from fairlead.gateway.files import Files
    from fairlead.gateway.metrics import GatewayMetrics
    from fairlead.gateway.recorder import Recorder
    from fairlead.tasks import Tasks

#: Where the gateway's addresses begin.
PREFIXES: Final = ("/api/v1/", "/a2a/", "/agents/", "/v1/", "/spec/", "/version")
JSON: Final = b"application/json"
SSE: Final = b"text/event-stream"
#: The modules that have routes, each in `ROUTES`.
MODULES: Final = (
    "agents",
    "invoke",
    "tasks",
    "webhooks",
    "files",
    "conversations",
    "admin",
    "openai",
    "openai_responses",
    "registration",
    "remote_deliveries",
    "a2a",
    "agent_mcp",
    "openapi",
)
Headers = tuple[tuple[bytes, bytes], ...]
_REQUEST_ID: Final = re.compile(rb"[\w.:+/=-]{1,128}")
#: Who comes without a key, where none is needed.
_STRANGER: Final = Caller("")


#: What gateways of an app were told in this process, and what of it is for each of them to say.
_TOLD: Final[WeakKeyDictionary[App, dict[str, Any]]] = WeakKeyDictionary()
_ITS_OWN: Final = ("required", "resolve_context")


class GatewayOptions(TypedDict, total=False):
    """What a gateway may be told."""

    #: Whose the app's own agents are, and the keys that say nothing else.
    owner: str
    #: Who calls, for credentials that are no `oag_` keys: tokens, say.
    resolve_context: Sequence[Resolver]
    #: What is put before whom such a credential names, so that nobody by the name of a key's owner owns what is theirs.
    token_prefix: str
    #: Requests of one caller to one endpoint in a minute.
    per_minute: int
    #: Blocking calls and streams at once, three quarters of them of one owner; past that, callers come back later.
    most: int
    #: Where webhooks may go; by default, no address of this machine or its network.
    guard: Guard
    #: Seconds that a conversation is kept after it was last touched.
    retention: float
    #: Seconds of silence after which a stream gives a sign of life.
    heartbeat: float
    #: Where callers reach this server, such as https://agents.example.com; else it is as each request says.
    public_url: str
    #: Bytes of a file that callers upload, and the folder that files are in; else in the data folder.
    largest_file: int
    files_folder: str
    #: Bytes of all files of one owner, and seconds that a file is kept; None for no limit, and for good.
    files_quota: int | None
    files_retention: float | None
    #: Days that lines of the audit log are kept, and whether requests that only look are written down, too.
    audit_days: float
    audit_looks: bool
    #: Whether the server's other routes are for those with a key only.
    required: bool


class Gateway:
    """Serves an app's agents."""

    prefixes = PREFIXES

    def __init__(self, app: App, **options: Unpack[GatewayOptions]) -> None:
        checks.known_keys("Gateway", options, tuple(GatewayOptions.__annotations__))
        self.app = app
        self.owner = OWNERS[app] = options.get("owner", "local")
        self.per_minute = options.get("per_minute", 600)
        self.most = options.get("most", 4096)
        _TOLD.setdefault(app, {}).update(
            (name, value) for name, value in options.items() if name not in _ITS_OWN
        )
        self.guard = options.get("guard") or Guard.from_environ(os.environ)
        self.retention = options.get("retention", 86_400.0)
        #: Where callers reach this server, if it is not as each request says.
        self.public_url = options.get("public_url", "").rstrip("/")
        resolvers, prefix = tuple(options.get("resolve_context", ())), options.get("token_prefix", "")
        self.callers = Callers(app, self.owner, resolvers, prefix)
        #: Seconds that a request's body may take: whoever is slow takes a place that others could have.
        self.patience = 60.0
        #: Requests that are being served, and those of each owner: one leaves a quarter of the places to others.
        self.in_flight = 0
        self._held: dict[str, int] = {}
        self._most_held = max(1, self.most * 3 // 4)
        #: Streams that stay open.
        heartbeat = options.get("heartbeat", 15.0)
        self.streams = Streams(heartbeat, KeyWatch(app, heartbeat))
        self._required = options.get("required", False)
        self._audit: dict[str, Any] = {"looks": options.get("audit_looks", False)}
        if "audit_days" in options:
            self._audit["kept_for"] = options["audit_days"] * 86400.0
        names = {
            "public_url": "public_url",
            "largest_file": "largest",
            "files_folder": "folder",
            "files_quota": "quota",
            "files_retention": "retention",
        }
        self._files: dict[str, Any] = {names[key]: value for key, value in options.items() if key in names}
        self._background: Background | None = None
        self._router = Router(routes())

    @cached_property
    def agents(self) -> Agents:
        from fairlead.gateway.agents import Agents

        return Agents(self)

    @cached_property
    def entries(self) -> Entries:
        from fairlead.gateway.entries import Entries

        return Entries(self.app.store)

    @cached_property
    def recorder(self) -> Recorder:
        from fairlead.gateway.recorder import Recorder

        return Recorder(self)

    @property
    def draining(self) -> bool:
        """Whether the server is about to stop: open streams are ended, so that their readers go elsewhere."""
        return self.streams.closing

    @draining.setter
    def draining(self, draining: bool) -> None:
        self.streams.closing = draining

    @cached_property
    def audit(self) -> Audit:
        from fairlead.gateway.audit import Audit

        return Audit(self.app.store, self.app.wall, self.app.redactor, **self._audit)

    @cached_property
    def metrics(self) -> GatewayMetrics:
        from fairlead.gateway.metrics import GatewayMetrics

        return GatewayMetrics(self)

    @cached_property
    def files(self) -> Files:
        from fairlead.gateway.files import Files

        return Files(self.app, **self._files)

    @cached_property
    def resolver(self) -> Resolver:
        """Who calls the server's other routes with a key of the gateway."""
        from fairlead.gateway.resolver import KeyResolver

        return KeyResolver(self, required=self._required)

    def start(self, *, serving: bool = True) -> None:
        """Begin what is done beside answering, on the event loop that runs.

        Only a process that is serving knows how the files of callers are kept, and forgets them.
        """
        from fairlead.gateway.background import Background

        if self._background is None:
            self._background = Background(self.app, self.guard, self.files if serving else None)
            self._background.start()

    async def stop(self) -> None:
        """Write down what is still to be written, and end what was begun beside."""
        background, self._background = self._background, None
        if background is not None:
            await background.stop()
        await self.recorder.flush()
        await self.audit.flush()

    @property
    def tasks(self) -> Tasks:
        tasks: Tasks = self.app.tasks
        return tasks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        found = self._router.find(scope["method"], _path(scope))
        self.in_flight += 1
        exchange = Exchange(self, request, _request_id(request, self.app), found, send)
        headers: Headers = ((b"x-request-id", exchange.request_id.encode()),)
        # In one piece, as each coroutine in another is paid for at every request.
        try:
            try:
                if isinstance(found, list):
                    headers = (*headers, (b"allow", ", ".join(found).encode()))
                    raise InvalidParam(f"This address takes {', '.join(found)}.")
                if found is None:
                    raise AgentNotFound("There is nothing at this address.")
                call = await self._admitted(request, exchange, found, receive)
                route = found.route
                answering = route.handler(call)
                answer = await (answering if route.raw else while_connected(answering, receive))
            except Failure as failure:
                await self._refuse(failure, request, found, headers, exchange)
            except Disconnected:
                raise
            except Exception as exc:
                at = f" at {found.route.name}" if isinstance(found, Match) else ""
                report(f"The gateway failed{at}.", self.app.redactor)
                await self._refuse(from_exception(exc), request, found, headers, exchange)
            else:
                if isinstance(answer, Answer):
                    exchange.made = answer.made or made_by(answer)
                    await _reply(answer, headers, exchange)
                else:
                    await self._send(answer, headers, receive, exchange)
        except Disconnected:
            pass
        except asyncio.CancelledError:
            if not self.draining:
                raise
            if exchange.status == GONE:  # nothing has been answered
                await self._refuse(stopping(), request, found, headers, exchange)
        finally:
            self.in_flight -= 1
            if exchange.holder is not None:
                self._let_go(exchange.holder)
            exchange.ended()

    async def refuse(self, failure: Failure, scope: Scope, send: Send) -> None:
        """Tell a failure of a request that did not come this far, in the words of the address that it was for."""
        request = Request(scope)
        found = self._router.find(scope["method"], _path(scope))
        exchange = Exchange(self, request, _request_id(request, self.app), found, send)
        headers: Headers = ((b"x-request-id", exchange.request_id.encode()),)
        try:
            await self._refuse(failure, request, found, headers, exchange)
        finally:
            exchange.ended()

    async def _send(
        self, answer: Frames | Content | Served, headers: Headers, receive: Receive, exchange: Exchange
    ) -> None:
        """Send an answer that comes piece by piece."""
        if isinstance(answer, Frames):
            with self.metrics.streaming():
                await _stream(answer, headers, receive, exchange.send)
        elif isinstance(answer, Content):
            await _content(answer, headers, receive, exchange.send)
        else:
            await answer.app(exchange.request.scope, receive, _adding(headers, exchange.send))

    async def _admitted(self, request: Request, exchange: Exchange, found: Match, receive: Receive) -> Call:
        """Read the request, of a caller who may make it."""
        route, params = found
        if query := request.scope.get("query_string"):
            _check(query)
        if route.open:
            caller = _STRANGER
            # Those who need no key are told apart by where they come from.
            who = Caller(f"from {origin(request.client)}")
        else:
            known = None if route.of_agent else self.callers.known(request)
            who = caller = known or await self.callers.of(request, of_agent=route.of_agent)
        exchange.caller = caller
        if self.in_flight > self.most:
            raise RateLimited("The gateway has all it can do just now.", retry_after=1.0)
        held = self._held.get(who.owner, 0)
        if held >= self._most_held:
            words = f"One caller may have {self._most_held} calls and streams open at once. End some first."
            raise RateLimited(words, retry_after=1.0)
        self._held[who.owner] = held + 1
        exchange.holder = who.owner
        if route.counted and not self.callers.counted(who, route.name):
            looks = request.method == "GET"
            await self.callers.count(who, route.name, self.per_minute, looks=looks)
        if route.raw:
            return Call(self, request, caller, params, exchange.request_id, receive)
        try:
            check_length(request.raw.get(b"content-length", b""), route.body)
            request.body = await in_time(read_within(receive, route.body), self.patience)
        except TimeoutError:
            words = f"The request's body did not come within {self.patience:g} seconds."
            raise InvalidBody(words) from None
        except Failure:
            words = f"The request's body is longer than {route.body} bytes. Upload large content as a file."
            raise PayloadTooLarge(words) from None
        return Call(self, request, caller, params, exchange.request_id)

    def _let_go(self, owner: str) -> None:
        left = self._held[owner] - 1
        if left:
            self._held[owner] = left
        else:
            del self._held[owner]

    async def _refuse(
        self,
        failure: Failure,
        request: Request,
        found: Match | list[str] | None,
        headers: Headers,
        exchange: Exchange,
    ) -> None:
        failure = for_callers(failure, self.app.redactor)
        pause = wire.retry_after(failure)
        if pause is not None:
            headers = (*headers, (b"retry-after", b"%d" % pause))
        if isinstance(found, Match) and found.route.refused is not None:
            await _reply(found.route.refused(self, request, failure), headers, exchange)
            return
        told = wire.render(failure, headers[0][1].decode(), self.app.redactor)
        status = wire.http_status(failure)
        if status == 401:
            headers = (*headers, (b"www-authenticate", b"Bearer"))
        await respond(exchange.send, status, encode(told), JSON, headers)


def told(app: App) -> dict[str, Any]:
    """What an app says of its gateway where it is, by `app.http(gateway={...})`, for the commands that make one."""
    return dict(_TOLD.get(app, {}))


def routes() -> list[Route]:
    """All routes there are."""
    from importlib import import_module

    return [route for name in MODULES for route in import_module(f"fairlead.gateway.{name}").ROUTES]


def _reply(answer: Answer, headers: Headers, exchange: Exchange) -> Awaitable[None]:
    data, status, more_headers, more, flat, _ = answer
    if flat and data is None:
        return exchange.whole(status, b"", [*headers, *more_headers])
    if not flat:
        data = {"success": True, "data": data}
        if more:
            data |= more
    body = encode(data)
    fixed = ((b"content-type", JSON), (b"content-length", b"%d" % len(body)))
    return exchange.whole(status, body, [*fixed, *headers, *more_headers])


async def _stream(answer: Frames, headers: Headers, receive: Receive, send: Send) -> None:
    """Send frames as they come, as long as somebody reads them."""

    async def sending() -> None:
        begun = [(b"content-type", SSE), (b"cache-control", b"no-store"), (b"x-accel-buffering", b"no")]
        await send(
            {"type": "http.response.start", "status": 200, "headers": [*begun, *headers, *answer.headers]}
        )
        beats = None if answer.every is None else Beats(send, answer.every)
        sent = send if beats is None else beats.send
        try:
            async with aclosing(answer.frames) as frames:  # type: ignore[type-var]
                async for frame in frames:
                    await sent({"type": "http.response.body", "body": frame, "more_body": True})
            await sent({"type": "http.response.body", "body": b""})
        finally:
            if beats is not None:
                beats.stop()

    await while_connected(sending(), receive)


def _check(query: bytes) -> None:
    """Refuse what no parameter can mean."""
    if b"%00" in query:
        raise InvalidParam("The query holds the character NUL, which is part of no name.")
    known: set[str] = set()
    for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if name in known and not name.endswith("[]"):  # as lists are sent
            raise InvalidParam("A parameter of the query is given more than once.", field=name[:64])
        known.add(name)


async def _content(answer: Content, headers: Headers, receive: Receive, send: Send) -> None:
    """Send a file's bytes as they are read, as long as somebody takes them."""

    async def sending() -> None:
        begun = [*headers, *answer.headers]
        await send({"type": "http.response.start", "status": 200, "headers": begun})
        async with aclosing(answer.pieces) as pieces:  # type: ignore[type-var]
            async for piece in pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    await while_connected(sending(), receive)


def _adding(headers: Headers, send: Send) -> Send:
    """Send with some headers more."""

    async def adding(message: Any) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *headers]}
        await send(message)

    return adding


def _request_id(request: Request, app: App) -> str:
    given = request.raw.get(b"x-request-id")
    if given is None or not _REQUEST_ID.fullmatch(given):
        return app.new_id()
    return given.decode()


def _path(scope: Scope) -> str:
    """The path as it was sent, without what the app is mounted under."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    path = raw.partition(b"?")[0].decode("latin-1")
    root: str = scope.get("root_path", "")
    if root and path.startswith(root):
        path = path[len(root) :]
    return path
