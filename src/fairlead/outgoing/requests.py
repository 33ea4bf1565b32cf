"""`Outgoing`: one request to somebody's server, guarded, with limits of time and size, and its redirects if wanted.

    outgoing = Outgoing(guard)
    received = await outgoing.send("POST", url, headers={...}, body=b"...", timeout=10)

Where it goes is checked when it connects, on each hop. Failures have the words that plugins know (`ssrf_blocked`,
`dns_failure`, ...). An answer that is an error is an answer.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fairlead.failures import Failure, Kind
from fairlead.failures.host import (
    ConnectionRefused,
    ConnectionTimeout,
    InvalidResponse,
    NetworkError,
    RequestTooLarge,
    ResponseTooLarge,
    TlsError,
    TooManyRedirects,
)
from fairlead.outgoing.guard import Guard
from fairlead.outgoing.urls import Target, parse

if TYPE_CHECKING:
    import httpx

#: Bytes of a body, either way.
LARGEST: Final = 50_000_000
#: Seconds that all of it may take, redirects included.
TIMEOUT: Final = 30.0
#: Redirects that are followed at most, where they are.
MOST_REDIRECTS: Final = 20
_AGAIN: Final = frozenset({301, 302, 303, 307, 308})
#: Redirects after which the same request is made again, body and all.
_SAME: Final = frozenset({307, 308})
#: What is about a body.
_OF_BODY: Final = frozenset(
    {"content-length", "content-type", "content-encoding", "content-language", "transfer-encoding"}
)
#: What the connection says of itself.
_OURS: Final = frozenset({"host", "content-length", "transfer-encoding", "connection"})
_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VALUE: Final = re.compile(r"(?:[!-~]+(?:[ \t]+[!-~]+)*)?")
_UNSENDABLE: Final = "The request cannot be sent: its method, its address or a header is none of HTTP's."

Headers = Mapping[str, str] | Iterable[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Received:
    """What a server answered. Names of headers are in lower case."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    #: Where it came from, after redirects.
    url: str

    def header(self, name: str) -> str | None:
        """The first header of this name."""
        return next((value for each, value in self.headers if each == name.lower()), None)


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    target: Target
    headers: tuple[tuple[str, str], ...]
    body: bytes
    #: Seconds to connect, shared by all addresses that are tried.
    patience: float

    def redirected(self, status: int, target: Target) -> _Request:
        """The request that a redirect asks for."""
        method, headers, body = self.method, self.headers, self.body
        if status not in _SAME and method not in ("GET", "HEAD"):
            method, body = "GET", b""
            headers = _without(headers, _OF_BODY)
        if target.origin != self.target.origin:
            headers = _without_credentials(headers)
        return _Request(method, target, headers, body, self.patience)


