"""Closes what was left behind by agents that run elsewhere: those who were lost, and those who went away for good.

Every process of an app may do it; they share it. It trusts no lease right after it came up, or after the store was
away: then nobody could renew.
"""

from __future__ import annotations

import asyncio
from typing import Final

from fairlead._json import loads
from fairlead.failures import Failure
from fairlead.gateway.agents import SQL as AGENTS_SQL
from fairlead.gateway.looking import Looking
from fairlead.gateway.registration import LEASE, LOST, SLACK, SQL, lose
from fairlead.runtime import App
from fairlead.runtime.hooks import report
from fairlead.store import Tx
from fairlead.tasks import ledger
from fairlead.tasks.records import Task
from fairlead.tasks.states import State

#: Seconds between two looks.
LOOK: Final = 1.0
#: Seconds between two looks, or that the clock jumped, after which leases say nothing for a while.
_GAP: Final = 5.0
_JUMP: Final = 2.0


class Reaper(Looking):
    """Looks every second."""

    def __init__(self, app: App) -> None:
        self._app = app
        #: Since when it has looked without a gap, and when it last did: by the steady clock, and by that on the wall.
        self._steady = self._last = app.clock.monotonic()
        self._wall = app.wall()

    async def _look(self) -> None:
        failed = False
        while True:
            try:
                await self.look()
                failed = False
            except Failure as failure:
                if not failed:
                    report(f"Agents that run elsewhere are not looked after: {failure.message}")
                failed = True
            except Exception:
                report("The reaper of agents' turns stumbled, and goes on.")
            await asyncio.sleep(LOOK)

    async def look(self) -> int:
        """Close what is to be closed now; gives how much that was."""
        steady, wall = self._app.clock.monotonic(), self._app.wall()
        gap = steady - self._last
        if gap > _GAP or abs((wall - self._wall) - gap) > _JUMP:
            self._steady = steady
        quiet = steady - self._steady
        store = self._app.store
        some = await store.read(lambda tx: _waits(tx, wall))
        closed = await store.write(lambda tx: reap(tx, wall, quiet)) if some else 0
        self._last, self._wall = steady, wall
        return closed


def _waits(tx: Tx, now: float) -> bool:
    return bool(
        tx.one(SQL.overdue, now=now) or tx.one(SQL.lost, until=now + SLACK) or tx.one(SQL.orphans, now=now)
    )


def reap(tx: Tx, now: float, quiet: float) -> int:
    """Close what is to be closed, where leases could be renewed for so many seconds; gives how much that was."""
    closed = ledger.expire(tx, now)
    leases: dict[str, float] = {}
    for row in tx.all(SQL.lost_locked, until=now + SLACK):
        task = Task.of(row)
        if task.queue not in leases:
            leases[task.queue] = _lease(tx, task.queue.removeprefix(ledger.APART))
        if quiet >= leases[task.queue]:
            lose(tx, task, now)
            closed += 1
    for id, about, lease, due in tx.all(SQL.orphans, now=now):
        seconds = float(loads(about).get("leaseSeconds", LEASE))
        # Whoever comes back in time finds what was accepted before.
        if quiet >= seconds and max(lease, due or 0.0) + seconds < now:
            closed += ledger.cut(tx, id, State.failed, LOST, now)
    return closed


def _lease(tx: Tx, agent: str) -> float:
    row = tx.one(AGENTS_SQL.agent_by_id, id=agent)
    return float(loads(row[7]).get("leaseSeconds", LEASE)) if row is not None and row[7] else 0.0
