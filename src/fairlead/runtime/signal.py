"""`Signal`: one cancellation token for every way a call can be stopped. Safe from any thread."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable

from fairlead.failures import Failure, Kind

Listener = Callable[[], object]


class Signal:
    """Told to stop once, for good. Async code is cancelled by it; sync code asks it."""

    __slots__ = ("_listeners", "_lock", "cancelled", "reason")

    def __init__(self) -> None:
        self.cancelled = False
        self.reason: str | None = None
        self._listeners: list[Listener] | None = None
        self._lock = threading.Lock()

    def cancel(self, reason: str | None = None) -> None:
        """Ask for the work to stop. A second call changes nothing."""
        with self._lock:
            if self.cancelled:
                return
            self.cancelled = True
            self.reason = reason
            listeners, self._listeners = self._listeners, None
        for listener in listeners or ():
            # One that fails, such as a loop that is closed by now, must not keep the others from hearing.
            with contextlib.suppress(Exception):
                listener()

    def check(self) -> None:
        """Raise the `cancelled` failure if the call was cancelled; long loops in sync code call this."""
        if self.cancelled:
            raise Failure(Kind.cancelled, "Action was cancelled." if self.reason is None else self.reason)

    def sleep(self, seconds: float) -> None:
        """Pause sync code, ended early by the cancel, which is then raised."""
        woken = threading.Event()
        unsubscribe = self.subscribe(woken.set)
        try:
            woken.wait(seconds)
        finally:
            unsubscribe()
        self.check()

    async def wait(self) -> None:
        """Return when the call is cancelled."""
        loop = asyncio.get_running_loop()
        woken = asyncio.Event()
        unsubscribe = self.subscribe(lambda: loop.call_soon_threadsafe(woken.set))
        try:
            await woken.wait()
        finally:
            unsubscribe()

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` on cancel, at once if it has happened; gives the way to unsubscribe."""
        with self._lock:
            if not self.cancelled:
                if self._listeners is None:
                    self._listeners = []
                self._listeners.append(listener)
                return lambda: self._unsubscribe(listener)
        listener()
        return lambda: None

    def _unsubscribe(self, listener: Listener) -> None:
        with self._lock:
            if self._listeners and listener in self._listeners:
                self._listeners.remove(listener)
