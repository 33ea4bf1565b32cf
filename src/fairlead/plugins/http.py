"""`http_request`: requests that plugins have the host make, past the guard of `fairlead.outgoing`.

Where a name leads is checked when it is connected to, on each hop, so no spelling and no name server leads inside.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from typing import Any, Final

from fairlead._json import dumps, loads
from fairlead.failures import Failure, Kind
from fairlead.failures.host import ConnectionTimeout, InvalidRequest, RateLimitExceeded, RequestTooLarge
from fairlead.outgoing.requests import LARGEST, MOST_REDIRECTS, Outgoing, Received
from fairlead.outgoing.urls import parse
from fairlead.plugins.limits import Window
from fairlead.plugins.runner import Frame

#: Requests in a minute for one plugin and one agent.
PER_MINUTE: Final = 60
#: The bucket of calls that no agent makes.
ANONYMOUS: Final = "ffffffff-ffff-ffff-ffff-fffffffffff0"
TIMEOUT_MS: Final = 30_000
LONGEST_MS: Final = 300_000
#: Requests of one plugin that are on their way at once; the others wait, within their own time.
_AT_ONCE: Final = 8
_METHOD: Final = re.compile(r"[A-Za-z][A-Za-z0-9!#$%&'*+.^_`|~-]{0,31}")


@dataclass(frozen=True, slots=True)
class Request:
    """A request as a plugin asks for it."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    seconds: float
    redirects: int


class Http:
    """Makes the requests of one plugin. `outgoing` knows where they may go."""

    def __init__(
        self,
        plugin: str,
        outgoing: Outgoing,
        window: Window | None = None,
        *,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.plugin = plugin
        self._outgoing = outgoing
        self._window = window or Window(PER_MINUTE)
        self._clock = clock
        self._places = asyncio.Semaphore(_AT_ONCE)

    async def request(self, text: str, frame: Frame) -> str:
        """The answer to `http_request`.

        Raises:
            Failure: it is no request, may not be made, or found no answer.
        """
        asked = read(text)
        target = parse(asked.url)
        self._outgoing.guard.screen(target.host)
        if not self._window.take((self.plugin, frame.agent or ANONYMOUS)):
            raise RateLimitExceeded(
                f"The plugin has made {self._window.limit} requests in the last {self._window.seconds:g} s. "
                "Wait, and make fewer."
            )
        if len(asked.body) > LARGEST:
            raise RequestTooLarge(f"The request's body is larger than {LARGEST} bytes.")
        begun = self._clock()
        try:
            received = await self._sent(asked)
        except Failure as failure:
            if failure.kind not in (Kind.outside_scope, Kind.invalid_input, Kind.too_large):
                failure.details = {**failure.details, "elapsed_ms": self._since(begun)}
            raise
        return dumps(_told(received, self._since(begun)), sort_keys=True)

    async def close(self) -> None:
        """Let go of connections."""
        await self._outgoing.close()

    async def _sent(self, asked: Request) -> Received:
        try:
            async with asyncio.timeout(asked.seconds):
                await self._places.acquire()
        except TimeoutError as error:
            words = f"{_AT_ONCE} requests of the plugin were on their way for {asked.seconds:g} s already."
            raise ConnectionTimeout(words, cause=error) from error
        try:
            return await self._outgoing.send(
                asked.method,
                asked.url,
                headers=_signed(asked.headers, self.plugin),
                body=asked.body,
                timeout=asked.seconds,
                redirects=asked.redirects,
            )
        finally:
            self._places.release()

    def _since(self, begun: float) -> int:
        return round((self._clock() - begun) * 1000)


def read(text: str) -> Request:
    """What a plugin asks for. What is optional and makes no sense is left out, as the contract has it.

    Raises:
        InvalidRequest: there is no method or no address in it.
    """
    try:
        asked = loads(text)
    except ValueError:
        asked = None
    if not isinstance(asked, dict):
        raise InvalidRequest("The request is no JSON object.")
    method, url = asked.get("method"), asked.get("url")
    if not isinstance(method, str) or not _METHOD.fullmatch(method):
        raise InvalidRequest("Missing required field: method. Expected GET, POST or another of HTTP.")
    if not isinstance(url, str):
        raise InvalidRequest("Missing required field: url. Expected https://host/path.")
    follow = asked.get("follow_redirects") is not False
    return Request(
        method.upper(),
        url,
        _headers(asked.get("headers")),
        _body(asked.get("body"), asked.get("body_encoding")),
        _milliseconds(asked.get("timeout_ms")) / 1000,
        MOST_REDIRECTS if follow else 0,
    )


def _headers(given: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        return ()
    return tuple(given.items())


def _body(given: Any, encoding: Any) -> bytes:
    if not isinstance(given, str):
        return b""
    if encoding != "base64":
        return given.encode(errors="replace")
    try:
        return base64.b64decode(given, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _milliseconds(given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or given <= 0:
        return TIMEOUT_MS
    return min(given, LONGEST_MS)


def _signed(headers: tuple[tuple[str, str], ...], plugin: str) -> list[tuple[str, str]]:
    """The headers, with a User-Agent that says whose request it is."""
    own = f"Fairlead/{_version()} Plugin/{plugin}"
    others = [each for each in headers if each[0].lower() != "user-agent"]
    given = next((value for name, value in headers if name.lower() == "user-agent"), "")
    return [*others, ("User-Agent", f"{given} {own}".strip())]


@cache
def _version() -> str:
    return metadata.version("fairlead")


def _told(received: Received, elapsed: int) -> Mapping[str, Any]:
    headers: dict[str, str] = {}
    for name, value in received.headers:
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    try:
        body, encoding = received.body.decode(), "utf8"
    except UnicodeDecodeError:
        body, encoding = base64.b64encode(received.body).decode(), "base64"
    return {
        "status": received.status,
        "headers": headers,
        "body": body,
        "body_encoding": encoding,
        "elapsed_ms": elapsed,
    }
