"""How much runs at once, how often, and for how long: gates, meters, and the limits of one call."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any, Protocol

from fairlead.actions import Action, Concurrency, DefinitionError, Retry
from fairlead.actions.policy import retry as as_retry
from fairlead.actions.policy import seconds
from fairlead.failures import Failure, Kind
from fairlead.runtime.signal import Signal

Waiter = asyncio.Future[None]
#: A task or a thread that was told to stop and did not. A thread's callbacks run on that thread.
Straggler = asyncio.Future[Any] | Future[Any]


class Gate:
    """Lets `max` calls of one action in; up to `queue` more wait their turn."""

    def __init__(self, action: str, limits: Concurrency) -> None:
        self._action = action
        self._limits = limits
        #: One for each free slot. Taking and giving back are single steps, so that no lock is needed for them.
        self.slots = deque([None] * limits.max)
        self.waiters: deque[Waiter] = deque()
        self._lock = threading.Lock()

    @property
    def busy(self) -> bool:
        """Whether somebody is in, or waits."""
        return len(self.slots) < self._limits.max or bool(self.waiters)

    def queue(self) -> Waiter:
        """Take a place in the queue, when there is no slot to take: the future says when one is yours."""
        limits = self._limits
        with self._lock:
            if len(self.waiters) >= limits.queue:
                raise Failure(
                    Kind.busy,
                    f"Action {self._action!r} runs {limits.max} at a time, and no more may wait. Try again later.",
                    details={"max": limits.max, "queue": limits.queue},
                )
            waiter: Waiter = asyncio.get_running_loop().create_future()
            self.waiters.append(waiter)
        # A slot may have come free between the look and the queueing.
        self.hand_out()
        return waiter

    def leave(self) -> None:
        """Give the slot back, or on to the first in the queue."""
        self.slots.append(None)
        if self.waiters:
            self.hand_out()

    def leave_after(self, straggler: Straggler) -> None:
        """Leave, when the work has really stopped."""
        straggler.add_done_callback(lambda _: self.leave())

    def give_up(self, waiter: Waiter) -> None:
        """Leave the queue; a slot that came just now is given back."""
        if waiter.done() and not waiter.cancelled():
            self.leave()
        waiter.cancel()
        with self._lock:
            if waiter in self.waiters:
                self.waiters.remove(waiter)

    def hand_out(self) -> None:
        """Give free slots to those who wait longest."""
        with self._lock:
            while self.waiters:
                waiter = self.waiters[0]
                if waiter.done() or waiter.get_loop().is_closed():
                    self.waiters.popleft()
                    continue
                try:
                    self.slots.pop()
                except IndexError:  # none is left: calls on other threads take them without the lock
                    return
                self.waiters.popleft()
                waiter.get_loop().call_soon_threadsafe(self._hand_over, waiter)

    def _hand_over(self, waiter: Waiter) -> None:
        if waiter.done():
            # It gave up in the meantime: the slot goes on.
            self.leave()
        else:
            waiter.set_result(None)


class RateStore(Protocol):
    """Counts calls. The one in memory serves one process."""

    def take(self, key: str, limit: int, per: float) -> float | Awaitable[float]:
        """Count one call; 0 if it may go on, else the seconds to wait."""
        ...


Take = Callable[[str, int, float, float], float | Awaitable[float]]


def timeless(store: RateStore) -> Take:
    """How a store counts a call that has its own idea of the time."""
    return lambda key, limit, per, now: store.take(key, limit, per)


class MemoryRates:
    """Spreads `limit` calls over `per` seconds (GCRA), bursts up to `limit`; two numbers a key."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic, max_keys: int = 100_000) -> None:
        self._monotonic = monotonic
        self._max_keys = max_keys
        self._next: dict[str, float] = {}
        #: Once it was full: when each caller's calls have been spread, at the earliest, the first of them first.
        self._ends: list[tuple[float, str]] = []
        lock = threading.Lock()
        self._acquire, self._release = lock.acquire, lock.release

    def take(self, key: str, limit: int, per: float) -> float:
        return self.take_at(key, limit, per, self._monotonic())

    def take_at(self, key: str, limit: int, per: float, now: float) -> float:
        """Count a call that came at a time that was looked at already."""
        acquire, release = self._acquire, self._release
        # (`with` would take as long as all the rest.)
        acquire()
        try:
            meters = self._next
            following = meters.get(key, 0.0)
            if following < now:
                if not following:
                    if len(meters) >= self._max_keys:
                        self._forget(now)
                        meters = self._next
                    if self._ends:
                        heappush(self._ends, (now + per / limit, key))
                following = now
            following += per / limit
            wait = following - per - now
            if wait > 1e-6:
                return wait
            meters[key] = following
            return 0.0
        finally:
            release()

    def _forget(self, now: float) -> None:
        """Drop callers whose calls have all been spread; if none, the oldest half."""
        meters = self._next
        # Looking through all for the one that has ended would take milliseconds for each new caller.
        if not self._ends:
            self._ends = [(following, key) for key, following in meters.items()]
            heapify(self._ends)
        ends = self._ends
        while ends and ends[0][0] <= now:
            key = ends[0][1]
            following = meters.get(key, 0.0)
            if following > now:
                heapreplace(ends, (following, key))  # they have called again
            else:
                heappop(ends)
                meters.pop(key, None)
        if len(meters) >= self._max_keys:
            self._next = dict(list(meters.items())[len(meters) // 2 :])
            self._ends = []


class Limits:
    """What may end one call early, and how often it may be tried."""

    __slots__ = ("_deadline", "_timeout", "_wait", "retry", "signal", "straggler")

    def __init__(
        self,
        action: Action[..., Any],
        started: float = 0.0,
        signal: Signal | None = None,
        timeout: float | None = None,
        deadline: float | None = None,
        retry: Any = None,
    ) -> None:
        self.signal = signal
        self._timeout = seconds("The call", "timeout", timeout) if timeout is not None else action.timeout
        total = seconds("The call", "deadline", deadline) if deadline is not None else action.deadline
        self._deadline = None if total is None else started + total
        self.retry: Retry = action.retry if retry is None else as_retry("The call", retry)
        self._wait: float | None = None
        #: A body that was told to stop and did not. While it runs it keeps its slot and its key; a write that it did
        #: after all is not tried again.
        self.straggler: Straggler | None = None

    @property
    def unlimited(self) -> bool:
        return self.signal is None and self._timeout is None and self._deadline is None

    def may_retry(self, attempt: int, pause: float, now: float) -> bool:
        """Whether another attempt is allowed, and can begin before the deadline."""
        if attempt > self.retry.retries or self.straggler is not None:
            return False
        return self._deadline is None or now + pause < self._deadline

    def waiting(self, wait: float | None) -> Limits:
        """The limits of a time in which nothing is attempted: not the attempt's, but the deadline and `wait`."""
        copy = Limits.__new__(Limits)
        copy.signal, copy.retry, copy._deadline = self.signal, self.retry, self._deadline
        copy._timeout, copy._wait, copy.straggler = None, wait, None
        return copy

    def next(self, now: float) -> tuple[str, float | None]:
        """Which limit ends this step first, and in how many seconds."""
        left = None if self._deadline is None else max(0.0, self._deadline - now)
        known = [
            (limit, name)
            for name, limit in (("timeout", self._timeout), ("deadline", left), ("wait", self._wait))
            if limit is not None
        ]
        if not known:
            return "", None
        limit, name = min(known)
        return name, limit


def succeeded(work: Straggler) -> bool:
    """Whether the work has ended, and well."""
    return work.done() and not work.cancelled() and work.exception() is None


def done_after_all(*works: Straggler | None) -> Straggler | None:
    """The first of these that came to its end although it was told to stop."""
    return next((work for work in works if work is not None and succeeded(work)), None)


def limits_of(action: Action[..., Any], started: float, signal: Signal | None, *limits: Any) -> Limits:
    """The limits of a call. A wrong one is the caller's mistake, and told as such."""
    try:
        return Limits(action, started, signal, *limits)
    except DefinitionError as exc:
        raise Failure(Kind.malformed, str(exc), cause=exc) from exc
