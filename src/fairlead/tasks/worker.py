"""`Worker`: takes tasks from the store, runs them through the app, and keeps house.

It sleeps until it is woken: by a new task, by a cancel, or by the clock, when something is due. What it runs it
holds by a lease that it renews; a run that is not its own any more is stopped, and nothing it says counts.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, TypeVar

from fairlead._json import dumps, loads
from fairlead.actions import Retry
from fairlead.actions.surfaces import IN_PROCESS
from fairlead.failures import Failure, Kind
from fairlead.failures import action as wire
from fairlead.failures.redaction import Redactor
from fairlead.runtime import App
from fairlead.runtime.confirmation import CONFIRMED
from fairlead.runtime.durable import CURRENT
from fairlead.runtime.hooks import report
from fairlead.runtime.identity import caller_of
from fairlead.runtime.supervision import heard
from fairlead.store import Store, Tx
from fairlead.store.secrets import Damaged
from fairlead.store.store import writable
from fairlead.tasks import ledger, options
from fairlead.tasks.bus import LOOK, PRESENCE, Bus, Presence, Source, open_bus
from fairlead.tasks.ledger import Fenced, Held, Said
from fairlead.tasks.records import Task, whose
from fairlead.tasks.run import Run, passes
from fairlead.tasks.sealing import Locked, Sealing
from fairlead.tasks.states import State

T = TypeVar("T")

#: Seconds without a sign of life after which a run is given to another worker.
LEASE: Final = 30.0
#: Seconds that ended tasks, and deltas, are kept.
RETENTION: Final = 7 * 86_400.0
DELTAS: Final = 86_400.0
#: Seconds between two rounds of forgetting.
_PRUNE: Final = 60.0
#: A clock that jumps by more than this many seconds says nothing about who is alive.
_JUMP: Final = 2.0
#: Seconds by which our clock may differ from the database's before that one counts.
_AGREE: Final = 1.0
#: Seconds between two looks at clocks that count as one.
_AT_ONCE: Final = 0.0001
#: Seconds that the database may take to say what time it is.
_PROMPT: Final = 1.0
#: How often it is asked at once while our clock is being moved.
_TRIES: Final = 3
#: Seconds after which it is asked again.
_ASK: Final = 60.0
#: Seconds before what a lost worker had is tried again, times the attempts so far.
_PAUSE: Final = 1.0
#: Seconds at most until what a worker could not open is given to one again.
_LONGEST_PAUSE: Final = 300.0
#: Seconds that a run has after its deadline to write down what it said: its own worker ends it in that time.
_LAST_WORDS: Final = 0.5
#: Seconds until a store that failed is tried again.
_AGAIN: Final = 1.0


#: Told what became of a task: `started`, `ended` (whatever the end), `again`, `paused`, `handed back`, `lost`.
Heard = Callable[[str, Task], None]


class Worker:
    """Runs the tasks of one app until it is stopped: `async with Worker(app, store): ...`."""

    def __init__(
        self,
        app: App,
        store: Store,
        bus: Bus | None = None,
        *,
        queue: str | None = None,
        concurrency: int = 16,
        lease: float = LEASE,
        retention: float = RETENTION,
        look: float = LOOK,
        heard: Heard | None = None,
    ) -> None:
        options.whole("concurrency", concurrency, 1)
        # With a lease of no time, everything that is run would be given to others, too.
        for field, given, least in (
            ("lease", lease, 0.01),
            ("look", look, 0.01),
            ("retention", retention, 0),
        ):
            options.seconds(field, given, least)
        self.app = app
        self.queue = queue or app.name
        self.id = f"{socket.gethostname()}-{os.getpid()}-{os.urandom(3).hex()}"
        self._store = store
        self._bus = bus or open_bus(store, app.clock)
        self._clock = app.clock
        self._sealing = Sealing(store, app.redactor)
        self._concurrency = concurrency
        self._lease = lease
        self._retention = retention
        self._look = look
        self._heard = heard
        self._running: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._runs: dict[tuple[str, int], Run] = {}
        self._tokens: dict[tuple[str, int], Any] = {}
        self._source: Source | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False
        #: When it last looked after what it holds: by our clock, by the one that counts, and by the steady one.
        self._looked: tuple[float, float, float] | None = None
        #: What time it was, and when that was by the steady clock.
        self._told: tuple[float, float] | None = None
        self._freed = asyncio.Event()

    @property
    def busy(self) -> int:
        """How many tasks it runs now."""
        return len(self._running)

    async def __aenter__(self) -> Worker:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    def start(self) -> None:
        """Begin to take tasks."""
        loops = (self._take, self._keep, self._forget, self._watch, self._announce)
        self._tasks = [asyncio.ensure_future(_lasting(each, self.app.redactor)) for each in loops]

    async def stop(self, patience: float = 0.0) -> None:
        """Take no more, wait so many seconds for what runs, then hand the rest back to be taken again."""
        taking, *keeping = self._tasks
        await _ended_by_force([taking])
        if self._running and patience:
            # Leases are renewed meanwhile, and cancels heard.
            await asyncio.wait(self._running.values(), timeout=patience)
        self._stopping = True
        await _ended_by_force(list(self._running.values()))
        await _ended_by_force(keeping)
        with suppress(Failure):
            await self._bus.absent(self._presence)
        if self._source is not None:
            await self._source.close()

    @property
    def _presence(self) -> Presence:
        return Presence(self.id, self.queue, self._wall(), self.busy, self._concurrency)

    async def _announce(self) -> None:
        """Say now and then that this worker is here."""
        while True:
            await self._bus.present(self._presence)
            await asyncio.sleep(PRESENCE)

    async def _take(self) -> None:
        if self._source is None:
            self._source = self._bus.source(self.queue, self.id, self._lease, self._look)
            self._source.wall = self._wall
        await self._ask_the_time()
        while True:
            room = self._concurrency - len(self._running)
            if room <= 0:
                self._freed.clear()
                await self._freed.wait()
                continue
            taking = asyncio.ensure_future(self._source.take(room))
            try:
                for taken in await asyncio.shield(taking):
                    self._begin(*taken)
            except asyncio.CancelledError:
                # What comes after all is given back.
                self._source.wake()
                with suppress(Failure):
                    for task, token in await taking:
                        await self._hand_back(Held(task.id, task.run, self.id), token)
                raise

    async def _ask_the_time(self) -> None:
        """Go by the database's clock: leases and what is due are everybody's, whatever clock a machine has."""
        for _ in range(_TRIES):
            before, asked = self._moment()
            theirs = await self._store.read(ledger.clock)
            after, answered = self._moment()
            # A clock that stands still is a test's, which moves it by hand.
            if theirs is None or before == after or answered - asked > _PROMPT:
                return
            if abs(after - before - (answered - asked)) > _JUMP:
                continue  # it was moved meanwhile: whether it goes by itself is seen the next time
            # Where the two agree, ours is as good, and that of those who submit here: an answer takes its time.
            agree = abs(theirs - (before + after) / 2) < _AGREE
            self._told = (after, answered) if agree else (theirs, (asked + answered) / 2)
            return

    def _moment(self) -> tuple[float, float]:
        """What time it is by our clock and by the steady one, at once: another thread may come in between."""
        for _ in range(10):
            steady, ours = self._clock.monotonic(), self._clock.time()
            if self._clock.monotonic() - steady < _AT_ONCE:
                break
        return ours, steady

    def _wall(self) -> float:
        """What time it is, by a clock that nobody sets where the database has one."""
        if self._told is None:
            return self._clock.time()
        told, then = self._told
        return told + self._clock.monotonic() - then

    def _begin(self, task: Task, token: Any) -> None:
        key = (task.id, task.run)
        self._runs[key] = run = Run(task, self._store, self._bus, self._wall, self.app.redactor)
        self._tokens[key] = token
        self._running[key] = running = asyncio.ensure_future(self._run(run, token))

        def ended(running: asyncio.Future[None]) -> None:
            heard(running)
            del self._running[key], self._runs[key], self._tokens[key]
            run.close()
            self._freed.set()

        running.add_done_callback(ended)

    async def _run(self, run: Run, token: Any) -> None:
        task = run.task
        CURRENT.set(run)
        self._tell("started", task)
        try:
            left = None if task.deadline is None else task.deadline - self._wall()
            if left is not None and left <= 0:  # a timeout that is over lets the first steps be done
                raise TimeoutError
            async with asyncio.timeout(left):
                envelope = await self._call(run)
            said = await run.settled()
            again = await self._settle(run, envelope, said)
            await self._done(token, again)
            word = "ended" if again is None else "again"
            self._tell("paused" if run.question is not None else word, task)
        except Fenced:
            await self._done(token)
            self._tell("lost", task)
        except TimeoutError:
            await self._run_out(run)
            await self._done(token)
            self._tell("ended", task)
        except asyncio.CancelledError:
            if run.fenced:
                await self._done(token)
                self._tell("lost", task)
            elif self._stopping:
                await self._hand_back(run.held, token)
                self._tell("handed back", task)
            raise
        except Exception as error:
            if isinstance(error, Locked) and await self._left(run, token):
                report(f"Task {task.id} is left to another worker: {error}", self.app.redactor)
                self._tell("handed back", task)
                return
            report(f"Task {task.id} could not be ended: {error}", self.app.redactor)
            # While the store is away the lease ends, and the task is run again. Anything else would happen again.
            if isinstance(error, Locked | Damaged) or not passes(error):
                await self._give_up(run, error)
                await self._done(token)
                self._tell("ended", task)

    async def _left(self, run: Run, token: Any) -> bool:
        """Leave a task that cannot be opened here to another worker, if there is one."""
        with suppress(Failure):
            others = [each for each in await self._bus.workers(self.queue) if each.id != self.id]
            pause = min(2.0**run.run, _LONGEST_PAUSE)
            words = (
                f"This worker does not have the key for the sealed input. Another is asked in {pause:g} s."
            )
            now = self._wall()
            said = [("log", now, {"level": "warn", "message": words})]
            if others and await self._surely(lambda tx: ledger.leave(tx, run.held, now + pause, said)):
                await self._done(token, pause)
                return True
        return False

    async def _run_out(self, run: Run) -> None:
        """End a task whose time is over, with all that it said until then."""
        with suppress(Fenced):  # somebody else has ended it
            said = await run.settled()
            await self._surely(lambda tx: ledger.run_out(tx, run.held, said, self._wall()))

    async def _give_up(self, run: Run, error: Exception) -> None:
        # Whoever asks for the task reads why it ended; where the store is stands in the log.
        told = error.for_callers().message if isinstance(error, Failure) else ""
        words = self.app.redactor.text(told) or f"{type(error).__name__} in the worker."
        with suppress(Failure):
            await self._surely(
                lambda tx: ledger.finish(tx, run.held, State.failed, None, writable(words), (), self._wall())
            )

    async def _call(self, run: Run) -> dict[str, Any]:
        """Run the action, and write down what it says; gives its envelope."""
        task = run.task
        identity = loads(task.identity)
        # Secrets were left out: callers that differ in them alone look the same here, and must not share a key.
        same = whose(caller_of(identity.get("user"), identity.get("auth"))) == task.caller
        stream = self.app.stream(
            task.action,
            loads(await self._sealing.opened(task.sealed_input, task.id)),
            surface=identity.get("surface", IN_PROCESS),
            user=identity.get("user"),
            auth=identity.get("auth"),
            metadata={**task.metadata, "taskId": task.id},
            confirm=CONFIRMED,
            idempotency_key=task.key if task.key is not None and same else task.id,
        )
        async with stream:
            async for event in stream:
                if event["type"] == "result":
                    envelope: dict[str, Any] = event["envelope"]
                    return envelope
                type, data = _said(event)
                run.say(type, data)
                await run.room()
        raise AssertionError("a stream ends with a result")

    async def _settle(self, run: Run, envelope: dict[str, Any], said: list[Said]) -> float | None:
        """Write down how a run ended; gives the seconds until it is tried again, if it is."""

        def ended(tx: Tx) -> float | None:
            return self._ended(tx, run, envelope, said)

        if envelope["ok"] and run.question is None and not said and run.task.slot is None:
            plainly = ledger.completing(run.held, dumps(envelope), self._wall(), lambda tx: ended(tx) is None)
            if await self._seen_through(plainly):
                return None
        again: float | None = await self._seen_through(ended)
        return again

    def _ended(self, tx: Tx, run: Run, envelope: dict[str, Any], said: list[Said]) -> float | None:
        """Write down how a run ended; gives the seconds until it is tried again, if it is."""
        now = self._wall()
        held = run.held
        if run.question is not None:
            state, question = run.question
            ledger.pause(tx, held, state, question, said, now)
            return None
        if envelope["ok"]:
            ledger.finish(tx, held, State.completed, dumps(envelope), None, said, now)
            return None
        failure = wire.parse(envelope)
        pause = self._retried(run.task, failure)
        if pause is not None:
            words = f"Attempt {run.attempt} failed: {failure.message} Trying again in {pause:.3g} s."
            log = {"level": "warn", "message": words, "fields": {"code": failure.code}}
            ledger.again(tx, held, now + pause, [*said, ("log", now, log)])
            return pause
        ledger.finish(tx, held, _final(failure), dumps(envelope), writable(failure.message), said, now)
        return None

    def _retried(self, task: Task, failure: Failure) -> float | None:
        """Seconds until the next attempt, if there is one."""
        policy = loads(task.retry)
        failed = task.attempt - task.lost
        about = failure.details
        harmless = about.get("begun") is False or about.get("resumes") is True
        passes = harmless or failure.kind.value in policy["kinds"]
        if failed > policy["retries"] or not passes:
            return None
        retry = Retry(policy["retries"], policy["delay"], "exponential", policy["max_delay"], True)
        pause = max(retry.pause(failed, 0.5 + random.random() / 2), failure.retry_after or 0.0)  # noqa: S311
        if task.deadline is not None and self._wall() + pause >= task.deadline:
            return None
        return pause

    async def _hand_back(self, held: Held, token: Any) -> None:
        with suppress(Failure):
            await asyncio.shield(self._write(lambda tx: ledger.hand_back(tx, held, self._wall())))
            await self._done(token, 0.0)

    def _tell(self, word: str, task: Task) -> None:
        if self._heard is not None:
            self._heard(word, task)

    async def _done(self, token: Any, again: float | None = None) -> None:
        if self._source is not None:
            await self._source.done(token, again)

    async def _keep(self) -> None:
        """Renew leases, take back lost ones, end what is overdue."""
        doubt = asked = self.app.clock.monotonic()
        ours, wall, steady = self._looked or (self._clock.time(), self._wall(), asked)
        while True:
            if steady >= asked:
                asked = steady + _ASK
                await self._ask_the_time()
            await self._rest()
            before, then = ours, self.app.clock.monotonic()
            ours, passed = self._clock.time(), then - steady
            moved = abs(ours - before - passed) > _JUMP
            if moved:  # or the machine slept
                await self._ask_the_time()
            now = self._wall()
            if moved or abs(now - wall - passed) > _JUMP or passed > self._lease:
                # A clock was moved, or the store was away: others get the time to renew what they hold.
                doubt = then + self._lease
            self._looked = ours, wall, steady = ours, now, then
            if self._runs:
                held = [run.held for run in self._runs.values()]
                kept = await self._write(
                    lambda tx, held=held: ledger.renew(tx, held, self._wall() + self._lease)
                )
                self._stop_others(held, kept)
                if self._source is not None:
                    await self._source.keep(list(self._tokens.values()))
            await self._write(lambda tx: ledger.expire(tx, self._wall(), _LAST_WORDS))
            if then >= doubt:
                # By the time from before the writes: they may have waited for the store, and so may others.
                await self._write(lambda tx, now=now: ledger.recover(tx, now, _PAUSE))

    async def _forget(self) -> None:
        """Forget what is old. That may be very much, for longer than a lease, so nothing else waits for it."""
        while True:
            await self._ask_the_time()
            while await self._write(
                lambda tx: ledger.prune(tx, self._wall() - self._retention, self._wall() - DELTAS)
            ):
                pass
            await asyncio.sleep(_PRUNE)

    async def _rest(self) -> None:
        """Wait until there is something to look after; a new deadline that is near may make it sooner."""
        clock = self.app.clock.monotonic
        with self._store.listening(ledger.DEADLINES) as bell:
            end = clock() + await self._until()
            while await bell.rung(max(0.0, end - clock())):
                end = min(end, clock() + await self._until())

    async def _until(self) -> float:
        """Seconds until a lease or a deadline ends; a third of a lease at most, while one has to be renewed."""
        _, lease, deadline, _ = await self._store.read(lambda tx: ledger.soonest(tx, self.queue))
        ends = [each for each in (lease, deadline) if each is not None]
        left = min(ends) - self._wall() if ends else self._look
        return min(max(left, 0.05), self._look, self._lease / 3)

    async def _watch(self) -> None:
        """Stop runs that are not this worker's any more as soon as somebody says so."""
        with self._store.listening(ledger.worker_topic(self.id)) as bell:
            while True:
                await bell.rung()
                held = [run.held for run in self._runs.values()]
                self._stop_others(held, await self._store.read(lambda tx: ledger.still_held(tx, self.id)))

    def _stop_others(self, held: list[Held], kept: set[tuple[str, int]]) -> None:
        for each in held:
            run, running = self._runs.get(each[:2]), self._running.get(each[:2])
            if each[:2] not in kept and run is not None and running is not None:
                run.fenced = True
                running.cancel()

    async def _write(self, work: Any) -> Any:
        return await self._store.write(work)

    async def _seen_through(self, work: Any) -> Any:
        """Write what a run gave, even when it is stopped meanwhile: else it would be handed back, and run again."""
        writing = asyncio.ensure_future(self._surely(work))
        try:
            return await asyncio.shield(writing)
        except asyncio.CancelledError:
            await asyncio.wait((writing,))
            raise

    async def _surely(self, work: Any) -> Any:
        """Write what must not be lost, however long the store is away."""
        while True:
            try:
                return await self._write(work)
            except Failure as failure:
                if not passes(failure) or self._stopping:
                    raise
                report(f"The worker waits for its store: {failure.message}", self.app.redactor)
                await asyncio.sleep(_AGAIN)


async def _ended_by_force(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _lasting(loop: Callable[[], Coroutine[Any, Any, None]], redactor: Redactor) -> None:
    """Go on, whatever happens to the store meanwhile."""
    while True:
        try:
            await loop()
        except Failure as failure:
            report(f"The worker waits for its store: {failure.message}", redactor)
        except Exception:
            report("The worker stumbled, and goes on.", redactor)
        await asyncio.sleep(_AGAIN)


def _said(event: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """What an action said, as a task's log has it."""
    told = {name: value for name, value in event.items() if name not in ("type", "time")}
    return ("delta" if event["type"] == "chunk" else event["type"]), told


def _final(failure: Failure) -> State:
    """How a task ends whose last run failed."""
    if failure.kind is Kind.busy:
        return State.rejected
    return State.timeout if failure.kind is Kind.timeout and _deadline(failure) else State.failed


def _deadline(failure: Failure) -> bool:
    return failure.details.get("limit") == "deadline"
