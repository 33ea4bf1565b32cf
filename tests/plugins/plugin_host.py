"""The services of a plugin as the host makes them, on real parts, without a plugin behind them."""

from __future__ import annotations

import asyncio
import inspect
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from fairlead._json import loads
from fairlead.outgoing import Guard, Outgoing
from fairlead.plugins import slots
from fairlead.plugins.config import Config
from fairlead.plugins.database import Database, Limits
from fairlead.plugins.files import Files
from fairlead.plugins.http import PER_MINUTE, Http
from fairlead.plugins.limits import Window
from fairlead.plugins.logs import Insights, Line, Wanted
from fairlead.plugins.runner import Answer, Frame
from fairlead.plugins.services import Services
from fairlead.plugins.warnings import Warnings
from fairlead.store import Secrets, Store

ANN = "A1111111-1111-4111-8111-111111111111"
BOB = "B2222222-2222-4222-8222-222222222222"


class Host:
    """What one plugin can ask, answered here."""

    def __init__(
        self,
        store: Store,
        folder: Path,
        plugin: str = "acme.notes",
        *,
        guard: Guard | None = None,
        window: Window | None = None,
        limits: Limits | None = None,
        warnings: Warnings | None = None,
        insights: Insights | None = None,
        **handlers: Any,
    ) -> None:
        self.plugin = plugin
        self.store = store
        self.artifacts = folder / "artifacts"
        self.artifacts.mkdir(exist_ok=True)
        self.warnings = warnings or Warnings()
        self.insights = insights or Insights(store)
        self.secrets = Secrets(store)
        self.config = Config(plugin, store, lambda: self.secrets, self.warnings)
        self.config.on_value = self.insights.hide
        self.database = Database(
            plugin, folder / "plugins" / plugin / "data" / "data.db", self.config.database_key, limits
        )
        self.services = Services(
            plugin,
            config=self.config,
            database=self.database,
            insights=self.insights,
            http=Http(plugin, Outgoing(guard or Guard()), window or Window(PER_MINUTE)),
            files=Files(self.artifacts),
            warnings=self.warnings,
            **handlers,
        )

    @property
    def frame(self) -> Frame:
        return Frame(self.plugin, ANN)

    async def ask(self, slot: int, *args: str | None, agent: str | None = ANN) -> str | None:
        """What a plugin gets when it calls a slot."""
        return await answer(self.services.call(slot, args, Frame(self.plugin, agent)))

    async def told(self, slot: int, *args: str | None, agent: str | None = ANN) -> Any:
        """The same, read as JSON."""
        text = await self.ask(slot, *args, agent=agent)
        assert text is not None
        return loads(text)

    async def exec(self, sql: str, params: str | None = None) -> Any:
        return await self.told(slots.DB_EXEC, sql, params)

    async def query(self, sql: str, params: str | None = None) -> Any:
        return await self.told(slots.DB_QUERY, sql, params)

    async def lines(self, wanted: Wanted | None = None) -> list[Line]:
        """The lines in Insights, the oldest first."""
        await asyncio.to_thread(self.insights.flush)
        return list(reversed(await self.insights.page(wanted, most=1000)))

    async def close(self) -> None:
        await self.services.close()
        await asyncio.to_thread(self.insights.close)


async def answer(given: Answer) -> str | None:
    """What comes of an answer, whichever form it has."""
    if isinstance(given, Future):
        return await asyncio.wrap_future(given)
    if inspect.isawaitable(given):
        found: str | None = await given
        return found
    return given
