"""Calls over HTTP, by httpx: JSON for a call, server-sent events for a stream, connections kept and reused.

Everything the server sends is untrusted. What it says about a call is kept; that it says nothing readable,
or nothing at all, is a failure of ours.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit
from weakref import WeakKeyDictionary

from fairlead import _json
from fairlead.actions import DefinitionError
from fairlead.failures import Failure, Issue, Kind
from fairlead.failures.action import InvalidResponse, TransportError, UntrustedRemoteIdentity
from fairlead.runtime import Event
from fairlead.schema import NotJsonable, jsonable
from fairlead.surfaces.client.reply import Reply, retry_after
from fairlead.surfaces.client.retries import USUAL
from fairlead.surfaces.client.sse import Reader, TooLong
from fairlead.surfaces.client.transport import NOTHING, Call, Unreachable

if TYPE_CHECKING:
    import httpx

#: How much longer than its time-out a call is waited for: its server says better what became of it.
GRACE: Final = 1.0
_CONNECTING: Final = 10.0
#: A server that has told the result has nothing more to say.
_ENDING: Final = 1.0


class Http:
    """A transport to a server that speaks Fairlead's HTTP, at `url` and below `base_path`."""

    retry = USUAL

    def __init__(
        self,
        url: str,
        *,
        base_path: str = "/fairlead",
        headers: Mapping[str, str] | None = None,
        api_key: str | None = None,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        self._httpx = _imported()
        self._host, self._actions = _places(url, base_path)
        self._headers = _checked_headers(
            {
                "accept": "application/json",
                "content-type": "application/json",
                **({} if api_key is None else {"authorization": f"Bearer {api_key}"}),
                **{name.lower(): value for name, value in (headers or {}).items()},
            }
        )
        #: One that was given is its giver's to close.
        self._given = http
        #: Connections belong to the loop they were opened on.
        self._own: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient] = WeakKeyDictionary()

    async def invoke(self, call: Call) -> Reply[Any]:
        request = self._request(call, "invoke", {})
        async with self._told(), _Patience(call):
            response = await self._client().send(request)
        return self._reply(response)

    async def stream(self, call: Call) -> AsyncGenerator[Event, None]:
        events = {"accept": "text/event-stream", "accept-encoding": "identity"}
        request = self._request(call, "stream", events)
        patience = _Patience(call)
        async with self._told(), patience:
            response = await self._client().send(request, stream=True)
        try:
            if not _is_stream(response):
                async with self._told(), patience:
                    await response.aread()
                yield {"type": "result", "envelope": self._reply(response).to_dict()}
                return
            reader = Reader()
            pieces = response.aiter_bytes()
            while True:
                async with self._told(), patience:
                    piece = await anext(pieces, None)
                if piece is None:
                    raise TransportError("The stream ended before its result came.")
                for event in _events(reader, piece):
                    yield event
                    if event["type"] == "result":
                        await self._drain(pieces)
                        return
        finally:
            await response.aclose()

    async def _drain(self, pieces: AsyncIterator[bytes]) -> None:
        """Read the end of the stream, so that the connection can be used again."""
        with suppress(TimeoutError, self._httpx.HTTPError):
            async with asyncio.timeout(_ENDING):
                async for _ in pieces:
                    pass

    async def aclose(self) -> None:
        own = self._own.pop(asyncio.get_running_loop(), None)
        if own is not None:
            await own.aclose()

    def _client(self) -> httpx.AsyncClient:
        if self._given is not None:
            return self._given
        loop = asyncio.get_running_loop()
        own = self._own.get(loop)
        if own is None:
            limits = self._httpx.Limits(max_connections=None, max_keepalive_connections=100)
            timeout = self._httpx.Timeout(None, connect=_CONNECTING)
            own = self._httpx.AsyncClient(limits=limits, timeout=timeout, verify=self._trust())
            self._own[loop] = own
        return own

    def _trust(self) -> ssl.SSLContext | bool:
        """Reading the certificates takes a while. Without TLS none are needed: trust nobody."""
        return self._host.startswith("https:") or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    def _request(self, call: Call, verb: str, headers: dict[str, str]) -> httpx.Request:
        """Raises Failure, before anything is sent, for what must not or cannot be sent."""
        if call.user is not None or call.auth is not None:
            raise UntrustedRemoteIdentity
        key = call.idempotency_key
        if key is not None and key.isascii() and key.isprintable() and key == key.strip():
            headers = {**headers, "idempotency-key": key}
        place = f"{self._actions}/{quote(call.address, safe='@')}/{verb}"
        return self._client().build_request(
            "POST", place, content=_body(call), headers={**self._headers, **headers}
        )

    def _reply(self, response: httpx.Response) -> Reply[Any]:
        try:
            envelope = _json.loads(response.content)
        except ValueError as exc:
            kind = response.headers.get("content-type", "no content type").split(";")[0]
            raise InvalidResponse(
                f"{self._host} answered {response.status_code} with {kind[:50]!r}, not with an envelope. "
                "Check the URL and the base path.",
                retry_after=retry_after(response.headers),
                cause=exc,
            ) from exc
        reply: Reply[Any] = Reply(envelope)
        if reply.failure is not None and reply.failure.retry_after is None:
            reply.failure.retry_after = retry_after(response.headers)
        return reply

    @asynccontextmanager
    async def _told(self) -> AsyncIterator[None]:
        """What httpx raises, in our words."""
        httpx = self._httpx
        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as exc:
            raise Unreachable(f"{self._host} could not be reached: {_why(exc)}.", cause=exc) from exc
        except httpx.DecodingError as exc:
            raise InvalidResponse(
                f"{self._host} answered with something that cannot be decoded.", cause=exc
            ) from exc
        except httpx.RequestError as exc:
            raise TransportError(f"The connection to {self._host} broke: {_why(exc)}.", cause=exc) from exc


