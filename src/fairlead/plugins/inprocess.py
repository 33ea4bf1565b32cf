"""A plugin in our own process, for those who trust it: the quickest form, and the one without a fence.

A crash of the plugin is a crash of the host, and a call that hangs cannot be ended: its caller is let go, its thread
is given up. Calls run on threads of the plugin's own; host calls are answered on the app's loop, as in the other form.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from typing import Final, TypeVar, cast

from fairlead.failures import Failure, Kind
from fairlead.failures.host import ContextUnavailable, HostFailure, HostTimeout, NotSupported
from fairlead.plugins import native, slots
from fairlead.plugins.lanes import BRIEF, refusal
from fairlead.plugins.runner import Frame, Services, Started
from fairlead.plugins.texts import maybe_bytes, maybe_text, to_bytes, to_text
from fairlead.runtime.workers import Workers

#: Seconds that a call which nobody waits for any more may take to leave before the plugin is destroyed.
LEAVING: Final = 5.0

logger = logging.getLogger("fairlead.plugins")
T = TypeVar("T")
Text = str | None


class InProcessRunner:
    """Runs one plugin on threads of this process."""

    def __init__(self, plugin: str, library: Path | str, services: Services) -> None:
        self.plugin = plugin
        self._path = str(Path(library).absolute())
        self._services = services
        self._workers = Workers()
        self._one_value_at_a_time = asyncio.Lock()
        self._starting: asyncio.Task[Started] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._library: native.Library | None = None
        self._started: Started | None = None
        self._bound = threading.local()
        #: The calls that are in the plugin now.
        self._inside: set[object] = set()
        #: Above zero while calls are expected to be over at once.
        self._quick = 1
        self._left: Callable[[], object] | None = None
        self._shut = False

    async def start(self) -> Started:
        """Load the plugin, unless it is loaded already."""
        if self._stopping is not None:
            raise self._shut_down()
        if self._starting is None or (self._starting.done() and self._started is None):
            self._starting = asyncio.get_running_loop().create_task(self._begin())
        return await asyncio.shield(self._starting)

    async def _begin(self) -> Started:
        self._host = _Host(self.plugin, self._services, self._bound, asyncio.get_running_loop())
        try:
            started: Started = await asyncio.wrap_future(self._workers.submit(self._load))
        except native.LoadError as exc:
            raise HostFailure(
                Kind.misconfigured, f"The plugin {self.plugin!r} cannot be loaded: {exc}."
            ) from None
        self._started = started
        return started

    def _load(self) -> Started:
        self._bound.agent = None
        library = _opened(self._path)
        manifest = library.load(self._host)
        self._library = library
        return Started(library.abi, to_text(manifest), library.routes, library.config, library.events)

    # --- calls ---

    def invoke_now(self, kind: str, id: str, payload: str, *, agent: str | None) -> str:
        """What `invoke` gives, on the calling thread, which must not be the loop's: for functions that block anyway."""
        visit = object()
        library = self._entered(visit)
        bound = self._bound
        bound.agent = agent
        try:
            text = library.invoke(to_bytes(kind), to_bytes(id), to_bytes(payload))
        finally:
            bound.agent = None
            self._leave(visit)
        if text is None:
            raise self._null(f"{kind} {id!r}")
        return to_text(text)

    async def invoke(self, kind: str, id: str, payload: str, *, agent: str | None, timeout: float) -> str:
        """What the plugin's `invoke` gives."""
        await self.start()
        return await self._run(
            lambda: self.invoke_now(kind, id, payload, agent=agent), timeout, f"{kind} {id!r}"
        )

    async def handle_route(self, request: str, *, agent: str | None, timeout: float) -> str:
        """What the plugin answers to an HTTP request."""
        if not (await self.start()).routes:
            raise NotSupported(f"The plugin {self.plugin!r} does not answer HTTP requests.")
        asked = to_bytes(request)
        text = await self._called(lambda library: library.handle_route(asked), agent, timeout, "a route")
        if text is None:
            raise self._null("a route")
        return to_text(text)

    async def config_changed(self, key: str, value: str, *, agent: str | None, timeout: float = 15) -> None:
        """Tell the plugin of a value; one at a time."""
        if not (await self.start()).config:
            return
        pair = to_bytes(key), to_bytes(value)
        async with self._one_value_at_a_time:
            await self._called(
                lambda library: library.config_changed(*pair), agent, timeout, f"the value of {key!r}"
            )

    async def task_event(
        self, task: str, event: int, payload: str, *, agent: str | None, timeout: float = 30
    ) -> None:
        """Tell the plugin what became of a task."""
        if not (await self.start()).events:
            return
        name, json = to_bytes(task), to_bytes(payload)
        await self._called(
            lambda library: library.task_event(name, event, json), agent, timeout, f"event {event} of a task"
        )

    async def _called(
        self, call: Callable[[native.Library], T], agent: str | None, timeout: float, label: str
    ) -> T:
        def on_thread() -> T:
            visit = object()
            library = self._entered(visit)
            self._bound.agent = agent
            try:
                return call(library)
            finally:
                self._bound.agent = None
                self._leave(visit)

        return await self._run(on_thread, timeout, label)

    async def _run(self, work: Callable[[], T], timeout: float, label: str) -> T:
        running = self._workers.submit(work)
        if self._quick > 0:
            # Most calls are over sooner than the loop could be told of it.
            with contextlib.suppress(TimeoutError):
                done: T = running.result(BRIEF)
                self._quick = 8
                return done
            self._quick -= 1
        try:
            async with asyncio.timeout(timeout):
                return cast("T", await asyncio.wrap_future(running))
        except TimeoutError:
            self._workers.lend()
            running.add_done_callback(lambda _: self._workers.reclaim())
            raise HostTimeout(
                f"The plugin {self.plugin!r} did not finish {label} within {timeout:g} s."
                " It runs in the host's own process and cannot be stopped there; run it in a process of its own."
            ) from None

    def _entered(self, visit: object) -> native.Library:
        # First in, then a look whether it is shut: who shuts does it the other way round, so nobody slips through.
        self._inside.add(visit)
        library = self._library
        if self._shut or library is None:
            self._leave(visit)
            if self._shut:
                raise self._shut_down()
            raise HostFailure(Kind.unavailable, f"The plugin {self.plugin!r} is not started.")
        return library

    def _leave(self, visit: object) -> None:
        self._inside.discard(visit)
        if self._shut and not self._inside and self._left is not None:
            self._left()

    def _null(self, label: str) -> Failure:
        return HostFailure(
            Kind.upstream, f"The plugin {self.plugin!r} failed: {label} gave NULL.", details={"null": True}
        )

    # --- the end ---

    async def stop(self) -> None:
        """Wait for what is in flight, destroy the plugin exactly once, and take no more calls."""
        if self._stopping is None:
            self._stopping = asyncio.get_running_loop().create_task(self._stop())
        await asyncio.shield(self._stopping)

    async def _stop(self) -> None:
        if self._starting is not None:
            await asyncio.wait([self._starting])
        loop = asyncio.get_running_loop()
        empty = asyncio.Event()
        self._left = lambda: loop.call_soon_threadsafe(empty.set)
        self._shut = True
        if not self._inside:
            empty.set()
        if self._library is None:
            return
        try:
            async with asyncio.timeout(LEAVING):
                await empty.wait()
        except TimeoutError:
            logger.warning(
                "The plugin %r does not come back from a call, so it is not destroyed.", self.plugin
            )
            self._host.close()
            return
        await asyncio.wrap_future(self._workers.submit(self._destroy))
        self._host.close()

    def _destroy(self) -> None:
        self._bound.agent = None
        assert self._library is not None
        self._library.destroy()

    def _shut_down(self) -> Failure:
        return HostFailure(
            Kind.unavailable, f"The plugin {self.plugin!r} is shut down and takes no more calls."
        )


