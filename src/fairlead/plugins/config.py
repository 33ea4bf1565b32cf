"""`Config`: what plugins are configured with, one value for each plugin, agent and key, sealed in the store.

What a plugin asks goes through `get`, `set` and `delete`, which know whose call it is: without an agent of its own a
call has no configuration. What people and the host do goes through the methods that take an agent.
"""

from __future__ import annotations

import asyncio
import secrets as random
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from fairlead._json import dumps
from fairlead.failures import Failure, Kind
from fairlead.plugins.identity import DEFAULT_AGENT, is_default
from fairlead.plugins.runner import Frame
from fairlead.plugins.warnings import Warnings
from fairlead.store.secrets import Secrets
from fairlead.store.statements import statements
from fairlead.store.store import Store, Tx

SQL: Final = statements(__file__, "config.sql")
#: Bytes of a value, bytes of a key, and keys that one plugin has for one agent.
LARGEST: Final = 1 << 20
LONGEST_KEY: Final = 1024
MOST_KEYS: Final = 1024

#: What is told when the host has changed something; other processes deliver it to their plugins.
TOPIC: Final = "plugin-config"

#: Told of a value that the plugin has set itself, or None for one that it has deleted.
Own = Callable[[str, str, str | None], None]


class Config:
    """The configuration of one plugin."""

    def __init__(
        self,
        plugin: str,
        store: Store,
        secrets: Callable[[], Secrets],
        warnings: Warnings,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.plugin = plugin
        self.store = store
        self._secrets = secrets
        self._warnings = warnings
        self._clock = clock
        #: Delivery wants to know, so that a plugin's own writes do not come back to it.
        self.on_own: Own | None = None
        #: Told of each value that is used, with the plugin's id: what is written down somewhere must not hold it.
        self.on_value: Callable[[str, str], None] | None = None

    async def get(self, key: str, frame: Frame) -> str | None:
        """`config_get`: the value, or None."""
        agent = self._bound("config_get", frame)
        if agent is None:
            return None
        return await self.value(agent, key)

    async def set(self, key: str, value: str, frame: Frame) -> None:
        """`config_set`: keep a value; one that is too large, or nobody's, is dropped."""
        if not self._fits(key, value):
            return
        agent = self._bound("config_set", frame)
        if agent is None:
            return
        try:
            await self._put(agent, key, value, tell=False)
        except Failure as failure:
            if failure.kind is not Kind.too_large:
                raise
            self._warnings.once(self.plugin, "config_set", "too_many", failure.message)
            return
        if self.on_own is not None:
            self.on_own(agent, key, value)

    async def delete(self, key: str, frame: Frame) -> None:
        """`config_delete`: forget a value."""
        agent = self._bound("config_delete", frame)
        if agent is None:
            return
        await self._remove(agent, key, tell=False)
        if self.on_own is not None:
            self.on_own(agent, key, None)

    async def value(self, agent: str, key: str) -> str | None:
        """The value that an agent has, or None."""
        agent = agent.upper()
        row = await self.store.read(lambda tx: tx.one(SQL.get, plugin=self.plugin, agent=agent, key=key))
        if row is None:
            return None
        return (await asyncio.to_thread(self._opened, agent, {key: row[0]}))[key]

    async def values(self, agent: str) -> dict[str, str]:
        """All values that an agent has, by key."""
        agent = agent.upper()
        rows = await self.store.read(lambda tx: tx.all(SQL.all_of, plugin=self.plugin, agent=agent))
        return await asyncio.to_thread(self._opened, agent, dict(rows)) if rows else {}

    async def merged(self, agent: str) -> dict[str, str]:
        """What a call's `_secrets` hold: the Default agent's values, and over them the agent's own."""
        own = await self.values(agent)
        return own if is_default(agent) else {**await self.values(DEFAULT_AGENT), **own}

    async def missing(self, agent: str, required: Iterable[str]) -> list[str]:
        """Which of these keys the agent has no value of its own for; what the Default agent has does not count."""
        own = await self.values(agent)
        return [key for key in required if not own.get(key)]

    async def save(self, agent: str, values: Mapping[str, str | None]) -> None:
        """Keep what a person has entered, and tell every process that has the plugin; None forgets a value.

        Raises:
            Failure: a key or a value is too large, or there are too many.
        """
        for key, value in values.items():
            if not key or len(key.encode(errors="replace")) > LONGEST_KEY:
                raise Failure(Kind.invalid_input, f"A key has from 1 to {LONGEST_KEY} bytes.", field="key")
            if value is not None and _size(value) > LARGEST:
                words = f"The value of {key!r} is larger than {LARGEST} bytes."
                raise Failure(Kind.too_large, words, field=key)
            if value is None:
                await self._remove(agent.upper(), key, tell=True)
            else:
                await self._put(agent.upper(), key, value, tell=True)

    async def forget_agent(self, agent: str) -> int:
        """Forget all that plugins keep for an agent that is gone; gives how many values that were."""
        agent = agent.upper()
        return await self.store.write(lambda tx: tx.run(SQL.sweep_agent, agent=agent))

    async def forget_plugin(self) -> int:
        """Forget all values of the plugin, and the key of its database."""

        def work(tx: Tx) -> int:
            tx.run(SQL.remove_database_key, plugin=self.plugin)
            return tx.run(SQL.sweep_plugin, plugin=self.plugin)

        return await self.store.write(work)

    def database_key(self) -> bytes:
        """The key of the plugin's own database, made when it is first asked for. Not for an event loop."""
        row = self.store.read_now(lambda tx: tx.one(SQL.database_key, plugin=self.plugin))
        if row is None:
            sealed = self._secrets().seal(random.token_bytes(32), _about("database", self.plugin))

            def work(tx: Tx) -> tuple[str, ...] | None:
                tx.run(SQL.add_database_key, plugin=self.plugin, sealed=sealed, created=self._clock())
                # Another process may have been first, and then its key counts.
                return tx.one(SQL.database_key, plugin=self.plugin)

            row = self.store.write_now(work)
            assert row is not None
        return self._secrets().open(row[0], _about("database", self.plugin))

    async def _put(self, agent: str, key: str, value: str, tell: bool) -> None:
        self._used(value)
        plain = value.encode(errors="surrogatepass")
        about = _about("config", self.plugin, agent, key)
        sealed = await asyncio.to_thread(lambda: self._secrets().seal(plain, about))
        name = {"plugin": self.plugin, "agent": agent, "key": key}

        def work(tx: Tx) -> bool:
            there = tx.one(SQL.count, **name)
            if there is not None and there[0] >= MOST_KEYS:
                return False
            tx.run(SQL.put, sealed=sealed, updated=self._clock(), **name)
            if tell:
                tx.tell(f"{TOPIC}:{self.plugin}")
            return True

        if not await self.store.write(work):
            words = f"The plugin {self.plugin!r} keeps {MOST_KEYS} values for one agent already. Delete some first."
            raise Failure(Kind.too_large, words)

    async def _remove(self, agent: str, key: str, tell: bool) -> None:
        def work(tx: Tx) -> None:
            tx.run(SQL.remove, plugin=self.plugin, agent=agent, key=key)
            if tell:
                tx.tell(f"{TOPIC}:{self.plugin}")

        await self.store.write(work)

    def _opened(self, agent: str, sealed: Mapping[str, str]) -> dict[str, str]:
        secrets, found = self._secrets(), {}
        for key, value in sealed.items():
            opened = secrets.open(value, _about("config", self.plugin, agent, key))
            found[key] = opened.decode(errors="surrogatepass")
            self._used(found[key])
        return found

    def _used(self, value: str) -> None:
        if self.on_value is not None:
            self.on_value(self.plugin, value)

    def _bound(self, operation: str, frame: Frame) -> str | None:
        if not is_default(frame.agent):
            assert frame.agent is not None
            return frame.agent.upper()
        self._warnings.once(
            self.plugin,
            operation,
            "no_agent_context",
            f"{operation} was called without an agent, so it has no effect. Call it from invoke, handle_route, "
            "on_config_changed or on_task_event, on the thread that was called.",
        )
        return None

    def _fits(self, key: str, value: str) -> bool:
        if _size(value) > LARGEST:
            words = f"A value was dropped: it has more than the {LARGEST} bytes that config_set takes. Use db_exec."
            self._warnings.once(self.plugin, "config_set", f"too_large|{key[:100]}", words)
            return False
        if not key or _size(key) > LONGEST_KEY:
            words = (
                f"A value was dropped: its key has {_size(key)} bytes, and a key has from 1 to {LONGEST_KEY}."
            )
            self._warnings.once(self.plugin, "config_set", "key", words)
            return False
        return True


def _size(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))


def _about(*names: str) -> str:
    """What a sealed value is bound to. A list, since names may hold whatever would join them."""
    return "plugin:" + dumps(names)
