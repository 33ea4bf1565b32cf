"""Lists in pages. A cursor says which list it is of and where it goes on; one that does not fit is refused."""

from __future__ import annotations

import binascii
import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Any

from fairlead.surfaces.mcp.rpc import INVALID_PARAMS, Params, RpcError


class Pages:
    """A list and its mark: lists of other entries have other marks, so that no page is skipped or told twice."""

    def __init__(self, kind: str, entries: Sequence[Any], names: Sequence[str], size: int) -> None:
        self.entries = entries
        self._size = size
        self._mark = f"{kind}.{hashlib.sha256(chr(10).join(names).encode(errors='replace')).hexdigest()[:12]}"

    def start(self, params: Params) -> int:
        """Where the page begins that a request asks for. Raises RpcError for a cursor that is not ours."""
        cursor = params.get("cursor")
        if cursor is None:
            return 0
        mark, _, number = _decoded(cursor).rpartition(".")
        start = int(number) if number.isascii() and number.isdecimal() and len(number) < 10 else 0
        if mark != self._mark or start % self._size or not 0 < start < len(self.entries):
            raise RpcError(
                INVALID_PARAMS,
                "Invalid cursor: it is none of ours, or the list has changed. List from the beginning.",
            )
        return start

    def page(self, start: int) -> tuple[Sequence[Any], str | None]:
        """The entries from there on, and the cursor of the page after them, if there is one."""
        end = start + self._size
        if end >= len(self.entries):
            return self.entries[start:], None
        return self.entries[start:end], urlsafe_b64encode(f"{self._mark}.{end}".encode()).decode()


def _decoded(cursor: object) -> str:
    if not isinstance(cursor, str) or len(cursor) > 200:
        return ""
    try:
        said = urlsafe_b64decode(cursor.encode())
        return said.decode() if urlsafe_b64encode(said).decode() == cursor else ""
    except (binascii.Error, ValueError):
        return ""
