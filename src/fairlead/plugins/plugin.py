"""`Plugin`: one plugin of an app, from its first call to its end. It is started when it is first needed.

Starting is loading (entry, `init`, manifest) and then the first delivery: a probe that finds tables which do not match,
and the values of each agent. A plugin that falls while that happens is put into quarantine; one that falls too often
later is not started again until a person says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fairlead.actions import DefinitionError
from fairlead.actions import policy as checks
from fairlead.failures import Failure, Kind
from fairlead.failures.host import ContextUnavailable
from fairlead.plugins.consent import GRANTS
from fairlead.plugins.finding import Found, in_quarantine, way_out_of_quarantine
from fairlead.plugins.identity import DEFAULT_AGENT, agents_of
from fairlead.plugins.layout import Layout
from fairlead.plugins.manifest import decode
from fairlead.plugins.quarantine import Quarantine
from fairlead.plugins.runner import Terminated

if TYPE_CHECKING:
    from fairlead.plugins.process import Exit
    from fairlead.plugins.runner import Runner, Services, Started

#: Seconds that loading may take; a process of its own is given up on before.
LOAD_TIMEOUT: Final = 35.0
#: Seconds that a first call waits for the values that are told before it.
FIRST_VALUES: Final = 15.0
#: Seconds after which a runner that did not start is left to its fate.
STOP_TIMEOUT: Final = 10.0
#: So many falls in so many seconds, and it is not started again.
CRASHES: Final = 5
WITHIN: Final = 60.0
#: What is written into the quarantine, by what was going on.
_FAILED: Final = {
    "load": "It failed while it was loaded: {}.",
    "probe": "It failed at the first value it was given: {}. Its table of the host's functions may not match ours.",
}

_NAMESPACE: Final = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII)
T = TypeVar("T")


class _Gone(Terminated):
    """The process had ended before the call got into it: nothing was begun, and the call can be made again."""


@dataclass(frozen=True, slots=True)
class Options:
    """How an app wants a plugin."""

    in_process: bool = False
    allow: frozenset[str] = frozenset()
    namespace: str | None = None

    @classmethod
    def checked(cls, in_process: object, allow: Iterable[str], namespace: str | None) -> Options:
        """The options as a developer gave them. Raises DefinitionError."""
        granted = checks.names("add_plugin", "allow", allow)
        for grant in granted:
            checks.one_of("add_plugin", "allow", grant, GRANTS)
        if namespace is not None and _NAMESPACE.fullmatch(namespace) is None:
            raise DefinitionError(
                f"add_plugin: {namespace!r} is no namespace. Use lower-case letters, digits and '_', a letter first."
            )
        return cls(checks.boolean("add_plugin", "in_process", in_process), frozenset(granted), namespace)


class Plugin:
    """A plugin that can be called."""

    def __init__(
        self,
        app: Any,
        found: Found,
        options: Options,
        layout: Layout,
        quarantine: Quarantine,
        recheck: Callable[[], object] = lambda: None,
        before: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        self.app = app
        self.found = found
        self.options = options
        self.layout = layout
        self.id = found.id
        self.version = found.version
        self.folder = found.folder
        self.library = found.library
        self.manifest = found.manifest
        self.in_process = options.in_process
        self.namespace = options.namespace
        self.allow = options.allow | found.grants
        #: The version of the interface that it speaks, once it ran.
        self.abi: int | None = None
        #: Why it cannot be started, when that is so.
        self.trouble: Failure | None = None
        self.log = logging.getLogger(f"fairlead.plugins.{found.id}")
        self._quarantine = quarantine
        #: Looks again at what is on disk, before any of it is run.
        self._recheck = recheck
        #: Waits for the end of those that it takes the place of: a plugin runs once.
        self._before = before
        self._runner: Runner | None = None
        self._host: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None
        #: The runner, while it can be called at once.
        self._ready: Runner | None = None
        self._starting: asyncio.Task[Runner] | None = None
        self._unloading: asyncio.Task[None] | None = None
        self._delivering: set[asyncio.Task[None]] = set()
        self._closed = False
        #: What is going on that a fall would put it into quarantine for.
        self._phase: str | None = None
        self._fall: str | None = None
        #: Why its last process ended.
        self._because = ""
        self._falls: deque[float] = deque(maxlen=CRASHES)
        self._ran_before = False

    def __repr__(self) -> str:
        return f"<Plugin {self.id} {self.version or 'unversioned'}, {self.state}>"

    @property
    def state(self) -> str:
        """`running`, `ready` to be started, `failed` or `closed`."""
        if self._closed:
            return "closed"
        if self._ready is not None:
            return "running"
        return "failed" if self.trouble is not None else "ready"

    @property
    def started(self) -> bool:
        """Whether it runs now."""
        return self._ready is not None

    @property
    def has_routes(self) -> bool:
        """Whether it answers HTTP requests."""
        return bool(self.manifest.routes)

    @property
    def delivery(self) -> Any:
        """What tells the plugin of its settings, while it is loaded."""
        return None if self._host is None else self._host.delivery

    async def invoke(self, kind: str, id: str, payload: str, *, agent: str | None, timeout: float) -> str:
        """Call the plugin's `invoke`; gives what it returned."""
        runner = self._ready
        if runner is not None and self._loop is asyncio.get_running_loop():
            try:
                return await runner.invoke(kind, id, payload, agent=agent, timeout=timeout)
            except _Gone:
                self._ready = None
        return await self._there(
            lambda runner: runner.invoke(kind, id, payload, agent=agent, timeout=timeout)
        )

    async def handle_route(self, request: str, *, agent: str | None, timeout: float) -> str:
        """Have the plugin answer an HTTP request."""
        return await self._there(lambda runner: runner.handle_route(request, agent=agent, timeout=timeout))

    async def config_changed(self, key: str, value: str, *, agent: str | None, timeout: float = 15) -> None:
        """Tell the plugin of a value, past the memory of what it knows; `delivery` minds that."""
        await self._there(lambda runner: runner.config_changed(key, value, agent=agent, timeout=timeout))

    async def task_event(self, task: str, event: int, payload: str, *, agent: str | None) -> None:
        """Tell the plugin what became of a task that it dispatched."""
        await self._there(lambda runner: runner.task_event(task, event, payload, agent=agent))

    async def runner_config_changed(
        self, key: str, value: str, *, agent: str | None, timeout: float = 15
    ) -> None:
        """The same for the one who delivers, who must not start the plugin."""
        if self._runner is None:
            return
        try:
            await self._runner.config_changed(key, value, agent=agent, timeout=timeout)
        except Failure as failure:
            from fairlead.plugins.delivery import PROBE_KEY

            if key == PROBE_KEY and self._fall is None:
                self._fall = getattr(failure, "because", "it took too long")
            raise

    async def start(self) -> None:
        """Start it, unless it runs. Raises Failure when it cannot be started."""
        await self._there(_nothing)

    async def delivered(self) -> None:
        """Wait until the values that a start brings along have been told."""
        while self._delivering:
            await asyncio.wait(self._delivering)

    def agent_added(self, agent: str) -> None:
        """Tell a plugin that runs of the values of an agent that is new. From any thread."""
        loop, host = self._loop, self._host
        if loop is not None and host is not None and self.started and not loop.is_closed():
            loop.call_soon_threadsafe(self._tell, self._deliver_to(host, [agent]))

    def _tell(self, telling: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(telling)
        self._delivering.add(task)
        task.add_done_callback(self._delivering.discard)
        return task

    async def unload(self) -> None:
        """Have it finish what it does and end it; the next call starts it again. All who ask wait for the same end."""
        loop = self._loop
        if loop is None or loop.is_closed():
            self._forget()
        elif loop is asyncio.get_running_loop():
            await self._unload()
        else:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._unload(), loop))

    async def close(self) -> None:
        """Unload it for good: later calls are refused."""
        self._closed = True
        await self.unload()

    async def _there(self, call: Callable[[Runner], Coroutine[Any, Any, T]]) -> T:
        """Make a call on the loop that the plugin lives on, once it runs."""
        here = asyncio.get_running_loop()
        if self._loop is not None and self._loop is not here and not self._loop.is_closed():
            made = asyncio.run_coroutine_threadsafe(self._called(call), self._loop)
            return await asyncio.wrap_future(made)
        return await self._called(call)

    async def _called(self, call: Callable[[Runner], Coroutine[Any, Any, T]]) -> T:
        try:
            return await call(self._ready or await self._running())
        except _Gone:
            return await call(await self._running())

    async def _running(self) -> Runner:
        """The runner, started if it is not. Who gives up waiting does not end the start for others."""
        if self._closed:
            raise self._shut_down()
        here = asyncio.get_running_loop()
        if self._loop is not here:
            # The loop that it lived on is gone, and so is what belonged to it.
            self._forget()
            self._loop = here
        while self._unloading is not None:
            await asyncio.shield(self._unloading)
            self._loop = here
        if self._closed:
            raise self._shut_down()
        if self._starting is None:
            self._starting = here.create_task(self._start(), name=f"start of plugin {self.id}")
            self._starting.add_done_callback(self._start_ended)
        return await asyncio.shield(self._starting)

    def _start_ended(self, task: asyncio.Task[Runner]) -> None:
        self._starting = None
        if not task.cancelled():
            task.exception()  # those who wait have it, and there may be none

    def _shut_down(self) -> Failure:
        return ContextUnavailable(f"The plugin {self.id!r} was shut down.")

    async def _start(self) -> Runner:
        try:
            if self._before is not None:
                await self._before()
            await asyncio.to_thread(self._look_again)
            runner = await self._load()
            await self._probed()
        except Failure as failure:
            self.trouble = failure
            raise
        self.trouble = None
        self._ran_before = True
        self._ready = runner
        await self._first_delivery()
        return runner

    def _look_again(self) -> None:
        row = self._quarantine.held(self.id, self.version)
        if row is not None:
            raise in_quarantine(row, self.manifest)
        self._recheck()

    async def _load(self) -> Runner:
        from fairlead.plugins.services import services_for

        if self._runner is None:
            self._host = services_for(self.app, self)
            self._runner = self._made(self._host.services)
        runner = self._runner
        async with self._marked("load"):
            try:
                started = await asyncio.wait_for(runner.start(), LOAD_TIMEOUT)
                self._check_live(started)
            except TimeoutError as exc:
                await self._drop()
                message = f"The plugin {self.id!r} did not finish loading within {LOAD_TIMEOUT:.0f} seconds."
                raise Failure(Kind.timeout, f"{message} {way_out_of_quarantine(self.id)}", cause=exc) from exc
            except Exception:
                await self._drop()
                raise
        self.abi = started.abi
        self._host.delivery.listens = started.config
        return runner

    def _made(self, services: Services) -> Runner:
        if self.in_process:
            from fairlead.plugins.inprocess import InProcessRunner

            return InProcessRunner(self.id, self.library, services)
        from fairlead.plugins.process import ProcessRunner

        return ProcessRunner(
            self.id,
            self.library,
            services,
            folder=self.folder,
            allow=self.allow,
            on_exit=self._exited,
            before_start=self._may_start,
            discreet=partial(self._host.services.insights.discreet, self.id),
        )

    def _may_start(self) -> None:
        if self._closed:
            raise self._shut_down()
        row = self._quarantine.find(self.id)
        if row is not None:
            raise in_quarantine(row, self.manifest)
        self._abandon()
        if self._phase != "load":
            # A call came before word of the end did. It has to wait for all of a start: were it made beside the
            # probe, nobody could tell which of the two brought the plugin down.
            self._ready = None
            why = f": {self._because}" if self._because else ""
            raise _Gone(
                Kind.unavailable,
                f"The plugin {self.id!r} was terminated{why}. The next call starts it again.",
            )

    def _abandon(self) -> None:
        """What a process that is gone has begun and not ended is undone."""
        if self._host is not None:
            self._host.services.abandoned()

    def _exited(self, exit: Exit) -> None:
        """The process is gone: how, and what follows from that."""
        gone = getattr(self._runner, "pid", None) is None
        if gone:
            self._ready = None
            self._because = exit.text
            self._abandon()
        if exit.reason != "crash":
            return
        self.log.warning("Plugin %r fell: %s", self.id, exit.text)
        if self._host is not None:
            self._host.services.fell(exit.text, exit.last_words)
        if self._fell_of_it(exit, gone):
            self._fall = exit.text
            return
        if exit.while_ == "load":
            self._quarantine.put(self.id, self.version, _FAILED["load"].format(exit.text))
            return
        now = self.app.clock.monotonic()
        self._falls.append(now)
        if len(self._falls) == CRASHES and now - self._falls[0] <= WITHIN:
            self._falls.clear()
            why = f"It fell {CRASHES} times within {WITHIN:.0f} seconds, at last: {exit.text}."
            self._quarantine.put(self.id, self.version, why)

    def _fell_of_it(self, exit: Exit, gone: bool) -> bool:
        """Whether what is going on brought it down. Word of an earlier process may come as late as that."""
        return self._phase == "load" if exit.while_ == "load" else self._phase == "probe" and gone

    async def _drop(self) -> None:
        """Let go of a runner that did not start."""
        runner, self._runner = self._runner, None
        host, self._host = self._host, None
        if runner is not None:
            with contextlib.suppress(TimeoutError, Failure):
                await asyncio.wait_for(runner.stop(), STOP_TIMEOUT)
        if host is not None:
            await host.delivery.close()
            await host.close()

    def _check_live(self, started: Started) -> None:
        """What the plugin says of itself has to be what was agreed to."""
        if decode(started.manifest) != self.manifest:
            raise Failure(
                Kind.conflict,
                f"The plugin {self.id!r} says something else of itself than when it was installed. Install it again, "
                "and look at what it wants: fairlead plugin install PATH",
            )

    async def _probed(self) -> None:
        async with self._marked("probe"):
            await self._host.delivery.probe(self._agents()[0])
            if self._fall is not None:
                why = _FAILED["probe"].format(self._fall)
                raise ContextUnavailable(
                    f"The plugin {self.id!r} cannot be used. {why} {way_out_of_quarantine(self.id)}"
                )

    async def _first_delivery(self) -> None:
        """Tell the values. Those who waited for the start have their calls made after that.

        Calls that come meanwhile are made at once: a plugin may ask to be called while it takes a value, as one does
        that gives its address to a messenger. The mark is gone by now: a plugin that reads a value badly is not one
        that cannot be loaded.
        """
        telling = self._tell(self._deliver_to(self._host, self._agents(), begun=True))
        if self._host.delivery.has_values:
            await asyncio.wait([telling], timeout=FIRST_VALUES)

    def _agents(self) -> list[str]:
        return list(agents_of(self.app)) or [DEFAULT_AGENT]

    async def _deliver_to(self, host: Any, agents: list[str], *, begun: bool = False) -> None:
        delivery, url = host.delivery, self.app.plugins.tunnel_url
        try:
            if begun and self._ran_before:
                await delivery.restarted()
            if begun:
                await host.dispatch.start()
            for agent in agents:
                await delivery.agent_added(agent, url)
            delivery.follow()
        except Exception as exc:
            self.log.warning("Plugin %r was not told all of its values: %s", self.id, exc)

    @contextlib.asynccontextmanager
    async def _marked(self, phase: str) -> AsyncIterator[None]:
        """While something is done that may bring a process down: with a mark on disk for whoever comes after."""
        self._phase, self._fall = phase, None
        await asyncio.to_thread(self._quarantine.mark, self.id, self.version)
        try:
            yield
        except Failure as failure:
            why = self._why_it_failed(failure)
            if why is not None:
                reason = _FAILED[phase].format(why)
                await asyncio.to_thread(self._quarantine.put, self.id, self.version, reason)
            raise
        finally:
            self._phase = None
            await asyncio.to_thread(self._quarantine.unmark, self.id)

    def _why_it_failed(self, failure: Failure) -> str | None:
        return self._fall or ("it took too long" if failure.kind is Kind.timeout else None)

    async def _unload(self) -> None:
        if self._unloading is None:
            self._unloading = asyncio.get_running_loop().create_task(
                self._end(), name=f"end of plugin {self.id}"
            )
        await asyncio.shield(self._unloading)

    async def _end(self) -> None:
        """First what was promised is told, then what runs is waited for, then the plugin is destroyed."""
        try:
            if self._starting is not None:
                await asyncio.wait([self._starting])
            self._ready = None
            runner, host = self._runner, self._host
            if host is not None:
                await host.dispatch.drained()
                await self.delivered()
                await host.delivery.close()
            if runner is not None:
                await runner.stop()
            if host is not None:
                await host.close()
        finally:
            self._forget()

    def _forget(self) -> None:
        self._runner = self._ready = None
        self._host = self._loop = None
        self._starting = None
        self._unloading = None
        self._delivering = set()
        self._ran_before = False


async def _nothing(runner: Runner) -> None:
    """No call at all: it is enough that the runner is there."""
