"""`Plugins`: the plugins of one app, those that are loaded and those that are not, with the reason and a way out.

A plugin is looked at on disk first: quarantine, receipt, consent, manifest, versions, routes. If all is well its tools
are actions of the app, and nothing of it has run yet. One that fails stops no other.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fairlead.actions import Action, DefinitionError
from fairlead.failures import Failure, Kind
from fairlead.plugins.finding import (
    Failed,
    Found,
    NotLoaded,
    build,
    check,
    chosen_library,
    extracted,
    failed_of,
    find,
    fit,
    in_quarantine,
    read_manifest,
    recheck,
    stamp,
    touched,
)
from fairlead.plugins.identity import agent_uuid
from fairlead.plugins.layout import MANIFEST, Layout
from fairlead.plugins.manifest import is_id
from fairlead.plugins.plugin import Options, Plugin
from fairlead.plugins.quarantine import Quarantine
from fairlead.plugins.receipts import Seal

if TYPE_CHECKING:
    from fairlead.plugins.delivery import Tunnels
    from fairlead.runtime import App

#: Where the app is reached from outside; plugins with routes are told.
PUBLIC_URL: Final = "FAIRLEAD_PUBLIC_URL"
#: Seconds between two looks at whether something was installed, rolled back or reloaded.
EVERY: Final = 1.0

T = TypeVar("T")

log = logging.getLogger("fairlead.plugins")


@dataclass
class _Wanted:
    """What the app asked for: one plugin, and how."""

    id: str
    options: Options
    #: The folder or library that was named; None for one that is installed.
    path: Path | None = None
    stamp: object = None
    actions: list[Action[..., Any]] = field(default_factory=list)


class Plugins:
    """The plugins of an app: `app.plugins`."""

    def __init__(self, app: App, layout: Layout | None = None) -> None:
        self.app = app
        self.layout = layout or Layout.of()
        self.quarantine = Quarantine(self.layout.root, build())
        self.seal = Seal(self.layout.root)
        self.failed: dict[str, Failed] = {}
        self.tunnel_url: str | None = os.environ.get(PUBLIC_URL, "").strip() or None
        self._loaded: dict[str, Plugin] = {}
        self._wanted: dict[str, _Wanted] = {}
        self._all: Options | None = None
        self._living = False
        #: Those that are being ended, with calls still in them.
        self._leaving: list[Plugin] = []
        self._working: set[asyncio.Task[None]] = set()
        self._changing: dict[str, asyncio.Lock] = {}
        self._waiting: list[asyncio.Future[None]] = []
        self._tunnels: Tunnels | None = None
        self._home: asyncio.AbstractEventLoop | None = None

    @property
    def used(self) -> bool:
        """Whether the app asked for plugins, whatever became of them."""
        return bool(self._wanted) or self._all is not None

    def __iter__(self) -> Iterator[Plugin]:
        return iter(list(self._loaded.values()))

    def __len__(self) -> int:
        return len(self._loaded)

    def __contains__(self, id: object) -> bool:
        return id in self._loaded

    def get(self, id: str) -> Plugin | None:
        """The plugin of this id, if it is loaded."""
        return self._loaded.get(id)

    def add(self, source: str | os.PathLike[str], options: Options) -> Plugin | None:
        """Give a plugin to the app: the id of one that is installed, or a folder or library.

        Gives None where it is not loaded; `failed` says why. Raises DefinitionError where there is no such plugin.
        """
        self.quarantine.promote(self._current)
        return self._add(self._meant(source, options))

    def add_all(self, options: Options) -> list[Plugin]:
        """Give all installed plugins to the app, and those that will be installed while it runs."""
        self.quarantine.promote(self._current)
        self._all = options
        for id in self._new():
            self._add(_Wanted(id, options))
        self._live()
        return list(self)

    def _new(self) -> list[str]:
        return [id for id in self.layout.ids() if id not in self._wanted and self._installed(id)]

    async def wake(self) -> None:
        """Start those that wait for requests, settings or word of their tasks, without waiting for them."""
        for plugin in self:
            if plugin.has_routes or plugin.manifest.config is not None or await self._expected(plugin):
                self._wake(plugin)

    async def _wake_expected(self) -> None:
        if not self.app.has_store:
            return  # nothing was ever dispatched
        for plugin in self:
            if await self._expected(plugin):
                self._wake(plugin)

    async def _expected(self, plugin: Plugin) -> bool:
        """Whether something became of a task that the plugin dispatched, and it was not told yet."""
        from fairlead.plugins.sessions import waiting

        return not plugin.started and await waiting(self.app.store, plugin.id)

    def _wake(self, plugin: Plugin) -> None:
        self._in_background(self._woken(plugin))

    def _in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._working.add(task)
        task.add_done_callback(self._working.discard)
        return task

    async def reload(self, id: str) -> Plugin | None:
        """End a plugin and load what is installed now; gives None where that failed."""
        return await self._at_home(lambda: self._reload(id))

    async def _reload(self, id: str) -> Plugin | None:
        async with self._turn(id):
            wanted = self._wanted.get(id)
            if wanted is None:
                raise Failure(Kind.not_found, f"The app has no plugin {id!r}.")
            before, plugin = await self._replaced(wanted)
        await asyncio.shield(self._in_background(self._end(before)))
        return plugin

    async def _replaced(self, wanted: _Wanted) -> tuple[Plugin | None, Plugin | None]:
        """The plugin that is to be ended, and the one in its place, which starts after that.

        The one is gone and the other there in the same moment: what calls are in it may take minutes.
        """
        found = await asyncio.to_thread(self._looked_at, wanted)
        return self._take_out(wanted), self._settle(wanted, found)

    async def retry(self, id: str) -> Plugin | None:
        """Take a plugin out of quarantine and load it again."""
        await asyncio.to_thread(self.quarantine.remove, id)
        return await self.reload(id)

    async def remove(self, id: str) -> None:
        """End a plugin; its tools are the app's no more."""
        await self._at_home(lambda: self._removed(id))

    async def _removed(self, id: str) -> None:
        async with self._turn(id):
            wanted = self._wanted.pop(id, None)
            before = None if wanted is None else self._take_out(wanted)
        await asyncio.shield(self._in_background(self._end(before)))

    async def tunnel(self, url: str | None) -> None:
        """Say where the app is reached from outside, or that it no longer is; plugins with routes are told.

        When it comes back after it was gone, they are told all their values again.
        """
        await self._at_home(lambda: self._tell_tunnel(url))

    async def _tell_tunnel(self, url: str | None) -> None:
        from fairlead.plugins.delivery import Tunnel, Tunnels
        from fairlead.plugins.identity import DEFAULT_AGENT, agents_of

        if self._tunnels is None:
            self._tunnels = Tunnels(lambda: [each.delivery for each in self if each.delivery is not None])
        self.tunnel_url = url
        now = Tunnel("disconnected") if url is None else Tunnel("connected", url)
        for agent in list(agents_of(self.app)) or [DEFAULT_AGENT]:
            await self._tunnels.observe(agent, now)

    async def taken_in(self) -> None:
        """Wait until a change that others made has been taken in."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        await waiting

    async def stop(self) -> None:
        """End all of them, side by side; the next call starts one again."""
        plugins = [*self, *self._leaving]
        ends = [plugin.unload() for plugin in plugins]
        for plugin, ended in zip(plugins, await asyncio.gather(*ends, return_exceptions=True), strict=True):
            if isinstance(ended, Exception):
                log.warning("Plugin %r did not end in order: %s", plugin.id, ended)

    def describe(self) -> list[dict[str, Any]]:
        """All of them as JSON, in order of their names, failed ones with the reason and the way out."""
        told = [describe(plugin) for plugin in self] + [each.describe() for each in self.failed.values()]
        return sorted(told, key=lambda each: str(each["id"]))

    async def _at_home(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Do something on the loop that the app runs on, where its plugins live, too."""
        home = self._home
        if home is None or home.is_closed() or home is asyncio.get_running_loop():
            return await work()
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(), home))

    async def _woken(self, plugin: Plugin) -> None:
        try:
            await plugin.start()
        except Failure as failure:
            log.warning("Plugin %r did not start: %s", plugin.id, failure)

    def _meant(self, source: str | os.PathLike[str], options: Options) -> _Wanted:
        text = os.fspath(source)
        path = Path(text).expanduser()
        if not isinstance(source, os.PathLike) and os.sep not in text and self._installed(text):
            return _Wanted(text, options)
        if path.exists():
            return _Wanted(path.stem, options, path.absolute())
        raise DefinitionError(
            f"There is no plugin {text!r}: it is not installed in {str(self.layout.root)!r}, and there is no such "
            "file or folder. To install it: fairlead plugin install PATH"
        )

    def _current(self, id: str) -> str | None:
        return self.layout.current(id) if is_id(id) else None

    def _installed(self, id: str) -> bool:
        try:
            return self.layout.holds(id)
        except Failure:
            return False

    def _add(self, wanted: _Wanted) -> Plugin | None:
        self._live()
        return self._settle(wanted, self._looked_at(wanted))

    def _looked_at(self, wanted: _Wanted) -> Found | Failure:
        """What is on disk, or what is wrong with it. Reads every file, so it is not for a loop."""
        try:
            return self._found(wanted)
        except Failure as failure:
            return failure

    def _settle(self, wanted: _Wanted, found: Found | Failure) -> Plugin | None:
        """Take a plugin in, or write down why not."""
        if wanted.path is not None:
            wanted.id = _id_of(found) or wanted.id
        self._want(wanted)
        if isinstance(found, Failure):
            self._fail(wanted, found)
            return None
        again = partial(recheck, found, self.seal) if wanted.path is None else _nothing
        plugin = Plugin(
            self.app,
            found,
            wanted.options,
            self.layout,
            self.quarantine,
            again,
            partial(self._left, found.id),
        )
        try:
            wanted.actions = self._offer(plugin)
        except Failure as failure:
            self._fail(wanted, failure)
            return None
        self._loaded[wanted.id] = plugin
        return plugin

    def _want(self, wanted: _Wanted) -> None:
        if self._wanted.setdefault(wanted.id, wanted) is not wanted:
            raise DefinitionError(f"The plugin {wanted.id!r} was added already.")
        wanted.stamp = self._stamp(wanted)
        self.failed.pop(wanted.id, None)

    def _found(self, wanted: _Wanted) -> Found:
        if wanted.path is None:
            return find(self.layout, wanted.id, self.quarantine, self.seal)
        found = developed(wanted.path)
        row = self.quarantine.holding(found.id, found.version)
        if row is not None:
            raise in_quarantine(row, found.manifest)
        return found

    def _offer(self, plugin: Plugin) -> list[Action[..., Any]]:
        """Its tools become actions. A name that somebody else has stays theirs."""
        from fairlead.plugins.tools import tools_of

        actions = tools_of(plugin, self.app)
        taken = sorted(
            {action.name for action in actions if self.app.catalogue.find(action.name) is not None}
        )
        if taken:
            names = ", ".join(repr(name) for name in taken)
            raise NotLoaded(
                Kind.conflict,
                "name_taken",
                f"The app has other actions of these names: {names}.",
                f"Give the plugin a namespace: app.add_plugin({plugin.id!r}, namespace='...').",
                plugin.manifest,
            )
        self.app.catalogue.add_all(actions)
        return actions

    def _take_out(self, wanted: _Wanted) -> Plugin | None:
        """Its tools are the app's no more; gives the plugin, which is still to be ended."""
        self.app.catalogue.remove_all(wanted.actions)
        wanted.actions = []
        self.failed.pop(wanted.id, None)
        plugin = self._loaded.pop(wanted.id, None)
        if plugin is not None:
            self._leaving.append(plugin)
        return plugin

    async def _end(self, plugin: Plugin | None) -> None:
        if plugin is None:
            return
        try:
            await plugin.close()
        except Exception as exc:
            log.warning("Plugin %r did not end in order: %s", plugin.id, exc)
        finally:
            self._leaving.remove(plugin)

    async def _left(self, id: str) -> None:
        """Wait until those of an id that were taken out have ended, in order or not."""
        for each in [plugin for plugin in self._leaving if plugin.id == id]:
            with contextlib.suppress(Exception):
                await each.close()

    def _fail(self, wanted: _Wanted, failure: Failure) -> None:
        version = None
        with contextlib.suppress(Failure):
            version = None if wanted.path is not None else self.layout.current(wanted.id)
        self.failed[wanted.id] = failed_of(wanted.id, version, failure)
        log.warning("Plugin %r is not loaded: %s %s", wanted.id, failure, self.failed[wanted.id].way_out)

    def _live(self) -> None:
        """From the first plugin on, the app's end is theirs."""
        if self._living:
            return
        self._living = True

        async def fairlead_plugins() -> AsyncIterator[Plugins]:
            self._home = home = asyncio.get_running_loop()
            watching = home.create_task(self._watch())
            try:
                yield self
            finally:
                # The app may be stopped from another loop than the one it was started on.
                if not home.is_closed():
                    home.call_soon_threadsafe(watching.cancel)
                await self.stop()

        self.app.service(fairlead_plugins)
        self.app.catalogue.watch(self._new_action)

    def _new_action(self, action: Action[..., Any]) -> None:
        if "agent" in action.metadata:
            for plugin in self:
                plugin.agent_added(agent_uuid(self.app.name, action.name))

    async def _watch(self) -> None:
        """Take in what others install, roll back, retry or have reloaded."""
        seen = touched(self.layout)
        await self._wake_expected()
        while True:
            await asyncio.sleep(EVERY)
            now = touched(self.layout)
            if now == seen:
                continue
            seen = now
            try:
                await self.take_in()
            except Exception as exc:
                log.warning("What changed in %s could not be taken in: %s", self.layout.root, exc)
            waiting, self._waiting = self._waiting, []
            for each in waiting:
                if not each.done():
                    each.set_result(None)

    async def take_in(self) -> None:
        """Take in now what others installed, rolled back, removed or had loaded again."""
        await self._at_home(self._take_in)

    async def _take_in(self) -> None:
        await asyncio.gather(*(self._caught_up(each) for each in list(self._wanted.values())))
        if self._all is not None:
            for id in await asyncio.to_thread(self._new):
                wanted = _Wanted(id, self._all)
                found = await asyncio.to_thread(self._looked_at, wanted)
                if id not in self._wanted:
                    self._settle(wanted, found)

    async def _caught_up(self, wanted: _Wanted) -> None:
        # Looked at when it is this one's turn: somebody may have loaded what is new meanwhile.
        async with self._turn(wanted.id):
            if self._wanted.get(wanted.id) is not wanted or wanted.path is not None:
                return
            if wanted.stamp == self._stamp(wanted):
                return
            if self._installed(wanted.id):
                before, _ = await self._replaced(wanted)
            else:
                del self._wanted[wanted.id]
                before = self._take_out(wanted)
        # Its last calls hold up nobody: what others install meanwhile is taken in, too.
        self._in_background(self._end(before))

    def _stamp(self, wanted: _Wanted) -> object:
        return None if wanted.path is not None else stamp(self.layout, wanted.id)

    def _turn(self, id: str) -> asyncio.Lock:
        """One change of a plugin at a time; others are not held up by it."""
        return self._changing.setdefault(id, asyncio.Lock())


