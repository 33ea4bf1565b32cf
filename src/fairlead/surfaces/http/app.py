"""`HttpApp`: an app over HTTP, as an ASGI app to run or to mount in another one.

Beside the routes of the actions it has the pages of the server itself: health, metrics, OpenAPI, docs, MCP. When it
is mounted where nobody runs its lifespan, the first call starts the app's services.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol, Unpack

from fairlead._json import encode
from fairlead.actions import Action, Exposure
from fairlead.runtime import App, Runtime
from fairlead.surfaces.http.asgi import Asgi, Receive, Scope, Send
from fairlead.surfaces.http.exchange import Exchange
from fairlead.surfaces.http.lifespan import live
from fairlead.surfaces.http.metrics import CONTENT_TYPE
from fairlead.surfaces.http.options import ANY_HOST, HttpOptions, settle
from fairlead.surfaces.http.pages import Page, page, send_page
from fairlead.surfaces.http.routes import LOOK, ActionRoutes, Handler, Route
from fairlead.surfaces.talking import agents_of

if TYPE_CHECKING:
    from fairlead.surfaces.http.plugins import PluginSite
    from fairlead.surfaces.mcp.http import McpEndpoint

SURFACE = "http"
_MCP = ("/mcp", "/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp")
_HTML = b"text/html; charset=utf-8"
#: Documents that are kept: one for each path that the app is mounted under, and for what is shown there.
_MOST_DOCUMENTS = 16


class Beside(Protocol):
    """Work of its own in the process that serves, such as a worker's or a console's."""

    def start(self) -> None:
        """Begin, on the running loop."""

    async def stop(self, patience: float = 0.0) -> None:
        """End, after so many seconds at the latest; a second time it changes nothing."""


class HttpApp:
    """Serves an app, or a bare runtime: `uvicorn.run(app.http())`, `Mount("/tools", app.http())`."""

    def __init__(self, app: Runtime, **options: Unpack[HttpOptions]) -> None:
        self._settings = settings = settle(options)
        self._runtime = app
        self._gateway = self._gate(settings.gateway)
        #: Who is asked who is calling: a key of the gateway's is good on all routes.
        self._resolvers = settings.resolvers
        if self._gateway is not None:
            self._resolvers = (self._gateway.resolver, *settings.resolvers)
        self._routes = ActionRoutes(
            app,
            surface=SURFACE,
            bases=settings.bases,
            exposure=settings.exposure,
            resolve_context=self._resolvers,
            max_body=settings.max_body,
            max_response=settings.max_response,
            max_batch=settings.max_batch,
            batch_width=settings.batch_width,
            keep_alive=settings.keep_alive,
            gzip=settings.gzip,
        )
        #: What runs while the app is up, and ends before its services do.
        self.beside: list[Beside] = []
        self._mcp: McpEndpoint | None = None
        self._calls_beside = 0
        self._documents: dict[tuple[str, tuple[Action[..., Any], ...]], Page] = {}
        for path, handler in self._views().items():
            self._routes.add(path, Route(handler, LOOK))
        if settings.mcp:
            for path in _MCP:
                self._routes.add(path, Route(self._serve_mcp, None))
        if self._gateway is not None:
            self._routes.beside.append((self._gateway.prefixes, self._gateway))
        self._plugins = self._plugin_site()
        self._site = self._layered()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._site(scope, receive, send)
        elif scope["type"] == "lifespan":
            await live(self._start, self._stop, self._runtime, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1000})

    @property
    def in_flight(self) -> int:
        """Calls that are running now."""
        gateway = 0 if self._gateway is None else self._gateway.in_flight
        plugins = 0 if self._plugins is None else self._plugins.in_flight
        return self._routes.metrics.in_flight + self._calls_beside + int(gateway) + plugins

    @property
    def draining(self) -> bool:
        """Whether the server is about to stop: it still answers, and tells those who ask to send no more."""
        return self._routes.draining

    @draining.setter
    def draining(self, draining: bool) -> None:
        self._routes.draining = draining
        if self._gateway is not None:
            self._gateway.draining = draining

    async def drain(self, seconds: float) -> None:
        """Turn `/readyz` off and wait for the calls that are running, so long at most; then nobody listens on."""
        self.draining = True
        deadline = monotonic() + seconds
        beside = [asyncio.ensure_future(each.stop(seconds)) for each in self.beside]
        while self.in_flight and monotonic() < deadline:  # noqa: ASYNC110  # counting is cheaper than telling
            await asyncio.sleep(0.02)
        await asyncio.gather(*beside)
        await self._hush()

    def _gate(self, wanted: bool | Mapping[str, Any]) -> Any:
        """The agents' API, where the app has agents. Rooms above this one are found by name."""
        app = self._runtime
        if wanted is False or not isinstance(app, App):
            return None
        if wanted is True and not agents_of(app):
            return None
        room = importlib.import_module("fairlead.gateway.gateway")
        options = {} if wanted is True else dict(wanted)
        return room.Gateway(app, **{"resolve_context": self._settings.resolvers, **options})

    def _plugin_site(self) -> PluginSite | None:
        """What plugins serve, where the app has any."""
        app = self._runtime
        if not isinstance(app, App) or not app.has_plugins:
            return None
        from fairlead.surfaces.http.plugins import PATHS, PluginSite

        settings = self._settings
        gateway = settings.gateway if isinstance(settings.gateway, Mapping) else {}
        site = PluginSite(
            app,
            self._resolvers,
            max_body=settings.max_body,
            cors=settings.cors is None,
            others=gateway.get("resolve_context", ()),
        )
        self._routes.beside.append((PATHS, site))
        return site

    def _views(self) -> dict[str, Handler]:
        views: dict[str, Handler] = {"/healthz": self._healthz, "/readyz": self._readyz}
        if self._settings.metrics:
            views["/metrics"] = self._metrics
        if self._settings.docs:
            views |= {"/openapi.json": self._openapi, "/docs": self._docs}
        return views

    def _layered(self) -> Asgi:
        site: Asgi = self._routes
        settings = self._settings
        if settings.cors is not None:
            from fairlead.surfaces.http.cors import CorsLayer

            plugins = self._plugins
            site = CorsLayer(site, settings.cors, None if plugins is None else plugins.of_page)
        if settings.allowed_hosts and ANY_HOST not in settings.allowed_hosts:
            from fairlead.surfaces.http.hosts import HostLayer

            gateway = self._gateway
            others = () if gateway is None else ((gateway.prefixes, gateway.refuse),)
            site = HostLayer(site, self._runtime, settings.allowed_hosts, others)
        return site

    async def _healthz(self, exchange: Exchange, route: Route) -> None:
        await exchange.answer(200, b'{"ok":true,"status":"alive"}')

    async def _readyz(self, exchange: Exchange, route: Route) -> None:
        if self.draining:
            await exchange.answer(503, b'{"ok":false,"status":"draining"}')
        else:
            await exchange.answer(200, b'{"ok":true,"status":"ready"}')

    async def _metrics(self, exchange: Exchange, route: Route) -> None:
        caller = await self._routes.caller(exchange)
        told = self._routes.metrics.text({each.name for each in caller.hides})
        if self._gateway is not None:
            told += await self._gateway.metrics.text(caller)
        await exchange.answer(200, told, CONTENT_TYPE)

    async def _openapi(self, exchange: Exchange, route: Route) -> None:
        caller = await self._routes.caller(exchange)
        exposure = self._settings.exposure.without(caller.hides)
        await send_page(exchange, self._document(exchange.scope.get("root_path") or "/", exposure))

    async def _docs(self, exchange: Exchange, route: Route) -> None:
        from fairlead.surfaces.http.docs_page import content_security_policy, docs_page

        policy = f"{content_security_policy()}; frame-ancestors 'none'".encode()
        await send_page(exchange, page(docs_page(), _HTML), ((b"content-security-policy", policy),))

    def _document(self, root: str, exposure: Exposure) -> Page:
        """The OpenAPI document for those who come by this path: made once for the actions that they are shown."""
        key = root, tuple(self._runtime.list_actions(SURFACE, exposure))
        known = self._documents.get(key)
        if known is None:
            if len(self._documents) >= _MOST_DOCUMENTS:
                self._documents.clear()
            known = self._documents[key] = self._write_openapi(root, exposure)
        return known

    def _write_openapi(self, root: str, exposure: Exposure) -> Page:
        from fairlead.surfaces.http.openapi import openapi_document

        settings = self._settings
        document = openapi_document(
            self._runtime,
            exposure=exposure,
            base=settings.bases[0],
            security=settings.resolvers,
            servers=(root,),
            metrics=settings.metrics,
        )
        return page(encode(document))

    async def _serve_mcp(self, exchange: Exchange, route: Route) -> None:
        if self._mcp is None:
            self._mcp = self._mcp_endpoint()
        calling = exchange.scope["method"] == "POST"
        self._calls_beside += calling
        exchange.started = True
        try:
            await self._mcp.serve(exchange.scope, exchange.headers, exchange.receive, exchange.send)
        finally:
            self._calls_beside -= calling

    def _mcp_endpoint(self) -> McpEndpoint:
        from fairlead.surfaces.mcp import Server
        from fairlead.surfaces.mcp.http import McpEndpoint

        settings = self._settings
        given = settings.mcp
        server = given if isinstance(given, Server) else Server(self._runtime, exposure=settings.exposure)
        # Where callers have to show who they are, a page that borrows somebody's browser gains nothing.
        hosts = settings.allowed_hosts or ((ANY_HOST,) if settings.resolvers else None)
        return McpEndpoint(
            server,
            resolve_context=self._resolvers,
            allowed_hosts=hosts,
            oauth=settings.mcp_oauth,
            sessions=settings.mcp_sessions,
            # Pages that may call actions may do so by MCP.
            pages=settings.cors.origins if settings.cors else (),
        )

    async def _hush(self) -> None:
        """End the streams of those who only listen: they would never end by themselves."""
        if self._mcp is not None:
            await self._mcp.close()

    async def _start(self) -> None:
        await self._runtime.start()
        if self._gateway is not None:
            self._gateway.start()
        if self._plugins is not None:
            await self._plugins.start()
        for each in self.beside:
            each.start()

    async def _stop(self) -> None:
        try:
            for each in self.beside:
                await each.stop()
            await self._hush()
            if self._gateway is not None:
                await self._gateway.stop()
        finally:
            await self._runtime.stop()
