"""Serving a console with uvicorn on a loopback socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Literal

from fairlead.failures import Failure, Kind
from fairlead.surfaces.http.asgi import Asgi

if TYPE_CHECKING:
    import uvicorn

    from fairlead.surfaces.console.console import Console

#: Seconds a call may go on once the server is told to stop.
GRACE = 1


def require_uvicorn() -> None:
    """Raises Failure when it is not installed."""
    try:
        import uvicorn  # noqa: F401
    except ImportError as exc:
        raise Failure(
            Kind.misconfigured,
            "The console is served by uvicorn, which is not installed: pip install 'fairlead[serve]'.",
            cause=exc,
        ) from exc


def address(at: socket.socket) -> str:
    """Where a browser finds it."""
    host, port = at.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Serving:
    """One run of the server. `ending` is called when it is about to stop, to let go of open lines."""

    def __init__(self, site: Asgi, ending: Callable[[], None] = lambda: None) -> None:
        self._server = _server(site, ending)

    def run(self, at: socket.socket) -> int:
        """Serve until it is stopped, by a signal or by `stop`; gives the exit code."""
        try:
            self._server.run(sockets=[at])
        except KeyboardInterrupt:
            # uvicorn raises the signal again that it was stopped by.
            return 130
        return 0

    def stop(self) -> None:
        """Stop soon; from any thread."""
        self._server.should_exit = True


class Alongside:
    """A console in the process of another server: signals and the app's services are that server's."""

    def __init__(self, console: Console, at: socket.socket) -> None:
        self._console = console
        self._at = at
        self._server: uvicorn.Server | None = None
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        import uvicorn

        class Server(uvicorn.Server):
            def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
                return nullcontext()

        self._server = Server(_config(self._console, lifespan="off"))
        self._running = asyncio.get_running_loop().create_task(self._server.serve([self._at]))

    async def stop(self, patience: float = 0.0) -> None:
        if self._server is not None and self._running is not None:
            self._server.should_exit = True
            await self._running
            await self._console.end()


def _server(site: Any, ending: Callable[[], None]) -> uvicorn.Server:
    import uvicorn

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            ending()
            await super().shutdown(sockets)

    return Server(_config(site, lifespan="on"))


def _config(site: Any, *, lifespan: Literal["on", "off"]) -> uvicorn.Config:
    import uvicorn

    from fairlead.surfaces.http.serving import protocol

    return uvicorn.Config(
        site,
        # What comes before the gate is bounded as it is for the app.
        http=protocol(),
        # What goes wrong is told by the gate; the rest is noise on a developer's terminal.
        log_level="critical",
        access_log=False,
        lifespan=lifespan,
        timeout_graceful_shutdown=GRACE,
        ws="none",
        server_header=False,
        proxy_headers=False,
    )
