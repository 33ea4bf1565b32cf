"""Serving an app with uvicorn: one process, several, or one that is started again on every change.

What a worker serves is told to it by an environment variable: processes share no objects.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import socket
from collections.abc import Mapping
from math import ceil
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fairlead._json import dumps, loads
from fairlead.actions import DefinitionError
from fairlead.failures import Failure, Kind
from fairlead.surfaces.talking import agents_of

if TYPE_CHECKING:
    import uvicorn

    from fairlead.runtime import App
    from fairlead.surfaces.auth.resolve import Resolver
    from fairlead.surfaces.http.app import HttpApp

_VARIABLE: Final = "FAIRLEAD_SERVE"
_SITE: Final = f"{__name__}:site"
_BACKLOG: Final = 2048
#: Seconds.
_RELOAD_DRAIN: Final = 1.0
_MOMENT: Final = 1


class Plan(NamedTuple):
    """What is served and how, in words that another process can read."""

    target: str
    directory: str
    api_keys: str | None = None
    jwt: Mapping[str, Any] | None = None
    #: What `app.http` takes beside its resolvers.
    http: Mapping[str, Any] = {}
    #: How many tasks are run at once in each process that serves; 0 for none.
    worker: int = 0
    #: The server of the app's own that `/mcp` serves, and who said so.
    mcp: tuple[str, str] | None = None
    #: Whether the app's own program was started: it has seen to the path.
    packaged: bool = False

    def resolvers(self) -> list[Resolver]:
        """Who is asked who is calling. Raises DefinitionError when a file cannot be used."""
        from fairlead.surfaces.auth import ApiKeys, Jwt

        found: list[Resolver] = []
        if self.api_keys is not None:
            found.append(ApiKeys(self.api_keys))
        if self.jwt is not None:
            found.append(Jwt(**self.jwt))
        return found

    def site(self, app: App) -> HttpApp:
        """The app as it is served. Raises Failure when an option cannot be used."""
        options = dict(self.http)
        if self.mcp is not None:
            from fairlead.surfaces.mcp.own import load_server

            options["mcp"] = load_server(*self.mcp)
        if "gateway" in options or agents_of(app):
            told = importlib.import_module("fairlead.gateway.gateway").told(app)
            options["gateway"] = {**told, **options.get("gateway", {})}
        try:
            site: HttpApp = app.http(resolve_context=self.resolvers(), **options)
        except DefinitionError as exc:
            raise Failure(Kind.invalid_input, str(exc), cause=exc) from exc
        if self.worker:
            site.beside.append(_Employed(app, self.worker))
        return site


class _Employed:
    """A worker in the process that serves."""

    def __init__(self, app: App, concurrency: int) -> None:
        self._app = app
        self._concurrency = concurrency
        self._worker: Any = None

    def start(self) -> None:
        self._worker = self._app.tasks.worker(concurrency=self._concurrency)
        self._worker.start()

    async def stop(self, patience: float = 0.0) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.stop(patience)


class Way(NamedTuple):
    """How the server runs."""

    workers: int = 1
    reload: bool = False
    drain: float = 10.0
    log_level: str = "warning"
    access_log: bool = False
    root_path: str = ""


def site() -> HttpApp:
    """What a worker serves. uvicorn calls it by name."""
    from fairlead.surfaces.cli import locate

    drain, *told = loads(os.environ[_VARIABLE])
    plan = Plan(*told)
    place = locate.Place(plan.target, "fairlead serve", packaged=plan.packaged)
    made = plan.site(locate.load(place, plan.directory))
    return _draining(made, drain)


def listening(host: str, port: int, way_out: str = "--port 0") -> socket.socket:
    """A socket that listens there. Raises Failure when it cannot be had; `way_out` is the option that takes another."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(_BACKLOG)
    except OSError as exc:
        made.close()
        raise Failure(
            Kind.unavailable,
            f"Cannot listen on {host}, port {port}: {exc.strerror or exc}. {way_out} takes any port that is free.",
            cause=exc,
        ) from exc
    made.set_inheritable(True)
    return made


def serve(plan: Plan, way: Way, site: HttpApp, at: socket.socket) -> int:
    """Serve until it is told to stop; gives the exit code. `site` is what one process serves by itself."""
    import uvicorn

    config: dict[str, Any] = {
        "factory": True,
        "http": protocol(),
        "log_level": way.log_level,
        "access_log": way.access_log,
        "root_path": way.root_path,
        "server_header": False,
    }
    if way.workers == 1 and not way.reload:
        server = uvicorn.Server(uvicorn.Config(lambda: _draining(site, way.drain), **config))
        try:
            server.run([at])
        except SystemExit:  # so uvicorn ends when the app does not start, with a code of its own
            return 1
        return 0 if server.started else 1
    # Whoever changes a file waits for nobody but the calls that are about to end.
    drain = min(way.drain, _RELOAD_DRAIN) if way.reload else way.drain
    os.environ[_VARIABLE] = dumps([drain, *plan])
    if way.reload:
        from uvicorn.supervisors import ChangeReload

        config |= {"reload": True, "reload_dirs": [plan.directory]}
        settings = uvicorn.Config(_SITE, **config)
        ChangeReload(settings, target=uvicorn.Server(settings).run, sockets=[at]).run()
    else:
        from fairlead.surfaces.http.workers import Workers

        workers = Workers(uvicorn.Config(_SITE, workers=way.workers, **config), sockets=[at])
        workers.run()
        return 1 if workers.failed else 0
    return 0


def protocol() -> Any:
    """How requests are read: by httptools within bounds, or by what uvicorn has without it."""
    try:
        from fairlead.surfaces.http.protocol import BoundedProtocol
    except ImportError:
        return "auto"
    return BoundedProtocol


def _draining(site: HttpApp, seconds: float) -> HttpApp:
    """The site, for the server that is about to run it here: signals stop that in order from now on."""
    # uvicorn has put the server's own method there before it asks for the site.
    server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    if server is not None:
        stop = _Stop(site, server, seconds)
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, stop)
    return site


class _Stop:
    """What a signal does: the server stops when the calls that run have ended; asked twice, at once."""

    def __init__(self, site: HttpApp, server: uvicorn.Server, seconds: float) -> None:
        self._site = site
        self._server = server
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._ending: asyncio.Task[None] | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self._site.draining:
            self._server.should_exit = self._server.force_exit = True
            return
        self._site.draining = True
        self._loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        self._ending = self._loop.create_task(self._end())

    async def _end(self) -> None:
        deadline = monotonic() + self._seconds
        await self._site.drain(self._seconds)
        # Answers that are being sent have what is left of the time, and a moment at least.
        left = max(_MOMENT, ceil(deadline - monotonic())) if self._seconds else 0
        self._server.config.timeout_graceful_shutdown = left
        self._server.should_exit = True
