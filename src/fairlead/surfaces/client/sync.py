"""`SyncClient`: the client for code without an event loop. Any number of threads may share one."""

from __future__ import annotations

import asyncio
import copy
import os
import threading
import weakref
from collections.abc import AsyncGenerator, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self, TypeVar, Unpack, overload

from fairlead.actions import Action, DefinitionError
from fairlead.runtime import App, Event
from fairlead.surfaces.client.client import Async, Client, ClientOptions, Yielding, called, method
from fairlead.surfaces.client.in_process import InProcess
from fairlead.surfaces.client.reply import Reply
from fairlead.surfaces.client.transport import NOTHING, InvokeOptions, Transport

R = TypeVar("R")
T = TypeVar("T")


class SyncClient:
    """What `Client` is, without `await`: `SyncClient(url=...).create_task(title="x")`."""

    def __init__(self, **options: Unpack[ClientOptions]) -> None:
        self._client = Client(**options)
        self._background = Background(self._client.transport)

    @overload
    def invoke(
        self, action: Async[R], input: Any = ..., *, raw: Literal[True], **options: Unpack[InvokeOptions]
    ) -> Reply[R]: ...
    @overload
    def invoke(
        self,
        action: Async[R],
        input: Any = ...,
        *,
        raw: Literal[False] = ...,
        **options: Unpack[InvokeOptions],
    ) -> R: ...
    @overload
    def invoke(
        self, action: Yielding[R], input: Any = ..., *, raw: Literal[True], **options: Unpack[InvokeOptions]
    ) -> Reply[list[R]]: ...
    @overload
    def invoke(
        self,
        action: Yielding[R],
        input: Any = ...,
        *,
        raw: Literal[False] = ...,
        **options: Unpack[InvokeOptions],
    ) -> list[R]: ...
    @overload
    def invoke(
        self,
        action: Action[..., R],
        input: Any = ...,
        *,
        raw: Literal[True],
        **options: Unpack[InvokeOptions],
    ) -> Reply[R]: ...
    @overload
    def invoke(
        self,
        action: Action[..., R],
        input: Any = ...,
        *,
        raw: Literal[False] = ...,
        **options: Unpack[InvokeOptions],
    ) -> R: ...
    @overload
    def invoke(
        self, action: str, input: Any = ..., *, raw: Literal[True], **options: Unpack[InvokeOptions]
    ) -> Reply[Any]: ...
    @overload
    def invoke(
        self, action: str, input: Any = ..., *, raw: Literal[False] = ..., **options: Unpack[InvokeOptions]
    ) -> Any: ...
    def invoke(self, action: Any, input: Any = NOTHING, *, raw: bool = False, **options: Any) -> Any:
        """Call an action: its data, or its failure raised; with `raw=True` the whole reply."""
        reply = self._background.run(self._client.invoke(action, input, raw=True, **options))
        return reply if raw else reply.unwrap()

    def stream(
        self, action: str | Action[..., Any], input: Any = NOTHING, **options: Unpack[InvokeOptions]
    ) -> Iterator[Event]:
        """Call an action and hear what it says as it runs; leaving the loop cancels the call."""
        return self._background.each(self._client.stream(action, input, **options))

    def with_options(self, **options: Unpack[InvokeOptions]) -> Self:
        """The same client, with other options for the calls made through it."""
        other = copy.copy(self)
        other._client = self._client.with_options(**options)
        return other

    def close(self) -> None:
        """Close the connections. At the end of the program it is done by itself."""
        self._background.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        return method(self, name)

    def _called(self, name: str, input: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """For the methods of clients that are written by `fairlead client py`."""
        return called(self, name, input, named)


class Running(NamedTuple):
    """A loop on a thread of its own, and the process that the thread is in: a fork leaves it behind."""

    loop: asyncio.AbstractEventLoop
    end: asyncio.Event
    thread: threading.Thread
    process: int

    def stop(self) -> None:
        if self.process != os.getpid() or self.loop.is_closed():
            return
        self.loop.call_soon_threadsafe(self.end.set)
        if threading.current_thread() is not self.thread:
            self.thread.join()


class Background:
    """Where the coroutines of sync callers run. An app has a loop for them, which its services live on."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._lock = threading.Lock()
        self._running: Running | None = None
        #: What somebody is in the middle of.
        self._streams: set[AsyncGenerator[Any, None]] = set()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        loop = self._loop()
        if _here(loop):
            work.close()
            raise DefinitionError("A SyncClient would block the loop its call runs on: use a Client there.")
        waiting = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return waiting.result()
        except KeyboardInterrupt:
            waiting.cancel()
            raise

    def each(self, items: AsyncGenerator[T, None]) -> Iterator[T]:
        """The items one by one; leaving early closes their generator."""
        loop = self._loop()
        self._streams.add(items)

        async def following() -> tuple[T] | None:
            async for item in items:
                return (item,)
            return None

        try:
            while (found := self.run(following())) is not None:
                yield found[0]
        finally:
            # At the end of the program the loop may have gone first, and has closed it.
            if items in self._streams and loop.is_running():
                self.run(items.aclose())
            self._streams.discard(items)

    def stop(self) -> None:
        with self._lock:
            running, self._running = self._running, None
        if running is not None:
            running.stop()

    def _loop(self) -> asyncio.AbstractEventLoop:
        transport = self._transport
        if isinstance(transport, InProcess) and isinstance(transport.runtime, App):
            return transport.runtime.background_loop()
        with self._lock:
            if self._running is None or self._running.process != os.getpid():
                self._running = _start(transport, self._streams)
                weakref.finalize(self, self._running.stop)
            return self._running.loop


def _here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def _start(transport: Transport, streams: set[AsyncGenerator[Any, None]]) -> Running:
    begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        end = asyncio.Event()
        begun.set_result((asyncio.get_running_loop(), end))
        await end.wait()
        while streams:
            with suppress(RuntimeError):  # one that is being asked for an item is cancelled with who asks
                await streams.pop().aclose()
        await transport.aclose()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="fairlead-client", daemon=True)
    thread.start()
    return Running(*begun.result(), thread, os.getpid())
