"""Seeing through what must be written down although nobody waits for it any more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final

from fairlead.failures.redaction import DEFAULT, Redactor
from fairlead.runtime.hooks import report

#: The loop itself keeps no hold on its tasks.
_FINISHING: Final[set[asyncio.Future[None]]] = set()


def finish(pending: Awaitable[None]) -> None:
    """See it through: on the loop that runs here, or on one of its own, on a thread whose loop is gone."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(quietly(pending))
    else:
        seen_through(pending)


def seen_through(pending: Awaitable[None]) -> asyncio.Future[None]:
    """A task that goes on whoever stops waiting for it."""
    task = asyncio.ensure_future(pending)
    _FINISHING.add(task)
    task.add_done_callback(_FINISHING.discard)
    return task


async def quietly(settling: Awaitable[None], redactor: Redactor = DEFAULT) -> None:
    """What a store could not keep is reported, and nobody's failure."""
    try:
        await settling
    except Exception:
        report("The idempotency store failed to keep a result.", redactor)
