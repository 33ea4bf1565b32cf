"""Forgets what callers left behind long ago: entries of tasks, what invokes and their like said, and files.

Every process of an app may do it; they share it. Files are forgotten by those that serve, which know where they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from fairlead.failures import Failure
from fairlead.gateway.entries import START, sweep
from fairlead.gateway.looking import Looking
from fairlead.runtime import App
from fairlead.runtime.hooks import report

if TYPE_CHECKING:
    from fairlead.gateway.files import Files

#: Seconds between two looks.
LOOK: Final = 60.0
#: Seconds between two batches of one look: the store is there for others, too.
_BREATH: Final = 0.02


class Sweeper(Looking):
    """Looks every minute, and then goes on until nothing old is left."""

    def __init__(self, app: App, files: Files | None = None) -> None:
        self._app = app
        self._swept = START
        self._all: dict[str, Callable[[], Awaitable[bool]]] = {"entries of tasks": self.sweep}
        if files is not None:
            self._all["files"] = files.sweep

    async def _look(self) -> None:
        while True:
            more = await self.look()
            await asyncio.sleep(_BREATH if more else LOOK)

    async def look(self) -> bool:
        """Forget some of everything; gives whether there may be more."""
        more = False
        for what, some in self._all.items():
            try:
                more = await some() or more
            except Failure as failure:
                report(f"Old {what} are kept for now: {failure.message}", self._app.redactor)
            except Exception:
                report(f"The sweeper of old {what} stumbled, and goes on.", self._app.redactor)
        return more

    async def sweep(self) -> bool:
        """Put one batch in order; gives whether there may be more."""
        since, now = self._swept, self._app.wall()
        swept = await self._app.store.write(lambda tx: sweep(tx, now, since))
        self._swept = swept[0]
        return bool(swept[1])
