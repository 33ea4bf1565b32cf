"""`Guard`: to whom this program may send requests. By default to the public internet alone.

    guard = Guard(allow=["hooks.corp.example", "10.20.0.0/16"])
    target = await guard.check(url)            refuses what may not be called
    client = httpx.AsyncClient(transport=guard.transport())

A name is resolved, and every address that it has is checked. `transport()` does both while it connects, and connects
to what it checked: a name that has another address a moment later leads nowhere else.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Any, Final

from fairlead.failures import Failure, Kind
from fairlead.failures.host import DnsFailure, SsrfBlocked
from fairlead.outgoing.addresses import Address, Network, blocked, within
from fairlead.outgoing.urls import Target, host_of, parse

if TYPE_CHECKING:
    import httpx

#: The variable that names private hosts and networks that may be called: names and networks with commas, or `*`.
VARIABLE: Final = "FAIRLEAD_ALLOW_PRIVATE_HOSTS"
#: Names that are this machine, whatever a name server says.
_OURSELVES: Final = frozenset(
    {"localhost", "localhost.localdomain", "localhost6", "ip6-localhost", "ip6-loopback"}
)
_END: Final = "(SSRF protection)"
#: Names that are looked up at once.
_LOOKUPS: Final = 128

#: Gives the addresses of a name, as text.
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


class Guard:
    """Says where requests may go.

    `allow` lists private hosts and networks that may be called: `hooks.corp`, `*.corp`, `10.0.0.0/8`. `allow_private`
    lets all private and loopback addresses be called. Cloud metadata stays shut unless its network is listed.
    """

    def __init__(
        self, *, allow: Iterable[str] = (), allow_private: bool = False, resolve: Resolve | None = None
    ) -> None:
        self.allow_private = allow_private
        self._names: set[str] = set()
        self._networks: tuple[Network, ...] = ()
        for each in allow:
            self._add(each)
        self._resolve = resolve or resolved

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] = os.environ) -> Guard:
        """What FAIRLEAD_ALLOW_PRIVATE_HOSTS says."""
        words = [word.strip() for word in environ.get(VARIABLE, "").split(",") if word.strip()]
        return cls(allow=[word for word in words if word != "*"], allow_private="*" in words)

    async def check(self, url: str, base: Target | None = None) -> Target:
        """An address that may be called, read and resolved.

        Raises:
            SsrfBlocked: it may not be called.
            DnsFailure: its name has no address.
            Failure: it cannot be read.
        """
        target = parse(url, base)
        await self.addresses(target.host, target.port)
        return target

    async def addresses(self, host: str, port: int) -> list[str]:
        """The addresses of a host, all of which may be called.

        Raises:
            SsrfBlocked: one of them may not.
            DnsFailure: there are none.
        """
        name, literal = self.screen(host)
        if literal is not None:
            return [str(literal)]
        private = self._named(name)
        found = [_address(each) for each in await self._resolve(name, port)]
        if not found:
            raise DnsFailure(f"The name {name!r} has no address.")
        for address in found:
            self._checked(address, name, private)
        return list(dict.fromkeys(map(str, found)))

    def screen(self, host: str) -> tuple[str, Address | None]:
        """A host whose text alone says nothing against it, and its address if it is one; no name is resolved.

        Raises:
            SsrfBlocked: it is an address that may not be called, or a name of this machine.
            Failure: it is no host.
        """
        name, literal = host_of(host)
        if literal is not None:
            self._checked(literal, name, private=False)
            return name, literal
        ours = name in _OURSELVES or name.endswith(".localhost")
        if ours and not (self._named(name) or self.allow_private):
            raise SsrfBlocked(f"{name!r} may not be called: it is a loopback name {_END}")
        return name, None

    def transport(self, **options: Any) -> httpx.AsyncBaseTransport:
        """A transport of httpx that connects where this guard lets it; `verify`, `limits` and `proxy` as in httpx."""
        from fairlead.outgoing.transport import GuardedTransport

        return GuardedTransport(self, **options)

    def _checked(self, address: Address, name: str, private: bool) -> None:
        why = blocked(address)
        if why is None or within(address, self._networks):
            return
        if why.private and (private or self.allow_private):
            return
        # The address of a name is not told: others may ask for names that only we can resolve.
        verb = "is" if name == str(address) else "leads to"
        raise SsrfBlocked(f"{name!r} may not be called: it {verb} {why.words} {_END}")

    def _named(self, name: str) -> bool:
        parents = name.split(".")
        wider = (".".join(parents[at:]) for at in range(1, len(parents)))
        return name in self._names or any(f"*.{parent}" in self._names for parent in wider)

    def _add(self, entry: str) -> None:
        """Take in a host or a network that may be called."""
        try:
            self._networks += (ip_network(entry, strict=False),)
            return
        except ValueError:
            pass
        star = entry.startswith("*.")
        try:
            name, address = host_of(entry.removeprefix("*."))
        except Failure:
            words = f"Guard: {entry!r} is no host and no network. Say hooks.corp, *.corp or 10.0.0.0/8."
            raise Failure(Kind.misconfigured, words) from None
        if address is not None:
            self._networks += (ip_network(str(address)),)
        else:
            self._names.add(f"*.{name}" if star else name)


async def resolved(name: str, port: int) -> list[str]:
    """The addresses of a name, as the system knows them.

    Raises:
        DnsFailure: it knows none.
    """
    loop, lookup = asyncio.get_running_loop(), (name, port, 0, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        found = await loop.run_in_executor(_lookups(), socket.getaddrinfo, *lookup)
    except (OSError, UnicodeError) as error:
        raise DnsFailure(f"The name {name!r} could not be resolved.", cause=error) from error
    return [str(where[0]) for _, _, _, _, where in found]


@cache
def _lookups() -> ThreadPoolExecutor:
    """Threads of their own: a lookup goes on for long after nobody waits for it, and others choose the names."""
    return ThreadPoolExecutor(_LOOKUPS, "fairlead-lookup")


if hasattr(os, "register_at_fork"):  # a child has none of its parent's threads
    os.register_at_fork(after_in_child=_lookups.cache_clear)


def _address(text: str) -> Address:
    # A zone says through which door a packet leaves, not where it goes.
    return ip_address(text.partition("%")[0])
