"""What a gateway does beside answering: it delivers to webhooks, closes what agents that
run elsewhere left behind, and forgets what is old. Every process of an app may do it; they share it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead.gateway import a2a_push as a2a_push  # what it delivers is known by its import
from fairlead.gateway.deliveries import Deliverer
from fairlead.gateway.remote_reaper import Reaper
from fairlead.gateway.sweeper import Sweeper
from fairlead.outgoing import Guard
from fairlead.runtime import App

if TYPE_CHECKING:
    from fairlead.gateway.files import Files


class Background:
    """Started with the app's server or worker, stopped with it."""

    def __init__(self, app: App, guard: Guard | None = None, files: Files | None = None) -> None:
        self._app = app
        self._files = files
        self._guard = guard
        self._deliverer: Deliverer | None = None
        self._reaper: Reaper | None = None
        self._sweeper: Sweeper | None = None

    def start(self) -> None:
        """Begin, on the event loop that runs."""
        if self._deliverer is None:
            self._deliverer = Deliverer(self._app, self._guard)
            self._deliverer.start()
        if self._reaper is None:
            self._reaper = Reaper(self._app)
            self._reaper.start()
        if self._sweeper is None:
            self._sweeper = Sweeper(self._app, self._files)
            self._sweeper.start()

    async def stop(self, patience: float = 10.0) -> None:
        """End what is under way, or hand it to others."""
        reaper, self._reaper = self._reaper, None
        if reaper is not None:
            await reaper.stop()
        sweeper, self._sweeper = self._sweeper, None
        if sweeper is not None:
            await sweeper.stop()
        deliverer, self._deliverer = self._deliverer, None
        if deliverer is not None:
            await deliverer.stop(patience)
