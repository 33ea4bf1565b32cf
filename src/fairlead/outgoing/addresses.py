"""Which IP addresses are nobody's business: loopback, private networks, cloud metadata and the like.

An IPv6 address that carries an IPv4 address is judged by that one, too: a translator would lead there. What is said
here is about addresses alone; names are resolved elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Final, NamedTuple

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


class Blocked(NamedTuple):
    """Why an address may not be called."""

    words: str
    #: Whether it is a private network's: a developer may allow those all at once.
    private: bool


_LOOPBACK: Final = Blocked("a loopback address", True)
_RFC1918: Final = Blocked("a private address (RFC1918)", True)
_LINK: Final = Blocked("a link-local address", False)
_METADATA: Final = Blocked("a link-local address, where clouds keep their metadata", False)
_UNIQUE: Final = Blocked("a unique-local address of a private network", True)
_UNIQUE_METADATA: Final = Blocked("a unique-local address, where clouds keep their metadata", False)
_SHARED: Final = Blocked("an address of carrier-grade NAT (100.64.0.0/10)", True)
_SHARED_METADATA: Final = Blocked("an address of carrier-grade NAT, where clouds keep their metadata", False)
_NOTHING: Final = Blocked("an unspecified address (this network)", False)
_MULTICAST: Final = Blocked("a multicast address", False)
_BROADCAST: Final = Blocked("the broadcast address", False)
_SPECIAL: Final = Blocked("an address for special uses", False)

#: The first that fits counts.
_TABLE: Final[tuple[tuple[str, Blocked], ...]] = (
    ("127.0.0.0/8", _LOOPBACK),
    ("10.0.0.0/8", _RFC1918),
    ("172.16.0.0/12", _RFC1918),
    ("192.168.0.0/16", _RFC1918),
    ("169.254.0.0/16", _METADATA),
    ("100.100.100.200/32", _SHARED_METADATA),
    ("100.64.0.0/10", _SHARED),
    ("0.0.0.0/8", _NOTHING),
    ("192.0.0.0/24", _SPECIAL),
    # Relays of 6to4, which nobody runs any more: what answers there is the network's own.
    ("192.88.99.0/24", _SPECIAL),
    ("198.18.0.0/15", _SPECIAL),
    ("224.0.0.0/4", _MULTICAST),
    # Of 240.0.0.0/4 no more: contracts allow the rest.
    ("255.255.255.255/32", _BROADCAST),
    ("::1/128", _LOOPBACK),
    ("::/128", _NOTHING),
    ("fd00:ec2::254/128", _UNIQUE_METADATA),
    ("fd20:ce::254/128", _UNIQUE_METADATA),
    ("fc00::/7", _UNIQUE),
    ("fe80::/10", _LINK),
    # Site-local: what unique-local addresses were before.
    ("fec0::/10", _UNIQUE),
    ("ff00::/8", _MULTICAST),
    ("100::/64", _SPECIAL),
    # Segments within one network's routing.
    ("5f00::/16", _SPECIAL),
    # NAT64 of a network's own: what it leads to is known there alone.
    ("64:ff9b:1::/48", _SPECIAL),
)
_BLOCKED: Final = tuple((ip_network(words), blocked) for words, blocked in _TABLE)

#: Networks whose addresses end with an IPv4 address: mapped, compatible, translated (SIIT), NAT64.
_ENDING: Final = tuple(
    IPv6Network(words) for words in ("::ffff:0:0/96", "::/96", "::ffff:0:0:0/96", "64:ff9b::/96")
)
_SIX_TO_FOUR: Final = IPv6Network("2002::/16")
_TEREDO: Final = IPv6Network("2001::/32")
#: How the second half of an ISATAP address begins, with its bit for "unique" cleared.
_ISATAP: Final = 0x00005EFE


def blocked(address: Address) -> Blocked | None:
    """Why an address may not be called; None if it may."""
    for each in (address, *carried(address)):
        for network, why in _BLOCKED:
            if each.version == network.version and each in network:
                return why
    return None


def within(address: Address, networks: tuple[Network, ...]) -> bool:
    """Whether an address, and every address that it carries, is in one of these networks."""

    def known(each: Address) -> bool:
        return any(each.version == network.version and each in network for network in networks)

    inner = tuple(carried(address))
    return known(address) or (bool(inner) and all(known(each) for each in inner))


def carried(address: Address) -> Iterator[IPv4Address]:
    """The IPv4 addresses within an IPv6 address."""
    if not isinstance(address, IPv6Address):
        return
    number = int(address)
    # `::` and `::1` are addresses of their own.
    if number > 1 and any(address in network for network in _ENDING):
        yield IPv4Address(number & 0xFFFFFFFF)
    if address in _SIX_TO_FOUR:
        yield IPv4Address((number >> 80) & 0xFFFFFFFF)
    if address in _TEREDO:
        yield IPv4Address((number >> 64) & 0xFFFFFFFF)
        yield IPv4Address(~number & 0xFFFFFFFF)
    if (number >> 32) & 0xFDFFFFFF == _ISATAP:
        yield IPv4Address(number & 0xFFFFFFFF)