def _id_of(found: Found | Failure) -> str | None:
    if isinstance(found, Found):
        return found.id
    manifest = found.manifest if isinstance(found, NotLoaded) else None
    return None if manifest is None else manifest.plugin_id


def _nothing() -> None:
    """What a developer named is theirs to change."""


def developed(path: Path) -> Found:
    """A plugin that is not installed: the app's developer named it, which is consent. Raises NotLoaded."""
    folder = path if path.is_dir() else path.parent
    library = chosen_library(path) if path.is_dir() else fit(path)
    if (library.parent / MANIFEST).is_file():
        folder = library.parent
        manifest = read_manifest(folder)
    else:
        from fairlead.plugins.extracting import extract_now

        manifest = extracted(extract_now(library, folder).manifest)
    check(manifest, manifest.plugin_id)
    return Found(manifest.plugin_id, manifest.version, folder, library, manifest)


def describe(plugin: Plugin) -> dict[str, Any]:
    """A loaded plugin as JSON."""
    manifest = plugin.manifest
    told: dict[str, Any] = {
        "id": plugin.id,
        "version": plugin.version,
        "state": plugin.state,
        "name": manifest.name,
        "description": manifest.description,
        "tools": [tool.id for tool in manifest.tools],
        "routes": [route.id for route in manifest.routes],
        "grants": sorted(plugin.allow),
        "inProcess": plugin.in_process,
        "abi": plugin.abi,
    }
    if plugin.trouble is not None:
        failed = failed_of(plugin.id, plugin.version, plugin.trouble)
        told |= {"reason": failed.reason, "message": failed.message, "wayOut": failed.way_out}
    return told
