"""Idempotency keys in the store: one effect for one key, whichever process is asked, also after a restart.

    app = App("shop", idempotency=DurableIdempotency(open_store("shop")))

What is promised, and what nobody can promise:

- Of all processes on one store, one runs a key's call; the others wait for it, and get what it gave.
- What was settled is settled: its record is replayed for `ttl` seconds, and nothing that comes late changes it.
- A claim is held by a lease that is renewed from a thread of its own while the call runs, however long it takes and
  however busy its event loop is. When the store cannot be reached, the claim is renewed, and a result that could not
  be kept is kept, as soon as it can be; twins in the same process get it at once.
- When the process dies (kill -9, power), the key is free after `lease` seconds. Whether the effect had happened by
  then cannot be known here: the next call with the key runs the action again. An action that must not repeat a
  committed write puts `ctx.idempotency_key` into the same transaction as the write, where a unique index refuses it.
- When a process only seems dead (stopped for longer than the lease, cut off from the store, a clock that jumped), and
  another has taken the key over, both run. The one that took over is the one whose result is kept: the other's late
  settle is fenced off. Clocks of the machines on one store should agree to within a part of the lease.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import threading
import time
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeVar

from fairlead.failures import Failure, Kind
from fairlead.runtime.idempotency import FRESH, Claim
from fairlead.store.digests import digest_of
from fairlead.store.statements import statements
from fairlead.store.store import Row, Store, Tx, Work

T = TypeVar("T")

SQL: Final = statements(__file__, "idempotency.sql")

_IN_FLIGHT: Final = Claim("in_flight")
_CONFLICT: Final = Claim("conflict")
#: Seconds after which one who waits looks, though nobody told anything.
_LOOK: Final = 5.0
#: A look for what has expired comes with every so many claims, and takes at most twice as many rows away.
_PRUNE_EVERY: Final = 64
#: Seconds for which what has expired stays: a failure must be there when those who waited for it come for it.
_REMAINS: Final = 60.0
#: The space of keys that were used up: what works once does so in whichever app it is good.
_SPENT: Final = "spent"


class _Running(NamedTuple):
    """A call in another process: whose claim it is, and how many seconds are left of its lease."""

    owner: str
    left: float


class _Call:
    """A claim that this process asks for, or holds."""

    __slots__ = ("asked", "ended", "outcome", "owner", "renewed", "request")

    def __init__(self, request: bytes) -> None:
        self.request = request
        self.owner = secrets.token_hex(16)
        self.renewed = 0.0
        #: What it ended with, once it has: the record, and what twins are told if there is none.
        self.outcome: tuple[bytes | None, bytes | None] | None = None
        #: What the store answered, and what those in this process who wait for the call are told.
        self.asked: Future[Claim] = _uncancellable()
        self.ended: Future[bytes | None] = _uncancellable()


class DurableIdempotency:
    """Keys in the store. `name` keeps apps apart that share a store and have actions of the same name."""

    def __init__(
        self,
        store: Store,
        ttl: float = 86400.0,
        lease: float = 30.0,
        *,
        name: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not (ttl > 0 and lease > 0):
            raise Failure(
                Kind.misconfigured, "DurableIdempotency needs a ttl and a lease of more than 0 seconds."
            )
        self.ttl = ttl
        self.lease = lease
        self._store = store
        self._name = name
        self._clock = clock
        #: By the key's digest; at most one for each, so that what is settled is never another's.
        self._calls: dict[str, _Call] = {}
        self._lock = threading.Lock()
        self._heart: threading.Thread | None = None
        self._claims = 0

    async def claim(self, key: str, request: bytes) -> Claim:
        row, digest = digest_of(self._name, key), hashlib.sha256(request).digest()
        while True:
            with self._lock:
                call = self._calls.get(row)
                first = call is None
                if call is None:
                    call = self._calls[row] = _Call(digest)
            if first:
                return await self._ask(row, call)
            # The key is held here, or being asked for: one question is enough for all who come meanwhile.
            answer = await asyncio.wrap_future(call.asked)
            if call.request == digest:
                return _IN_FLIGHT if answer is FRESH else answer
            if answer is not _CONFLICT:
                return _CONFLICT

    def settle(self, key: str, record: bytes | None, shared: bytes | None = None) -> Awaitable[None] | None:
        row = digest_of(self._name, key)
        with self._lock:
            call = self._calls.get(row)
            if call is None or call.outcome is not None or not call.asked.done():
                return None
            call.outcome = (record, shared)
        return _seen(self._settle(row, call))

    async def wait(self, key: str) -> bytes | None:
        row = digest_of(self._name, key)
        call = self._calls.get(row)
        if call is not None:
            return await asyncio.wrap_future(call.ended)
        owner = None
        with self._store.listening(_topic(row)) as bell:
            while True:
                found = await self._store.write(lambda tx: self._await(tx, row))
                if isinstance(found, _Running):
                    owner = owner or found.owner
                    if found.owner == owner:
                        await bell.rung(min(max(found.left, 0.05), _LOOK))
                        continue
                    return None  # another has begun anew: ask again, as that one's twin
                return found

    async def spend(self, key: str, until: float) -> bool:
        """Use a key up that works once, such as a token; whether nobody had. It is remembered until then."""
        row, owner = digest_of(_SPENT, key), secrets.token_hex(16)
        values = {"key": row, "owner": owner, "until": until, "nothing": b""}
        spent = await self._store.write(lambda tx: tx.one(SQL.spend, **values))
        self._prune_sometimes()
        return spent is not None

    async def _ask(self, row: str, call: _Call) -> Claim:
        asking = self._submit(lambda tx: self._claim(tx, row, call))
        asking.add_done_callback(lambda done: self._answered(row, call, done))
        try:
            return await asyncio.wrap_future(call.asked)
        except asyncio.CancelledError:
            # Nobody is left to run the call, so the claim is given back when it comes.
            call.asked.add_done_callback(lambda _: self._give_back(row, call))
            raise

    def _claim(self, tx: Tx, row: str, call: _Call) -> Claim:
        now = self._clock()
        call.renewed = now
        if tx.one(
            SQL.claim, key=row, request=call.request, owner=call.owner, until=now + self.lease, now=now
        ):
            return FRESH
        found = tx.one(SQL.look, key=row)
        if found is None or bytes(found[0]) != call.request:
            return _CONFLICT
        record = found[3]
        return _IN_FLIGHT if record is None else Claim("replay", bytes(record))

    def _answered(self, row: str, call: _Call, done: Future[Claim]) -> None:
        """On a thread of the store: the claim is held from here on, or it is not ours."""
        error = done.exception()
        fresh = error is None and done.result() is FRESH
        with self._lock:
            if not fresh:
                del self._calls[row]
            elif self._heart is None:
                self._heart = self._begun()
        if error is not None:
            call.asked.set_exception(error)
        else:
            call.asked.set_result(done.result())
        if not fresh:
            call.ended.set_result(None)
        self._prune_sometimes()

    def _begun(self) -> threading.Thread | None:
        """The thread that keeps leases; none when the interpreter ends, and leases need no keeping."""
        pause = self.lease / 3
        heart = threading.Thread(
            target=_beat, args=(weakref.ref(self), pause), name="fairlead-leases", daemon=True
        )
        try:
            heart.start()
        except RuntimeError:
            return None
        return heart

    def _give_back(self, row: str, call: _Call) -> None:
        with self._lock:
            if self._calls.get(row) is not call or call.outcome is not None:
                return
            call.outcome = (None, None)
        self._settle(row, call)

    def _settle(self, row: str, call: _Call) -> Future[None]:
        settling = self._submit(lambda tx: self._end(tx, row, call))
        settling.add_done_callback(lambda done: self._settled(row, call, done))
        return settling

    def _settled(self, row: str, call: _Call, done: Future[None]) -> None:
        record, shared = call.outcome or (None, None)
        if done.exception() is None or record is None:
            with self._lock:
                if self._calls.get(row) is call:
                    del self._calls[row]
        # Else the effect has happened and is not on record: the claim stays held until it is.
        if not call.ended.done():
            call.ended.set_result(shared if record is None else record)

    def _end(self, tx: Tx, row: str, call: _Call) -> None:
        now = self._clock()
        record, shared = call.outcome or (None, None)
        ended: Row | None = None
        if record is not None:
            until = now + self.ttl
            who = {"key": row, "owner": call.owner, "request": call.request}
            ended = tx.one(SQL.keep, **who, until=until, record=record, now=now)
        else:
            if shared is not None:
                ended = tx.one(SQL.share, key=row, owner=call.owner, shared=shared, now=now)
            if ended is None:
                ended = tx.one(SQL.forget, key=row, owner=call.owner)
        if ended is not None and ended[0]:
            tx.tell(_topic(row))

    def _await(self, tx: Tx, row: str) -> _Running | bytes | None:
        """What another process has to say of a call, or that it runs and will tell us."""
        now = self._clock()
        running = tx.one(SQL.wait, key=row, now=now)
        if running is not None:
            return _Running(running[0], running[1] - now)
        found = tx.one(SQL.look, key=row)
        if found is None:
            return None
        _, _, until, record, shared = found
        if shared is not None:
            return bytes(shared)
        return bytes(record) if record is not None and until > now else None

    def _tend(self) -> bool:
        """Keep what is held, and see through what could not be settled; False when nothing is held."""
        now = self._clock()
        young = self.lease / 3 - 0.001
        with self._lock:
            if not self._calls:
                self._heart = None
                return False
            held = {row: call for row, call in self._calls.items() if call.asked.done()}
        # A claim from the future is one whose clock has been set back: it is old.
        old = {row: call for row, call in held.items() if not 0 <= now - call.renewed < young}
        with suppress(Exception):  # the next beat tries again
            if old:
                self._store.write_now(lambda tx: self._renew(tx, old))
        for row, call in held.items():
            if call.ended.done():
                self._settle(row, call)
        return True

    def _renew(self, tx: Tx, calls: dict[str, _Call]) -> None:
        now = self._clock()
        rows = [{"key": row, "owner": call.owner, "until": now + self.lease} for row, call in calls.items()]
        tx.many(SQL.renew, rows)
        for call in calls.values():
            call.renewed = now

    def _prune_sometimes(self) -> None:
        with self._lock:
            self._claims += 1
            if self._claims % _PRUNE_EVERY != 1:
                return
        with suppress(Failure):
            self._store.submit(self._prune, True)

    def _prune(self, tx: Tx) -> None:
        tx.run(SQL.prune, before=self._clock() - _REMAINS, most=2 * _PRUNE_EVERY)

    def _submit(self, work: Work[T]) -> Future[T]:
        """Have the work done; that the store takes none is an answer like any other."""
        try:
            return self._store.submit(work, True)
        except Exception as exc:
            refused: Future[T] = Future()
            refused.set_exception(exc)
            return refused


def _beat(keys: weakref.ref[DurableIdempotency], pause: float) -> None:
    """Tend what is held, on a thread of its own: it does not depend on an event loop that has time."""
    while True:
        time.sleep(pause)
        alive = keys()
        if alive is None or not alive._tend():
            return
        del alive


async def _seen(settling: Future[None]) -> None:
    await asyncio.wrap_future(settling)


def _uncancellable() -> Future[Any]:
    """Many wait for it: one of them who gives up must not end it for the others."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future


def _topic(row: str) -> str:
    return f"idempotency:{row}"
