"""Closes what was left behind by agents that run elsewhere: those who were lost, and those who went away for good.

Every process of an app may do it; they share it. It trusts no lease right after it came up, or after the store was
away: then nobody could renew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from fairlead._json import dumps, loads
from fairlead.failures import Failure
from fairlead.gateway.agents import SQL as AGENTS_SQL
from fairlead.gateway.agents import own_agents
from fairlead.gateway.looking import Looking
from fairlead.gateway.registration import LEASE, LOST, SLACK, SQL, TAKEN_OVER, lose, queue_of
from fairlead.runtime import App
from fairlead.runtime.hooks import report
from fairlead.store import Tx
from fairlead.store.store import Row
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
                    report(
                        f"Agents that run elsewhere are not looked after: {failure.message}",
                        self._app.redactor,
                    )
                failed = True
            except Exception:
                report("The reaper of agents' turns stumbled, and goes on.", self._app.redactor)
            await asyncio.sleep(LOOK)

    async def look(self) -> int:
        """Close what is to be closed now; gives how much that was."""
        steady, wall = self._app.clock.monotonic(), self._app.wall()
        gap = steady - self._last
        if gap > _GAP or abs((wall - self._wall) - gap) > _JUMP:
            self._steady = steady
        quiet = steady - self._steady
        store, own = self._app.store, own_agents(self._app)
        some = await store.read(lambda tx: _waits(tx, wall, own))
        closed = await store.write(lambda tx: reap(tx, wall, quiet, own)) if some else 0
        self._last, self._wall = steady, wall
        return closed


def _waits(tx: Tx, now: float, own: Sequence[str]) -> bool:
    return bool(
        tx.one(SQL.overdue, now=now)
        or tx.one(SQL.lost, until=now + SLACK)
        or tx.one(SQL.orphans, now=now)
        or tx.one(SQL.taken_over, queues=_queues(own), now=now)
    )


def reap(tx: Tx, now: float, quiet: float, own: Sequence[str] = ()) -> int:
    """Close what is to be closed, where leases could be renewed for so many seconds; gives how much that was.

    `own` are the app's own agents: nobody can register those, so what waits for one of another's waits in vain.
    """
    closed = ledger.expire(tx, now)
    leases: dict[str, float] = {}
    for row in tx.all(SQL.lost_locked, until=now + SLACK):
        task = Task.of(row)
        if task.queue not in leases:
            leases[task.queue] = _lease(tx, task.queue.removeprefix(ledger.APART))
        if quiet >= leases[task.queue]:
            lose(tx, task, now)
            closed += 1
    taken_over = tx.all(SQL.taken_over, queues=_queues(own), now=now)
    closed += sum(_closed(tx, row, TAKEN_OVER, now, quiet) for row in taken_over)
    return closed + sum(_closed(tx, row, LOST, now, quiet) for row in tx.all(SQL.orphans, now=now))


def _closed(tx: Tx, row: Row, why: str, now: float, quiet: float) -> bool:
    """Close a turn that nobody has taken, unless there is still time: who comes back finds what was accepted before."""
    id, about, lease, due = row
    seconds = LEASE if about is None else float(loads(about).get("leaseSeconds", LEASE))
    if quiet < seconds or max(lease or 0.0, due or 0.0) + seconds >= now:
        return False
    return ledger.cut(tx, id, State.failed, why, now)


def _queues(own: Sequence[str]) -> str:
    return dumps([queue_of(each) for each in own])


def _lease(tx: Tx, agent: str) -> float:
    row = tx.one(AGENTS_SQL.agent_by_id, id=agent)
    return float(loads(row[7]).get("leaseSeconds", LEASE)) if row is not None and row[7] else 0.0
