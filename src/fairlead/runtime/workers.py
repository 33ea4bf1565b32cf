"""Worker threads for sync functions, so that they do not hold up the event loop.

Threads are daemons: one that ignores its cancellation cannot keep the program from ending. A thread given up
on does not count against the limit while it lingers. Threads whose app is forgotten end.
"""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import Any
from weakref import WeakSet, ref

Job = tuple[Future[Any], Callable[[], Any]]

_ALL: WeakSet[Workers] = WeakSet()


class Workers:
    """At most `limit` threads, made as needed and kept for as long as somebody keeps this."""

    def __init__(self, limit: int = 64) -> None:
        self._most = limit
        self._begin()
        _ALL.add(self)

    def _begin(self) -> None:
        """Have no threads yet, and nobody who waits for one."""
        self._limit = self._most
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        #: Threads that wait for a job; below zero, the jobs that wait for a thread.
        self._idle = 0

    def submit(self, function: Callable[[], Any]) -> Future[Any]:
        """Run `function` on a thread, in the caller's contextvars. The future is done when the thread is."""
        future: Future[Any] = Future()
        # Nobody can take it back: whoever stops waiting still has to know when it has stopped.
        future.set_running_or_notify_cancel()
        with self._lock:
            self._idle -= 1
            self._grow()
        self._jobs.put((future, partial(contextvars.copy_context().run, function)))
        return future

    def lend(self) -> None:
        """Allow one thread more, for one that was given up on."""
        with self._lock:
            self._limit += 1
            self._grow()

    def reclaim(self) -> None:
        with self._lock:
            self._limit -= 1

    def _grow(self) -> None:
        if self._idle < 0 and self._threads < self._limit:
            self._threads += 1
            self._idle += 1
            threading.Thread(
                target=_work, args=(ref(self), self._jobs), name="fairlead-worker", daemon=True
            ).start()

    def __del__(self) -> None:
        self._jobs.put(None)

    def _done(self) -> None:
        with self._lock:
            self._idle += 1

    def _retired(self) -> bool:
        with self._lock:
            retired = self._threads > self._limit and self._idle > 0
            self._threads -= retired
            self._idle -= retired
        return retired


def _work(whose: ref[Workers], jobs: SimpleQueue[Job | None]) -> None:
    """Do jobs. Waiting for one, a thread does not hold on to whom it works for."""
    while (workers := whose()) is not None and not workers._retired():
        del workers
        job = jobs.get()
        if job is None:
            jobs.put(None)  # for the next
            return
        future, function = job
        outcome, error = _run(function)
        # Idle before anybody hears of it: the next call finds this thread and makes no new one.
        if (workers := whose()) is not None:
            workers._done()
        del workers
        if error is None:
            future.set_result(outcome)
        else:
            future.set_exception(error)
        # Nothing of the last job is held while waiting for the next.
        del job, future, function, outcome, error


def _begin_again() -> None:
    """In a process that was forked no thread lives on, and a lock may be held by one that does not."""
    for workers in list(_ALL):
        workers._begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_again)


def _run(function: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        return function(), None
    except StopIteration as exc:
        # A future cannot carry this one: it would end whoever waits as if it were a generator.
        return None, RuntimeError(f"The function raised StopIteration: {exc}")
    except BaseException as exc:
        return None, exc