class _Patience:
    """How long a call is waited for in all, counted only while it is waited for: a slow listener costs nothing."""

    def __init__(self, call: Call) -> None:
        limits = [call.deadline, None if call.timeout is None else call.timeout + GRACE]
        self._left = min((each for each in limits if each is not None), default=None)
        self._total = call.timeout if call.timeout is not None else call.deadline

    async def __aenter__(self) -> None:
        self._began = asyncio.get_running_loop().time()
        self._guard = asyncio.timeout(self._left)
        await self._guard.__aenter__()

    async def __aexit__(self, *raised: Any) -> None:
        try:
            await self._guard.__aexit__(*raised)
        except TimeoutError as exc:
            if not self._guard.expired():
                raise
            raise Failure(
                Kind.timeout, f"No answer came within {round(self._total or 0, 3):g} seconds.", cause=exc
            ) from exc
        finally:
            if self._left is not None:
                self._left -= asyncio.get_running_loop().time() - self._began


def _imported() -> Any:
    try:
        import httpx
    except ImportError as exc:
        raise DefinitionError(
            "A client with a URL needs httpx, which is not installed: pip install 'fairlead[client]'"
        ) from exc
    return httpx


def _places(url: str, base_path: str) -> tuple[str, str]:
    """The server for messages, without credentials, and where its actions are."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        parts.port  # noqa: B018  # raises for what is no port
    except ValueError as exc:
        raise DefinitionError(f"Client: the url cannot be read: {exc}.") from exc
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise DefinitionError(
            "Client: the url must be like 'https://api.example.com', with a path if the server is below one."
        )
    base = f"/{base_path.strip('/')}" if base_path.strip("/") else ""
    return f"{parts.scheme}://{host}", f"{url.rstrip('/')}{base}/actions"


def _checked_headers(headers: dict[str, Any]) -> dict[str, str]:
    for name, value in headers.items():
        if not (isinstance(value, str) and value.isascii() and value.isprintable()):
            raise DefinitionError(
                f"Client: the header {name!r} cannot be sent; it must be ASCII text on one line."
            )
    return headers


def _body(call: Call) -> bytes:
    body: dict[str, Any] = {}
    if call.input is not NOTHING:
        body["input"] = _sendable("input", call.input)
    if call.confirm is not None:
        body["confirm"] = call.confirm
    if call.metadata is not None:
        body["metadata"] = _sendable("metadata", call.metadata)
    if call.idempotency_key is not None:
        body["idempotencyKey"] = call.idempotency_key
    limits = [each for each in (call.timeout, call.deadline) if each is not None]
    if limits:
        body["timeoutMs"] = max(1, round(min(limits) * 1000))
    return _json.encode(body)


def _sendable(name: str, value: Any) -> Any:
    try:
        return jsonable(value)
    except NotJsonable as exc:
        issue = Issue(exc.path, "not_json", f"This cannot be sent as JSON: {exc.reason}.")
        raise Failure(Kind.invalid_input, f"The {name} cannot be sent as JSON.", issues=[issue]) from exc


def _is_stream(response: httpx.Response) -> bool:
    kind: str = response.headers.get("content-type", "")
    return kind.startswith("text/event-stream")


def _events(reader: Reader, piece: bytes) -> Iterator[Event]:
    try:
        messages = reader.feed(piece)
    except TooLong as exc:
        raise InvalidResponse(str(exc), cause=exc) from exc
    return (_event(message.data) for message in messages)


def _event(data: str) -> Event:
    try:
        event = _json.loads(data)
    except ValueError as exc:
        raise InvalidResponse("An event of the stream is not JSON.", cause=exc) from exc
    if not isinstance(event, dict) or not isinstance(event.get("type"), str):
        raise InvalidResponse("An event of the stream has no type.")
    if event["type"] == "result":
        Reply(event.get("envelope"))
    return event


def _why(error: Exception) -> str:
    return (str(error) or type(error).__name__).rstrip(".")
