"""Which names this server answers to. A page that makes its own name point here does not get through."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from fairlead.failures import Failure, Kind
from fairlead.runtime import Runtime
from fairlead.surfaces.http.asgi import Asgi, Receive, Scope, Send, is_under, route_path
from fairlead.surfaces.http.exchange import Exchange, Host

#: The names of this machine to itself.
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
#: Tells a failure to those whose request is for somebody beside the actions, who has words of their own.
Refuse = Callable[[Failure, Scope, Send], Awaitable[None]]


class HostLayer:
    """Refuses requests for other hosts. `*.example.com` stands for all names under it."""

    def __init__(
        self,
        inner: Asgi,
        runtime: Runtime,
        hosts: Sequence[str],
        others: Sequence[tuple[tuple[str, ...], Refuse]] = (),
    ) -> None:
        self._inner = inner
        #: Who else refuses, each with the beginnings of their paths.
        self._others = tuple(others)
        self._host = Host(runtime, "http")
        self._hosts = frozenset(host.lower() for host in hosts if not host.startswith("*."))
        self._endings = tuple(host[1:].lower() for host in hosts if host.startswith("*."))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = [value for name, value in scope["headers"] if name == b"host"]
        if len(given) == 1 and self._known(given[0].decode("latin-1").lower()):
            await self._inner(scope, receive, send)
            return
        refused = Failure(
            Kind.forbidden,
            "This server does not answer to the request's Host. Whoever runs it can add the name to allowed_hosts.",
        )
        for beginnings, refuse in self._others:
            if is_under(route_path(scope), beginnings):
                await refuse(refused, scope, send)
                return
        await Exchange(self._host, scope, receive, send).refuse(refused)

    def _known(self, host: str) -> bool:
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        return name in self._hosts or (bool(self._endings) and name.endswith(self._endings))
