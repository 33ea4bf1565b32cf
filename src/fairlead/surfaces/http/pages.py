"""Documents that change rarely: sent with an entity tag, and not sent again to those who have them."""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

from fairlead.surfaces.http.asgi import JSON
from fairlead.surfaces.http.exchange import Exchange, Extra


class Page(NamedTuple):
    """A document and its entity tag."""

    body: bytes
    tag: bytes
    content_type: bytes = JSON


def page(body: bytes, content_type: bytes = JSON) -> Page:
    # Weak: the same document may be sent compressed.
    return Page(body, b'W/"%s"' % blake2b(body, digest_size=16).hexdigest().encode(), content_type)


async def send_page(exchange: Exchange, document: Page, extra: Extra = ()) -> None:
    """Answer with a page, or with 304 if the client has it."""
    headers = (
        *extra,
        (b"etag", document.tag),
        (b"cache-control", b"no-cache"),
        (b"x-content-type-options", b"nosniff"),
    )
    known = exchange.headers.get(b"if-none-match")
    if known is not None and _has(known, document.tag):
        await exchange.bare(304, headers)
    else:
        await exchange.answer(200, document.body, document.content_type, headers)


def _has(known: bytes, tag: bytes) -> bool:
    bare = tag.removeprefix(b"W/")
    return any(item.strip().removeprefix(b"W/") in (bare, b"*") for item in known.split(b","))
