"""Addresses of the web, read strictly: what two programs could read in two ways is refused.

A host is a name or an IP address. All spellings of an IPv4 address that a system would take for one (`127.1`,
`2130706433`, `0x7f.1`, `0177.0.0.1`, full-width digits) are read as it. Nothing is resolved here.
"""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final, NamedTuple, NoReturn
from urllib.parse import quote, urljoin, urlsplit

from fairlead.failures import Failure, Kind
from fairlead.failures.host import SsrfBlocked
from fairlead.outgoing.addresses import Address

LONGEST: Final = 8192
_PORTS: Final = {"http": 80, "https": 443}
_ODD: Final = re.compile(r"[\x00-\x20\x7f\\<>\"^`{|}]")
_LABEL: Final = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMBER: Final = re.compile(r"0x[0-9a-f]*|[0-9]+")
#: What may stand in a path and a query as it is.
_PLAIN: Final = "/:@!$&'()*+,;=-._~%"


class Target(NamedTuple):
    """Where a request goes. The host is in lower case and ASCII, without a dot at its end."""

    scheme: str
    host: str
    port: int
    #: Path and query.
    path: str
    #: Of a host that is no name.
    address: Address | None = None

    @property
    def origin(self) -> tuple[str, str, int]:
        """What must be the same for credentials to be sent along."""
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """Host and port as a `Host` header has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


def parse(url: str, base: Target | None = None) -> Target:
    """Read an address; one of a redirect may be relative to `base`.

    Raises:
        SsrfBlocked: it names no host.
        Failure: it is none that a request could go to.
    """
    if not url:
        raise _wrong("it is empty")
    if len(url) > LONGEST:
        raise _wrong(f"it is longer than {LONGEST} characters")
    if _ODD.search(url):
        raise _wrong("it has a blank, a backslash or another character that must be encoded")
    try:
        url.encode()
    except UnicodeEncodeError:
        raise _wrong("it has half a character in it") from None
    try:
        parts = urlsplit(url if base is None else urljoin(str(base), url))
        port = parts.port
    except ValueError:
        raise _wrong("its host or port cannot be read") from None
    if not parts.netloc:
        raise SsrfBlocked("The URL cannot be called: it has no host (SSRF protection)", field="url")
    if parts.scheme not in _PORTS:
        raise _wrong("it must begin with http:// or https://")
    if "@" in parts.netloc:
        raise _wrong("it must have no name and no password before its host")
    if port == 0:
        raise _wrong("there is no port 0")
    host, address = host_of(_bare(parts.netloc))
    query = f"?{quote(parts.query, _PLAIN + '?')}" if parts.query else ""
    path = quote(parts.path, _PLAIN) or "/"
    return Target(parts.scheme, host, port or _PORTS[parts.scheme], path + query, address)


def host_of(text: str) -> tuple[str, Address | None]:
    """A host as it is compared and called, and its address if it is one.

    Raises:
        Failure: it is no host.
    """
    if text.startswith("["):
        if not text.endswith("]"):
            _no_host()
        return _ipv6(text[1:-1])
    if ":" in text:
        return _ipv6(text)
    name = _ascii(text).removesuffix(".")
    labels = name.split(".")
    if not name or len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        _no_host()
    if _NUMBER.fullmatch(labels[-1]):
        address = _ipv4(labels)
        return str(address), address
    return name, None


def _bare(netloc: str) -> str:
    """The host, without its port."""
    if netloc.startswith("["):
        host, bracket, rest = netloc.partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            _no_host()
        return host + bracket
    host, _, _ = netloc.partition(":")
    if not host:
        _no_host()
    return host


def _ascii(name: str) -> str:
    """A name in ASCII and lower case, as name servers know it."""
    if "%" in name:
        _no_host()
    if name.isascii():
        return name.lower()
    try:
        import idna
    except ImportError:
        raise Failure(
            Kind.misconfigured,
            "Names with letters beyond ASCII need a package: pip install 'fairlead[client]'",
        ) from None
    try:
        # Letters that look alike to a system are made one: full-width digits, dots of other scripts.
        return idna.encode(name, uts46=True).decode().lower()
    except (idna.IDNAError, UnicodeError):
        _no_host()


def _ipv4(labels: list[str]) -> IPv4Address:
    """One to four numbers, decimal, octal or hexadecimal; the last fills what the others leave."""
    if len(labels) > 4 or not all(_NUMBER.fullmatch(label) for label in labels):
        _no_host()
    try:
        numbers = [_number(label) for label in labels]
    except ValueError:
        _no_host()
    *first, last = numbers
    if any(number > 255 for number in first) or last >= 256 ** (4 - len(first)):
        _no_host()
    for place, number in enumerate(first):
        last += number << (8 * (3 - place))
    return IPv4Address(last)


def _number(label: str) -> int:
    if label.startswith("0x"):
        return int(label[2:] or "0", 16)
    return int(label, 8) if len(label) > 1 and label.startswith("0") else int(label)


def _ipv6(text: str) -> tuple[str, Address]:
    if "%" in text:
        raise _wrong("an IPv6 address in it must have no zone")
    try:
        address = IPv6Address(text)
    except (AddressValueError, ValueError):
        _no_host()
    return address.compressed, address


def _no_host() -> NoReturn:
    raise _wrong("it has no host that can be called")


def _wrong(why: str) -> Failure:
    return Failure(Kind.invalid_input, f"The URL cannot be called: {why}.", field="url")
