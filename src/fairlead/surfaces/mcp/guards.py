"""Who may talk to the endpoint at all: the Host and Origin it is spoken to by, against DNS rebinding.

A page on another site can make a browser send requests to a server on this machine, under that site's name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")


class Guard:
    """The hosts and origins that are let in. Without a port, any port is meant; `*.example.com` is all names under it,
    and `*` is everybody."""

    def __init__(
        self, hosts: Iterable[str] | None, origins: Iterable[str] | None, pages: Iterable[str] = ()
    ) -> None:
        named = [host.lower() for host in (_LOOPBACK if hosts is None else hosts)]
        self._any_host = "*" in named
        self._hosts = frozenset(host for host in named if not host.startswith("*"))
        self._endings = tuple(host[1:] for host in named if host.startswith("*."))
        self._origins = None if origins is None else frozenset(origin.lower() for origin in origins)
        #: Origins that are let in besides.
        self._pages = frozenset(origin.lower() for origin in pages)

    def allows(self, host: bytes | None, origin: bytes | None) -> bool:
        """Whether a request with these headers is let in."""
        spelled = _spelled(host)
        if not self._any_host and not self._knows(spelled):
            return False
        return origin is None or self._allows_origin(_spelled(origin), spelled)

    def _knows(self, host: str) -> bool:
        name = _without_port(host)
        return (
            host in self._hosts
            or name in self._hosts
            or (bool(self._endings) and name.endswith(self._endings))
        )

    def _allows_origin(self, origin: str, host: str) -> bool:
        """Unless origins are named, one is as good as its host; where any host is, it must be the request's own."""
        scheme, _, place = origin.partition("://")
        if self._pages and ("*" in self._pages or origin in self._pages):
            return True
        if self._origins is not None:
            bare = f"{scheme}://{_without_port(place)}"
            return "*" in self._origins or origin in self._origins or bare in self._origins
        if scheme not in ("http", "https") or not place:
            return False
        return self._knows(place) or (self._any_host and place == host)


def _spelled(header: bytes | None) -> str:
    return (header or b"").decode("latin-1").strip().lower()


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() and not host.endswith("]") else host
