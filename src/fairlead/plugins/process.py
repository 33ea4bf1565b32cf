"""A plugin in a process of its own, which is the usual form: a crash, a hang or a leak stays there.

The process is started when it is needed and again after it ended. A call that takes too long ends the process, since
nothing else stops native code. Whatever comes from a process that was given up on is not heard any more.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn

from fairlead.failures import Failure, Kind
from fairlead.failures.host import ContextUnavailable, HostFailure, NotSupported
from fairlead.failures.redaction import DEFAULT
from fairlead.plugins import fences, frames, scratch, slots
from fairlead.plugins.child import Child, Exit, Limits, Plan, told
from fairlead.plugins.lanes import Label, Said
from fairlead.plugins.runner import Answer, Frame, Services, Started, Terminated
from fairlead.plugins.texts import maybe_bytes, to_bytes, to_text

__all__ = ["Exit", "Limits", "ProcessRunner"]

#: Seconds for a plugin to take itself down.
DESTROYING: Final = 5.0


class ProcessRunner:
    """Runs one plugin in its own process. `allow` may have `network` and `processes`."""

    def __init__(
        self,
        plugin: str,
        library: Path | str,
        services: Services,
        *,
        folder: Path | str | None = None,
        allow: frozenset[str] | tuple[str, ...] = (),
        limits: Limits = Limits(),  # noqa: B008  # frozen
        fence: fences.Kind | None = None,
        on_exit: Callable[[Exit], None] | None = None,
        before_start: Callable[[], None] | None = None,
        discreet: Callable[[str], str] = DEFAULT.text,
    ) -> None:
        self.plugin = plugin
        self._library = Path(library).absolute()
        self._folder = Path(folder).absolute() if folder else self._library.parent
        self._services: Services = services
        self._allow = frozenset(allow)
        self._limits = limits
        self._fence = fence
        self._on_exit = on_exit
        self._before_start = before_start
        self._discreet = discreet
        self._frames: dict[str | None, Frame] = {None: Frame(plugin)}
        self._child: Child | None = None
        self._started: Started | None = None
        self._scratch: Path | None = None
        #: Folders that were filled, on their way out.
        self._removing: list[asyncio.Future[None]] = []
        self._starting: asyncio.Task[Started] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._one_value_at_a_time = asyncio.Lock()
        #: Processes that have not ended yet, also those that were given up on.
        self._alive: set[Child] = set()
        self._inside = 0
        self._nobody_inside = asyncio.Event()
        self._nobody_inside.set()

    @property
    def pid(self) -> int | None:
        """The number of the process, while one takes calls."""
        child = self._child
        return None if child is None or child.over is not None else child.pid

    async def start(self) -> Started:
        """Load the plugin in a process of its own, unless it runs already."""
        child, started = self._child, self._started
        if child is not None and child.over is None and not child.loading and started is not None:
            return started
        if self._stopping is not None:
            raise self._shut_down()
        if self._starting is None or self._starting.done():
            self._starting = asyncio.get_running_loop().create_task(self._begin())
        return await asyncio.shield(self._starting)

    async def _begin(self) -> Started:
        if self._before_start is not None:
            self._before_start()
        # One that was filled goes with its process, which may not have ended yet.
        if self._scratch is None or any(each.overfull for each in self._alive):
            self._scratch = scratch.make()
        fence = self._fence or fences.fence_here().kind
        plan = Plan(
            self.plugin,
            self._library,
            self._folder,
            self._scratch,
            self._allow,
            self._limits,
            fence,
            self._discreet,
        )
        try:
            child = Child(plan, self._services, self._ended)
        except OSError as exc:
            raise HostFailure(
                Kind.unavailable, f"No process can be started for the plugin {self.plugin!r}: {exc.strerror}."
            ) from exc
        self._alive.add(child)
        self._child = child
        try:
            return self._checked(child, await child.load())
        except BaseException:
            child.end("its start was given up")
            raise

    def _checked(self, child: Child, said: list[bytes | None]) -> Started:
        try:
            abi, offers, manifest = (each or b"" for each in said)
            version = int(abi)
            routes, config, events = (version >= 2 and letter == ord("y") for letter in offers)
        except ValueError:
            child.misbehaved("it answered its start with something else")
            raise child.over or self._shut_down() from None
        started = Started(version, to_text(manifest), routes, config, events)
        if self._started not in (None, started):
            child.end("it is not the plugin that it was before", reason="crash")
            raise HostFailure(
                Kind.conflict,
                f"The plugin {self.plugin!r} says something else of itself than when it was first started;"
                " reload it.",
            )
        self._started = started
        return started

    def _ended(self, child: Child, exit: Exit) -> None:
        self._alive.discard(child)
        if self._child is child:
            self._child = None
        if child.overfull:
            if self._scratch == child.plan.scratch:
                self._scratch = None
            self._removing.append(child.loop.run_in_executor(None, scratch.remove, child.plan.scratch))
        if self._on_exit is not None:
            self._on_exit(exit)

    # --- calls ---

    async def invoke(self, kind: str, id: str, payload: str, *, agent: str | None, timeout: float) -> str:
        """What the plugin's `invoke` gives."""
        label = (kind, id)
        strings = (maybe_bytes(agent), to_bytes(kind), to_bytes(id), to_bytes(payload))
        what, said = await self._call(frames.INVOKE, strings, agent, timeout, label)
        text = said[0] if what == frames.RETURN and said else None
        return self._failed(what, said, label) if text is None else to_text(text)

    async def handle_route(self, request: str, *, agent: str | None, timeout: float) -> str:
        """What the plugin answers to an HTTP request."""
        if not (self._started or await self.start()).routes:
            raise NotSupported(f"The plugin {self.plugin!r} does not answer HTTP requests.")
        strings = (maybe_bytes(agent), to_bytes(request))
        what, said = await self._call(frames.ROUTE, strings, agent, timeout, "a route")
        text = said[0] if what == frames.RETURN and said else None
        return self._failed(what, said, "a route") if text is None else to_text(text)

    async def config_changed(self, key: str, value: str, *, agent: str | None, timeout: float = 15) -> None:
        """Tell the plugin of a value; one at a time."""
        if not (self._started or await self.start()).config:
            return
        strings = (maybe_bytes(agent), to_bytes(key), to_bytes(value))
        async with self._one_value_at_a_time:
            await self._call(frames.CONFIG, strings, agent, timeout, ("the value of", key))

    async def task_event(
        self, task: str, event: int, payload: str, *, agent: str | None, timeout: float = 30
    ) -> None:
        """Tell the plugin what became of a task."""
        if not (self._started or await self.start()).events:
            return
        strings = (maybe_bytes(agent), to_bytes(task), b"%d" % event, to_bytes(payload))
        await self._call(frames.EVENT, strings, agent, timeout, f"event {event} of a task")

    async def _call(
        self, number: int, strings: tuple[bytes | None, ...], agent: str | None, timeout: float, label: Label
    ) -> Said:
        if self._stopping is not None:
            raise self._shut_down()
        self._inside += 1
        try:
            child = self._child
            if child is None or child.over is not None or child.loading:
                child = await self._running()
            frame = self._frames.get(agent) or self._frame(agent)
            if not child.idle:
                return await child.call(number, strings, frame, timeout, label)
            lane = child.idle.pop()
            said = child.begun(lane, number, strings, frame, label)
            return said if said is not None else await child.answer(lane, timeout)
        finally:
            self._inside -= 1
            if self._stopping is not None and not self._inside:
                self._nobody_inside.set()

    async def _running(self) -> Child:
        await self.start()
        if self._child is None:
            raise Terminated(Kind.unavailable, f"The plugin {self.plugin!r} was terminated.")
        return self._child

    def _frame(self, agent: str | None) -> Frame:
        if len(self._frames) > 1000:
            self._frames = {None: self._frames[None]}
        frame = self._frames[agent] = Frame(self.plugin, agent)
        return frame

    def _failed(self, what: int, said: list[bytes | None], label: Label) -> NoReturn:
        words = said[0] if said else None
        why = "gave NULL" if words is None else f"could not be made: {to_text(words)}"
        raise HostFailure(
            Kind.upstream,
            f"The plugin {self.plugin!r} failed: {told(label)} {why}.",
            details={"null": words is None},
        )

    # --- the end ---

    async def stop(self) -> None:
        """Wait for what is in flight, destroy the plugin exactly once, and take no more calls."""
        if self._stopping is None:
            self._stopping = asyncio.get_running_loop().create_task(self._stop())
        await asyncio.shield(self._stopping)

    async def _stop(self) -> None:
        if self._inside:
            self._nobody_inside.clear()
            await self._nobody_inside.wait()
        child = self._child
        if self._starting is not None:
            await asyncio.wait([self._starting])
        if child is not None:
            await child.empty()
        if child is not None and child.over is None:
            with contextlib.suppress(Failure):
                await child.call(frames.DESTROY, (None,), self._frames[None], DESTROYING, "its end")
            child.services = _Nobody()
            await child.quit()
        for each in tuple(self._alive):
            await asyncio.shield(each.exited)
        await asyncio.gather(*self._removing)
        if self._scratch is not None:
            scratch.remove(self._scratch)

    def _shut_down(self) -> Failure:
        return HostFailure(
            Kind.unavailable, f"The plugin {self.plugin!r} is shut down and takes no more calls."
        )


class _Nobody:
    """The services of a plugin that is no more."""

    def call(self, slot: int, args: tuple[str | None, ...], frame: Frame) -> Answer:
        raise ContextUnavailable(f"The plugin {frame.plugin!r} has been taken down: {slots.SLOTS[slot]!r}.")

    async def stream(self, request: str | None, frame: Frame, chunk: object) -> str | None:
        raise ContextUnavailable(f"The plugin {frame.plugin!r} has been taken down.")
