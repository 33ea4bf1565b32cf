"""`App`: a runtime with a name, a door for actions, words about itself, and its surfaces."""

from __future__ import annotations

import asyncio
import atexit
import importlib
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypedDict, TypeVar, Unpack, overload

from fairlead.actions import (
    Action,
    ActionOptions,
    DefinitionError,
    Exposure,
    Group,
    action_manifest,
    surface_manifest,
)
from fairlead.actions import policy as checks
from fairlead.actions.manifest import ATTRIBUTION_KEYS, describe_attribution
from fairlead.actions.surfaces import IN_PROCESS
from fairlead.runtime.clock import Clock
from fairlead.runtime.hooks import Hook
from fairlead.runtime.idempotency import IdempotencyStore
from fairlead.runtime.limits import RateStore
from fairlead.runtime.permissions import PermissionChecker
from fairlead.runtime.plan import Middleware
from fairlead.runtime.result import Result
from fairlead.runtime.runtime import NOTHING, Runtime
from fairlead.runtime.services import is_opener

if TYPE_CHECKING:
    from fairlead.agents.agent import Agent
    from fairlead.agents.conversations import Conversations
    from fairlead.agents.models.registry import Models
    from fairlead.plugins.loading import Plugins
    from fairlead.plugins.plugin import Plugin
    from fairlead.surfaces.client import Client
    from fairlead.surfaces.console import Console
    from fairlead.surfaces.http import HttpApp
    from fairlead.surfaces.http.options import HttpOptions
    from fairlead.surfaces.json import JsonRunner
    from fairlead.surfaces.llm import Tools
    from fairlead.surfaces.mcp import Server
    from fairlead.tools.mcp import McpServer

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

DOC_KEYS: Final = (
    "summary",
    "audience",
    "when_to_use",
    "quick_start",
    "setup",
    "operational_notes",
    "sections",
    "examples",
)


class RuntimeOptions(TypedDict, total=False):
    """What `Runtime` takes besides actions and services; `App` passes it on."""

    permission_checker: PermissionChecker | None
    middleware: Middleware | Sequence[Middleware]
    hooks: Mapping[str, Hook | list[Hook]] | None
    redact: Mapping[str, Any] | Callable[[Any], Any] | None
    idempotency: IdempotencyStore | None
    rates: RateStore | None
    env: str
    preflight: str
    grace: float
    confirmation_ttl: float
    confirmation_secret: bytes | None
    clock: Clock | None
    new_id: Callable[[], str]


#: What `App` takes by itself, for near misses.
OPTIONS: Final = ("actions", "attribution", "description", "docs", "models", "services", "store", "version")


