"""What webhooks are told in confidence, tokens and secrets, as it is kept: sealed, for one task and one address."""

from __future__ import annotations

import asyncio

from fairlead.store import Secrets, Store


class Sealed:
    """Seals and opens. The key is asked for when the first secret comes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._secrets: Secrets | None = None

    async def sealed(self, value: str | None, task: str, url: str) -> str | None:
        """A value as it is kept; nothing, and an empty one, as nothing.

        Raises:
            Failure: there is nothing to seal with.
        """
        if not value:
            return None
        return await asyncio.to_thread(lambda: self._key().seal(value.encode(), _about(task, url)))

    async def opened(self, kept: str | None, task: str, url: str) -> str | None:
        """A value as it was given. Raises Failure when the key is another."""
        if kept is None:
            return None
        return await asyncio.to_thread(lambda: self._key().open(kept, _about(task, url)).decode())

    def _key(self) -> Secrets:
        self._secrets = self._secrets or Secrets(self._store)
        return self._secrets


def _about(task: str, url: str) -> str:
    return f"webhook:{task}:{url}"
