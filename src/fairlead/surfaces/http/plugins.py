"""What plugins serve, beside the app's own routes: a request made of what came, and the answer sent.

Which plugin answers, and whether the request may pass, is decided where plugins are.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from fairlead.failures import Failure
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
_CORS: Final = (
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-methods", _METHODS.encode()),
    (b"access-control-allow-headers", _HEADERS.encode()),
)


class PluginSite:
    """An ASGI callable for `/plugins/`."""

    def __init__(self, app: App, resolvers: Sequence[Resolver], *, max_body: int, cors: bool = True) -> None:
        self._app = app
        self._site = Site(app)
        self._resolvers = tuple(resolvers)
        self._max_body = max_body
        #: Whether pages of other origins are told that they may read; else the app's own word counts.
        self._cors = _CORS if cors else ()
        self.in_flight = 0

    async def start(self) -> None:
        """Start those plugins that wait for requests."""
        await self._app.plugins.wake()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = asgi.Request(scope).headers
        if self._cors and scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
            await _send(send, Answer(204), self._cors, head=True)
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
        await _send(send, answer, self._cors, head=scope["method"] == "HEAD")

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

        return await self._site.answer(
            Request(
                scope["method"],
                _sent_path(scope),
                scope.get("query_string", b"").decode("latin-1"),
                {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]},
                body,
                is_local(scope),
                owner,
                _base_url(scope),
                _origin(scope, request),
            )
        )


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
        *(pair for pair in cors if pair[0].decode() not in own),
        (b"content-length", b"%d" % len(answer.body)),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head else answer.body})
