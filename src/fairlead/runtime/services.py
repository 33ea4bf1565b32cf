"""Shared services and their lives: started before the first call, stopped in reverse when the app stops.

A service belongs to the event loop it was started on.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

from fairlead.actions import DefinitionError
from fairlead.failures import Failure, Kind
from fairlead.runtime.context import Services


class Lifespan:
    """Plain values are used as they are; generator functions are services that are opened and closed."""

    def __init__(self, services: Mapping[str, Any]) -> None:
        self.values = Services()
        self._openers: dict[str, Callable[[], Any]] = {}
        self._stack: AsyncExitStack | None = None
        self._lock = threading.Lock()
        #: Tells all who wait, on whichever loop, how the start that runs now ended.
        self._starting: Future[None] | None = None
        #: Whether there are services that have not been started.
        self.waiting = False
        for name, service in services.items():
            self.add(name, service)

    def add(self, name: str, service: Any) -> None:
        if name in self.values or name in self._openers:
            raise DefinitionError(f"Duplicate service name {name!r}.")
        if is_opener(service):
            self._openers[name] = service
            self.waiting = True
        else:
            self.values[name] = service

    async def start(self) -> None:
        """Start what has not been started. Who gives up waiting does not stop the start for the others."""
        with self._lock:
            if not self.waiting:
                return
            starting = self._starting
            if starting is None:
                self._starting = starting = Future()
                starting.set_running_or_notify_cancel()
                self._task = asyncio.ensure_future(self._open(starting))
        await asyncio.wrap_future(starting)

    async def _open(self, starting: Future[None]) -> None:
        error: BaseException | None = None
        try:
            await self._open_all()
        except BaseException as exc:
            error = exc
        with self._lock:
            self._starting = None
            self.waiting = error is not None
        if error is None:
            starting.set_result(None)
        elif isinstance(error, asyncio.CancelledError):
            starting.set_exception(Failure(Kind.unavailable, "The start of the services was cancelled."))
        else:
            starting.set_exception(error)

    async def _open_all(self) -> None:
        stack = AsyncExitStack()
        opened: dict[str, Any] = {}
        name = ""
        try:
            for name, opener in self._openers.items():
                if name not in self.values:
                    opened[name] = await _enter(stack, opener)
        except BaseException as exc:
            await stack.aclose()
            if isinstance(exc, Failure) or not isinstance(exc, Exception):
                raise
            raise Failure(Kind.misconfigured, f"Service {name!r} did not start: {exc}", cause=exc) from exc
        dict.update(self.values, opened)
        # One added later stands on the ones that run already, and is stopped before them.
        self._stack = self._stack or AsyncExitStack()
        self._stack.push_async_exit(stack.pop_all())

    async def stop(self) -> None:
        stack, self._stack = self._stack, None
        if stack is None:
            return
        self.waiting = True
        for name in self._openers:
            dict.pop(self.values, name, None)
        await stack.aclose()


def is_opener(service: Any) -> bool:
    return inspect.isasyncgenfunction(service) or inspect.isgeneratorfunction(service)


async def _enter(stack: AsyncExitStack, opener: Callable[[], Any]) -> Any:
    if inspect.isasyncgenfunction(opener):
        manager: AbstractAsyncContextManager[Any] = asynccontextmanager(opener)()
        return await stack.enter_async_context(manager)
    return stack.enter_context(contextmanager(opener)())
