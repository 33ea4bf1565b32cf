"""Keys as the store keeps them: of one length, whatever was in them, and telling nobody who called."""

from __future__ import annotations

import hashlib


def digest_of(space: str, key: str) -> str:
    """The digest of a key in a space of keys. No two of them look alike."""
    spelled = f"{len(space)}:{space}{key}".encode(errors="surrogatepass")
    return hashlib.sha256(spelled).hexdigest()
