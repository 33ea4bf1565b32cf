"""What plugins serve, beside the app's own routes: a request made of what came, and the answer sent.

Which plugin answers, and whether the request may pass, is decided where plugins are.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote

from fairlead.failures import Failure, Kind
from fairlead.failures.action import PayloadTooLarge
from fairlead.plugins.routes import PREFIX, Answer, Refused, Request, Site
from fairlead.runtime import App
from fairlead.runtime.hooks import report
from fairlead.surfaces.auth.resolve import Resolver, resolve
from fairlead.surfaces.http import asgi
from fairlead.surfaces.http.asgi import Disconnected, Receive, Scope, Send, read_body, route_path

PATHS: Final = (PREFIX,)
#: Headers by which a proxy says that the request is somebody else's.
_FORWARDED: Final = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "cf-connecting-ip")
_HOST: Final = re.compile(r"[A-Za-z0-9.-]+(:\d{1,5})?|\[[0-9A-Fa-f:.]+\](:\d{1,5})?")
_METHODS: Final = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
_HEADERS: Final = "authorization, content-type, x-osaurus-agent-id"
#: Headers that may be credentials; a request with more of them has none that a plugin is shown.
_MOST: Final = 8
_UNCLEAR: Final = object()
_CORS: Final = (
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-methods", _METHODS.encode()),
    (b"access-control-allow-headers", _HEADERS.encode()),
)
_NAMES: Final = re.compile(r"[!#$%&'*+.^_`|~\w, -]{1,4096}", re.ASCII)


class PluginSite:
    """An ASGI callable for `/plugins/`."""

    def __init__(
        self,
        app: App,
        resolvers: Sequence[Resolver],
        *,
        max_body: int,
        cors: bool = True,
        others: Sequence[Resolver] = (),
    ) -> None:
        self._app = app
        self._site = Site(app)
        self._resolvers = tuple(resolvers)
        #: Everybody who takes credentials on this server: these, and those of its other addresses.
        self._everybody = (*self._resolvers, *(each for each in others if each not in self._resolvers))
        self._max_body = max_body
        #: Whether pages of other origins are told that they may read; else the app's own word counts.
        self._cors = _CORS if cors else ()
        self.in_flight = 0

    async def start(self) -> None:
        """Start those plugins that wait for requests."""
        await self._app.plugins.wake()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = asgi.Request(scope).headers
        own = self.of_page(scope)
        cors = _own_page(headers) if own else self._cors
        if cors and scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
            await _send(send, Answer(204), cors, head=True)
            return
        self.in_flight += 1
        try:
            answer = await self._answered(scope, receive)
        except Disconnected:
            return
        except Exception:
            report("A plugin's request failed in an unexpected way.", self._app.redactor)
            answer = Answer(
                500,
                b'{"error":{"message":"The request failed inside the server."}}',
                (("content-type", "application/json"),),
            )
        finally:
            self.in_flight -= 1
        if own:
            kept = [pair for pair in answer.headers if not pair[0].startswith("access-control-")]
            answer = replace(answer, headers=kept)
        elif not answer.shared:
            cors = ()
        await _send(send, answer, cors, head=scope["method"] == "HEAD")

    def of_page(self, scope: Scope) -> bool:
        """Whether a page of the plugin makes this request to it. Such pages have no origin."""
        if not any(name == b"origin" and value == b"null" for name, value in scope["headers"]):
            return False
        query: str = scope.get("query_string", b"").decode("latin-1")
        path = _sent_path(scope)
        return path.startswith(PREFIX) and self._site.of_page(path, query)

    async def _answered(self, scope: Scope, receive: Receive) -> Answer:
        request = asgi.Request(scope)

        async def body() -> bytes:
            try:
                return await read_body(scope, receive, self._max_body)
            except PayloadTooLarge as exc:
                raise Refused(413, exc.message) from exc

        async def owner() -> bool:
            try:
                caller = await resolve(self._resolvers, request, self._app.redactor)
            except Failure:
                return False
            return caller.user is not None or caller.auth is not None

        async def known_by(names: Collection[str]) -> Collection[str]:
            return await self._known_by(scope, names)

        return await self._site.answer(
            Request(
                scope["method"],
                _sent_path(scope),
                scope.get("query_string", b"").decode("latin-1"),
                {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]},
                body,
                is_local(scope),
                owner,
                known_by,
                _base_url(scope),
                _origin(scope, request),
            )
        )

    async def _known_by(self, scope: Scope, names: Collection[str]) -> Collection[str]:
        """Those of the names whose headers make a caller known, or known as another than without them."""
        lines = [(name.decode("latin-1").lower(), (name, value)) for name, value in scope["headers"]]
        suspect = [(name, line) for name, line in lines if name in names]
        if len(suspect) > _MOST:
            return names
        bare = [line for name, line in lines if name not in names]
        found: set[str] = set()
        for resolver in self._everybody:
            nobody = await _caller(resolver, {**scope, "headers": bare})
            for name, line in suspect:
                caller = await _caller(resolver, {**scope, "headers": [*bare, line]})
                if caller is _UNCLEAR or (caller is not None and caller != nobody):
                    found.add(name)
        return found


def _own_page(headers: Mapping[str, str]) -> tuple[tuple[bytes, bytes], ...]:
    """What a plugin's page is told of its own plugin's answers: that it may send and read all, as one of an origin."""
    names = headers.get("access-control-request-headers", "")
    asked = names.encode() if _NAMES.fullmatch(names) else _HEADERS.encode()
    return (
        (b"access-control-allow-origin", b"null"),
        (b"access-control-allow-methods", _METHODS.encode()),
        (b"access-control-allow-headers", asked),
        (b"access-control-expose-headers", b"*"),
        (b"vary", b"origin"),
    )


async def _caller(resolver: Resolver, scope: Scope) -> Any:
    """Who this resolver says is calling; None for nobody. What it could not find out is unclear."""
    try:
        caller = await resolve(resolver, asgi.Request(scope))
    except Failure as failure:
        return None if failure.kind is Kind.unauthenticated else _UNCLEAR
    return None if caller.user is None and caller.auth is None else caller


def _sent_path(scope: Scope) -> str:
    """The path as it was sent, within this app."""
    raw = scope.get("raw_path")
    root = scope.get("root_path", "")
    if not raw:
        return quote(route_path(scope), safe="/:@!$&'()*+,;=~")
    path: str = raw.decode("latin-1").partition("?")[0]
    return path[len(root) :] if root and path.startswith(f"{root}/") else path


def is_local(scope: Scope) -> bool:
    """Whether a request comes from this machine, and nobody passed it on."""
    headers = asgi.Request(scope).headers
    if any(name in headers for name in _FORWARDED):
        return False
    client = scope.get("client")
    return client is not None and _is_loopback(client[0]) and _is_loopback(_host(headers.get("host", "")))


def _host(header: str) -> str:
    return header.partition("]")[0].lstrip("[") if header.startswith("[") else header.partition(":")[0]


def _is_loopback(host: str) -> bool:
    if host in ("localhost", ""):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def _origin(scope: Scope, request: asgi.Request) -> str | None:
    host = request.headers.get("host", "")
    root: str = scope.get("root_path", "")
    return f"{scope.get('scheme', 'http')}://{host}{root}" if _HOST.fullmatch(host) else None


def _base_url(scope: Scope) -> str:
    server = scope.get("server")
    port = server[1] if server and server[1] else None
    root: str = scope.get("root_path", "")
    return f"http://127.0.0.1{'' if port is None else f':{port}'}{root}"


async def _send(send: Send, answer: Answer, cors: Sequence[tuple[bytes, bytes]], *, head: bool) -> None:
    own = {name for name, _ in answer.headers}
    headers = [
        *((name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in answer.headers),
        *(pair for pair in cors if pair[0] == b"vary" or pair[0].decode() not in own),
        *asgi.length(answer.status, answer.body),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head else answer.body})
