"""Work that can be stopped: by a time limit, by the caller's signal, or because nobody waits for it any more.

It knows how to stop a task or a thread and how long to wait for it. What holds a slot or a key meanwhile is the
runtime's business.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable
from threading import get_ident
from typing import Any, TypeVar, cast

from fairlead.failures import Failure, Kind, from_exception
from fairlead.runtime.context import Context
from fairlead.runtime.limits import Limits
from fairlead.runtime.refusals import timed_out

T = TypeVar("T")


class _NoTask:
    """Stands for the task of a coroutine that somebody drives by hand: it is never cancelled."""

    def cancelling(self) -> int:
        return 0


_NO_TASK = _NoTask()

if sys.version_info >= (3, 12):

    def current_task() -> asyncio.Task[Any] | _NoTask:
        return asyncio.current_task() or _NO_TASK

else:
    # Before 3.12, who asks for the running loop asks the system for the process's id first, and every call would
    # pay for that. So a thread remembers its loop, and looks whether the loop still runs on this thread.
    class _Here(threading.local):
        loop: asyncio.BaseEventLoop | None = None

    _here = _Here()
    _tasks: dict[asyncio.AbstractEventLoop | None, asyncio.Task[Any]] = asyncio.tasks._current_tasks  # type: ignore[attr-defined]

    def current_task() -> asyncio.Task[Any] | _NoTask:
        loop = _here.loop
        if loop is not None and loop._thread_id == get_ident():  # type: ignore[attr-defined]
            return _tasks.get(loop, _NO_TASK)
        running = asyncio._get_running_loop()
        # Loops of other makers do not say where they run.
        _here.loop = running if isinstance(running, asyncio.BaseEventLoop) else None
        return _tasks.get(running, _NO_TASK)

    def _forget_loop() -> None:
        """A child that was forked inside a loop does not run it, whatever the loop says."""
        _here.loop = None

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_forget_loop)


async def interruptible(context: Context, work: asyncio.Future[Any], limits: Limits) -> Any:
    """Await `work` until it ends, time runs out, or the caller cancels; then stop it and say which it was."""
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[None] = loop.create_future()

    def fire() -> None:
        if not stop.done():
            stop.set_result(None)

    cause, limit = limits.next(context._runtime.clock.monotonic())
    timer = loop.call_later(limit, fire) if limit is not None else None
    signal = limits.signal
    unsubscribe = None if signal is None else signal.subscribe(lambda: loop.call_soon_threadsafe(fire))
    try:
        await asyncio.wait((work, stop), return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        await _halt(context, work)
        raise
    finally:
        if timer is not None:
            timer.cancel()
        if unsubscribe is not None:
            unsubscribe()
        stop.cancel()
    if stop.cancelled():
        if work.cancelled():
            raise Failure(Kind.cancelled, "Action was cancelled.")
        return work.result()
    await _halt(context, work)
    if signal is not None and signal.cancelled:
        raise Failure(Kind.cancelled, signal.reason or "Action was cancelled.")
    raise timed_out(cause, limit or 0.0)


async def within(context: Context, work: Awaitable[T], limits: Limits | None) -> T:
    """Await something that is no attempt: the deadline and the signal end it, the attempt's time-out does not."""
    if limits is None:
        return await work
    return cast("T", await interruptible(context, asyncio.ensure_future(work), limits.waiting(None)))


async def _halt(context: Context, work: asyncio.Future[Any]) -> None:
    """Stop the work, and give it a moment to clean up."""
    context.signal.cancel()
    work.cancel()
    running = {work} if context._thread is None else {work, asyncio.wrap_future(context._thread)}
    for each in running:
        each.add_done_callback(heard)
    await asyncio.wait(running, timeout=context._runtime.grace)


async def contained(body: Awaitable[Any]) -> Any:
    """The body, with what would end the event loop itself turned into a failure."""
    try:
        return await body
    except (Exception, asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as exc:
        raise from_exception(exc) from exc


def heard(work: asyncio.Future[Any]) -> None:
    """Take note of how abandoned work ended, so that nobody is warned about it."""
    if work.done() and not work.cancelled():
        work.exception()
