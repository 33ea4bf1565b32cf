"""Noticing that the client went away while its call runs, at no cost to calls that end at once.

A call is stepped in the request's own task. Only when it really waits is anything set up to watch the client,
and only when it has waited a while is there a task for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any, Protocol, TypeVar

from fairlead.failures.redaction import DEFAULT
from fairlead.runtime.hooks import report
from fairlead.surfaces.http.asgi import Disconnected, Receive

T = TypeVar("T")

#: Seconds a call may wait before its client is watched.
PATIENCE = 0.02


class Steps(Protocol):
    """What can be stepped: a coroutine, or one step of an async generator."""

    def send(self, value: Any, /) -> Any: ...
    def throw(self, error: BaseException, /) -> Any: ...


class Watch:
    """Cancels the task it was made in when the client goes away."""

    __slots__ = ("_receive", "_task", "_timer", "_watcher", "gone")

    def __init__(self, receive: Receive) -> None:
        loop = asyncio.get_running_loop()
        #: Whether the client went away.
        self.gone = False
        self._receive = receive
        self._task = asyncio.current_task()
        self._watcher: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = loop.call_later(PATIENCE, self._start)

    def stop(self) -> None:
        """Stop watching. If the client is gone, the cancellation has done its work and is taken back."""
        if self._timer is not None:
            self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()
        if self.gone and self._task is not None:
            self._task.uncancel()

    def _start(self) -> None:
        self._timer = None
        self._watcher = asyncio.ensure_future(self._wait())

    async def _wait(self) -> None:
        try:
            while (await self._receive())["type"] != "http.disconnect":
                pass
        except Exception:
            report("The server failed to say whether the client is there; the call goes on.", DEFAULT)
            return
        self.gone = True
        if self._task is not None:
            self._task.cancel()


@coroutine
def while_connected(work: Coroutine[Any, Any, T], receive: Receive) -> Generator[Any, Any, T]:
    """Await `work`, and cancel it if the client goes away first.

    Raises:
        Disconnected: the client went away, and the work has been stopped.
    """
    try:
        waiting = work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    watch = Watch(receive)
    try:
        result = yield from carried_on(work, waiting)
    except asyncio.CancelledError:
        if watch.gone:
            raise Disconnected from None
        raise
    finally:
        watch.stop()
    if watch.gone:
        raise Disconnected
    return result


@coroutine
def carried_on(steps: Steps, waiting: Any) -> Generator[Any, Any, Any]:
    """Go on with what has been stepped once, and now waits."""
    while True:
        try:
            try:
                sent = yield waiting
            except BaseException as exc:
                waiting = steps.throw(exc)
            else:
                waiting = steps.send(sent)
        except StopIteration as done:
            return done.value
