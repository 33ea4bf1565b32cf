"""Rates in the store: limits that hold over all processes together, and after a restart.

    app = App("shop", rates=DurableRates(open_store("shop")))

Two ways of counting: `DurableRates` spreads calls as the runtime's meter in memory does (GCRA), and `window` counts
those of the last seconds exactly, inside another transaction. Machines on one store should have clocks that agree;
one that is set back by more than a minute starts its counts anew, rather than refusing until the time has come again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from fairlead.failures import Failure
from fairlead.store.digests import digest_of
from fairlead.store.statements import statements
from fairlead.store.store import Store, Tx

SQL: Final = statements(__file__, "rates.sql")

_SECOND: Final = 1_000_000_000
#: As the meter in memory: a wait of less than a microsecond is none.
_SLACK: Final = 1000
#: A period longer than this, some 60 years, would leave the range of the numbers.
_LONGEST: Final = 2_000_000_000.0
#: Seconds by which clocks may disagree, or be set back, without a count being begun anew.
_AGREEMENT: Final = 60
_PRUNE_EVERY: Final = 64
#: Takes that no longer count, and are removed with each one that is added.
_PRUNED_TAKES: Final = 4


class DurableRates:
    """Spreads `limit` calls over `per` seconds (GCRA), bursts up to `limit`; one small row a key.

    `name` keeps apps apart that share a store and have actions of the same name.
    """

    def __init__(self, store: Store, *, name: str = "", clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._name = name
        self._clock = clock
        self._takes = 0
        self._lock = threading.Lock()

    async def take(self, key: str, limit: int, per: float) -> float:
        """Count one call; 0 if it may go on, else the seconds to wait. What is refused does not count."""
        row = digest_of(self._name, key)
        period = round(min(per, _LONGEST) * _SECOND)
        step = period // limit

        def work(tx: Tx) -> float:
            now = round(self._clock() * _SECOND)
            highest = now + period + _SLACK - step
            absurd = now + period + _AGREEMENT * _SECOND
            if tx.one(SQL.take, key=row, now=now, step=step, highest=highest, absurd=absurd):
                return 0.0
            found = tx.one(SQL.next, key=row)
            return 0.0 if found is None else (found[0] + step - period - now) / _SECOND

        wait = await self._store.write(work)
        self._prune_sometimes()
        return wait

    def _prune_sometimes(self) -> None:
        with self._lock:
            self._takes += 1
            if self._takes % _PRUNE_EVERY != 1:
                return
        with suppress(Failure):
            self._store.submit(self._prune, True)

    def _prune(self, tx: Tx) -> None:
        """Rows of callers whose calls have all been spread say nothing."""
        tx.run(SQL.prune_rates, now=round(self._clock() * _SECOND), most=2 * _PRUNE_EVERY)


def window(tx: Tx, key: str, limit: int, per: float, now: float) -> float:
    """Count one take of at most `limit` in any `per` seconds, with whatever else the transaction does.

    0 if it may go on, else the seconds until it might. What is refused does not count, nor what is rolled back. At
    most `limit` small rows are kept for a key. Who takes from several keys in one transaction does so in one order.
    """
    row = digest_of("window", key)
    tx.one(SQL.lock, lock=int.from_bytes(bytes.fromhex(row[:16]), signed=True))
    newest = tx.one(SQL.newest, key=row)
    number = 1 if newest is None else newest[0] + 1
    oldest = tx.one(SQL.taken, key=row, number=number - limit)
    # A take that counts for longer than a whole period was made by a clock that has been set back since.
    if oldest is not None and now < oldest[0] <= now + per + _AGREEMENT:
        return min(float(oldest[0] - now), per)  # one that came later may be written first
    tx.run(SQL.trim, key=row, number=number - limit)
    tx.run(SQL.note, key=row, number=number, until=now + per)
    tx.run(SQL.prune_takes, now=now, most=_PRUNED_TAKES)
    return 0.0