class Outgoing:
    """Sends requests where its guard lets them go. Used on one event loop."""

    def __init__(
        self,
        guard: Guard | None = None,
        *,
        verify: ssl.SSLContext | bool = True,
        proxy: str | None = None,
        largest: int = LARGEST,
    ) -> None:
        self.guard = Guard.from_environ() if guard is None else guard
        self._options: dict[str, Any] = {"verify": verify, "proxy": proxy}
        self._largest = largest
        self._transport: httpx.AsyncBaseTransport | None = None

    async def send(
        self,
        method: str,
        url: str,
        *,
        headers: Headers = (),
        body: bytes = b"",
        timeout: float = TIMEOUT,
        redirects: int = 0,
        read: bool = True,
    ) -> Received:
        """Make a request; gives what was answered, whatever its status.

        Args:
            timeout: Seconds that all of it may take.
            redirects: How many are followed. One more fails; with none, a redirect is the answer.
            read: Whether the answer's body is wanted.

        Raises:
            SsrfBlocked: it, or a redirect, leads where it may not go.
            Failure: what else stood in the way.
        """
        if len(body) > self._largest:
            raise RequestTooLarge(f"The request's body is larger than {self._largest} bytes.")
        try:
            async with asyncio.timeout(timeout):
                given = headers.items() if isinstance(headers, Mapping) else headers
                wanted = _sendable(_without(tuple(given), _OURS))
                request = _Request(method.upper(), parse(url), wanted, body, timeout)
                return await self._followed(request, redirects, read)
        except TimeoutError as error:
            words = f"The server did not answer within {timeout:g} s."
            raise ConnectionTimeout(words, cause=error) from error

    async def close(self) -> None:
        """Let go of connections."""
        if self._transport is not None:
            await self._transport.aclose()
            self._transport = None

    async def _followed(self, request: _Request, redirects: int, read: bool) -> Received:
        for left in range(redirects, -1, -1):
            received = await self._once(request, read)
            location = received.header("location")
            if redirects == 0 or received.status not in _AGAIN or location is None:
                return received
            if left:
                request = request.redirected(received.status, parse(location, request.target))
        raise TooManyRedirects(f"The server redirected more than {redirects} times.")

    async def _once(self, request: _Request, read: bool) -> Received:
        import httpx

        if self._transport is None:
            self._transport = self.guard.transport(**self._options)
        # No encoding is asked for: a small answer could unpack to a huge one.
        headers = [("Accept", "*/*"), ("Accept-Encoding", "identity"), *request.headers]
        given = {name.lower() for name, _ in request.headers}
        headers = [each for each in headers[:2] if each[0].lower() not in given] + headers[2:]
        url = str(request.target)
        try:
            sent = httpx.Request(
                request.method,
                url,
                headers=headers,
                content=request.body or None,
                extensions={"timeout": {"connect": request.patience}},
            )
        except (ValueError, TypeError, httpx.InvalidURL) as error:
            raise Failure(Kind.invalid_input, _UNSENDABLE, cause=error) from error
        try:
            answer = await self._transport.handle_async_request(sent)
            try:
                body = await self._body(answer) if read else b""
            finally:
                await answer.aclose()
        except httpx.TransportError as error:
            raise _told(error) from error
        told = tuple((name.lower(), value) for name, value in answer.headers.multi_items())
        return Received(answer.status_code, told, body, url)

    async def _body(self, answer: httpx.Response) -> bytes:
        """The body as it was sent, as long as it is not too large."""
        pieces, size = [], 0
        async for piece in answer.aiter_raw():
            size += len(piece)
            if size > self._largest:
                raise ResponseTooLarge(f"The response's body is larger than {self._largest} bytes.")
            pieces.append(piece)
        return b"".join(pieces)


def _without(headers: tuple[tuple[str, str], ...], names: frozenset[str]) -> tuple[tuple[str, str], ...]:
    return tuple(each for each in headers if each[0].lower() not in names)


def _without_credentials(headers: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """What another origin may see: nothing that is a secret by its name, or looks like one."""
    from fairlead.failures.redaction import DEFAULT

    return tuple(
        (name, value)
        for name, value in headers
        if not DEFAULT.names.match(name) and DEFAULT.text(value) == value
    )


def _sendable(headers: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """The headers, if they can be sent. Looked at here, since libraries quote the value, which may be a secret."""
    for name, value in headers:
        if not _NAME.fullmatch(name):
            words = "The name of a header cannot be sent. Names have letters, digits and '-'."
            raise Failure(Kind.invalid_input, words)
        if not _VALUE.fullmatch(value):
            words = f"The header {name!r} cannot be sent. Its value must be ASCII text on one line."
            raise Failure(Kind.invalid_input, words)
    return headers


def _told(error: httpx.TransportError) -> Failure:
    """What went wrong on the way, in our words."""
    import httpx

    causes: list[BaseException] = [error]
    while causes[-1].__cause__ is not None or causes[-1].__context__ is not None:
        cause = causes[-1].__cause__ or causes[-1].__context__
        assert cause is not None
        causes.append(cause)
    if isinstance(error, httpx.LocalProtocolError):
        return Failure(Kind.invalid_input, _UNSENDABLE, cause=error)
    if isinstance(error, httpx.TimeoutException):
        return ConnectionTimeout(cause=error)
    if any(isinstance(each, ssl.SSLError) for each in causes):
        return TlsError(cause=error)
    if any(isinstance(each, ConnectionRefusedError) for each in causes):
        return ConnectionRefused(cause=error)
    if isinstance(error, httpx.ProtocolError):
        return InvalidResponse(cause=error)
    return NetworkError(cause=error)