class App(Runtime):
    """Actions under one name, for every caller."""

    def __init__(
        self,
        name: str,
        *,
        description: str = "",
        version: str = "0.1.0",
        actions: Iterable[Action[..., Any]] = (),
        services: Mapping[str, Any] | None = None,
        attribution: Mapping[str, str] | None = None,
        docs: Mapping[str, Any] | None = None,
        store: Any = None,
        models: Any = None,
        **options: Unpack[RuntimeOptions],
    ) -> None:
        checks.known_keys(f"App {name!r}", options, (*RuntimeOptions.__annotations__, *OPTIONS))
        super().__init__(actions, services=services, **options)
        self.name = checks.text("App", "name", name)
        self.description = description
        self.version = version
        self.attribution = _known("attribution", attribution, ATTRIBUTION_KEYS)
        self.docs = _known("docs", docs, DOC_KEYS)
        self._door = Group(self.catalogue, "", {})
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_owner = 0
        self._loop_lock = threading.Lock()
        #: A store, the address of one, or None: the one that the environment names.
        self._store = store
        self._confirmations.spending.share_by(self._spender)
        self._tasks: Any = None
        #: `Models`, the name of the default model or that model itself, or None: what the environment names.
        self._models = models
        self._known_models: Models | None = None
        self._conversations: Any = None
        self._plugins: Plugins | None = None

    @property
    def store(self) -> Any:
        """The app's database, opened when it is first asked for."""
        with self._loop_lock:
            if self._store is None or isinstance(self._store, str):
                self._store = _room("store").open_store(self.name, url=self._store)
            return self._store

    @property
    def has_store(self) -> bool:
        """Whether there is a database already; asking makes none."""
        if self._store is not None and not isinstance(self._store, str):
            return True
        place = _room("store.opening").place_of(self.name, url=self._store)
        return isinstance(place, str) or place.exists()

    @property
    def tasks(self) -> Any:
        """Durable tasks: calls of this app's actions that survive whatever happens to this process."""
        if self._tasks is None:
            self._tasks = _room("tasks").Tasks(self, self.store)
        return self._tasks

    @property
    def models(self) -> Models:
        """The models that this app's agents use, by name."""
        if self._known_models is None:
            room = _room("agents.models.registry")
            given = self._models
            made = given if isinstance(given, room.Models) else room.Models(given, secrets=self._secrets)
            self._known_models = made
        return self._known_models

    @property
    def conversations(self) -> Conversations:
        """What was said with this app's agents."""
        if self._conversations is None:
            room = _room("agents.conversations")
            self._conversations = room.Conversations(self.store, self.wall, self.redactor)
        kept: Conversations = self._conversations
        return kept

    def _spender(self) -> Any:
        return _room("store").DurableIdempotency(self.store, clock=self.wall)

    def _secrets(self) -> Any:
        return _room("store").Secrets(self.store)

    def add_mcp(self, server: McpServer, *, connect: bool = False) -> McpServer:
        """Give the tools of an MCP server to this app, once it is connected; with `connect`, when the app starts."""
        added: McpServer = _room("tools.mcp").add_mcp(self, server, connect=connect)
        return added

    def add_openapi(self, document: Any, **options: Any) -> list[Action[..., Any]]:
        """Give the operations of an OpenAPI document to this app as actions; `base_url`, `headers`, `include`."""
        added: list[Action[..., Any]] = _room("tools.openapi").add_openapi(self, document, **options)
        return added

    @property
    def plugins(self) -> Plugins:
        """The native plugins of this app: those that are loaded, and those that are not, with the reason."""
        if self._plugins is None:
            self._plugins = _room("plugins.loading").Plugins(self)
        return self._plugins

    @property
    def has_plugins(self) -> bool:
        """Whether plugins were added to this app, loaded or not."""
        return self._plugins is not None and self._plugins.used

    def add_plugin(
        self,
        source: str | os.PathLike[str],
        *,
        in_process: bool = False,
        allow: Iterable[str] = (),
        namespace: str | None = None,
    ) -> Plugin | None:
        """Give a native plugin to this app: an installed one by its id, or a folder or library by its path.

        Gives None where it is not loaded; `app.plugins.failed` says why. `allow=["network"]` lets it use the network
        itself, `namespace` goes before the names of its tools, and `in_process` gives up its own process.
        """
        options = _room("plugins.plugin").Options.checked(in_process, allow, namespace)
        return self.plugins.add(source, options)

    def add_plugins(self) -> list[Plugin]:
        """Give all installed plugins to this app, and those that are installed while it runs."""
        return self.plugins.add_all(_room("plugins.plugin").Options())

    @overload
    def agent(self, function: Callable[..., Any], /) -> Agent: ...
    @overload
    def agent(self, /, **options: Any) -> Callable[[Callable[..., Any]], Agent]: ...
    def agent(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Make a function an agent of this app: its docstring is what the model is told, its types go in and out."""
        if function is None:
            return lambda given: self._agent(given, options)
        return self._agent(function, options)

    def _agent(self, function: Callable[..., Any], options: Mapping[str, Any]) -> Agent:
        made: Agent = _room("agents.agent").agent_of(function, **options)
        self.catalogue.add(made.action)
        return made

    @overload
    def action(self, function: Callable[P, R], /, **options: Unpack[ActionOptions]) -> Action[P, R]: ...
    @overload
    def action(self, /, **options: Unpack[ActionOptions]) -> Callable[[Callable[P, R]], Action[P, R]]: ...
    def action(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Make a function an action of this app; with and without parentheses."""
        return self._door.action(**options) if function is None else self._door.action(function, **options)

    def add(
        self, source: object, *, rename: Callable[[str], str] | None = None, **defaults: Unpack[ActionOptions]
    ) -> list[Action[..., Any]]:
        """Add an action, a function, an agent, or all of a module, a class, an instance, a dict or a list.

        `rename` makes an action's name of a key of a dict, or of the name that a module or class has for it.
        """
        return self._door.add(source, rename=rename, **defaults)

    def group(self, prefix: str = "", **defaults: Unpack[ActionOptions]) -> Group:
        """A door for actions that share defaults, and a prefix of their names."""
        return self._door.group(prefix, **defaults)

    def service(self, function: F) -> F:
        """Make a generator function a service: what it yields is `ctx.services.<name>` until the app stops."""
        name = function.__name__
        if not is_opener(function):
            raise DefinitionError(
                f"Service {name!r} is no generator function. Yield the service instead of returning it; "
                f"one that needs no opening is given as App(services={{{name!r}: ...}})."
            )
        self._lifespan.add(name, function)
        return function

    def __repr__(self) -> str:
        return f"App({self.name!r}, {len(self.catalogue)} actions)"

    async def stop(self) -> None:
        """Stop the services, in reverse order, and let go of models."""
        try:
            await super().stop()
        finally:
            if self._known_models is not None:
                await self._known_models.close()

    async def __aenter__(self) -> App:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    def invoke_sync(self, action: str | Action[..., Any], input: Any = NOTHING, **options: Any) -> Result:
        """`invoke` for code without an event loop. Calls from many threads share one loop."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise DefinitionError(
                "invoke_sync would block the running event loop: use `await app.invoke(...)` there."
            )
        waiting = asyncio.run_coroutine_threadsafe(
            self.invoke(action, input, **options), self.background_loop()
        )
        try:
            return waiting.result()
        except KeyboardInterrupt:
            waiting.cancel()
            raise

    def close(self) -> None:
        """Stop what `invoke_sync` started: its services, in reverse order, and its loop. Done at exit by itself."""
        with self._loop_lock:
            loop, self._loop = self._loop, None
        if loop is not None and self._loop_owner == os.getpid():
            asyncio.run_coroutine_threadsafe(self.stop(), loop).result()
            loop.call_soon_threadsafe(loop.stop)

    def background_loop(self) -> asyncio.AbstractEventLoop:
        """The loop of `invoke_sync`, on a thread of its own, where the services of such calls live."""
        with self._loop_lock:
            # The thread of a loop does not live on in a process that was forked.
            if self._loop is None or self._loop_owner != os.getpid():
                self._loop, self._loop_owner = asyncio.new_event_loop(), os.getpid()
                atexit.register(self.close)
                threading.Thread(target=_run, args=(self._loop,), name="fairlead-loop", daemon=True).start()
            return self._loop

    def action_manifest(
        self, surface: str = IN_PROCESS, exposure: Exposure | None = None, **include: Any
    ) -> list[dict[str, Any]]:
        """The actions a surface shows, as data; `include_private=True` and the like widen it."""
        return action_manifest(self.catalogue, surface=surface, exposure=exposure or Exposure(**include))

    def manifest(
        self, surface: str = IN_PROCESS, exposure: Exposure | None = None, **include: Any
    ) -> dict[str, Any]:
        """The app as data: its actions and its surfaces. Equal apps give equal manifests."""
        exposure = exposure or Exposure(**include)
        actions = self.action_manifest(surface, exposure)
        older = action_manifest(self.catalogue.older(), surface=surface, exposure=exposure)
        told = describe_attribution(self.attribution)
        return surface_manifest(self.name, actions, older=older, attribution=told)

    def create_guide_doc(
        self, surface: str = IN_PROCESS, exposure: Exposure | None = None, **include: Any
    ) -> str:
        """The app's guide as Markdown: its words, and the actions that the surface shows."""
        from fairlead.actions.guide import guide

        shown = self.list_actions(surface, exposure or Exposure(**include))
        return guide(
            self.name,
            shown,
            description=self.description,
            docs=self.docs,
            attribution=self.attribution,
        )

    def lint(self) -> dict[str, Any]:
        """What callers would stumble over in this app's actions: `{ok, findings}`."""
        report: dict[str, Any] = _room("project.lint").lint_actions(self.catalogue)
        return report

    def export_docs(self, **options: Any) -> dict[str, Any]:
        """Write the guide to a file, with `html=True` a site and with `llms=True` llms.txt."""
        told: dict[str, Any] = _room("project.documents").export_docs(self, **options)
        return told

    def build(self, **options: Any) -> dict[str, Any]:
        """Write manifests, launchers, docs and clients; `targets`, `out_dir`, `cwd`, `app_module`, `package`."""
        told: dict[str, Any] = _room("project.build").build_artifacts(self, **options)
        return told

    def package(self, **options: Any) -> dict[str, Any]:
        """Build the bundle and a wheel of it."""
        told: dict[str, Any] = _room("project.build").package_artifacts(self, **options)
        return told

    def publish(self, **options: Any) -> dict[str, Any]:
        """Package, and check what would be uploaded; `dry_run=False` uploads it."""
        told: dict[str, Any] = _room("project.build").publish_artifacts(self, **options)
        return told

    def cli(self, argv: Sequence[str] | None = None) -> None:
        """Run this app's command line, and exit with its code."""
        _room("surfaces.cli").run(self, argv)

    def json_runner(self, **identity: Any) -> JsonRunner:
        """A runner for structured calls; `user` and `auth` are given here, never in a payload."""
        made: JsonRunner = _room("surfaces.json").JsonRunner(self, **identity)
        return made

    def http(self, **options: Unpack[HttpOptions]) -> HttpApp:
        """An ASGI app that serves this one: run it with any ASGI server, or mount it in another app."""
        made: HttpApp = _room("surfaces.http").HttpApp(self, **options)
        return made

    def mcp(self, **options: Any) -> Server:
        """An MCP server for this app; `await server.stdio()` serves the client at the other end of the pipe."""
        made: Server = _room("surfaces.mcp").Server(self, **options)
        return made

    def tools(self, format: str = "openai", **options: Any) -> Tools:
        """This app's actions as a model provider's tools, and the way back for its calls."""
        made: Tools = _room("surfaces.llm").Tools(self, format, **options)
        return made

    def client(self, **options: Any) -> Client:
        """A client that calls this app in process, with the same words as one that calls it over HTTP."""
        made: Client = _room("surfaces.client").Client(runtime=self, **options)
        return made

    def console(self, **options: Any) -> Console:
        """An ASGI app that serves the browser console of this one."""
        made: Console = _room("surfaces.console").Console(self, **options)
        return made


def _known(field: str, given: Mapping[str, Any] | None, keys: Sequence[str]) -> dict[str, Any]:
    value = checks.mapping("App", field, given or {})
    checks.known_keys(f"App: {field}", value, keys)
    return value


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


def _room(name: str) -> Any:
    """Rooms above this one are found by name, so that the runtime depends on none."""
    return importlib.import_module(f"fairlead.{name}")
