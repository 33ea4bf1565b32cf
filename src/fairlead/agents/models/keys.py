"""The key of a provider: where it is kept, and how it is kept out of whatever is shown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from fairlead.agents.models.providers import Provider
from fairlead.failures.redaction import DEFAULT
from fairlead.failures.runtime import ConfigError

if TYPE_CHECKING:
    from fairlead.store import Secrets

#: Any piece of a key that is at least as long is hidden: servers like to show the beginning or the end of one.
_PIECE: Final = 8
_LONGEST: Final = 300


class Key:
    """A provider's key, which no `repr` and no traceback shows."""

    __slots__ = ("_pieces", "_value")

    def __init__(self, value: str) -> None:
        self._value = value
        size = min(_PIECE, max(len(value), 1))
        self._pieces = (
            frozenset(value[at : at + size] for at in range(len(value) - size + 1)) if value else ()
        )

    def reveal(self) -> str:
        """The key itself, for the provider's own library and nobody else."""
        return self._value

    def hide(self, text: str) -> str:
        """A text of somebody else, on one line and not long, without the key or any longer piece of it."""
        line = " ".join(text[: 20 * _LONGEST].split())
        if self._pieces:
            line = self._without(line)
        line = DEFAULT.text(line)
        return line if len(line) <= _LONGEST else line[:_LONGEST].rstrip() + "..."

    def _without(self, text: str) -> str:
        size = len(next(iter(self._pieces)))
        spans: list[tuple[int, int]] = []
        for at in range(len(text) - size + 1):
            if text[at : at + size] in self._pieces:
                if spans and at <= spans[-1][1]:
                    spans[-1] = (spans[-1][0], at + size)
                else:
                    spans.append((at, at + size))
        for start, end in reversed(spans):
            text = text[:start] + DEFAULT.placeholder + text[end:]
        return text

    def __repr__(self) -> str:
        return "Key(...)"


class KeySource:
    """Where a provider's key comes from; it is looked for when it is first needed."""

    def __init__(
        self,
        provider: Provider,
        environ: Mapping[str, str],
        secrets: Secrets | Callable[[], Secrets] | None = None,
    ) -> None:
        self._provider = provider
        self._environ = environ
        self._secrets = secrets
        self._key: Key | None = None

    async def get(self) -> Key:
        """The key; an empty one for a provider that asks for none.

        Raises:
            Failure: it needs one, and there is none.
        """
        if self._key is None:
            self._key = await self._look()
        return self._key

    async def _look(self) -> Key:
        if self._provider.secret is not None:
            return Key(await asyncio.to_thread(self._kept, self._provider.secret))
        for name in self._provider.api_key_env:
            # A line end at the end comes from a file, and would be refused as a header.
            if value := self._environ.get(name, "").strip():
                return Key(value)
        if self._provider.needs_key:
            raise ConfigError(f"The model provider {self._provider.name!r} needs a key. {self.way_out()}")
        return Key("")

    def _kept(self, name: str) -> str:
        given = self._secrets
        if given is None:
            from fairlead.store import Secrets, open_store

            with open_store() as store:
                return Secrets(store).get_now(name).strip()
        secrets = given() if callable(given) else given
        return secrets.get_now(name).strip()

    def way_out(self) -> str:
        """What to do about a key that is missing or refused."""
        if self._provider.secret is not None:
            return f"Keep it: fairlead secrets set {self._provider.secret}"
        if self._provider.api_key_env:
            return f"Set {' or '.join(self._provider.api_key_env)}."
        return f"Name where it is in the configuration of {self._provider.name!r}: api_key_env or secret."

    def __repr__(self) -> str:
        return f"KeySource({self._provider.name!r})"
