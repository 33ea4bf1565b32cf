"""News for clients: lists that changed, and resources that were updated. What has not been sent yet is kept once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from fairlead.surfaces.mcp import rpc
from fairlead.surfaces.mcp.peer import SUBSCRIPTION
from fairlead.surfaces.mcp.rpc import INTERNAL_ERROR, INVALID_PARAMS, RpcError
from fairlead.surfaces.mcp.templates import LONGEST
from fairlead.surfaces.mcp.voice import Sink

if TYPE_CHECKING:
    from fairlead.surfaces.mcp.server import Server

#: By the words of `subscriptions/listen`.
LISTS: Final = {
    "toolsListChanged": "notifications/tools/list_changed",
    "promptsListChanged": "notifications/prompts/list_changed",
    "resourcesListChanged": "notifications/resources/list_changed",
}
UPDATED: Final = "notifications/resources/updated"
#: How many resources one client may watch.
MOST: Final = 10_000
#: And how many characters their URIs may have in all.
_ROOM: Final = 1 << 20
#: The same of all clients of a server together.
_ROOM_OF_ALL: Final = 32 * _ROOM

News = tuple[str, str | None]


class Subscription:
    """What one client wants to hear. However much happens, at most one of each is waiting for it."""

    def __init__(self, server: Server, lists: Iterable[str], sink: Sink, tag: rpc.Id | None = None) -> None:
        self._server = server
        self._methods = {LISTS[name] for name in lists}
        #: The resources that are watched.
        self.uris: set[str] = set()
        self._size = 0
        self._sink = sink
        self._tag = tag
        self._waiting: dict[News, None] = {}
        self._loop = asyncio.get_running_loop()
        self._pump: asyncio.Task[None] | None = None
        #: Done when the server has nothing more to tell.
        self.ended: asyncio.Future[None] = self._loop.create_future()
        server.subscriptions.add(self)

    def watch(self, uri: str) -> None:
        """Want to hear of a resource. Raises RpcError where it is too much."""
        if uri in self.uris:
            return
        if len(uri) > LONGEST:
            raise RpcError(INVALID_PARAMS, f"Invalid params: a URI has at most {LONGEST} characters.")
        if len(self.uris) >= MOST or self._size + len(uri) > _ROOM:
            raise RpcError(
                INVALID_PARAMS,
                f"No more than {MOST} resources can be subscribed to, with {_ROOM} characters of URIs in all.",
            )
        if self._server.watched + len(uri) > _ROOM_OF_ALL:
            raise RpcError(INTERNAL_ERROR, "The server has as many subscriptions as it takes. Try later.")
        self.uris.add(uri)
        self._count(len(uri))

    def leave(self, uri: str) -> None:
        """Hear no more of it."""
        if uri in self.uris:
            self.uris.remove(uri)
            self._count(-len(uri))

    def tell(self, method: str, uri: str | None = None) -> None:
        """Pass on what happened, if it is wanted. Safe from any thread."""
        if uri in self.uris if method == UPDATED else method in self._methods:
            try:
                self._loop.call_soon_threadsafe(self._add, (method, uri))
            except RuntimeError:  # its loop is gone
                self.close()

    def end(self) -> None:
        """Tell whoever listens that nothing more will come."""
        if not self.ended.done():
            self.ended.set_result(None)

    def close(self) -> None:
        self._server.subscriptions.discard(self)
        self._count(-self._size)
        self.uris.clear()
        self._waiting.clear()
        if self._pump is not None:
            self._pump.cancel()

    def acknowledge(self) -> bytes:
        """The first message of a stream: what will be told on it."""
        heard: dict[str, Any] = {name: True for name, method in LISTS.items() if method in self._methods}
        if self.uris:
            heard["resourceSubscriptions"] = sorted(self.uris)
        return self._message("notifications/subscriptions/acknowledged", {"notifications": heard})

    def _count(self, more: int) -> None:
        self._size += more
        self._server.watched += more

    def _add(self, news: News) -> None:
        self._waiting[news] = None
        if self._pump is None or self._pump.done():
            self._pump = self._loop.create_task(self._run())

    async def _run(self) -> None:
        while self._waiting:
            method, uri = next(iter(self._waiting))
            del self._waiting[method, uri]
            pending = self._sink(self._message(method, {} if uri is None else {"uri": uri}))
            if pending is not None:
                await pending

    def _message(self, method: str, params: dict[str, Any]) -> bytes:
        if self._tag is not None:
            params = {"_meta": {SUBSCRIPTION: self._tag}, **params}
        return rpc.notification(method, params or None)
