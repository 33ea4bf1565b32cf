"""What calls have made, kept for a while so that clients can read it: the newest, within bounds.

An artifact carries its content as a `data:` URI; kept here, it gets a URI that nobody can guess. It is listed only
to the caller it was made for.
"""

from __future__ import annotations

import binascii
import secrets
from base64 import b64decode
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from fairlead.surfaces.mcp.content import Contents, contents

PREFIX: Final = "fairlead://artifacts/"
TEMPLATE: Final = PREFIX + "{token}/{name}"
_MOST: Final = 256
_LARGEST: Final = 32 << 20


class Carried(NamedTuple):
    """Content that came inside a URI."""

    mime_type: str
    data: bytes

    @property
    def text(self) -> str | None:
        """The content as text, where it is one."""
        kind = self.mime_type.partition(";")[0]
        if not kind.startswith("text/") and not kind.endswith(("json", "xml", "javascript", "yaml")):
            return None
        try:
            return self.data.decode()
        except UnicodeDecodeError:
            return None


class Kept(NamedTuple):
    """An artifact on the shelf."""

    uri: str
    owner: str
    name: str
    carried: Carried

    def describe(self) -> dict[str, Any]:
        """As `resources/list` has it."""
        return {
            "uri": self.uri,
            "name": self.name,
            "description": "Made by a call.",
            "mimeType": self.carried.mime_type,
            "size": len(self.carried.data),
        }

    def contents(self) -> Contents:
        """As `resources/read` has it."""
        said = self.carried.text
        return contents(self.uri, self.carried.data if said is None else said, self.carried.mime_type)


def carried(uri: object) -> Carried | None:
    """What a `data:` URI carries; None for anything else."""
    if not isinstance(uri, str) or not uri.startswith("data:"):
        return None
    head, comma, body = uri[5:].partition(",")
    if not comma:
        return None
    base = head.endswith(";base64")
    mime_type = (head[:-7] if base else head) or "text/plain"
    try:
        return Carried(mime_type, b64decode(body, validate=True) if base else _unquoted(body))
    except (binascii.Error, ValueError):
        return None


def _unquoted(body: str) -> bytes:
    from urllib.parse import unquote_to_bytes

    return unquote_to_bytes(body)


class Shelf:
    """The newest artifacts with content."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._size = 0

    def keep(self, artifact: Mapping[str, Any], content: Carried, owner: str) -> Kept:
        """Keep an artifact, giving up the oldest where there is no room; one that is too large is not kept."""
        name = str(artifact.get("name") or artifact.get("id") or "artifact")
        from urllib.parse import quote  # what takes long to load is loaded where artifacts are kept

        uri = f"{PREFIX}{secrets.token_urlsafe(16)}/{quote(name, safe='')}"
        kept = Kept(uri, owner, name, content)
        if len(content.data) <= _LARGEST:
            self._kept[uri] = kept
            self._size += len(content.data)
        while len(self._kept) > _MOST or self._size > _LARGEST:
            _, oldest = self._kept.popitem(last=False)
            self._size -= len(oldest.carried.data)
        return kept

    def find(self, uri: str, owner: str) -> Kept | None:
        """One by its URI. What was made for somebody is nobody else's; what was made for nobody is its holder's."""
        kept = self._kept.get(uri)
        return kept if kept is not None and kept.owner in ("", owner) else None

    def of(self, owner: str) -> list[Kept]:
        """All that were made for a caller, oldest first."""
        return [kept for kept in self._kept.values() if kept.owner == owner] if owner else []
