"""Forgets what callers left behind long ago: entries of tasks, and what invokes and their like said.

Every process of an app may do it; they share it.
"""

from __future__ import annotations

import asyncio
from typing import Final

from fairlead.failures import Failure
from fairlead.gateway.entries import START, sweep
from fairlead.gateway.looking import Looking
from fairlead.runtime import App
from fairlead.runtime.hooks import report

#: Seconds between two looks.
LOOK: Final = 60.0
#: Seconds between two batches of one look: the store is there for others, too.
_BREATH: Final = 0.02


class Sweeper(Looking):
    """Looks every minute, and then goes on until nothing old is left."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._swept = START

    async def _look(self) -> None:
        while True:
            more = False
            try:
                more = await self.sweep()
            except Failure as failure:
                report(f"Old entries of tasks are kept for now: {failure.message}", self._app.redactor)
            except Exception:
                report("The sweeper of old entries stumbled, and goes on.", self._app.redactor)
            await asyncio.sleep(_BREATH if more else LOOK)

    async def sweep(self) -> bool:
        """Put one batch in order; gives whether there may be more."""
        since, now = self._swept, self._app.wall()
        swept = await self._app.store.write(lambda tx: sweep(tx, now, since))
        self._swept = swept[0]
        return bool(swept[1])
