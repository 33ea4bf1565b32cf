"""What looks at something again and again beside the answers of a gateway."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from contextlib import suppress


class Looking(ABC):
    """Looks from `start` to `stop`."""

    _task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, on the event loop that runs."""
        self._task = asyncio.ensure_future(self._look())

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    @abstractmethod
    async def _look(self) -> None:
        """Look, wait, and look again; it is cancelled at the end."""
