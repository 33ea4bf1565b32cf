"""`Connection`: one client over a two-way pipe, or one session over HTTP.

It takes messages one by one and answers as results come, each call on its own. Whatever comes in, it goes on: what
is not a message is answered with an error. How messages are framed and carried it does not know.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final, cast

from fairlead.actions import DefinitionError
from fairlead.failures import Failure, Kind
from fairlead.failures.redaction import Redactor
from fairlead.runtime.hooks import report
from fairlead.runtime.supervision import current_task
from fairlead.surfaces.auth import Caller
from fairlead.surfaces.mcp import results, rpc
from fairlead.surfaces.mcp.eager import Starter
from fairlead.surfaces.mcp.exchange import Exchange
from fairlead.surfaces.mcp.methods import LISTEN, SESSION_ERA, STATELESS_ERA, AtOnce, InTime
from fairlead.surfaces.mcp.peer import Peer, names_itself, session_peer, stateless_peer
from fairlead.surfaces.mcp.revisions import negotiate
from fairlead.surfaces.mcp.rpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    RpcError,
)
from fairlead.surfaces.mcp.server import CAPABILITIES, Server
from fairlead.surfaces.mcp.subscriptions import LISTS, Subscription
from fairlead.surfaces.mcp.voice import Sink

#: How many messages one batch may hold.
_LARGEST_BATCH: Final = 100
#: How long a client may take to answer what it is asked, in seconds: there may be a person who has to.
_PATIENCE: Final = 600.0

#: An answer, or what starts the work that ends with one; None where there is nothing to answer.
Start = Callable[[], Coroutine[Any, Any, bytes]]
Work = bytes | Start | None


class Connection:
    """One client. `send` takes a message's bytes, and gives something to await when there is no room for more."""

    def __init__(
        self,
        server: Server,
        send: Sink,
        *,
        user: Any = None,
        auth: Any = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self.server = server
        self.peer = Peer()
        self._send = send
        self._caller = Caller(user, auth, metadata or {})
        #: Requests in progress, by id; None for one that has not got its turn yet.
        self._running: dict[rpc.Id, asyncio.Task[Any] | None] = {}
        #: Those of them that were taken back before they got it.
        self._withdrawn: set[rpc.Id] = set()
        self._listening: set[asyncio.Task[Any]] = set()
        self._starter = Starter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._asked: dict[rpc.Id, asyncio.Future[Any]] = {}
        self._last_id = 0
        self._news: Subscription | None = None

    def take(self, message: Any) -> None:
        """Take in one message: a parsed JSON value. Answers are sent when there are any."""
        work = self.begin(message, self._send, self._caller)
        if isinstance(work, bytes):
            self._send(work)
        elif work is not None:
            task = self._starter.start(self._carry(work))
            if task is not None:
                self._tasks.add(task)

    async def receive(self, message: Any) -> None:
        """`take`, for those who await."""
        self.take(message)

    async def finish(self) -> None:
        """Wait until all calls that run have been answered. Those that only listen are not waited for."""
        while waiting := {task for task in self._tasks if task not in self._listening}:
            await asyncio.wait(waiting)

    async def close(self) -> None:
        """Stop all that runs for this client."""
        self._starter.close()
        if self._news is not None:
            self._news.close()
        for future in self._asked.values():
            future.cancel()
        for running in {*self._tasks, *self._running.values()}:
            if running is not None:
                running.cancel()
        if self._tasks:
            # One that does not let itself be stopped is not waited for.
            await asyncio.wait(set(self._tasks), timeout=self.server.app.grace)
        self._tasks.clear()

    def begin(self, message: Any, sink: Sink, caller: Caller) -> Work:
        """Start on a message: what is said for it on the way goes to `sink`. Never raises."""
        if type(message) is list:
            return self._batch(message, sink, caller)
        try:
            read = rpc.read(message)
            if type(read) is rpc.Request:
                return self._request(read, sink, caller)
        except RpcError as wrong:
            return wrong.encode(rpc.id_of(message)) if rpc.expects_answer(message) else None
        if type(read) is rpc.Response:
            self._settle(read)
        elif type(read) is rpc.Notification:
            self._heard(read)
        return None

    async def ask(self, method: str, params: Mapping[str, Any] | None, sink: Sink) -> Any:
        """Ask the client, and wait for what it says. Raises RpcError where it refuses."""
        self._last_id += 1
        id = self._last_id
        future = self._asked[id] = asyncio.get_running_loop().create_future()
        try:
            pending = sink(rpc.request(id, method, params))
            if pending is not None:
                await pending
            async with asyncio.timeout(_PATIENCE):
                return await future
        except (asyncio.CancelledError, TimeoutError) as exc:
            sink(rpc.notification("notifications/cancelled", {"requestId": id}))
            if isinstance(exc, TimeoutError):
                raise RpcError(INTERNAL_ERROR, "The client did not answer in time.") from exc
            raise
        finally:
            del self._asked[id]

    async def _carry(self, work: Start) -> None:
        """See a call through to its answer. Who cancelled it wants none."""
        try:
            pending = self._send(await work())
            if pending is not None:
                await pending
        finally:
            self._tasks.discard(_own_task())

    def _request(self, request: rpc.Request, sink: Sink, caller: Caller) -> Work:
        id, method, params = request
        peer, era = self.peer, SESSION_ERA
        if "_meta" in params and names_itself(params["_meta"]):
            peer, era = stateless_peer(params["_meta"]), STATELESS_ERA
        exchange = Exchange(self.server, request, peer, caller, sink, self)
        handler = era.in_time.get(method)
        if handler is None:
            if method in self._OWN and era is SESSION_ERA:
                return rpc.answer(id, self._OWN[method](self, params))
            return self._at_once(era.at_once.get(method), exchange)
        if id in self._running:
            raise RpcError(INVALID_REQUEST, "The id is that of another request, which is still in progress.")
        if len(self._running) >= self.server.max_requests:
            return _busy(exchange)
        self._running[id] = None
        return partial(self._answered, handler, exchange)

    def _at_once(self, handler: AtOnce | None, exchange: Exchange) -> bytes:
        if handler is None:
            raise RpcError(METHOD_NOT_FOUND, "Method not found.")
        try:
            return rpc.answer(exchange.request[0], handler(exchange))
        except RpcError:
            raise
        except Exception as exc:
            raise internal(exc, self.server.app.redactor) from exc

    async def _answered(self, handler: InTime, exchange: Exchange) -> bytes:
        """The answer to a request that takes its time; while it does, the client can cancel it."""
        id, method, _ = exchange.request
        task = _own_task()
        self._running[id] = task
        if method == LISTEN:
            self._listening.add(task)
        try:
            if self._withdrawn and id in self._withdrawn:
                raise asyncio.CancelledError
            return rpc.answer(id, await handler(exchange))
        except RpcError as wrong:
            return wrong.encode(id)
        except Exception as exc:
            return internal(exc, self.server.app.redactor).encode(id)
        finally:
            del self._running[id]
            if self._withdrawn:
                self._withdrawn.discard(id)
            if method == LISTEN:
                self._listening.discard(task)

    def _batch(self, messages: list[Any], sink: Sink, caller: Caller) -> Work:
        if not self.peer.revision.batches:
            return RpcError(
                INVALID_REQUEST, "Batches are not part of this revision: send one message."
            ).encode(None)
        if not 0 < len(messages) <= _LARGEST_BATCH:
            return RpcError(INVALID_REQUEST, f"A batch holds 1 to {_LARGEST_BATCH} messages.").encode(None)
        works = [self._batched(message, sink, caller) for message in messages]
        if all(work is None for work in works):
            return None
        return partial(_gathered, works)

    def _batched(self, message: Any, sink: Sink, caller: Caller) -> Work:
        if type(message) is list or (type(message) is dict and message.get("method") == "initialize"):
            return RpcError(INVALID_REQUEST, "This may not be part of a batch.").encode(rpc.id_of(message))
        return self.begin(message, sink, caller)

    def _settle(self, response: rpc.Response) -> None:
        id = response.id
        future = self._asked.get(id) if type(id) is int else None
        if future is None or future.done():
            return
        if "result" in response.message:
            future.set_result(response.message["result"])
        else:
            future.set_exception(RpcError(INTERNAL_ERROR, "The client answered with an error."))

    def _heard(self, notification: rpc.Notification) -> None:
        if notification.method != "notifications/cancelled":
            return
        id = notification.params.get("requestId")
        if not (type(id) is str or type(id) is int) or id not in self._running:
            return
        task = self._running[id]
        if task is not None:
            task.cancel()
        else:
            self._withdrawn.add(id)

    def _initialize(self, params: rpc.Params) -> dict[str, Any]:
        revision = negotiate(params.get("protocolVersion"))
        self.peer = session_peer(revision, params.get("capabilities"), params.get("clientInfo"))
        if self._news is None:
            self._news = Subscription(self.server, LISTS, self._send)
        told: dict[str, Any] = {
            "protocolVersion": revision.name,
            "capabilities": CAPABILITIES,
            "serverInfo": {
                **self.server.info,
                **({"title": self.server.name} if revision.structures else {}),
            },
        }
        if self.server.instructions:
            told["instructions"] = self.server.instructions
        return told

    def _subscribe(self, params: rpc.Params) -> dict[str, Any]:
        news, uri = self._watched(params)
        news.watch(uri)
        return {}

    def _unsubscribe(self, params: rpc.Params) -> dict[str, Any]:
        news, uri = self._watched(params)
        news.leave(uri)
        return {}

    def _watched(self, params: rpc.Params) -> tuple[Subscription, str]:
        uri = params.get("uri")
        if type(uri) is not str:
            raise RpcError(INVALID_PARAMS, "Invalid params: give the URI of a resource, as a string.")
        if self._news is None:
            self._news = Subscription(self.server, LISTS, self._send)
        return self._news, uri

    _OWN: Final = {
        "initialize": _initialize,
        "resources/subscribe": _subscribe,
        "resources/unsubscribe": _unsubscribe,
    }


def _own_task() -> asyncio.Task[Any]:
    return cast("asyncio.Task[Any]", current_task())


def internal(error: Exception, redactor: Redactor) -> RpcError:
    """What to say of a mistake of ours or of the app's developer: the latter is named, the former is not."""
    report("An MCP request failed.", redactor)
    if isinstance(error, Failure):
        return RpcError(INTERNAL_ERROR, redactor.text(error.for_callers().message))
    if isinstance(error, DefinitionError):
        return RpcError(INTERNAL_ERROR, redactor.text(str(error)))
    return RpcError(INTERNAL_ERROR, "Internal error.")


def _busy(exchange: Exchange) -> bytes:
    most = exchange.server.max_requests
    message = f"{most} requests of this client are in progress, which is the most at once. Wait for answers."
    name = exchange.params.get("name")
    called = exchange.request[1] == "tools/call" and type(name) is str
    tool = exchange.view.tools.get(str(name)) if called else None
    if tool is None:
        return RpcError(INTERNAL_ERROR, message).encode(exchange.request[0])
    return rpc.answer(exchange.request[0], results.refused(tool, Failure(Kind.busy, message), exchange))


async def _gathered(works: list[Work]) -> bytes:
    """The answers of a batch, in its order."""
    loop = asyncio.get_running_loop()
    later = [loop.create_task(work()) for work in works if callable(work)]
    try:
        await asyncio.gather(*later, return_exceptions=True)
    except asyncio.CancelledError:
        for task in later:
            task.cancel()
        raise
    answers = iter(later)
    told = [work if type(work) is bytes else _outcome(next(answers)) for work in works if work is not None]
    if not any(told):
        raise asyncio.CancelledError  # nobody wants an answer any more
    return b"[%b]" % b",".join(part for part in told if part)


def _outcome(task: asyncio.Future[bytes]) -> bytes:
    """A task's answer; nothing where it was cancelled."""
    return b"" if task.cancelled() else task.result()