def _opened(path: str) -> native.Library:
    if not path.endswith(".py"):
        return native.Library(path)
    from fairlead.plugins import sdk

    return sdk.opened(path)


class _Host:
    """Answers the plugin's host calls, on whichever thread they are made."""

    def __init__(
        self, plugin: str, services: Services, bound: threading.local, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._plugin = plugin
        self._services = services
        self._bound = bound
        self._loop = loop
        self._loops_thread = threading.get_ident()
        self._open: set[Future[Text]] = set()
        self._tasks: set[asyncio.Future[Text]] = set()
        self._closed = False

    def agent(self) -> bytes | None:
        """The agent of the call that this thread is in."""
        return maybe_bytes(getattr(self._bound, "agent", None))

    def _frame(self) -> Frame:
        return Frame(self._plugin, getattr(self._bound, "agent", None))

    def ask(self, slot: int, args: tuple[bytes | None, ...]) -> bytes | None:
        """The answer of a slot."""
        texts, frame = _texts(args), self._frame()
        # SQL takes turns by itself, so it needs no other thread.
        run = getattr(self._services, "run", None) if slot in (slots.DB_EXEC, slots.DB_QUERY) else None
        if run is not None and not self._closed:
            return maybe_bytes(run(slot, texts, frame))
        return maybe_bytes(self._waited(slot, lambda done: self._serve(slot, texts, frame, done)))

    def note(self, slot: int, args: tuple[bytes | None, ...]) -> None:
        """Take word of something."""
        texts, frame = _texts(args), self._frame()
        if not self._closed:
            with contextlib.suppress(ContextUnavailable):
                self._on_loop(lambda: self._serve(slot, texts, frame, Future()))

    def stream(self, request: bytes, chunk: Callable[[bytes], None] | None) -> bytes | None:
        """The answer of `complete_stream`; its pieces are given to the plugin on this thread."""
        frame, text = self._frame(), to_text(request)
        pieces: SimpleQueue[tuple[str, asyncio.Future[None]] | None] = SimpleQueue()

        async def give(piece: str) -> None:
            taken: asyncio.Future[None] = self._loop.create_future()
            pieces.put((piece, taken))
            await taken

        def begin(done: Future[Text]) -> None:
            done.add_done_callback(lambda _: pieces.put(None))
            asked = self._services.stream(text, frame, None if chunk is None else give)
            self._await(asked, done)

        def until_done() -> None:
            while (next_one := pieces.get()) is not None:
                piece, taken = next_one
                assert chunk is not None
                chunk(to_bytes(piece))
                self._on_loop(lambda taken=taken: taken.done() or taken.set_result(None))  # type: ignore[misc]

        return maybe_bytes(self._waited(slots.COMPLETE_STREAM, begin, until_done))

    def _waited(
        self, slot: int, begin: Callable[[Future[Text]], None], meanwhile: Callable[[], None] | None = None
    ) -> Text:
        entry = slots.SLOTS[slot]
        assert entry is not None
        done: Future[Text] = Future()
        self._open.add(done)
        try:
            if self._closed:
                raise self._unavailable("The plugin has been taken down.")
            if threading.get_ident() == self._loops_thread:
                raise self._unavailable(
                    f"{entry.name} was called on the thread that would have to answer it."
                )
            self._on_loop(lambda: _begun(begin, done))
            if meanwhile is not None:
                meanwhile()
            return done.result()
        except BaseException as exc:
            return refusal(entry, exc)
        finally:
            self._open.discard(done)

    def _on_loop(self, work: Callable[[], object]) -> None:
        try:
            self._loop.call_soon_threadsafe(work)
        except RuntimeError:
            raise self._unavailable("The host is going down.") from None

    def _serve(self, slot: int, args: tuple[Text, ...], frame: Frame, done: Future[Text]) -> None:
        answer = self._services.call(slot, args, frame)
        if answer is None or isinstance(answer, str):
            _settle(done, answer)
        elif isinstance(answer, Future):
            answer.add_done_callback(lambda given: _copied(given, done))
        else:
            self._await(answer, done)

    def _await(self, answer: Awaitable[Text], done: Future[Text]) -> None:
        running = asyncio.ensure_future(answer, loop=self._loop)
        self._tasks.add(running)
        running.add_done_callback(lambda given: self._awaited(given, done))

    def _awaited(self, given: asyncio.Future[Text], done: Future[Text]) -> None:
        self._tasks.discard(given)
        if given.cancelled():
            _fail(done, self._unavailable("The plugin has been taken down."))
        elif (exc := given.exception()) is not None:
            _fail(done, exc)
        else:
            _settle(done, given.result())

    def close(self) -> None:
        """Answer nothing any more; who waits hears so."""
        self._closed = True
        for task in tuple(self._tasks):
            task.cancel()
        for done in tuple(self._open):
            _fail(done, self._unavailable("The plugin has been taken down."))

    def _unavailable(self, why: str) -> Failure:
        return ContextUnavailable(why)


def _begun(begin: Callable[[Future[Text]], None], done: Future[Text]) -> None:
    try:
        begin(done)
    except Exception as exc:
        _fail(done, exc)


def _copied(given: Future[Text], done: Future[Text]) -> None:
    exc = given.exception()
    if exc is None:
        _settle(done, given.result())
    else:
        _fail(done, exc)


def _settle(done: Future[Text], answer: Text) -> None:
    if not done.done():
        done.set_result(answer)


def _fail(done: Future[Text], exc: BaseException) -> None:
    if not done.done():
        done.set_exception(exc)


def _texts(args: tuple[bytes | None, ...]) -> tuple[Text, ...]:
    return tuple(map(maybe_text, args))
