"""The guard where it cannot be gone around: between httpx and the sockets.

Each connection resolves its name, has every address checked, and goes to one that was. TLS and the `Host` header keep
the name. Nothing is taken from the environment.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from functools import cache
from typing import Any, Final

from fairlead.failures import Failure, Kind
from fairlead.outgoing.guard import Guard
from fairlead.outgoing.urls import parse

try:
    import httpcore
    import httpx
except ImportError:
    raise Failure(Kind.misconfigured, "Requests need a package: pip install 'fairlead[client]'") from None

#: Connections at once, none of which is kept for later: each request is checked anew.
LIMITS: Final = httpx.Limits(max_connections=None, max_keepalive_connections=0)
#: Addresses of one name that are tried.
_TRIED: Final = 6


class GuardedTransport(httpx.AsyncHTTPTransport):
    """A transport that goes only where its guard lets it.

    Through a proxy, which connects for us, the guard checks the name before each request, and that is all it can do.
    """

    def __init__(
        self,
        guard: Guard,
        *,
        verify: ssl.SSLContext | bool = True,
        limits: httpx.Limits = LIMITS,
        proxy: str | None = None,
    ) -> None:
        context = _trusting_all() if verify is True else httpx.create_ssl_context(verify, trust_env=False)
        super().__init__(verify=context, trust_env=False, limits=limits, proxy=proxy)
        self._guard = guard
        self._through_proxy = proxy is not None
        if proxy is None:
            self._pool = httpcore.AsyncConnectionPool(
                ssl_context=context,
                max_connections=limits.max_connections,
                max_keepalive_connections=limits.max_keepalive_connections,
                keepalive_expiry=limits.keepalive_expiry,
                network_backend=Sockets(guard),
            )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = str(request.url)
        if self._through_proxy:
            await self._guard.check(url)
        else:
            parse(url)
        return await super().handle_async_request(request)


@cache
def _trusting_all() -> ssl.SSLContext:
    """The context of those who trust what everybody trusts: reading these certificates takes longer than a request."""
    return httpx.create_ssl_context(trust_env=False)


class Sockets(httpcore.AsyncNetworkBackend):
    """Connects to addresses that were checked."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._plain = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        addresses = (await self._guard.addresses(host, port))[:_TRIED]
        # One address that does not answer must not use up the time of the others.
        each = None if timeout is None else timeout / len(addresses)
        *others, last = addresses
        for address in others:
            try:
                return await self._plain.connect_tcp(address, port, each, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return await self._plain.connect_tcp(last, port, each, local_address, socket_options)

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.AsyncNetworkStream:
        raise httpcore.ConnectError("Requests go out over the network alone.")

    async def sleep(self, seconds: float) -> None:
        await self._plain.sleep(seconds)
