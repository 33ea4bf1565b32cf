"""`Deliverer`: tells webhooks what became of tasks. Several processes share the work; what one leaves another takes.

It does two things. It follows the tasks that have webhooks and writes down what is to be told; and it sends what is
due, each attempt under a lease. Both are known by what is on disk alone: a wake that is missed costs time only.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

from fairlead.failures import Failure, Kind
from fairlead.failures.redaction import Redactor
from fairlead.gateway import changes
from fairlead.gateway.changes import DUE, RENDERERS, SQL, WEBHOOKS, Attempt
from fairlead.gateway.sealed import Sealed
from fairlead.outgoing import Guard, Outgoing
from fairlead.runtime import App
from fairlead.runtime.clock import random_id
from fairlead.runtime.hooks import report
from fairlead.store import Bell, Tx
from fairlead.tasks.ledger import task_topic

#: Seconds that a receiver has to answer.
TIMEOUT: Final = 10.0
#: Seconds after which an attempt counts as lost with its process.
LEASE: Final = 30.0
#: Seconds at most between two looks, should a wake have been missed.
LOOK: Final = 5.0
#: Seconds between two looks at tasks that change all the time.
_BREATH: Final = 0.05
#: Seconds until something is tried again that another process, or the store, stands in the way of.
_AGAIN: Final = 0.5
#: Seconds between two clearings.
_CLEARED: Final = 3600.0
AGENT: Final = "Fairlead-Webhooks/1"
T = TypeVar("T")


class Deliverer:
    """Delivers to the webhooks of an app's store."""

    def __init__(
        self,
        app: App,
        guard: Guard | None = None,
        *,
        concurrency: int = 64,
        timeout: float = TIMEOUT,
        lease: float = LEASE,
        look: float = LOOK,
    ) -> None:
        self.id = random_id()
        self._store = app.store
        self._redactor = app.redactor
        self._wall = app.clock.time
        self._outgoing = Outgoing(guard)
        self._sealed = Sealed(app.store)
        self._concurrency = concurrency
        self._timeout = timeout
        self._lease = lease
        self._look = look
        self._loops: list[asyncio.Task[None]] = []
        self._attempts: set[asyncio.Task[None]] = set()
        self._freed: Bell | None = None

    async def __aenter__(self) -> Deliverer:
        self.start()
        return self

    async def __aexit__(self, *about: object) -> None:
        await self.stop()

    def start(self) -> None:
        """Begin to deliver."""
        if not self._loops:
            loops = (self._follow, self._deliver, self._clear)
            self._loops = [asyncio.ensure_future(_lasting(each, self._redactor)) for each in loops]

    async def stop(self, patience: float = TIMEOUT) -> None:
        """Begin no more attempts, wait so many seconds for those under way, then give the rest back."""
        await _ended(self._loops)
        self._loops = []
        if self._attempts and patience:
            await asyncio.wait(self._attempts, timeout=patience)
        await _ended(list(self._attempts))
        await self._outgoing.close()

    async def follow(self) -> int:
        """Write down what is to be told of tasks that have changed; gives how many deliveries that makes."""
        made, before = 0, None
        # Those that another process has in hand are left to it.
        while (ids := await self._store.read(changes.changed)) and ids != before:
            made += sum(await asyncio.gather(*map(self._followed, ids)))
            before = ids
        return made

    async def _followed(self, webhook: str) -> int:
        return await self._write(lambda tx: changes.follow(tx, webhook, self._wall()))

    async def round(self) -> int:
        """Follow, and make all attempts that are due now; gives how many. For those who keep the time themselves."""
        made = 0
        await self.follow()
        while taken := await self._take(self._concurrency):
            made += len(taken)
            await asyncio.gather(*(self._attempt(each) for each in taken))
        return made

    async def _follow(self) -> None:
        with self._store.listening(WEBHOOKS) as bell:
            heard: dict[str, Callable[[], None]] = {}
            stale = _Flag()
            forget = self._store.listen(WEBHOOKS, stale.set)
            try:
                while True:
                    if stale.taken():
                        await self._hear(heard, bell)
                    await self.follow()
                    if not await bell.rung(self._look):
                        stale.set()
                    await asyncio.sleep(_BREATH)
            finally:
                forget()
                for remove in heard.values():
                    remove()

    async def _hear(self, heard: dict[str, Callable[[], None]], bell: Bell) -> None:
        """Be woken by the tasks that have webhooks, and by no others."""
        wanted = {task for (task,) in await self._store.read(lambda tx: tx.all(SQL.open_tasks))}
        for task in heard.keys() - wanted:
            heard.pop(task)()
        for task in wanted - heard.keys():
            heard[task] = self._store.listen(task_topic(task), bell.ring)

    async def _deliver(self) -> None:
        with self._store.listening(DUE) as bell:
            self._freed = bell
            while True:
                room = self._concurrency - len(self._attempts)
                wait = await self._until() if room else self._look
                if wait <= 0:
                    taken = await self._take(room)
                    for each in taken:
                        self._begin(each)
                    # Nothing to be had, though due: another comes before it, or another process was faster.
                    wait = 0.0 if taken else _AGAIN
                if wait:
                    await bell.rung(wait)

    async def _until(self) -> float:
        """Seconds until something is due."""
        due = await self._store.read(changes.next_due)
        return self._look if due is None else min(due - self._wall(), self._look)

    async def _take(self, size: int) -> list[Attempt]:
        taking = asyncio.ensure_future(
            self._write(lambda tx: changes.take(tx, self.id, size, self._wall(), self._lease))
        )
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            # What comes after all is given back.
            with suppress(Failure):
                for each in await taking:
                    await self._give_back(each)
            raise

    def _begin(self, attempt: Attempt) -> None:
        running = asyncio.ensure_future(self._attempt(attempt))
        self._attempts.add(running)

        def ended(running: asyncio.Task[None]) -> None:
            self._attempts.discard(running)
            if self._freed is not None:
                self._freed.ring()

        running.add_done_callback(ended)

    async def _attempt(self, attempt: Attempt) -> None:
        try:
            response, error = await self._sent(attempt)
        except asyncio.CancelledError:
            await asyncio.shield(self._give_back(attempt))
            raise
        try:
            await self._settled(attempt, response, error)
        except Exception:
            # The lease ends, and it is tried again.
            report(f"How delivery {attempt.delivery.id} went could not be written down.", self._redactor)

    async def _sent(self, attempt: Attempt) -> tuple[int, str | None]:
        """Make one attempt; gives the status that was answered, and what was wrong with that."""
        delivery, webhook = attempt
        body = delivery.payload.encode()
        try:
            token = await self._sealed.opened(webhook.token, webhook.task, webhook.url)
            secret = await self._sealed.opened(webhook.secret, webhook.task, webhook.url)
            headers = {"User-Agent": AGENT, **RENDERERS[webhook.renderer].headers(delivery, token)}
            if secret is not None:
                headers["X-BeeOS-Signature"] = signature(secret, body, int(self._wall()))
            received = await self._outgoing.send(
                "POST", webhook.url, headers=headers, body=body, timeout=self._timeout, read=False
            )
        except Failure as failure:
            return 0, f"transport: {failure.message}"
        except Exception as error:
            report(f"Delivery {delivery.id} could not be attempted.", self._redactor)
            return 0, f"transport: {type(error).__name__}"
        fine = 200 <= received.status < 300
        return received.status, None if fine else f"http_status: {received.status}"

    async def _settled(self, attempt: Attempt, response: int, error: str | None) -> None:
        """Write down how it went, however long the store is away; past the lease another tries again."""

        def work(tx: Tx) -> None:
            changes.settle(tx, attempt.delivery, self.id, response, error, self._wall())

        writing = asyncio.ensure_future(self._surely(work))
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            await asyncio.wait((writing,), timeout=_AGAIN)
            writing.cancel()
            raise

    async def _surely(self, work: Callable[[Tx], None]) -> None:
        while True:
            try:
                await self._write(work)
                return
            except Failure as failure:
                if failure.kind is not Kind.unavailable:
                    raise
                report(f"Deliveries wait for their store: {failure.message}", self._redactor)
                await asyncio.sleep(_AGAIN)

    async def _give_back(self, attempt: Attempt) -> None:
        with suppress(Failure):
            await self._write(lambda tx: changes.release(tx, attempt.delivery, self.id))

    async def _clear(self) -> None:
        while True:
            await self.forget()
            await asyncio.sleep(_CLEARED)

    async def forget(self) -> None:
        """Drop webhooks of tasks that are no more, and what was told of them."""
        while ids := await self._store.read(changes.forgotten):
            await self._write(partial(_remove, ids))

    async def _write(self, work: Callable[[Tx], T]) -> T:
        done: T = await self._store.write(work)
        return done


class _Flag:
    """Something that was said, until it is looked at."""

    def __init__(self) -> None:
        self._set = True

    def set(self) -> None:
        self._set = True

    def taken(self) -> bool:
        was, self._set = self._set, False
        return was


def _remove(webhooks: list[str], tx: Tx) -> None:
    for each in webhooks:
        changes.remove(tx, each)


def signature(secret: str, body: bytes, moment: int) -> str:
    """What proves that a callback is ours, and when it was made."""
    digest = hmac.new(secret.encode(), b"%d." % moment + body, hashlib.sha256)
    return f"t={moment},v1={digest.hexdigest()}"


async def _ended(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _lasting(loop: Callable[[], Coroutine[Any, Any, None]], redactor: Redactor) -> None:
    """Go on, whatever happens to the store meanwhile."""
    while True:
        try:
            await loop()
        except Failure as failure:
            report(f"Deliveries wait for their store: {failure.message}", redactor)
        except Exception:
            report("The deliverer stumbled, and goes on.", redactor)
        await asyncio.sleep(_AGAIN)
