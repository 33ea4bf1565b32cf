"""The files of the page, read once. They hold no data: whoever gets them has nothing yet.

The headers let the page run its own scripts and nothing else, and let nobody frame it. The page names its files by
what they hold: a browser keeps them, and asks for all of them again only when one has changed.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import NamedTuple

from fairlead.surfaces.http.asgi import Request, Send, respond

FOLDER = Path(__file__).parent / "static"
INDEX = "index.html"
_TYPES = {
    ".html": b"text/html; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    # No text can become HTML or a script, whoever writes the page next.
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_KEPT = b"private, max-age=31536000, immutable"
#: On every answer of the console.
SAFETY = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class Asset(NamedTuple):
    """One file as it is sent."""

    body: bytes
    content_type: bytes
    etag: bytes
    keeping: bytes = b"no-cache"


@cache
def assets() -> dict[str, Asset]:
    """Every file of the page, by its path below the console's."""
    files = {path.name: path.read_bytes() for path in sorted(FOLDER.iterdir())}
    version = _digest(b"".join(map(_digest, files.values())))
    found = {}
    for name, body in files.items():
        kind = _TYPES[Path(name).suffix]
        if name == INDEX:
            body = body.replace(b'"assets/', b'"assets/%s/' % version)
            found["/"] = Asset(body, kind, b'"%s"' % _digest(body))
        else:
            asset = Asset(body, kind, b'"%s"' % _digest(body))
            found[f"/assets/{name}"] = asset
            found[f"/assets/{version.decode()}/{name}"] = asset._replace(keeping=_KEPT)
    return found


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest()[:20].encode()


async def serve(asset: Asset, request: Request, send: Send) -> None:
    """Send a file, or word that the browser has it already."""
    headers = ((b"etag", asset.etag), (b"cache-control", asset.keeping), *SAFETY)
    if request.headers.get("if-none-match") == asset.etag.decode():
        await respond(send, 304, b"", asset.content_type, headers)
        return
    body = b"" if request.method == "HEAD" else asset.body
    await respond(send, 200, body, asset.content_type, headers)
