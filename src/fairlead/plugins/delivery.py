"""`Delivery`: telling a plugin of its configuration through `on_config_changed`, one call at a time.

A value that a plugin was told already is not told again, unless it is forced; what it has set itself never comes back
to it. Tunnels are how the outside reaches an agent's routes: `Tunnels` sees them come and go, and tells the plugins.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final, Literal, NamedTuple, Protocol

from fairlead.failures import Failure
from fairlead.failures.redaction import DEFAULT, Redactor
from fairlead.plugins.config import TOPIC, Config
from fairlead.runtime.hooks import report

#: A key that no plugin has: it shows that the plugin reads the host's table rightly.
PROBE_KEY: Final = "__osaurus_abi_probe__"
TUNNEL_KEY: Final = "tunnel_url"
#: Fields that show something and keep nothing.
_SHOWN: Final = frozenset({"readonly", "status"})
_NOBODY: Final = "default"

_log: Final = logging.getLogger("fairlead.plugins")

State = Literal["disconnected", "connecting", "connected", "error"]


class Field(Protocol):
    """A field that a manifest declares."""

    @property
    def key(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def default(self) -> str | None: ...


class Call(Protocol):
    """The plugin's callback."""

    def __call__(self, key: str, value: str, *, agent: str | None) -> Awaitable[None]: ...


class Delivery:
    """What one plugin is told. Used on one event loop.

    `call` reaches the plugin. `listens` says whether it has the callback, and `routes` whether it has routes: only
    then does it hear of tunnels.
    """

    def __init__(
        self,
        plugin: str,
        call: Call,
        config: Config,
        fields: Iterable[Field] = (),
        redactor: Redactor = DEFAULT,
        *,
        routes: bool = False,
        listens: bool = True,
    ) -> None:
        self.plugin = plugin
        self.listens = listens
        self.routes = routes
        self._call = call
        self._config = config
        self._redactor = redactor
        self._fields = tuple(field for field in fields if field.type not in _SHOWN)
        #: What was told last, by agent and key; and by agent alone, which tunnel.
        self._told: dict[tuple[str, str], str] = {}
        self._tunnels: dict[str, str] = {}
        self._agents: dict[str | None, None] = {}
        self._turn = asyncio.Lock()
        self._waiting: set[asyncio.Task[None]] = set()
        self._following: asyncio.Task[None] | None = None
        self._closed = False
        config.on_own = self._own

    @property
    def has_values(self) -> bool:
        """Whether there is anything to tell at a start, beside the probe."""
        return self.listens and bool(self._fields or self.routes)

    async def push(self, agent: str | None, values: Mapping[str, str], *, force: bool = False) -> None:
        """Tell values; returns when the plugin has taken them. What it knows is left out, unless forced."""
        if not values or not self.listens:
            return
        async with self._turn:
            for key, value in values.items():
                await self._deliver(agent, key, value, force)

    def post(self, agent: str | None, values: Mapping[str, str], *, force: bool = False) -> None:
        """The same without waiting for it; in the order in which it was asked."""
        if values and self.listens and not self._closed:
            self._later(self.push(agent, dict(values), force=force))

    async def probe(self, agent: str | None) -> None:
        """The first call of all: a plugin that has the host's table wrong fails here."""
        await self.push(agent, {PROBE_KEY: str(uuid.uuid4()).upper()})

    async def snapshot(self, agent: str | None, *, force: bool = False) -> None:
        """Tell what the declared fields have for an agent: what is kept, else their defaults."""
        if not self.listens:
            return
        self._agents[agent] = None
        await self.push(agent, await self._values(agent), force=force)

    async def tunnel(self, agent: str | None, url: str | None, *, force: bool = False) -> None:
        """Tell where an agent's routes are reached from outside; None and an empty text are nowhere."""
        if not self.routes or not self.listens:
            return
        new, name = url or "", agent or _NOBODY
        async with self._turn:
            known = self._tunnels.get(name)
            # Who has never heard of a tunnel need not hear that there is none.
            if not force and (new == known or (known is None and not new)):
                return
            self._tunnels[name] = new
            await self._deliver(agent, TUNNEL_KEY, new, True)

    async def agent_added(self, agent: str, url: str | None = None) -> None:
        """An agent is new: it has its snapshot, and its tunnel if there is one."""
        await self.snapshot(agent)
        await self.tunnel(agent, url)

    async def restarted(self) -> None:
        """The plugin began anew, and has forgotten everything: tell it all again."""
        async with self._turn:
            self._told.clear()
        for agent in list(self._agents):
            await self.snapshot(agent)
        for name, url in list(self._tunnels.items()):
            if url:
                await self.tunnel(None if name == _NOBODY else name, url, force=True)

    def follow(self) -> None:
        """Tell what people change from now on, in whatever process they do it."""
        if self._following is None and self.listens:
            self._following = asyncio.ensure_future(self._follow())

    async def close(self) -> None:
        """Let what was asked before be told, and nothing after it."""
        if self._following is not None:
            self._following.cancel()
            with suppress(asyncio.CancelledError):
                await self._following
            self._following = None
        while self._waiting:
            await asyncio.wait(self._waiting)
        async with self._turn:
            self._closed = True
            self._told.clear()
            self._tunnels.clear()
            self._agents.clear()

    async def _deliver(self, agent: str | None, key: str, value: str, force: bool) -> None:
        name = agent or _NOBODY, key
        if self._closed or (not force and self._told.get(name) == value):
            return
        # While it is told, the plugin may set the same key itself, and that is newer.
        self._told[name] = value
        try:
            await self._call(key, value, agent=agent)
        except Failure as failure:
            self._told.pop(name, None)
            _log.warning("The plugin %r could not be told of %r: %s", self.plugin, key, failure.message)

    async def _values(self, agent: str | None) -> dict[str, str]:
        if not self._fields:
            return {}
        kept = {} if agent is None else await self._config.values(agent)
        found = {field.key: kept.get(field.key, field.default) for field in self._fields}
        return {key: value for key, value in found.items() if value is not None}

    async def _follow(self) -> None:
        with self._config.store.listening(f"{TOPIC}:{self.plugin}") as bell:
            while True:
                await bell.rung()
                for agent in list(self._agents):
                    try:
                        await self.push(agent, await self._changed(agent))
                    except Failure:
                        report(
                            f"What was changed for the plugin {self.plugin!r} could not be read.",
                            self._redactor,
                        )

    async def _changed(self, agent: str | None) -> dict[str, str]:
        """All fields as they are now; one that was told and is no more is empty."""
        values = await self._values(agent)
        told = (key for name, key in self._told if name == (agent or _NOBODY))
        declared = {field.key for field in self._fields}
        return {**{key: "" for key in told if key in declared}, **values}

    def _own(self, agent: str, key: str, value: str | None) -> None:
        """The plugin did it itself, and knows; also that a field without a value has its default again."""
        field = next((field for field in self._fields if field.key == key), None)
        if field is not None:
            self._told[agent, key] = (field.default or "") if value is None else value

    def _later(self, telling: Awaitable[None]) -> None:
        task = asyncio.ensure_future(telling)
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)


