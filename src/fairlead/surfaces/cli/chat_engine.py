"""An event loop on a thread of its own, while the main thread keeps the keyboard and hears Ctrl-C.

So services and background work of the app go on while somebody types, and a line can be edited as in any shell.
"""

from __future__ import annotations

import asyncio
import os
import signal as signals
import socket
import threading
from collections.abc import Callable, Coroutine
from queue import SimpleQueue
from types import FrameType, TracebackType
from typing import Any, TypeVar

from fairlead.runtime import Signal
from fairlead.surfaces.cli.interrupts import drain

T = TypeVar("T")
#: Wakes a thread and means nothing else.
_NUDGE = getattr(signals, "SIGURG", None)
_NUDGE_EVERY = 0.05
#: Work that can be stopped.
Work = Callable[[Signal], Coroutine[Any, Any, T]]


class Engine:
    """Runs work on the loop, one piece at a time, for the thread that made it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._turn, name="fairlead-chat", daemon=True)
        self._mail: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        #: What Ctrl-C stops; None while nothing runs.
        self._signal: Signal | None = None
        self._typing = False
        self.terminated = False
        self._before: dict[signals.Signals, Any] = {}
        self._bell: tuple[socket.socket, socket.socket] | None = None
        self._bell_before = -1
        #: Signals of which the main thread was told.
        self._told = 0

    def __enter__(self) -> Engine:
        self._thread.start()
        try:
            for each in (signals.SIGINT, signals.SIGTERM):
                self._before[each] = signals.signal(each, self._heard)
        except ValueError:
            return self  # signals reach the main thread only; elsewhere the host program handles them
        if _NUDGE is not None:
            self._before[_NUDGE] = signals.signal(_NUDGE, lambda *_: None)
            self._listen()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for each, handler in self._before.items():
            signals.signal(each, handler)
        if self._bell is not None:
            signals.set_wakeup_fd(self._bell_before)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        drain(self._loop)
        self._loop.close()
        for end in self._bell or ():
            end.close()

    def run(self, work: Work[T]) -> T:
        """Run work to its end. Meanwhile questions of it are answered, and Ctrl-C stops it."""
        signal = self._signal = Signal()
        if self.terminated:
            signal.cancel("Cancelled by a request to terminate.")
        running = asyncio.run_coroutine_threadsafe(work(signal), self._loop)
        running.add_done_callback(lambda _: self._mail.put(None))
        try:
            while (question := self._mail.get()) is not None:
                question()
        finally:
            self._signal = None
        return running.result()

    def typed(self, read: Callable[[], T]) -> T:
        """Read from the keyboard.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed, or the process was asked to end.
        """
        if self.terminated:
            raise KeyboardInterrupt
        self._typing = True
        try:
            return read()
        finally:
            self._typing = False

    async def asked(self, read: Callable[[], str | None]) -> str | None:
        """Have a line read, from work that runs on the loop; None when that was interrupted, as the work is then."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[str | None] = loop.create_future()

        def settle(line: str | None) -> None:
            if not answer.done():
                answer.set_result(line)

        def question() -> None:
            line: str | None = None
            try:
                line = self.typed(read)
            except KeyboardInterrupt:
                self._stop()
            loop.call_soon_threadsafe(settle, line)

        self._mail.put(question)
        return await answer

    def _turn(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _listen(self) -> None:
        """Have the loop's thread see to it that the main thread hears a signal.

        Line editing waits in C. A signal that comes just before that wait does not end it, and would be heard
        with the next key only.
        """
        self._bell = inner, outer = socket.socketpair()
        for end in self._bell:
            end.setblocking(False)
        self._bell_before = signals.set_wakeup_fd(outer.fileno(), warn_on_full_buffer=False)
        main = threading.get_ident()

        def rung() -> None:
            numbers = inner.recv(4096)
            if signals.SIGINT in numbers or signals.SIGTERM in numbers:
                self._nudge(main, self._told)

        self._loop.call_soon_threadsafe(self._loop.add_reader, inner, rung)

    def _nudge(self, main: int, told: int, tries: int = 20) -> None:
        if self._told == told and tries and _NUDGE is not None:
            signals.pthread_kill(main, _NUDGE)
            self._loop.call_later(_NUDGE_EVERY, self._nudge, main, told, tries - 1)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        self._told += 1
        if number == signals.SIGTERM:
            self.terminated = True
        if self._typing:
            raise KeyboardInterrupt
        if self._signal is None:
            return
        if self._signal.cancelled:
            os._exit(128 + number)  # it was asked to stop before, and has not
        self._stop()

    def _stop(self) -> None:
        signal = self._signal
        if signal is not None:
            reason = "Cancelled by a request to terminate." if self.terminated else "Cancelled by Ctrl-C."
            self._loop.call_soon_threadsafe(signal.cancel, reason)
