"""`Server`: an app as an MCP server, prepared once for all its clients.

    server = app.mcp(include_destructive=True)

    @server.resource("notes://{day}", mime_type="text/markdown")
    async def notes(day: str) -> str:
        "The notes of a day."

    @server.prompt
    def review(code: str, tone: Literal["kind", "strict"] = "kind") -> str:
        "Ask for a review."

It knows no transport: `Connection` serves one client over a pipe, `McpEndpoint` all of them over HTTP.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from fairlead.actions import Action, DefinitionError, Exposure, action_manifest, surface_manifest
from fairlead.actions.manifest import describe_attribution
from fairlead.runtime import Runtime
from fairlead.surfaces.exposed import find
from fairlead.surfaces.mcp import rpc
from fairlead.surfaces.mcp.artifacts import Shelf
from fairlead.surfaces.mcp.calling import SURFACE
from fairlead.surfaces.mcp.peer import SERVER_INFO
from fairlead.surfaces.mcp.state import Seals
from fairlead.surfaces.mcp.subscriptions import UPDATED, Subscription
from fairlead.surfaces.mcp.tools import Tool

if TYPE_CHECKING:
    from fairlead.surfaces.auth import Caller
    from fairlead.surfaces.mcp.http import McpEndpoint
    from fairlead.surfaces.mcp.prompts import FunctionPrompt, Prompt
    from fairlead.surfaces.mcp.resources import Resource

F = TypeVar("F", bound=Callable[..., Any])
#: Views that are kept, one for each set of actions that some callers are not shown.
_MOST_VIEWS: Final = 16

CAPABILITIES: Final[dict[str, Any]] = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": {"listChanged": True},
    "logging": {},
    "completions": {},
}


class View:
    """What is shown at one time: until the app or the server gets something new."""

    def __init__(self, server: Server, exposure: Exposure) -> None:
        self._server = server
        self._exposure = exposure
        mute = not server.app._middleware and server.app._checker is None
        self.tools: dict[str, Tool] = {
            action.name: Tool(action, server.attribution, mute) for action in self.actions
        }
        #: Listings that are JSON already, by what they list, for whom, and from where.
        self.prepared: dict[tuple[str, str, int], rpc.Prepared] = {}

    @property
    def actions(self) -> list[Action[..., Any]]:
        return self._exposure.select(self._server.app.catalogue, SURFACE)

    @cached_property
    def prompts(self) -> dict[str, Prompt]:
        """By name; a server's own win over those made from an action's docs."""
        from fairlead.surfaces.mcp.prompts import ActionPrompt

        made: dict[str, Prompt] = {
            name: ActionPrompt(tool) for name, tool in self.tools.items() if tool.action.docs
        }
        return {**made, **self._server.own_prompts}

    def tool(self, name: str) -> Tool:
        """The tool of this name; one that is not listed may be named by its version, or with hyphens.

        Raises:
            Failure: nothing of that name is shown.
        """
        tool = self.tools.get(name)
        if tool is None:
            action = find(self._server.app, name, SURFACE, self._exposure)
            tool = self.tools.get(action.name)
            if tool is None or tool.action is not action:
                tool = Tool(action, self._server.attribution)
        return tool

    def resource(self, uri: str) -> Resource | None:
        """The server's own resource or template of exactly this URI."""
        return self._server.own_resources.get(uri)

    def manifest(self) -> dict[str, Any]:
        """What is shown, as data."""
        server = self._server
        actions = action_manifest(server.app.catalogue, surface=SURFACE, exposure=self._exposure)
        return surface_manifest(server.name, actions, attribution=server.attribution)

    def guide(self) -> str:
        """How to use what is shown, in Markdown."""
        from fairlead.surfaces.mcp.guide import guide

        server = self._server
        return guide(server.name, server.description, server.docs, self.actions)


