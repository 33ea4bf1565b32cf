"""The routes of an app's actions, as one ASGI callable: list, describe, invoke, stream, batch.

    GET  {base}/actions                   POST {base}/actions/{name}/invoke
    GET  {base}/actions/{name}            POST {base}/actions/{name}/stream
                                          POST {base}/batch

It translates: a request into a call, the envelope into an answer. Whether a call may be made, and how it is made,
the runtime decides. Whatever a client sends, the answer is an envelope.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from fairlead.actions import Exposure
from fairlead.failures import Failure
from fairlead.failures.action import HttpServerError, NotFound
from fairlead.runtime import Runtime
from fairlead.runtime.hooks import report
from fairlead.surfaces.auth import ANONYMOUS, Caller
from fairlead.surfaces.auth.resolve import Resolver, resolve
from fairlead.surfaces.http.asgi import (
    Asgi,
    Disconnected,
    Receive,
    Request,
    Scope,
    Send,
    check_length,
    is_under,
    rest_of_body,
    route_path,
)
from fairlead.surfaces.http.call import parsed
from fairlead.surfaces.http.directory import Directory
from fairlead.surfaces.http.exchange import Exchange, Host, ServerStopping
from fairlead.surfaces.http.media import require_json
from fairlead.surfaces.http.pages import send_page
from fairlead.surfaces.http.runner import Read, Runner

MAX_BODY = 1024 * 1024
BASES = ("/fairlead", "/ageniti")

LOOK = ("GET", "HEAD")
_CALL = ("POST",)


class Route(NamedTuple):
    """What a path stands for."""

    handler: Handler
    #: None where the handler sees to it itself.
    methods: tuple[str, ...] | None
    action: str | None = None


Handler = Callable[[Exchange, Route], Awaitable[None]]


class ActionRoutes:
    """Serves the actions that one surface shows."""

    def __init__(
        self,
        app: Runtime,
        *,
        surface: str = "http",
        bases: Sequence[str] = BASES,
        exposure: Exposure | None = None,
        resolve_context: Resolver | Iterable[Resolver] = (),
        max_body: int = MAX_BODY,
        max_response: int | None = None,
        max_batch: int = 100,
        batch_width: int = 16,
        keep_alive: float = 15.0,
        gzip: int | None = None,
    ) -> None:
        self._host = Host(app, surface, gzip)
        #: Whether the server is about to stop.
        self.draining = False
        #: What else serves, each with the beginnings of its paths.
        self.beside: list[tuple[tuple[str, ...], Asgi]] = []
        self._bases = tuple(bases)
        self._under = tuple(f"{base}/actions/" for base in self._bases)
        self._resolvers = (resolve_context,) if callable(resolve_context) else tuple(resolve_context)
        self._max_body = max_body
        self._digits = len(str(max_body))
        self._max_batch = max_batch
        self._batch_width = batch_width
        self._directory = Directory(app, surface, exposure or Exposure())
        self._runner = Runner(app, surface, self._directory, max_response, keep_alive)
        self.metrics = self._runner.metrics
        self._verbs: dict[str, Handler] = {"invoke": self._invoke, "stream": self._stream}
        self._routes = {path: route for base in self._bases for path, route in self._prepared(base)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if scope.get("root_path"):
            path = route_path(scope)
        route = self._routes.get(path) or self._match(path)
        if route is None:
            for beginnings, other in self.beside:
                if is_under(path, beginnings):
                    await other(scope, receive, send)
                    return
        exchange = Exchange(self._host, scope, receive, send)
        try:
            if route is None:
                await exchange.refuse(self._nothing_here(scope))
            elif route.methods is None or scope["method"] in route.methods:
                await route.handler(exchange, route)
            else:
                await exchange.other_method(route.methods)
        except Disconnected:
            return
        except asyncio.CancelledError:
            if not self.draining:
                raise
            if not exchange.started:
                await exchange.refuse(ServerStopping(), None if route is None else route.action)
        except Exception as exc:
            await _contain(exchange, exc, None if route is None else route.action)

    def add(self, path: str, route: Route) -> None:
        """Serve something else beside the actions."""
        self._routes[path] = route

    def _nothing_here(self, scope: Scope) -> NotFound:
        """Tells where things are: the address that a server prints is asked first, and has nothing itself."""
        root = scope.get("root_path", "").rstrip("/")
        docs = f", and the docs are at {root}/docs" if "/docs" in self._routes else ""
        return NotFound(
            f"There is nothing at this address. The actions are at {root}{self._bases[0]}/actions{docs}."
        )

    def _prepared(self, base: str) -> Iterator[tuple[str, Route]]:
        yield f"{base}/actions", Route(self._list, LOOK)
        yield f"{base}/batch", Route(self._batch, _CALL)
        for name in self._directory.names():
            for verb, handler in self._verbs.items():
                yield f"{base}/actions/{name}/{verb}", Route(handler, _CALL, name)

    def _match(self, path: str) -> Route | None:
        """What a path that was not prepared stands for: one with slashes at its end, or with another name."""
        if path.endswith("/"):
            path = path.rstrip("/")
            if path in self._routes:
                return self._routes[path]
        if not path.startswith(self._under):
            return None
        for under in self._under:
            if path.startswith(under):
                name, slash, verb = path.removeprefix(under).partition("/")
                if name and not slash:
                    return Route(self._describe, LOOK, name)
                if name and verb in self._verbs:
                    return Route(self._verbs[verb], _CALL, name)
        return None

    async def _list(self, exchange: Exchange, route: Route) -> None:
        caller = await self.caller(exchange)
        await send_page(exchange, self._directory.list(caller.hides))

    async def _describe(self, exchange: Exchange, route: Route) -> None:
        caller = await self.caller(exchange)
        found = self._directory.find(route.action or "", caller.hides)
        await send_page(exchange, self._directory.describe(found))

    def _invoke(self, exchange: Exchange, route: Route) -> Awaitable[None]:
        return self._runner.invoke(exchange, route.action or "", self._read(exchange))

    def _stream(self, exchange: Exchange, route: Route) -> Awaitable[None]:
        return self._runner.stream(exchange, route.action or "", self._read(exchange))

    def _batch(self, exchange: Exchange, route: Route) -> Awaitable[None]:
        return self._runner.batch(exchange, self._read(exchange), self._max_batch, self._batch_width)

    async def _read(self, exchange: Exchange) -> Read:
        """What a request says, and who says it. Until that is known, a stranger learns nothing of what there is."""
        headers = exchange.headers
        require_json(headers)
        declared = headers.get(b"content-length")
        if declared is not None and len(declared) >= self._digits:
            check_length(declared, self._max_body)
        message = await exchange.receive()
        body: bytes = message.get("body", b"")
        # Most bodies come in one piece.
        if message.get("more_body", True) or len(body) > self._max_body:
            body = await rest_of_body(message, exchange.receive, self._max_body)
        caller = await self.caller(exchange, body) if self._resolvers else ANONYMOUS
        return parsed(body), caller

    async def caller(self, exchange: Exchange, body: bytes = b"") -> Caller:
        """Who is calling. Raises Failure for a caller who is refused."""
        if not self._resolvers:
            return ANONYMOUS
        return await resolve(self._resolvers, Request(exchange.scope, body), exchange.host.runtime.redactor)


async def _contain(exchange: Exchange, error: Exception, action: str | None) -> None:
    """Whatever went wrong is the answer, unless one has begun."""
    if exchange.started:
        if isinstance(error, OSError):
            return  # so some servers tell that the client went away
        raise error
    if isinstance(error, Failure):
        await exchange.refuse(error, action)
    else:
        report("The HTTP surface failed.", exchange.host.runtime.redactor)
        await exchange.refuse(HttpServerError(cause=error), action)
