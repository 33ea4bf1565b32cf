"""One effect for one key: the first success is kept, and the same request gets it again.

A call is known by (action, caller, key). The same key with another request is a conflict. Twins in flight
wait for the first. What is kept is bytes, so that a store can be a dict or a database.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, Literal, NamedTuple, Protocol


class Claim(NamedTuple):
    """What a store answers: run it, here is the kept result, someone runs it now, or another request has this key."""

    state: Literal["fresh", "replay", "in_flight", "conflict"]
    record: bytes | None = None


class IdempotencyStore(Protocol):
    """Where keys are kept. A store in memory answers at once; one elsewhere gives awaitables."""

    def claim(self, key: str, request: bytes) -> Claim | Awaitable[Claim]:
        """Ask to run the request (its input in canonical form) under the key. Remember a digest, not the request."""
        ...

    def settle(self, key: str, record: bytes | None, shared: bytes | None = None) -> Awaitable[None] | None:
        """End a fresh claim: keep `record`, or forget the key; `shared` is only for twins that wait now."""
        ...

    async def wait(self, key: str) -> bytes | None:
        """Wait for the call in flight; gives what it kept or shared, or None: then claim again."""
        ...


FRESH = Claim("fresh")
_IN_FLIGHT = Claim("in_flight")
_CONFLICT = Claim("conflict")

Waiting = asyncio.Future[bytes | None]


#: A key: a digest of what was asked, and, when that has been done, what it gave and until when it is kept.
_Entry = tuple[int, bytes | None, float]


class MemoryIdempotency:
    """Keys of this process, for `ttl` seconds, about the `max_entries` most recently used ones."""

    def __init__(
        self, ttl: float = 300.0, max_entries: int = 1000, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.ttl = ttl
        self.max_entries = max_entries
        # Old entries go in batches: dropping the first of a dict one by one is slow.
        self._full = max_entries + max_entries // 4
        self._monotonic = monotonic
        #: The newest last.
        self._entries: dict[str, _Entry] = {}
        #: Keys whose record was asked for again since they were last looked through.
        self._replayed: set[str] = set()
        self._waiting: dict[str, list[Waiting]] = {}
        self._lock = threading.Lock()

    def claim(self, key: str, request: bytes) -> Claim:
        # The hash is salted anew in each process, which is as long as this store lives.
        new = (hash(request), None, 0.0)
        # One step, so that of two threads only one is first, without a lock.
        entry = self._entries.setdefault(key, new)
        return FRESH if entry is new else self._again(key, new)

    def _again(self, key: str, new: _Entry) -> Claim:
        with self._lock:
            # Whoever had the lock before may have ended an entry that is no longer kept, and begun anew.
            entry = self._entries.setdefault(key, new)
            if entry is new:
                return FRESH
            digest, record, expires = entry
            if record is None:
                return _IN_FLIGHT if digest == new[0] else _CONFLICT
            if expires <= self._monotonic():
                self._entries.pop(key, None)
                return FRESH if self._entries.setdefault(key, new) is new else _IN_FLIGHT
            self._replayed.add(key)
            return Claim("replay", record) if digest == new[0] else _CONFLICT

    def settle(self, key: str, record: bytes | None, shared: bytes | None = None) -> None:
        entry = self._entries.get(key)
        if entry is not None and entry[1] is None:
            self.settle_at(key, record, shared, self._monotonic())

    def settle_at(self, key: str, record: Any, shared: bytes | None, now: float) -> None:
        """End a claim that is known to be open, at a time that was looked at already, with any record that lasts."""
        entries = self._entries
        if record is None:
            del entries[key]
        else:
            entries[key] = (entries[key][0], record, now + self.ttl)
            if len(entries) > self._full:
                self._evict()
        if self._waiting:
            self._wake(key, shared if record is None else record)

    def _evict(self) -> None:
        """Drop the oldest; those that run now stay, and those that were replayed stay once more."""
        entries, replayed = self._entries, self._replayed
        with self._lock:
            excess = len(entries) - self.max_entries
            for key in list(entries):
                if excess <= 0:
                    break
                if key in replayed:
                    replayed.discard(key)
                elif entries[key][1] is not None:
                    del entries[key]
                    excess -= 1

    async def wait(self, key: str) -> bytes | None:
        waiter: Waiting = asyncio.get_running_loop().create_future()
        with self._lock:
            self._waiting.setdefault(key, []).append(waiter)
        # It may have been settled just before: then nobody is left to wake this one.
        entry = self._entries.get(key)
        if entry is None or entry[1] is not None:
            self._wake(key, None if entry is None else entry[1])
        return await waiter

    def _wake(self, key: str, told: bytes | None) -> None:
        with self._lock:
            waiting = self._waiting.pop(key, ())
        for waiter in waiting:
            _tell(waiter, told)


def _tell(waiter: Waiting, told: bytes | None) -> None:
    def tell() -> None:
        if not waiter.done():
            waiter.set_result(told)

    if not waiter.get_loop().is_closed():
        waiter.get_loop().call_soon_threadsafe(tell)
