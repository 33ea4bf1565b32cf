"""The start and stop of what an ASGI server serves, told to that server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fairlead.failures import Failure, from_exception
from fairlead.runtime import Runtime
from fairlead.runtime.hooks import report
from fairlead.runtime.redaction import redacted
from fairlead.surfaces.http.asgi import Receive, Send

Move = Callable[[], Awaitable[None]]


async def live(start: Move, stop: Move, runtime: Runtime, receive: Receive, send: Send) -> None:
    """Start and stop when the server says so; what started beside a start that fails is stopped.

    Raises:
        Failure: The start or the stop failed. Servers have heard so by then; test clients hand it on.
    """
    await receive()
    try:
        await _told("startup", start, runtime, send)
    except Failure:
        await _quietly(stop, runtime)
        raise
    await receive()
    await _told("shutdown", stop, runtime, send)


async def _told(phase: str, move: Move, runtime: Runtime, send: Send) -> None:
    try:
        await move()
    except Exception as exc:
        report(f"The app's {phase} failed.", runtime.redactor)
        failure = redacted(runtime.redactor, from_exception(exc))
        await send({"type": f"lifespan.{phase}.failed", "message": failure.message})
        # The cause is in the log, redacted; a server would print it as it is.
        raise failure from None
    await send({"type": f"lifespan.{phase}.complete"})


async def _quietly(stop: Move, runtime: Runtime) -> None:
    try:
        await stop()
    except Exception:
        report("What had started did not stop in order.", runtime.redactor)