class Server:
    """An app's tools, resources and prompts, for MCP clients."""

    def __init__(
        self,
        app: Runtime,
        *,
        exposure: Exposure | None = None,
        instructions: str | None = None,
        page_size: int = 250,
        max_requests: int = 1000,
        state_secret: bytes | None = None,
        **include: Any,
    ) -> None:
        self.app = app
        self.exposure = exposure or Exposure(**include)
        if page_size < 1:
            raise DefinitionError(f"page_size must be at least 1, not {page_size}.")
        self.page_size = page_size
        #: How many requests of one client may be in progress at once.
        self.max_requests = max_requests
        self.name: str = getattr(app, "name", "fairlead")
        self.version: str = getattr(app, "version", "0.1.0")
        self.docs: dict[str, Any] = getattr(app, "docs", {})
        self.description: str = getattr(app, "description", "")
        self.attribution = describe_attribution(getattr(app, "attribution", None))
        self.instructions = instructions or self.docs.get("summary") or self.description or None
        self.seals = Seals(state_secret, app._confirmations, app.clock.time)
        self.shelf = Shelf()
        self.subscriptions: set[Subscription] = set()
        #: Characters of the URIs that they watch.
        self.watched = 0
        self.own_prompts: dict[str, FunctionPrompt] = {}
        self.own_resources: dict[str, Resource] = {}
        self._view: View | None = None
        #: What those are shown from whom some actions are hidden.
        self._narrower: dict[frozenset[Action[..., Any]], View] = {}
        _follow(app, self)

    @property
    def actions(self) -> list[Action[..., Any]]:
        """The actions that clients are shown."""
        return self.exposure.select(self.app.catalogue, SURFACE)

    @property
    def view(self) -> View:
        view = self._view
        if view is None:
            view = self._view = View(self, self.exposure)
        return view

    def view_of(self, caller: Caller) -> View:
        """What one caller is shown."""
        hidden = caller.hides
        if not hidden:
            return self.view
        view = self._narrower.get(hidden)
        if view is None:
            if len(self._narrower) >= _MOST_VIEWS:
                self._narrower.clear()
            view = self._narrower[hidden] = View(self, self.exposure.without(hidden))
        return view

    @cached_property
    def info(self) -> dict[str, Any]:
        return {"name": self.name, "version": self.version}

    @cached_property
    def identity(self) -> bytes:
        """The first member of a stateless result's `_meta`."""
        return b'"%b":%b,' % (SERVER_INFO.encode(), rpc.encoded(self.info))

    def resource(
        self,
        uri: str,
        *,
        name: str | None = None,
        title: str | None = None,
        mime_type: str | None = None,
        **options: Any,
    ) -> Callable[[F], F]:
        """Offer what a function gives under a URI; one with `{variables}` is a template."""
        from fairlead.surfaces.mcp.resources import Resource

        if callable(uri):
            raise DefinitionError(
                f"Resource {getattr(uri, '__name__', uri)!r} has no URI: "
                "write @server.resource('scheme://path') above its function."
            )

        def add(function: F) -> F:
            resource = Resource(uri, function, name, title, mime_type, **options)
            if uri in self.own_resources:
                raise DefinitionError(f"Duplicate resource: {uri!r} is there already.")
            self.own_resources[uri] = resource
            self._changed("notifications/resources/list_changed")
            return function

        return add

    @overload
    def prompt(self, function: F, /) -> F: ...
    @overload
    def prompt(
        self, /, *, name: str | None = None, title: str | None = None, **options: Any
    ) -> Callable[[F], F]: ...
    def prompt(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        title: str | None = None,
        **options: Any,
    ) -> Any:
        """Offer a prompt that a function writes; with and without parentheses."""
        from fairlead.surfaces.mcp.prompts import FunctionPrompt

        def add(function: F) -> F:
            prompt = FunctionPrompt(function, name, title, **options)
            if prompt.name in self.own_prompts:
                raise DefinitionError(f"Duplicate prompt: {prompt.name!r} is there already.")
            self.own_prompts[prompt.name] = prompt
            self._changed("notifications/prompts/list_changed")
            return function

        return add if function is None else add(function)

    def updated(self, uri: str) -> None:
        """Tell the clients that watch this resource that it is not what it was. Safe from any thread."""
        for subscription in list(self.subscriptions):
            subscription.tell(UPDATED, uri)

    def manifest(self) -> dict[str, Any]:
        """What is shown here, as data."""
        return self.view.manifest()

    def guide(self) -> str:
        """How to use what is shown here, in Markdown."""
        return self.view.guide()

    async def stdio(self, **options: Any) -> None:
        """Serve the client at the other end of stdin and stdout."""
        from fairlead.surfaces.mcp.stdio import serve_stdio

        await serve_stdio(self, **options)

    def http(self, **options: Any) -> McpEndpoint:
        """An ASGI app that serves MCP over HTTP at whatever path it is mounted."""
        from fairlead.surfaces.mcp.http import McpEndpoint

        return McpEndpoint(self, **options)

    def actions_changed(self) -> None:
        """Show what is there now, and tell the clients."""
        self._changed("notifications/tools/list_changed")
        self._changed("notifications/prompts/list_changed")

    def _changed(self, method: str) -> None:
        self._view = None
        self._narrower.clear()
        for subscription in list(self.subscriptions):
            subscription.tell(method)

    def __repr__(self) -> str:
        return f"Server({self.name!r}, {len(self.actions)} tools)"


def _follow(app: Runtime, server: Server) -> None:
    """Tell a server of actions that are added, for as long as it is there."""
    known = weakref.ref(server)

    def added(new: Action[..., Any]) -> None:
        server = known()
        if server is None:
            leave()
        else:
            server.actions_changed()

    leave = app.catalogue.watch(added)
