"""Plugins over HTTP: which plugin and route a request is for, whether it may pass, and what the plugin says to it.

    /plugins/<plugin id>/<path>

It knows requests and answers, and no server: a surface makes the one of what came, and sends the other. Who the owner
is, the surface says.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from fairlead import _json
from fairlead.failures import Failure, Kind
from fairlead.failures.redaction import DEFAULT
from fairlead.plugins.identity import DEFAULT_AGENT, agents_of, parsed
from fairlead.plugins.manifest import Route
from fairlead.runtime import App

if TYPE_CHECKING:
    from fairlead.plugins.plugin import Plugin

PREFIX: Final = "/plugins/"
AGENT_HEADER: Final = "x-osaurus-agent-id"
AGENT_QUERY: Final = "osr_agent"
#: By which a plugin's page shows that a request is its own.
PAGE_QUERY: Final = "osr_page"
#: Seconds for a plugin to answer.
LONGEST: Final = 30.0
#: Requests to routes that ask for no key: so many at once, and so many more each minute.
CAPACITY: Final = 100.0
PER_MINUTE: Final = 100.0
#: Headers of an answer that are the server's own to send.
_SERVERS: Final = frozenset(
    {"connection", "content-length", "date", "keep-alive", "server", "te", "trailer", "transfer-encoding"}
    | {"upgrade", "proxy-authenticate", "proxy-authorization"}
)
#: Headers that hold for more than the answer they come with: browsers keep them for the whole host, or for its origin,
#: and servers in front of this one answer with what they name.
_BEYOND: Final = frozenset(
    {"set-cookie", "set-cookie2", "clear-site-data", "service-worker-allowed", "origin-agent-cluster"}
    | {"strict-transport-security", "public-key-pins", "expect-ct", "alt-svc", "accept-ch", "set-login"}
    | {"nel", "report-to", "use-as-dictionary", "secure-session-registration", "sec-session-registration"}
    | {"x-accel-redirect", "x-sendfile", "x-lighttpd-send-file", "x-reproxy-url"}
)
#: Answers that have no body: one that is sent all the same is read as another answer.
_BARE: Final = (204, 304)
#: What plugins send is not of the app's origin, whatever it is: no page of theirs calls the app in a visitor's name, or
#: reads what the app's own pages keep. What they open elsewhere is as it is elsewhere.
_APART: Final = (
    "sandbox allow-scripts allow-forms allow-modals allow-downloads"
    " allow-popups allow-popups-to-escape-sandbox"
)
#: Browsers show no PDF that is apart, and run none in the page's origin.
_NO_PAGE: Final = "application/pdf"
#: What a caller shows to us, where we ask for a key.
_CREDENTIALS: Final = frozenset({"authorization", "x-api-key", "x-agent-api-key"})
#: How our own keys begin; in the middle of somebody else's token that means nothing.
_KEYS: Final = re.compile(r"(?<![\w.~+/-])(?:flk_|oag_|bak_|osk-)", re.ASCII)
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")

Headers = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it came; the path as it was sent, without its query, from `/plugins/` on."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    #: Reads the body. Raises Failure when it is too long.
    body: Callable[[], Awaitable[bytes]] | None = None
    #: Whether it comes from this machine, and through no proxy.
    local: bool = False
    #: Whether the caller shows a valid key.
    owner: Callable[[], Awaitable[bool]] | None = None
    #: Which of the headers of these names make the caller known to this server.
    known_by: Callable[[Collection[str]], Awaitable[Collection[str]]] | None = None
    #: Where this server is reached, for what is sent back.
    base_url: str = "http://127.0.0.1"
    #: The same as the one who asks calls it, where that is on this machine.
    origin: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What is sent back."""

    status: int
    body: bytes = b""
    headers: Headers = ()
    #: Whether pages of other origins may read it, as far as the surface lets them.
    shared: bool = True


class Refused(Exception):
    """The request does not pass: the status, and why."""

    def __init__(self, status: int, message: str, headers: Headers = ()) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers


@dataclass(frozen=True, slots=True)
class Matched:
    """The route that a request is for, and what its path says."""

    route: Route
    params: dict[str, str]


class Bucket:
    """Lets so many through at once, and is filled again evenly."""

    def __init__(
        self, clock: Callable[[], float], capacity: float = CAPACITY, per_minute: float = PER_MINUTE
    ) -> None:
        self._clock = clock
        self._capacity = capacity
        self._rate = per_minute / 60.0
        self._left = capacity
        self._looked = clock()

    def take(self) -> float:
        """0.0 where one more may pass, else the seconds until it may."""
        now = self._clock()
        self._left = min(self._capacity, self._left + (now - self._looked) * self._rate)
        self._looked = now
        if self._left >= 1.0:
            self._left -= 1.0
            return 0.0
        return (1.0 - self._left) / self._rate


