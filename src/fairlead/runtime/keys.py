"""Keyed calls: what the runtime asks of a store of idempotency keys, and what it gives it to keep.

A store that fails after the effect has happened is reported, and nobody's failure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import orjson

from fairlead._json import encode, packed
from fairlead.failures import Kind, StoreFailure, from_exception
from fairlead.failures import action as wire
from fairlead.failures.redaction import Redactor
from fairlead.runtime.clock import Clock
from fairlead.runtime.context import Context, Record, spelled
from fairlead.runtime.hooks import report
from fairlead.runtime.idempotency import Claim, IdempotencyStore, MemoryIdempotency
from fairlead.runtime.limits import Limits, Straggler, succeeded
from fairlead.runtime.plan import Plan, dumped
from fairlead.runtime.redaction import redacted
from fairlead.runtime.refusals import conflicting
from fairlead.runtime.settling import finish, quietly
from fairlead.runtime.supervision import interruptible

#: Failures of the first call that say nothing about its twins: they try for themselves.
_OWN = frozenset({Kind.cancelled, Kind.timeout})

#: Takes a key, what to keep, what to share with twins, and the time.
Settle = Callable[[str, Any, bytes | None, float], Awaitable[None] | None]


class Keys:
    """One runtime's keys."""

    def __init__(self, store: IdempotencyStore | None, redactor: Redactor, clock: Clock) -> None:
        own = MemoryIdempotency(monotonic=clock.monotonic)
        self._store = own if store is None else store
        self._redactor = redactor
        self._monotonic = clock.monotonic
        self.claim = self._store.claim
        #: Whether records can be kept as they are: nothing is spelled out until it is asked for again.
        self._in_memory = type(self._store) is MemoryIdempotency
        # Our own store goes by the runtime's clock, keeps whatever it is given, and does not fail.
        self.settle: Settle = own.settle_at if store is None else self._settle

    def recorded(self, context: Context, data: Any) -> Record | bytes | None:
        """A call's result, to be kept: independent of what its caller does with it."""
        try:
            try:
                told = orjson.dumps(data)
            except TypeError:
                told = encode(data)
            made = context._artifacts
            record = (
                b"%b" % told,  # packed
                b"[]" if made is None else packed(encode(made)),
                context._notes or (),
                context._runtime,
            )
            return record if self._in_memory else spelled(record)
        except Exception:
            # The effect has happened: the caller must hear of it, even if it could not be kept.
            report("A result could not be kept for its idempotency key.", self._redactor)
            return None

    def shared(self, error: Exception) -> bytes | None:
        """A failure as twins in flight hear it; not one that concerns the first call alone."""
        failure = redacted(self._redactor, from_exception(error).for_callers())
        return None if failure.kind in _OWN else encode({"error": wire.render(failure)})

    async def kept(
        self,
        context: Context,
        limits: Limits | None,
        key: str,
        request: bytes,
        claim: Claim | Awaitable[Claim],
    ) -> Record | bytes | None:
        """What the first call with the same key gave; None if this is the first."""
        while True:
            if not isinstance(claim, Claim):
                claim = await self._claimed(key, claim)
            if claim.state == "fresh":
                return None
            if claim.state == "conflict":
                raise conflicting(context.action.name)
            told = claim.record
            if claim.state == "in_flight":
                waiting = asyncio.ensure_future(self._store.wait(key))
                told = await (waiting if limits is None else interruptible(context, waiting, limits))
            if told is not None:
                return told
            claim = self.claim(key, request)

    async def _claimed(self, key: str, claim: Awaitable[Claim]) -> Claim:
        """Hear what a store elsewhere says. Who is cancelled meanwhile gives a claim back that comes too late."""
        asking = asyncio.ensure_future(claim)

        def give_back(asked: asyncio.Future[Claim]) -> None:
            if not asked.cancelled() and asked.exception() is None and asked.result().state == "fresh":
                pending = self.settle(key, None, None, self._monotonic())
                if pending is not None:
                    finish(pending)

        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            asking.add_done_callback(give_back)
            raise
        except StoreFailure as failure:
            # Nothing was done: who may not do it twice may still send it again.
            failure.details["begun"] = False
            raise

    def _settle(self, key: str, kept: Any, shared: bytes | None, now: float) -> Awaitable[None] | None:
        try:
            pending = self._store.settle(key, kept, shared)
        except Exception:
            # The effect has happened: the caller must hear of it, even if it could not be kept.
            report("The idempotency store failed to keep a result.", self._redactor)
            return None
        return None if pending is None else quietly(pending, self._redactor)

    def late(self, plan: Plan, context: Context, work: Straggler) -> Record | bytes | None:
        """What work gave that was stopped and has ended, to be kept if it was a success after all."""
        # Behind middleware, what a thread gives is not yet the call's result: that is what the body's task gives.
        if succeeded(work) and not (plan.wrapped and isinstance(work, Future)):
            # Whatever the output's own code raises, the key must not stay held.
            with suppress(Exception):
                return self.recorded(context, dumped(plan.output, work.result()))
        return None

    def settle_later(self, plan: Plan, context: Context, key: str, straggler: Straggler) -> None:
        """While the body still runs the key stays held, so that no twin starts beside it; a late success is kept."""

        def stopped(work: Straggler) -> None:
            thread = context._thread
            if thread is not None and not thread.done():
                # Its task was stopped once more, at the end of a program, and left it behind.
                thread.add_done_callback(stopped)
                return
            pending = self.settle(key, self.late(plan, context, work), None, self._monotonic())
            if pending is not None:
                finish(pending)

        straggler.add_done_callback(stopped)
