"""Which names this server answers to. A page that makes its own name point here does not get through."""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.failures import Failure, Kind
from fairlead.runtime import Runtime
from fairlead.surfaces.http.asgi import Asgi, Receive, Scope, Send
from fairlead.surfaces.http.exchange import Exchange, Host

#: The names of this machine to itself.
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


class HostLayer:
    """Refuses requests for other hosts. `*.example.com` stands for all names under it."""

    def __init__(self, inner: Asgi, runtime: Runtime, hosts: Sequence[str]) -> None:
        self._inner = inner
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
        await Exchange(self._host, scope, receive, send).refuse(refused)

    def _known(self, host: str) -> bool:
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        return name in self._hosts or (bool(self._endings) and name.endswith(self._endings))
