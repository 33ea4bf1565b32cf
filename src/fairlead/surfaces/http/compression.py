"""Compressed answers, for those who take them."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Mapping

from fairlead.surfaces.http.accept import weights

_LEVEL = 5
#: From this many bytes on it takes long enough to be done beside the event loop.
_LONG = 65_536

#: How a compressed answer is marked.
HEADERS = ((b"content-encoding", b"gzip"), (b"vary", b"accept-encoding"))


def takes_gzip(headers: Mapping[bytes, bytes]) -> bool:
    given = headers.get(b"accept-encoding")
    return given is not None and b"gzip" in given and weights(given).get("gzip", 0.0) > 0.0


async def compress(body: bytes) -> bytes:
    if len(body) < _LONG:
        return gzip.compress(body, _LEVEL, mtime=0)
    return await asyncio.to_thread(gzip.compress, body, _LEVEL, mtime=0)
