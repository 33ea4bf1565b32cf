"""What a client would rather have: the `Accept` and `Accept-Encoding` headers, with their q-values (RFC 9110, 12.5).

A header that makes no sense says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence


def weights(header: bytes | None) -> dict[str, float]:
    """What a header lists, in lower case and without parameters, each with its weight."""
    if not header:
        return {}
    listed: dict[str, float] = {}
    for item in header.decode("latin-1").lower().split(","):
        name, *parameters = (part.strip() for part in item.split(";"))
        if name:
            listed[name] = _weight(parameters)
    return listed


def best(header: bytes | None, offered: Sequence[str]) -> str | None:
    """The offer a client likes most, the first of equals; None when it wants none of them."""
    listed = weights(header)
    if not listed:
        return offered[0]
    chosen = max(offered, key=lambda media: _liking(listed, media))
    return chosen if _liking(listed, chosen) > 0 else None


def prefers(header: bytes | None, special: str, usual: str) -> bool:
    """Whether a client names the special media type, and likes it more than the usual one if it names that too."""
    if header is None or special.encode() not in header.lower():
        return False
    listed = weights(header)
    return listed.get(special, 0.0) > listed.get(usual, 0.0)


def _liking(listed: dict[str, float], media: str) -> float:
    """The weight of the most specific range that a media type falls under."""
    for range_ in (media, f"{media.partition('/')[0]}/*", "*/*"):
        if range_ in listed:
            return listed[range_]
    return 0.0


def _weight(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                given = float(value)
            except ValueError:
                return 0.0
            return given if 0.0 <= given <= 1.0 else 0.0
    return 1.0
