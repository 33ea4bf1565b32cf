"""Who is let in over HTTP, and as whom: the hosts and origins, the resolvers, and what OAuth clients are told.

Who may do what is the runtime's to decide; here it is only told in HTTP's words, to clients that can get another
token.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from fairlead.actions import DefinitionError
from fairlead.failures import Failure, Kind
from fairlead.failures.action import http_status
from fairlead.surfaces.auth import ANONYMOUS, Caller
from fairlead.surfaces.http.asgi import JSON, Request, Scope
from fairlead.surfaces.mcp import rpc
from fairlead.surfaces.mcp.answers import Refusal
from fairlead.surfaces.mcp.guards import Guard
from fairlead.surfaces.mcp.oauth import WELL_KNOWN, ProtectedResource, denied
from fairlead.surfaces.mcp.rpc import HEADER_MISMATCH, INVALID_REQUEST, RpcError
from fairlead.surfaces.mcp.server import Server
from fairlead.surfaces.mcp.streams import Headers

_SSE: Final = b"text/event-stream"
#: Headers of which there may be one: whoever stands between could go by another than we do.
_SINGLE: Final = frozenset((
    b"host", b"origin", b"last-event-id", b"mcp-protocol-version", b"mcp-method", b"mcp-name", b"mcp-session-id",
))  # fmt: skip
#: How many heads that were found good are remembered.
_MOST: Final = 1024


class Admission:
    """Decides what a request is let in as, before anything of it is done."""

    def __init__(
        self,
        server: Server,
        resolve_context: Any,
        hosts: Iterable[str] | None,
        origins: Iterable[str] | None,
        oauth: ProtectedResource | None,
        path: str,
        pages: Iterable[str] = (),
    ) -> None:
        self._server = server
        self._resolvers = (resolve_context,) if callable(resolve_context) else tuple(resolve_context or ())
        if oauth is not None and not self._resolvers:
            raise DefinitionError("oauth needs resolve_context: something that checks the tokens.")
        self._guard = Guard(hosts, origins, pages)
        self._path = path
        self.oauth = oauth
        self._good: set[tuple[Any, ...]] = set()

    def check(self, scope: Scope, headers: Mapping[bytes, bytes]) -> None:
        """What can be seen of a request from its head. Raises Refusal."""
        get = headers.get
        key = (scope["method"], get(b"host"), get(b"origin"), get(b"content-type"), get(b"accept"))
        if len(headers) != len(scope["headers"]):
            _check_doubles(scope)
        if key in self._good:
            return
        if not self._guard.allows(key[1], key[2]):
            raise Refusal(403, RpcError(INVALID_REQUEST, "This Host or Origin is not let in."))
        if key[0] == "POST":
            if WELL_KNOWN in scope["path"]:
                return  # refused for its method; its types are not looked at, so it is no precedent
            _check_types(key[3], key[4])
        if len(self._good) < _MOST:
            self._good.add(key)

    def check_get(self, headers: Mapping[bytes, bytes]) -> None:
        if not accepts(headers.get(b"accept"), _SSE):
            raise Refusal(406, RpcError(INVALID_REQUEST, "Accept text/event-stream."))

    @property
    def anonymous(self) -> bool:
        """Whether nobody is asked who they are."""
        return not self._resolvers

    async def caller(self, scope: Scope, headers: Mapping[bytes, bytes], body: bytes) -> Caller:
        """Who is calling. Raises Refusal."""
        if not self._resolvers:
            return ANONYMOUS
        from fairlead.surfaces.auth.resolve import resolve

        try:
            caller = await resolve(self._resolvers, Request(scope, body), self._server.app.redactor)
        except Failure as failure:
            raise self._unknown(scope, headers, failure) from failure
        if self.oauth is None:
            return caller
        if caller.user is None and caller.auth is None:
            raise self._unknown(scope, headers, Failure(Kind.unauthenticated, "A token is needed."))
        if self.oauth.lacking(caller):
            raise self._insufficient(scope, self.oauth, self.oauth.scopes)
        return caller

    def check_scopes(self, scope: Scope, method: str, params: rpc.Params, caller: Caller) -> None:
        """Tell a client that could get a better token to do so, before its call is refused. Raises Refusal."""
        if self.oauth is None or method != "tools/call":
            return
        name = params.get("name")
        tool = self._server.view_of(caller).tools.get(name) if type(name) is str else None
        if tool is not None and denied(self._server.app, tool.action, caller):
            raise self._insufficient(scope, self.oauth, [*self.oauth.scopes, *tool.action.permissions])

    def _unknown(self, scope: Scope, headers: Mapping[bytes, bytes], failure: Failure) -> Refusal:
        told: Headers = []
        status = http_status(failure)
        if status == 401:
            error = "invalid_token" if b"authorization" in headers else None
            challenge = b"Bearer"
            if self.oauth is not None:
                challenge = self.oauth.challenge(scope, self._path, error, self.oauth.scopes)
            told = [(b"www-authenticate", challenge)]
        shown = self._server.app.redactor.failure(failure)
        return Refusal(status, RpcError(INVALID_REQUEST, shown.message), told)

    def _insufficient(self, scope: Scope, oauth: ProtectedResource, scopes: Iterable[str]) -> Refusal:
        challenge = oauth.challenge(scope, self._path, "insufficient_scope", list(scopes))
        error = RpcError(INVALID_REQUEST, "The token lacks a scope that this needs.")
        return Refusal(403, error, [(b"www-authenticate", challenge)])


def _check_types(content_type: bytes | None, accept: bytes | None) -> None:
    if (content_type or b"").partition(b";")[0].strip().lower() != JSON:
        raise Refusal(415, RpcError(INVALID_REQUEST, "Send application/json."))
    if not (accepts(accept, JSON) and accepts(accept, _SSE)):
        raise Refusal(406, RpcError(INVALID_REQUEST, "Accept application/json and text/event-stream."))


def accepts(accept: bytes | None, kind: bytes) -> bool:
    if accept is None:
        return True
    listed = {part.partition(b";")[0].strip().lower() for part in accept.split(b",")}
    return not listed.isdisjoint((kind, b"*/*", kind.partition(b"/")[0] + b"/*"))


def _check_doubles(scope: Scope) -> None:
    seen: set[bytes] = set()
    for name, _ in scope["headers"]:
        if name in seen and (name in _SINGLE or name.startswith(b"mcp-param-")):
            what = f"Header mismatch: {name.decode('latin-1')} is given twice."
            raise Refusal(400, RpcError(HEADER_MISMATCH, what))
        seen.add(name)