class Site:
    """All that plugins of an app serve."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._buckets: dict[str, Bucket] = {}

    async def answer(self, request: Request) -> Answer:
        """The answer to a request, whatever it is."""
        try:
            return _apart(await self._passed(request))
        except Refused as refused:
            body = _json.encode({"error": {"message": refused.message}})
            return _apart(
                Answer(refused.status, body, (("content-type", "application/json"), *refused.headers))
            )

    def page_token(self, id: str) -> str:
        """What a page of this plugin shows with its requests, which have no origin to go by."""
        key = self._app._confirmations.key_for(b"the pages of plugins")
        return hmac.new(key, id.encode("utf-8", "replace"), hashlib.sha256).hexdigest()[:32]

    def of_page(self, path: str, query: str) -> bool:
        """Whether a request is made by a page of the very plugin that it is for."""
        given = query_of(query).get(PAGE_QUERY)
        if given is None:
            return False
        id = unquote(path.removeprefix(PREFIX).partition("/")[0])
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.page_token(id).encode())

    async def _passed(self, request: Request) -> Answer:
        id, path = addressed(request.path)
        query = query_of(request.query)
        agent = self._agent(request, query)
        plugin = self._app.plugins.get(id)
        if plugin is None:
            raise Refused(404, "No plugin of this name is loaded.")
        web = plugin.manifest.web
        if web is not None:
            from fairlead.plugins.web import mounted, serve

            inner = mounted(path, web.mount)
            if inner is not None:
                await self._let_in(plugin, web.auth, web.tunnel_exposed, request, count=False)
                url = request.origin if request.local and request.origin else self._url(request)
                return await serve(plugin, web, inner, request, url, agent, self.page_token(plugin.id))
        matched = match(plugin.manifest.routes, request.method, path)
        if matched is None:
            raise Refused(404, "The plugin has nothing at this address for this method.")
        route = matched.route
        await self._let_in(plugin, route.auth, route.tunnel_exposed, request, count=True)
        return await self._called(plugin, matched, path, query, agent, request)

    def _agent(self, request: Request, query: Mapping[str, str]) -> str:
        agent = parsed(request.headers.get(AGENT_HEADER, query.get(AGENT_QUERY, "")).strip())
        if agent is None:
            raise Refused(401, "Say for which agent this is: X-Osaurus-Agent-Id, or osr_agent in the query.")
        if agent != DEFAULT_AGENT and agent not in agents_of(self._app):
            words = (
                "No agent has this id. An agent's id is shown by: fairlead plugin config PLUGIN --agent NAME"
            )
            raise Refused(401, words)
        return agent

    async def _let_in(
        self, plugin: Plugin, auth: str, exposed: bool, request: Request, *, count: bool
    ) -> None:
        """Raises Refused for a request that may not pass."""
        if not request.local and not exposed:
            raise Refused(404, "There is nothing at this address.")
        if auth == "owner":
            if request.owner is None or not await request.owner():
                words = "This needs a key: Authorization: Bearer KEY. To make one: fairlead keys new NAME"
                raise Refused(401, words, (("www-authenticate", "Bearer"),))
        elif count:
            bucket = self._buckets.setdefault(plugin.id, Bucket(self._app.clock.monotonic))
            wait = bucket.take()
            if wait > 0:
                raise Refused(
                    429, "Too many requests. Try again later.", (("retry-after", str(int(wait) + 1)),)
                )

    async def _called(
        self,
        plugin: Plugin,
        matched: Matched,
        path: str,
        query: Mapping[str, str],
        agent: str,
        request: Request,
    ) -> Answer:
        body = b"" if request.body is None else await request.body()
        told = _json.dumps(
            {
                "route_id": matched.route.id,
                "method": request.method.upper(),
                "path": path,
                "query": {name: value for name, value in query.items() if name != PAGE_QUERY},
                "path_params": matched.params,
                "headers": await _headers(request, matched.route.auth),
                **encoded(body),
                "remote_addr": "",
                "plugin_id": plugin.id,
                "osaurus": self._about(plugin, request, agent),
            },
            sort_keys=True,
        )
        try:
            await plugin.start()
            if (plugin.abi or 0) < 2:
                raise Refused(501, "This plugin answers no requests.")
            said = await plugin.handle_route(told, agent=agent, timeout=LONGEST)
        except Failure as failure:
            if failure.kind is Kind.unsupported:
                raise Refused(501, "This plugin answers no requests.") from failure
            raise Refused(500, _told(failure)) from failure
        return read_response(said)

    def _url(self, request: Request) -> str:
        return (self._app.plugins.tunnel_url or request.base_url).rstrip("/")

    def _about(self, plugin: Plugin, request: Request, agent: str) -> dict[str, str]:
        base = self._url(request)
        return {"base_url": base, "plugin_url": f"{base}{PREFIX}{plugin.id}", "agent_address": agent}


def addressed(path: str) -> tuple[str, str]:
    """The plugin that a path names, and the path within it. Raises Refused."""
    id, slash, inner = path.removeprefix(PREFIX).partition("/")
    if not slash:
        raise Refused(404, "There is nothing at this address. A plugin's begin with /plugins/ID/")
    if any(".." in each for each in (id, inner, unquote(id), unquote(inner))):
        raise Refused(400, "An address must not contain '..'.")
    return unquote(id), f"/{inner}"


def query_of(text: str) -> dict[str, str]:
    """A query by name: decoded, a plus stays one, the last of a name counts."""
    found: dict[str, str] = {}
    for part in text.split("&"):
        name, _, value = part.partition("=")
        if part:
            found[unquote(name)] = unquote(value)
    return found


def match(routes: Sequence[Route], method: str, path: str) -> Matched | None:
    """The route for a request: by its exact path, else by parameters, else by a wildcard; of several, the first."""
    wanted = method.upper()
    found = _match(routes, wanted, path)
    return _match(routes, "GET", path) if found is None and wanted == "HEAD" else found


def _match(routes: Sequence[Route], method: str, path: str) -> Matched | None:
    path = _rooted(path.partition("?")[0])
    taking = [route for route in routes if method in (each.upper() for each in route.methods)]
    for route in taking:
        if _rooted(route.path) == path:
            return Matched(route, {})
    for route in taking:
        params = _params(_rooted(route.path), path)
        if params is not None:
            return Matched(route, params)
    for route in taking:
        pattern = _rooted(route.path)
        if pattern.endswith("/*") and (path == pattern[:-2] or path.startswith(pattern[:-1])):
            return Matched(route, {})
    return None


def _rooted(path: str) -> str:
    return path if path.startswith("/") else f"/{path}"


def _params(pattern: str, path: str) -> dict[str, str] | None:
    """What a path says where a pattern has names; None where it is another path."""
    wanted, given = pattern.split("/"), path.split("/")
    if len(wanted) != len(given) or not any(each.startswith(":") for each in wanted):
        return None
    found: dict[str, str] = {}
    for want, have in zip(wanted, given, strict=True):
        if want.startswith(":") and len(want) > 1:
            if not have:
                return None
            found[want[1:]] = unquote(have)
        elif want != have:
            return None
    return found


def encoded(body: bytes) -> dict[str, str]:
    """A body as plugins get it: as text where it is text."""
    try:
        return {"body": body.decode(), "body_encoding": "utf8"}
    except UnicodeDecodeError:
        return {"body": base64.b64encode(body).decode(), "body_encoding": "base64"}


def read_response(said: str) -> Answer:
    """What a plugin answers. Raises Refused where that is no answer."""
    try:
        told = _json.loads(said)
    except (ValueError, RecursionError):
        told = None
    status = told.get("status") if isinstance(told, dict) else None
    # One below 200 announces an answer: what follows it, a body of the plugin's, would be read as that answer.
    if type(status) is not int or not 200 <= status <= 599:
        raise Refused(500, "The plugin's answer is not a response: it needs a status, from 200 to 599.")
    body, encoding, headers = (told.get(key) for key in ("body", "body_encoding", "headers"))
    wrong = body is not None and not isinstance(body, str)
    if wrong or (headers is not None and not isinstance(headers, dict)):
        raise Refused(500, "The plugin's answer is not a response: body must be a string, headers an object.")
    content = (body or "").encode(errors="replace")
    if encoding == "base64":
        try:
            content = base64.b64decode(body or "", validate=True)
        except (binascii.Error, ValueError):
            raise Refused(502, "The plugin's answer says base64, and is none.") from None
    return Answer(status, b"" if status in _BARE else content, tuple(_sendable(headers or {})))


def _sendable(headers: Mapping[str, Any]) -> list[tuple[str, str]]:
    """A plugin's headers, as far as they are ones, not the server's own, and of this answer alone."""
    found: list[tuple[str, str]] = []
    for name, value in headers.items():
        if not isinstance(value, str) or not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
            continue
        if name.lower() not in _SERVERS | _BEYOND:
            found.append((name.lower(), value))
    return found


def _apart(answer: Answer) -> Answer:
    """The answer, with an origin of its own wherever a browser makes a page of it. A plugin's own policy holds, too."""
    kinds = {value.strip().lower() for name, value in answer.headers if name == "content-type"}
    policy = () if kinds == {_NO_PAGE} else (("content-security-policy", _APART),)
    told = [(name, value) for name, value in answer.headers if name != "x-content-type-options"]
    return replace(answer, headers=(*told, *policy, ("x-content-type-options", "nosniff")))


async def _headers(request: Request, auth: str) -> dict[str, str]:
    """The headers that a plugin sees: not what a caller shows to us. What shows them to the plugin stays."""
    given = request.headers
    ours = {name for name, value in given.items() if _KEYS.search(value)} | {"proxy-authorization"}
    if auth == "owner":
        ours |= _CREDENTIALS
    asked = {name for name in given if name in _CREDENTIALS or DEFAULT.names.match(name)} - ours
    if asked and request.known_by is not None:
        ours.update(await request.known_by(asked))
    return {name: value for name, value in given.items() if name not in ours}


def _told(failure: Failure) -> str:
    if failure.kind is Kind.timeout:
        return "The plugin did not answer in time."
    return "The plugin gave no answer." if failure.details.get("null") else failure.message
