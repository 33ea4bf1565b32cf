"""`McpEndpoint`: Streamable HTTP, as one ASGI app for one path.

    app.mcp().http(allowed_hosts=["mcp.example.com"], resolve_context=[Jwt(...)])

Stateless requests (2026-07-28) stand for themselves; clients of earlier revisions have sessions. A request is
answered with a JSON text, or with a stream of events if something was said before its result. Everything a client
sends is untrusted here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

from fairlead import _json
from fairlead.failures.action import PayloadTooLarge
from fairlead.runtime.identity import caller_of
from fairlead.surfaces.auth import ANONYMOUS, Caller
from fairlead.surfaces.http.asgi import (
    Disconnected,
    Message,
    Receive,
    Scope,
    Send,
    check_length,
    respond,
    rest_of_body,
)
from fairlead.surfaces.http.disconnect import while_connected
from fairlead.surfaces.http.lifespan import live
from fairlead.surfaces.mcp import mirrors, rpc
from fairlead.surfaces.mcp.admission import Admission
from fairlead.surfaces.mcp.answers import Answer, Refusal
from fairlead.surfaces.mcp.connection import Connection, internal
from fairlead.surfaces.mcp.exchange import Exchange
from fairlead.surfaces.mcp.methods import STATELESS_ERA
from fairlead.surfaces.mcp.oauth import WELL_KNOWN, ProtectedResource
from fairlead.surfaces.mcp.peer import Peer, names_itself, stateless_peer, unsupported
from fairlead.surfaces.mcp.revisions import HANDSHAKE, R2025_03, STATELESS
from fairlead.surfaces.mcp.rpc import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
    RpcError,
)
from fairlead.surfaces.mcp.server import Server
from fairlead.surfaces.mcp.sessions import Session, Sessions
from fairlead.surfaces.mcp.streams import Pulse

_METHODS: Final = b"GET, POST, DELETE"
_VERSION: Final = b"mcp-protocol-version"
_SESSION: Final = b"mcp-session-id"
_STATUS: Final = {
    HEADER_MISMATCH: 400,
    INVALID_REQUEST: 400,
    METHOD_NOT_FOUND: 404,
    MISSING_CAPABILITY: 400,
    PARSE_ERROR: 400,
    UNSUPPORTED_VERSION: 400,
}
_HANDSHAKE: Final = {name.encode(): revision for name, revision in HANDSHAKE.items()}
_STATELESS: Final = {name.encode(): revision for name, revision in STATELESS.items()}


class McpEndpoint:
    """An ASGI app. It asks its resolvers who is calling, and does not look at the request's path."""

    def __init__(
        self,
        server: Server,
        *,
        resolve_context: Any = (),
        allowed_hosts: Iterable[str] | None = None,
        allowed_origins: Iterable[str] | None = None,
        oauth: ProtectedResource | None = None,
        path: str = "/mcp",
        sessions: bool = True,
        max_sessions: int = 10_000,
        session_ttl: float = 1800.0,
        max_body: int = 4 << 20,
        keep_alive: float = 15.0,
        pages: Iterable[str] = (),
    ) -> None:
        self.server = server
        self._admission = Admission(
            server, resolve_context, allowed_hosts, allowed_origins, oauth, path, pages
        )
        #: Whether somebody has to be asked who is calling.
        self._asks = not self._admission.anonymous
        self._path = path
        self._sessions = (
            Sessions(server, max_sessions, session_ttl, server.app.clock.monotonic) if sessions else None
        )
        self._max_body = max_body
        self._pulse = Pulse(keep_alive)
        #: The last stateless client: the version in its header, its `_meta`, and what was made of it.
        self._known: tuple[bytes, Any, Peer] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            # For a server that runs nothing but this endpoint.
            await live(self.server.app.start, self._stop, self.server.app, receive, send)
            return
        if scope["type"] == "http":
            await self.serve(scope, dict(scope["headers"]), receive, send)

    async def serve(self, scope: Scope, headers: dict[bytes, bytes], receive: Receive, send: Send) -> None:
        """Answer one request, whose headers are known by their names already."""
        answer = Answer(send, receive, self._pulse)
        try:
            self._admission.check(scope, headers)
            if scope["path"] != self._path and WELL_KNOWN in scope["path"]:
                await self._metadata(scope, answer)
            elif scope["method"] == "POST":
                await self._post(scope, headers, receive, answer)
            else:
                await self._serve(scope, headers, answer)
        except Refusal as refusal:
            await answer.refuse(refusal)
        except Disconnected:
            answer.leave()
        except Exception as exc:
            await answer.refuse(Refusal(500, internal(exc, self.server.app.redactor)))

    async def close(self) -> None:
        """End all sessions and streams."""
        for subscription in list(self.server.subscriptions):
            subscription.end()
        if self._sessions is not None:
            await self._sessions.close()

    async def _serve(self, scope: Scope, headers: dict[bytes, bytes], answer: Answer) -> None:
        """All that is no message."""
        method = scope["method"]
        if method == "GET":
            await self._get(scope, headers, answer)
        elif method == "DELETE":
            await self._delete(scope, headers, answer)
        else:
            raise _not_allowed(_METHODS)

    async def _metadata(self, scope: Scope, answer: Answer) -> None:
        oauth = self._admission.oauth
        if scope["method"] not in ("GET", "HEAD"):
            raise _not_allowed(b"GET, HEAD")
        if oauth is None or scope["path"].partition(WELL_KNOWN)[2] not in ("", self._path):
            raise Refusal(404, RpcError(INVALID_REQUEST, "There is no such resource here."))
        await respond(answer.send, 200, oauth.metadata(scope, self._path, self.server.name))

    async def _post(
        self, scope: Scope, headers: dict[bytes, bytes], receive: Receive, answer: Answer
    ) -> None:
        first = await receive()
        body: bytes = first.get("body", b"")
        if len(body) > self._max_body or first.get("more_body") or first["type"] != "http.request":
            body = await self._whole(first, headers, receive)
        caller = ANONYMOUS
        if self._asks:
            caller = await self._admission.caller(scope, headers, body)
        try:
            message = _json.loads(body)
        except ValueError:
            raise Refusal(400, RpcError(PARSE_ERROR, "Parse error: the body is not JSON.")) from None
        if _json.is_deep(message, body):
            what = f"Parse error: there are more than {_json.DEEPEST} levels in the message."
            raise Refusal(400, RpcError(PARSE_ERROR, what))
        version = headers.get(_VERSION)
        if version is not None and version not in _HANDSHAKE:
            await self._stateless(scope, headers, message, caller, receive, answer)
        elif not _names_itself(message):
            await self._in_session(scope, headers, message, caller, receive, answer)
        elif version is None:
            what = "Header mismatch: MCP-Protocol-Version is missing."
            raise _refused(RpcError(HEADER_MISMATCH, what), message)
        else:
            await self._stateless(scope, headers, message, caller, receive, answer)

    async def _whole(self, first: Message, headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
        """A body that comes in pieces, or is too long. Raises Refusal."""
        try:
            check_length(headers.get(b"content-length", b""), self._max_body)
            return await rest_of_body(first, receive, self._max_body)
        except PayloadTooLarge as exc:
            raise Refusal(413, RpcError(INVALID_REQUEST, exc.message)) from exc

    async def _stateless(
        self,
        scope: Scope,
        headers: dict[bytes, bytes],
        message: Any,
        caller: Caller,
        receive: Receive,
        answer: Answer,
    ) -> None:
        """A request that carries all there is to know about it."""
        try:
            request = rpc.read(message)
            if type(request) is rpc.Notification:
                await answer.accept()
                return
            if type(request) is not rpc.Request:
                raise RpcError(INVALID_REQUEST, "In this revision, clients send requests and notifications.")
            peer = self._peer(headers, request[2].get("_meta"))
        except RpcError as wrong:
            raise _refused(wrong, message) from wrong
        id, method, params = request
        try:
            handler = STATELESS_ERA.in_time.get(method)
            at_once = STATELESS_ERA.at_once.get(method)
            if handler is None and at_once is None:
                raise RpcError(METHOD_NOT_FOUND, "Method not found.")
            mirrors.check(headers, request, self.server.view_of(caller))
            self._admission.check_scopes(scope, method, params, caller)
            exchange = Exchange(self.server, request, peer, caller, answer.sink, None)
            if handler is not None:
                done = await while_connected(handler(exchange), receive)
            elif at_once is not None:
                done = at_once(exchange)
            told, status = rpc.answer(id, done), 200
        except RpcError as wrong:
            told, status = wrong.encode(id), _STATUS.get(wrong.code, 200)
        except (Refusal, Disconnected):
            raise
        except Exception as exc:
            told, status = internal(exc, self.server.app.redactor).encode(id), 200
        await answer.finish(told, status)

    def _peer(self, headers: Mapping[bytes, bytes], meta: Any) -> Peer:
        """The client that a stateless request describes, in its body as in its headers. Raises RpcError."""
        known = self._known
        # A client says the same of itself each time.
        if known is not None and known[0] == headers.get(_VERSION) and known[1] == meta:
            return known[2]
        mirrors.check_version(headers, meta)
        version = headers[_VERSION]
        if version not in _STATELESS and version.strip() not in _STATELESS:
            raise unsupported(version.decode("latin-1"))
        peer = stateless_peer(meta)
        self._known = version, meta, peer
        return peer

    async def _in_session(
        self,
        scope: Scope,
        headers: dict[bytes, bytes],
        message: Any,
        caller: Caller,
        receive: Receive,
        answer: Answer,
    ) -> None:
        """A message of a client that began with a handshake."""
        if self._sessions is None:
            # It cannot come back for what was said, so its call ends with it.
            await while_connected(self._without_session(headers, message, caller, answer), receive)
            return
        if _SESSION not in headers and _begins(message):
            session = await self._begin(self._sessions, caller)
        else:
            session = self._session(headers, caller, message)
        answer.session = session
        if self._admission.oauth is not None and (method := _method(message)) is not None:
            self._admission.check_scopes(scope, method, message["params"], caller)
        session.busy += 1
        try:
            await _worked(session.connection, message, caller, answer)
        finally:
            session.busy -= 1

    async def _without_session(
        self, headers: dict[bytes, bytes], message: Any, caller: Caller, answer: Answer
    ) -> None:
        """A message by itself, of a client whose handshake nobody remembers."""
        connection = Connection(self.server, answer.sink)
        connection.peer = Peer(_HANDSHAKE.get(headers.get(_VERSION, b""), R2025_03))
        try:
            await _worked(connection, message, caller, answer)
        finally:
            await connection.close()

    async def _begin(self, sessions: Sessions, caller: Caller) -> Session:
        session = await sessions.open(_owner(caller))
        if session is None:
            error = RpcError(INTERNAL_ERROR, "There are as many sessions as the server takes. Try later.")
            raise Refusal(503, error, [(b"retry-after", b"30")])
        return session

    def _session(self, headers: Mapping[bytes, bytes], caller: Caller, message: Any = None) -> Session:
        """The session that the request names. Raises Refusal."""
        name = headers.get(_SESSION)
        if name is None:
            error = RpcError(INVALID_REQUEST, "The Mcp-Session-Id header is missing: initialize first.")
            raise Refusal(400, error, id=rpc.id_of(message))
        assert self._sessions is not None
        session = self._sessions.find(name, _owner(caller))
        if session is None:
            error = RpcError(INVALID_REQUEST, "Session not found: initialize again.")
            raise Refusal(404, error, id=rpc.id_of(message))
        version = headers.get(_VERSION)
        if version is not None and _HANDSHAKE.get(version) is not session.connection.peer.revision:
            error = RpcError(INVALID_REQUEST, "MCP-Protocol-Version is not what the session negotiated.")
            raise Refusal(400, error, id=rpc.id_of(message))
        return session

    async def _get(self, scope: Scope, headers: dict[bytes, bytes], answer: Answer) -> None:
        """A stream for what belongs to no request, or the rest of one that was cut off."""
        self._check_session_request(headers)
        self._admission.check_get(headers)
        session = self._session(headers, await self._admission.caller(scope, headers, b""))
        stream, after = session.news, None
        if b"last-event-id" in headers:
            found = session.find_stream(headers[b"last-event-id"].decode("latin-1"))
            if found is None:
                error = RpcError(INVALID_REQUEST, "The event that Last-Event-ID names is not kept here.")
                raise Refusal(400, error)
            stream, after = found
        answer.session = session
        await answer.follow(stream, after)

    async def _delete(self, scope: Scope, headers: dict[bytes, bytes], answer: Answer) -> None:
        self._check_session_request(headers)
        session = self._session(headers, await self._admission.caller(scope, headers, b""))
        assert self._sessions is not None
        await self._sessions.end(session)
        await respond(answer.send, 204)

    def _check_session_request(self, headers: Mapping[bytes, bytes]) -> None:
        version = headers.get(_VERSION)
        if self._sessions is None or version in _STATELESS:
            raise _not_allowed(b"POST")
        if version is not None and version not in _HANDSHAKE:
            raise Refusal(400, unsupported(version.decode("latin-1")))

    async def _stop(self) -> None:
        await self.close()
        await self.server.app.stop()


async def _worked(connection: Connection, message: Any, caller: Caller, answer: Answer) -> None:
    """Answer a message of a session. The work goes on if its client goes: it may come back for what was said."""
    work = connection.begin(message, answer.sink, caller)
    if work is None:
        await answer.accept()
    elif isinstance(work, bytes):
        await answer.finish(work)
    else:
        try:
            told = await work()
        except asyncio.CancelledError:
            # The client took its request back, or its session ended: there is nothing to answer.
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
            await answer.drop()
        else:
            await answer.finish(told)


def _names_itself(message: Any) -> bool:
    params = message.get("params") if type(message) is dict else None
    return type(params) is dict and "_meta" in params and names_itself(params["_meta"])


def _method(message: Any) -> str | None:
    """The method of a message whose parameters can be looked at."""
    if type(message) is not dict or type(message.get("params")) is not dict:
        return None
    method = message.get("method")
    return method if type(method) is str else None


def _begins(message: Any) -> bool:
    return type(message) is dict and message.get("method") == "initialize" and "id" in message


def _owner(caller: Caller) -> str:
    return "" if caller is ANONYMOUS else caller_of(caller[0], caller[1])


def _refused(error: RpcError, message: Any) -> Refusal:
    return Refusal(_STATUS.get(error.code, 400), error, id=rpc.id_of(message))


def _not_allowed(allowed: bytes) -> Refusal:
    return Refusal(405, RpcError(INVALID_REQUEST, "Method not allowed."), [(b"allow", allowed)])