class Tunnel(NamedTuple):
    """How an agent is reached from outside."""

    state: State
    url: str | None = None

    @property
    def connected(self) -> bool:
        return self.state == "connected" and bool(self.url)


def is_reconnect(before: Tunnel | None, now: Tunnel) -> bool:
    """Whether a tunnel came back. One that is seen for the first time has not been away."""
    return before is not None and not before.connected and now.connected


class Tunnels:
    """Watches the tunnels of all agents, and tells the plugins."""

    def __init__(self, deliveries: Callable[[], Iterable[Delivery]]) -> None:
        self._deliveries = deliveries
        self._seen: dict[str, Tunnel] = {}

    def url(self, agent: str) -> str | None:
        """Where an agent is reached now, if it is."""
        tunnel = self._seen.get(agent)
        return tunnel.url if tunnel is not None and tunnel.connected else None

    async def observe(self, agent: str, now: Tunnel) -> None:
        """Take in what a tunnel is now. After it was away, plugins are told everything again."""
        again = is_reconnect(self._seen.get(agent), now)
        self._seen[agent] = now
        url = now.url if now.connected else None
        for delivery in list(self._deliveries()):
            if again:
                await delivery.snapshot(agent, force=True)
            await delivery.tunnel(agent, url, force=again)

    def forget(self, agent: str) -> None:
        """An agent is gone."""
        self._seen.pop(agent, None)
