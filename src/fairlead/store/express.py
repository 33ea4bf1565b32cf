"""Single statements over a connection of the event loop's own, with no thread in between.

A journey to a thread and back costs more than such a statement does. What comes while others are on their way
gathers and travels together; whatever goes wrong here is left to the store's threads, which know what to do.
"""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from fairlead.store.ear import ANYBODY
from fairlead.store.store import Bundle, Single, told_by

if TYPE_CHECKING:
    from psycopg import pq

    from fairlead.store.link import Encoded, Form, Link
    from fairlead.store.postgres import PostgresStore

#: Statements that travel together at most.
_TOGETHER: Final = 64
#: Seconds that something waits behind others before a thread takes it.
_PATIENCE: Final = 0.05
#: Seconds until a connection that could not be made, or was lost, is made again.
_AGAIN: Final = 1.0
#: Statements after which it is worth a connection: a program that is soon over needs none.
_WORTH: Final = 4

Job = tuple["asyncio.Future[Any]", Single[Any]]


class Express:
    """The way of one event loop. Used on its thread; `close` may come from another."""

    def __init__(self, store: PostgresStore, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._store = store
        self._link: Link | None = None
        #: One that was just made, until the loop has taken it, and whether there will be no more.
        self._made: Link | None = None
        self._over = False
        self._lock = threading.Lock()
        #: Its number, which a lost connection does not tell any more.
        self._socket = -1
        self._asked = 0
        self._not_before = 0.0
        self._writing = False
        self._gathered: list[Job] = []
        self._soon: asyncio.Handle | None = None
        self._late: asyncio.Handle | None = None
        #: What is on its way, the forms of its answers, and the answers that have come.
        self._sent: list[Job] = []
        self._bundle = Bundle(())
        self._forms: list[Form] = []
        self._came: list[pq.abc.PGresult] = []

    @property
    def ready(self) -> bool:
        """Whether it takes something now; if not, it is made to, soon."""
        if self._link is None:
            self._asked += 1
            if self._asked >= _WORTH and time.monotonic() >= self._not_before:
                self._not_before = float("inf")
                threading.Thread(target=self._connect, name="fairlead-express", daemon=True).start()
        return self._link is not None

    def put(self, work: Single[Any]) -> asyncio.Future[Any]:
        """Have it done; gives where its outcome will be."""
        waiting: asyncio.Future[Any] = self.loop.create_future()
        self._gathered.append((waiting, work))
        if self._sent:
            # One that waits for a lock must not hold up the others for long.
            if self._late is None:
                self._late = self.loop.call_later(_PATIENCE, self._pass_on)
        elif self._soon is None:
            # A moment, in which others come that travel with it.
            self._soon = self.loop.call_soon(self._send)
        return waiting

    def close(self) -> None:
        """Let go of the connection. What was not answered is left to the store's threads."""
        self._not_before = float("inf")
        with self._lock:
            self._over = True
            made, self._made = self._made, None
        if made is not None:  # the loop was closed before it could take it
            made.close()
        if not self.loop.is_running() or _running() is self.loop:
            self._let_go()
            return
        gone = threading.Event()

        def leave() -> None:
            self._let_go()
            gone.set()

        with suppress(RuntimeError):  # the loop was closed just now, and nobody waits
            self.loop.call_soon_threadsafe(leave)
            gone.wait(_AGAIN)

    # The connection.

    def _connect(self) -> None:
        import psycopg

        from fairlead.store.link import Lost

        link: Link | None = None
        with suppress(psycopg.Error, Lost):
            link = self._store.connected()
        with self._lock:
            if not self._over:
                self._made, link = link, None
        if link is not None:
            link.close()
            return
        with suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(self._connected)

    def _connected(self) -> None:
        with self._lock:
            link, self._made = self._made, None
        if link is not None:
            self._socket = link.socket
            try:
                self.loop.add_reader(self._socket, self._read)
            except NotImplementedError:  # as on Windows: everything stays with the threads
                link.close()
                return
            self._link = link
        if not self._over:
            self._not_before = time.monotonic() + _AGAIN

    def _let_go(self) -> None:
        link, self._link = self._link, None
        self._not_before = max(self._not_before, time.monotonic() + _AGAIN)
        if link is not None:
            if not self.loop.is_closed():
                self.loop.remove_reader(self._socket)
                self.loop.remove_writer(self._socket)
            self._writing = False
            link.close()
        self._gathered = self._landed() + self._gathered
        self._pass_on()

    def _pass_on(self) -> None:
        """Leave what has gathered to the store's threads."""
        jobs, self._gathered = self._gathered, []
        self._forget_timers()
        for waiting, work in jobs:
            self._store.pass_on(waiting, work)

    def _forget_timers(self) -> None:
        for timer in (self._soon, self._late):
            if timer is not None:
                timer.cancel()
        self._soon = self._late = None

    # Back and forth.

    def _send(self) -> None:
        self._forget_timers()
        link = self._link
        if link is None:
            self._pass_on()
            return
        from fairlead.store.link import encoded

        jobs = self._gathered[:_TOGETHER]
        try:
            bundle = Bundle([work for _, work in jobs])
            statements: list[Encoded] = [encoded(call.statement, call.values) for call in bundle.calls]
        except Exception:  # a value that cannot be kept: a thread will find out whose it is
            self._pass_on()
            return
        if self._store.carrier is None:
            statements.append((ANYBODY, (), []))
        self._bundle = bundle
        self._sent, self._gathered = jobs, self._gathered[_TOGETHER:]
        try:
            self._forms = [link.send_encoded(each) for each in statements]
            link.end_stretch()
        except Exception:
            self._let_go()
            return
        self._flush()

    def _flush(self) -> None:
        link = self._link
        if link is None:
            return
        try:
            whole = link.flush()
        except Exception:
            self._let_go()
            return
        if whole and self._writing:
            self.loop.remove_writer(self._socket)
        elif not whole and not self._writing:
            self.loop.add_writer(self._socket, self._flush)
        self._writing = not whole

    def _read(self) -> None:
        """Take in what has come; once that is all, tell everybody."""
        from fairlead.store.link import rows_of

        link = self._link
        if link is None:
            return
        try:
            self._came += link.take_in()
            if link.owed or not self._sent:
                return
            rows = rows_of(self._forms, self._came)
            outcomes = self._bundle.outcomes(rows)
        except Exception:
            self._let_go()
            return
        heard = self._store.carrier is None and rows[-1] != [(0,)]
        self._settle(link, outcomes, heard)

    def _settle(self, link: Link, outcomes: list[Any], heard: bool) -> None:
        jobs = self._landed()
        for (waiting, _), outcome in zip(jobs, outcomes, strict=True):
            if not waiting.done():  # whoever waited may have gone
                waiting.set_result(outcome)
        topics = told_by((work for _, work in jobs), outcomes)
        self._store.told(topics)
        if heard and topics:
            try:
                self._store.notify(link, topics)
                link.end_stretch()
            except Exception:
                self._let_go()
                return
            self._flush()
        if self._gathered and self._soon is None:
            self._send()

    def _landed(self) -> list[Job]:
        """What was on its way, and is so no more."""
        jobs, self._sent, self._forms, self._came = self._sent, [], [], []
        self._bundle = Bundle(())
        return jobs


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
