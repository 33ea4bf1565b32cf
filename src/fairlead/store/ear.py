"""Hearing other processes over PostgreSQL: the connection that listens, and what is said to those who do.

A notification costs the sender a transaction, and each listener a wake. So who listens holds a lock for it: where
nobody does, nothing is sent. And who hears something that nobody here waits for listens no more, until somebody does.
"""

from __future__ import annotations

import contextlib
import selectors
import threading
from collections.abc import Callable, Sequence
from socket import socketpair
from typing import TYPE_CHECKING, Any, Final

from fairlead.store.store import EVERYTHING, Listeners

if TYPE_CHECKING:
    import psycopg

#: Seconds until a listener that lost its connection tries again: soon, then less often.
_SOON: Final = 0.05
_SELDOM: Final = 2.0
#: PostgreSQL takes 8000 bytes.
_LONGEST: Final = 7000

#: Whether somebody listens. Asked in the transaction that is told of: who begins to listen waits for its end, and
#: then looks. Two who ask at once keep the lock from each other, and send a word too much.
_HEARD: Final = "NOT pg_try_advisory_xact_lock(7226153473)"
ANYBODY: Final = f"SELECT {_HEARD}".encode()
NOTIFY: Final = b"SELECT pg_notify('fairlead', $1)"
#: The same, where it was not asked yet.
NOTIFY_ANYBODY: Final = f"SELECT pg_notify('fairlead', $1) WHERE {_HEARD}".encode()

_LISTEN: Final = ("SELECT pg_advisory_lock_shared(7226153473)", "LISTEN fairlead")
_REST: Final = ("UNLISTEN fairlead", "SELECT pg_advisory_unlock_shared(7226153473)")


def payload(token: str, topics: Sequence[str]) -> str:
    """What is sent to other processes: who sends it, then a topic a line."""
    told = "\n".join(topics)
    if len(told.encode()) > _LONGEST:
        told = EVERYTHING
    return f"{token}\n{told}"


class Ear:
    """The connection on which other processes are heard, and its thread."""

    def __init__(
        self, connect: Callable[[], psycopg.Connection[Any]], token: str, listeners: Listeners
    ) -> None:
        self._connect = connect
        self._token = token
        self._listeners = listeners
        self._pause = _SOON
        self._lock = threading.Lock()
        self._resting = False
        self._wake, self._woken = socketpair()
        self._thread = threading.Thread(target=self._run, name="fairlead-listen", daemon=True)
        self._thread.start()

    def needed(self) -> None:
        """Somebody listens in this process now."""
        with self._lock:
            if self._resting:
                self._resting = False
                self._woken.send(b"!")

    def close(self) -> None:
        self._woken.close()
        self._thread.join()
        self._wake.close()

    def _run(self) -> None:
        import psycopg

        while True:
            with contextlib.suppress(psycopg.Error, OSError):
                self._hear()
                return
            with self._lock:
                self._resting = False
            with selectors.DefaultSelector() as waiting:
                waiting.register(self._wake, selectors.EVENT_READ)
                if self._wait(waiting, self._pause):
                    return
            self._pause = min(self._pause * 2, _SELDOM)

    def _hear(self) -> None:
        """Listen until it is told to stop, as long as somebody here wants to hear something."""
        # Made once: a wake comes with every few writes of this process, too.
        with contextlib.closing(self._connect()) as connection, selectors.DefaultSelector() as waiting:
            waiting.register(self._wake, selectors.EVENT_READ)
            waiting.register(connection.pgconn.socket, selectors.EVENT_READ)
            while True:
                for statement in _LISTEN:
                    connection.execute(statement)
                self._pause = _SOON
                # Something may have been told while nobody listened.
                self._listeners.ring([EVERYTHING])
                if self._listen(connection, waiting):
                    return
                for statement in _REST:
                    connection.execute(statement)
                if self._sleep(connection, waiting):
                    return

    def _listen(self, connection: psycopg.Connection[Any], waiting: selectors.BaseSelector) -> bool:
        """Pass on what comes until nobody wants it; whether to stop altogether."""
        pg = connection.pgconn
        while not self._wait(waiting, None):
            pg.consume_input()
            topics: dict[str, None] = {}
            heard = False
            while (notification := pg.notifies()) is not None:
                heard = True
                sender, *told = notification.extra.decode(errors="replace").split("\n")
                if sender != self._token:
                    topics.update(dict.fromkeys(told))
            if topics:
                self._listeners.ring(list(topics))
            if heard and self._rests():
                return False
        return True

    def _rests(self) -> bool:
        with self._lock:
            self._resting = not self._listeners
            return self._resting

    def _sleep(self, connection: psycopg.Connection[Any], waiting: selectors.BaseSelector) -> bool:
        """Wait until somebody listens again; whether to stop altogether."""
        pg = connection.pgconn
        while not self._wait(waiting, None):
            pg.consume_input()
            while pg.notifies() is not None:
                pass
            with self._lock:
                if not self._resting:
                    return False
        return True

    def _wait(self, waiting: selectors.BaseSelector, seconds: float | None) -> bool:
        """Wait for word from the database or from here, at most so long; whether to stop."""
        called = any(key.fileobj is self._wake for key, _ in waiting.select(seconds))
        return called and not self._wake.recv(64)
