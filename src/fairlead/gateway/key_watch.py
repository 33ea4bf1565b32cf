"""Watches the keys that streams were opened with: a stream ends when its key is revoked or expires.

One look is for all keys of a process: when keys change, when one expires, when a stream begins, and at each sign of
life. Whoever came with a token has none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from fairlead._json import dumps
from fairlead.failures import Failure
from fairlead.gateway.call import Caller
from fairlead.gateway.callers import KEYS
from fairlead.runtime import App
from fairlead.runtime.hooks import report
from fairlead.store import Tx
from fairlead.store.statements import statements
from fairlead.store.store import Bell

SQL: Final = statements(__file__, "keys.sql")
#: Seconds between two looks, at least: many streams that begin at once share one.
_LEAST: Final = 0.1


class KeyWatch:
    """What one process has open, by the keys that it was opened with."""

    def __init__(self, app: App, every: float) -> None:
        self._app = app
        #: Seconds between two looks, at most: a word that keys have changed may be lost.
        self._every = every
        self._open: dict[str, set[Callable[[], None]]] = {}
        self._expiring: dict[str, float] = {}
        self._watching: asyncio.Task[None] | None = None
        self._bell: Bell | None = None

    @contextmanager
    def over(self, caller: Caller, end: Callable[[], None], pause: float = 0.0) -> Iterator[None]:
        """While something of a caller is open. `end` is called, on the event loop, when the key is good no longer.

        What is over within `pause` seconds is not looked after.
        """
        key = caller.key
        if not key:
            yield
            return
        begun = asyncio.get_running_loop().call_later(pause, self._begin, caller, end) if pause else None
        if begun is None:
            self._begin(caller, end)
        try:
            yield
        finally:
            if begun is not None:
                begun.cancel()
            ends = self._open.get(key, set())
            ends.discard(end)
            if not ends:
                self._open.pop(key, None)
                self._expiring.pop(key, None)
            if not self._open and self._watching is not None:
                self._watching.cancel()
                self._watching = None

    def _begin(self, caller: Caller, end: Callable[[], None]) -> None:
        self._open.setdefault(caller.key, set()).add(end)
        if caller.expires is not None:
            self._expiring[caller.key] = caller.expires
        if self._watching is None or self._watching.done():
            self._watching = asyncio.ensure_future(self._watch())
        elif self._bell is not None:
            self._bell.ring()  # the key may have changed since its caller was let in

    async def _watch(self) -> None:
        with self._app.store.listening(KEYS) as bell:
            self._bell = bell
            while True:
                try:
                    await self._look()
                except Failure as failure:
                    # Nobody is sent away because the store is.
                    report(
                        f"Keys of open streams could not be looked at: {failure.message}", self._app.redactor
                    )
                await asyncio.sleep(_LEAST)
                await bell.rung(self._pause())

    def _pause(self) -> float:
        first = min(self._expiring.values(), default=None)
        if first is None:
            return self._every
        return max(0.0, min(self._every, first - self._app.clock.time()))

    async def _look(self) -> None:
        ids, now = dumps(list(self._open)), self._app.clock.time()
        asked = set(self._open)

        def work(tx: Tx) -> set[str]:
            return {id for (id,) in tx.all(SQL.good, ids=ids, now=now)}

        for key in asked - await self._app.store.read(work):
            self._expiring.pop(key, None)
            for end in tuple(self._open.get(key, ())):
                end()
