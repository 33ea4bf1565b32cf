"""The bus of a fleet: NATS JetStream carries work, events and signals; the database stays record and referee.

Work: one message on a work-queue stream for each task that becomes ready. It is a permit to take the most urgent
task there is, so that priorities and slots hold as they do without NATS. It is acknowledged when the run has
ended, kept alive meanwhile, and given to another worker when its holder is heard of no more. The rows that are
ready are the outbox: a reconciler counts both and makes up for messages that were never sent.

Events: what stays is a row. Deltas are messages, by task, and never touch the database, but for one that is larger
than a message may be. A row says after which message it comes, a message after which row, so that a reader puts them
together as they were said.

Signals: what is told in a transaction goes to all processes as a plain message.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fairlead._json import encode, loads
from fairlead.failures import Failure, Kind
from fairlead.runtime.clock import Clock
from fairlead.store import Statement, Store
from fairlead.store.store import EVERYTHING
from fairlead.tasks import ledger
from fairlead.tasks.bus import KEPT_DELTAS, PRESENCE, Log, Presence, Source, Taken, carry, idle
from fairlead.tasks.ledger import Held
from fairlead.tasks.nats_log import EVENTS, NatsLog, NatsTail
from fairlead.tasks.records import Event, Task

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.js import JetStreamContext

T = TypeVar("T")

WORK: Final = "FAIRLEAD_WORK"
WORKERS: Final = "fairlead_workers"
_WAKE: Final = "fairlead.wake"
_APART: Final = ledger.work_topic(ledger.APART)
#: Seconds to wait for a server, at first and whenever it is away.
_PATIENCE: Final = 30.0
#: Seconds between two pings. A server that answers none of three is left for another.
_PING: Final = 4
#: Seconds for a server to say that it has kept a message.
_ANSWER: Final = 5.0
#: Seconds between two counts of messages and rows, and how old a row is that should have its message.
_RECONCILE: Final = 5.0
_SETTLED: Final = 2.0
#: Messages that the reconciler sends at once at most.
_MADE_UP: Final = 1000
#: Seconds to look for messages before asking the database how long to wait.
_GLANCE: Final = 0.02
_DAY: Final = 86_400.0
_IDENTITY: Final = Statement.of(
    "SELECT 1",
    "SELECT system_identifier, current_database(), current_schema() FROM pg_control_system()",
)
_READERS: Final = 32
#: Bytes that are set aside for what goes before a message.
_HEADERS: Final = 1024


class NatsBus:
    """One connection for a process, on an event loop of its own, so that any loop and thread can use it."""

    def __init__(self, store: Store, clock: Clock, url: str) -> None:
        self._store = store
        self._clock = clock
        self._url = url
        self._name = os.urandom(6).hex()
        #: Several databases may share a server.
        self.scope = hashlib.sha256(_identity(store).encode()).hexdigest()[:10]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fairlead-nats", daemon=True)
        self._thread.start()
        self._publishing: set[asyncio.Task[Any]] = set()
        self._servers = 1
        #: Who may read a stream from its beginning at once.
        self.readers = asyncio.Semaphore(_READERS)
        self._closed = False
        try:
            self._client, self.js = self.call_now(self._connect())
        except BaseException:
            self._end()
            raise
        store.carrier = self._carry

    def source(self, queue: str, worker: str, lease: float, look: float) -> Source:
        return NatsSource(self, self._store, self._clock, queue, worker, lease, look)

    def log(self, held: Held, latest: int) -> Log:
        return NatsLog(self, self._store, held, latest)

    async def tail(self, task: Task, since: int, follow: bool) -> AsyncIterator[Event]:
        tail = NatsTail(self, self._store, self._clock, task, since, follow)
        try:
            async for event in tail.events():
                yield event
        finally:
            await tail.close()

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._store.carrier = None
        with suppress(Exception):
            await self.call(self._drain())
        await asyncio.to_thread(self._end)

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        if not self._thread.is_alive():
            self._loop.close()

    async def subscribe(self, subject: str, heard: Callable[[Msg], Awaitable[None]]) -> Any:
        """Hear what is published from now on. On the bus's own loop."""
        return await self._client.subscribe(subject, cb=heard)

    async def present(self, worker: Presence) -> None:
        await self._store.write(lambda tx: carry(tx, worker.seen))
        await self.call(self._entered(worker))

    async def absent(self, worker: Presence) -> None:
        await self.call(self._left(worker))

    async def workers(self, queue: str) -> list[Presence]:
        return sorted(worker for worker in await self.call(self._listed()) if worker.queue == queue)

    async def _bucket(self) -> Any:
        from nats.js.api import KeyValueConfig
        from nats.js.errors import NotFoundError

        try:
            return await self.js.key_value(WORKERS)
        except NotFoundError:
            return await self.js.create_key_value(KeyValueConfig(WORKERS, ttl=3 * PRESENCE))

    async def _entered(self, worker: Presence) -> None:
        with suppress(Exception):
            await (await self._bucket()).put(f"{self.scope}.{_token(worker.id)}", encode(worker))

    async def _left(self, worker: Presence) -> None:
        with suppress(Exception):
            await (await self._bucket()).delete(f"{self.scope}.{_token(worker.id)}")

    async def _listed(self) -> list[Presence]:
        from nats.js.errors import NoKeysError, NotFoundError

        bucket = await self._bucket()
        found = []
        try:
            keys = [key for key in await bucket.keys() if key.startswith(f"{self.scope}.")]
        except NoKeysError:
            return []
        for key in keys:
            with suppress(NotFoundError):  # gone meanwhile
                found.append(Presence(*loads((await bucket.get(key)).value)))
        return found

    async def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Have something done on the bus's own loop.

        Raises:
            Failure: the server does not answer, or refuses.
        """
        from nats.errors import Error

        try:
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))
        except Error as exc:
            raise _away(exc) from exc

    def call_now(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    @property
    def largest(self) -> int:
        """Bytes of a message that the server takes, with room for its headers."""
        return self._client.max_payload - _HEADERS

    def work_subject(self, queue: str) -> str:
        return f"fairlead.work.{self.scope}.{_token(queue)}"

    def event_subject(self, id: str) -> str:
        return f"fairlead.events.{self.scope}.{id}"

    async def publish(
        self, subject: str, payload: bytes, patience: float = _PATIENCE, name: str | None = None
    ) -> int:
        """Send to a stream and wait until it is kept; gives its number. One that has a name is kept once."""
        from nats.errors import Error

        headers = {"Nats-Msg-Id": name or os.urandom(9).hex()}
        end = self._loop.time() + patience
        while True:
            try:
                return (await self.js.publish(subject, payload, timeout=5, headers=headers)).seq
            except Error as exc:
                if self._loop.time() > end:
                    raise _away(exc) from exc
                await asyncio.sleep(0.2)

    async def _connect(self) -> tuple[Client, JetStreamContext]:
        try:
            import nats.errors

            from fairlead.tasks.nats_client import NatsClient
        except ImportError as exc:
            words = "The bus needs nats-py, which is not installed: pip install 'fairlead[nats]'."
            raise Failure(Kind.misconfigured, words, cause=exc) from exc

        async def again() -> None:
            # Something may have been told while nobody listened.
            self._store.ring([EVERYTHING])

        async def quiet(_: Exception) -> None:
            pass

        end = self._loop.time() + _PATIENCE
        while True:
            client = NatsClient()
            try:
                # Without an end of ours it would try for ever.
                async with asyncio.timeout_at(end):
                    await client.connect(
                        self._url.split(","),
                        name="fairlead",
                        max_reconnect_attempts=-1,
                        reconnect_time_wait=0.25,  # type: ignore[arg-type]  # it takes parts of a second
                        connect_timeout=3,
                        ping_interval=_PING,
                        reconnected_cb=again,
                        error_cb=quiet,
                    )
                js = client.jetstream(timeout=5, publish_async_max_pending=8192)
                self._servers = max(len(self._url.split(",")), len(client.discovered_servers) + 1)
                await self.prepare(js)
                break
            except (OSError, TimeoutError, nats.errors.Error) as exc:
                # A cluster that has just come up has no leader yet.
                with suppress(Exception):
                    await client.close()
                if self._loop.time() > end:
                    raise _away(exc) from exc
                await asyncio.sleep(0.25)
        await client.subscribe(_WAKE, cb=self._woken)
        return client, js

    async def prepare(self, js: JetStreamContext) -> None:
        """Make the streams that are not there."""
        from nats.js.api import RetentionPolicy, StorageType, StreamConfig
        from nats.js.errors import BadRequestError, NotFoundError

        replicas = 3 if self._servers >= 3 else 1
        work = StreamConfig(
            name=WORK,
            subjects=["fairlead.work.>"],
            retention=RetentionPolicy.WORK_QUEUE,
            storage=StorageType.FILE,
            num_replicas=replicas,
            duplicate_window=120,
        )
        events = StreamConfig(
            name=EVENTS,
            subjects=["fairlead.events.>"],
            storage=StorageType.FILE,
            num_replicas=replicas,
            max_age=_DAY,
            max_msgs_per_subject=KEPT_DELTAS,
            duplicate_window=120,
        )
        for config in (work, events):
            try:
                await js.stream_info(config.name or "")
            except NotFoundError:
                # Another process may have been first.
                with suppress(BadRequestError):
                    await js.add_stream(config)

    async def _drain(self) -> None:
        if self._publishing:
            await asyncio.wait(self._publishing, timeout=5)
        await self._client.close()

    def _carry(self, told: Mapping[str, int]) -> None:
        """On a thread of the store: something was committed."""
        with suppress(RuntimeError):  # the loop is gone
            self._loop.call_soon_threadsafe(self._send, dict(told))

    def _send(self, told: Mapping[str, int]) -> None:
        task = asyncio.ensure_future(self._sent(told))
        self._publishing.add(task)
        task.add_done_callback(self._publishing.discard)

    async def _sent(self, told: Mapping[str, int]) -> None:
        with suppress(Failure, Exception):
            work = [topic for topic in told if topic.startswith("work:") and not topic.startswith(_APART)]
            for topic in work:
                await self.permit(topic.removeprefix("work:"), told[topic])
            others = [topic for topic in told if topic not in work]
            for start in range(0, len(others), 500):
                await self._client.publish(_WAKE, encode([self._name, *others[start : start + 500]]))

    async def permit(self, queue: str, count: int) -> None:
        """Send a message for each task that may be taken."""
        subject = self.work_subject(queue)
        pending = []
        for _ in range(count):
            headers = {"Nats-Msg-Id": os.urandom(9).hex()}
            pending.append(await self.js.publish_async(subject, b"", headers=headers))
        if pending:
            # What a server had not kept when it was lost is never answered; each such would take a place for ever.
            done, unanswered = await asyncio.wait(pending, timeout=_ANSWER)
            for each in unanswered:
                each.cancel()
            await asyncio.gather(*done, return_exceptions=True)

    async def _woken(self, message: Msg) -> None:
        sender, *topics = loads(message.data)
        if sender != self._name:
            self._store.ring(topics)


class NatsSource:
    """Permits from the work-queue stream, each good for the most urgent task there is."""

    def __init__(
        self, bus: NatsBus, store: Store, clock: Clock, queue: str, worker: str, lease: float, look: float
    ) -> None:
        self._bus = bus
        self._store = store
        self.wall = clock.time
        self._queue = queue
        self._worker = worker
        self._lease = lease
        self._look = look
        self._consumer = f"{bus.scope}_{_token(queue)}"
        self._pull: Any = None
        self._fetching: asyncio.Task[list[Msg]] | None = None
        self._woken = False
        self._closed = False
        self._keeping = asyncio.run_coroutine_threadsafe(self._reconcile(), bus._loop)

    async def take(self, size: int) -> list[Taken]:
        try:
            return await self._taken(size)
        finally:
            self._woken = False

    async def _taken(self, size: int) -> list[Taken]:
        permits = await self._bus.call(self._fetch(size, _GLANCE))
        if not permits:
            wait = await idle(self._store, self._queue, self.wall(), self._look)
            if wait > 0:
                permits = await self._bus.call(self._fetch(size, wait))
        # Without a permit something may still be due now; with one, another may have taken what it was for.
        tasks = await self._store.write(
            lambda tx: ledger.take(
                tx, self._queue, self._worker, len(permits) or size, self.wall(), self._lease
            )
        )
        spare = permits[len(tasks) :]
        if spare:
            await self._bus.call(_acknowledge(spare))
        return [Taken(task, permits[at] if at < len(permits) else None) for at, task in enumerate(tasks)]

    def wake(self) -> None:
        self._woken = True

        def cancel() -> None:
            if self._fetching is not None:
                self._fetching.cancel()

        self._bus._loop.call_soon_threadsafe(cancel)

    async def keep(self, tokens: Sequence[Any]) -> None:
        await self._bus.call(_keep_alive([token for token in tokens if token is not None]))

    async def done(self, token: Any, again: float | None = None) -> None:
        if token is not None:
            # Nobody waits for it: what is not heard of is given out again, and finds nothing to do.
            asyncio.run_coroutine_threadsafe(_finish(token, again), self._bus._loop)

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._keeping.cancel()

    async def _fetch(self, size: int, wait: float) -> list[Msg]:
        from nats.errors import Error

        try:
            if self._pull is None:
                self._pull = await self._subscribed()
            if self._woken:
                return []
            self._fetching = asyncio.ensure_future(self._pull.fetch(size, timeout=wait))
            return await self._fetching
        except (TimeoutError, asyncio.CancelledError):
            return []
        except Error as exc:
            self._pull = None
            raise _away(exc) from exc
        finally:
            self._fetching = None

    async def _subscribed(self) -> Any:
        from nats.js.api import AckPolicy, ConsumerConfig

        config = ConsumerConfig(
            durable_name=self._consumer,
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=max(self._lease, 1.0),
            max_ack_pending=100_000,
            max_waiting=4096,
            filter_subject=self._bus.work_subject(self._queue),
        )
        subject = self._bus.work_subject(self._queue)
        return await self._bus.js.pull_subscribe(subject, durable=self._consumer, stream=WORK, config=config)

    async def _reconcile(self) -> None:
        """Make up for messages that were never sent, or were lost with their server."""
        while True:
            try:
                await asyncio.sleep(_RECONCILE)
                before = self.wall() - _SETTLED
                ready = await asyncio.wrap_future(
                    self._store.submit(
                        lambda tx, before=before: ledger.ready_since(tx, self._queue, before, _MADE_UP),  # type: ignore[misc]
                        False,
                    )
                )
                if ready:
                    info = await self._bus.js.consumer_info(WORK, self._consumer)
                    missing = ready - (info.num_pending or 0)
                    if missing > 0:
                        await self._bus.permit(self._queue, missing)
            except asyncio.CancelledError:
                raise
            except Exception:
                # The streams may be gone with their server: they are made again, and so are the messages.
                self._pull = None
                with suppress(Exception):
                    await self._bus.prepare(self._bus.js)


async def _acknowledge(messages: Sequence[Msg]) -> None:
    for message in messages:
        with suppress(Exception):
            await message.ack()


async def _keep_alive(messages: Sequence[Msg]) -> None:
    for message in messages:
        with suppress(Exception):
            await message.in_progress()


async def _finish(message: Msg, again: float | None) -> None:
    with suppress(Exception):
        if again is None:
            await message.ack()
        else:
            await message.nak(delay=again)


def _away(error: BaseException) -> Failure:
    return Failure(
        Kind.unavailable,
        f"The bus (NATS) cannot be reached or does not answer: {str(error) or type(error).__name__}. "
        "Is the server running, with JetStream on?",
        cause=error,
    )


def _token(name: str) -> str:
    """A name as one token of a subject, whatever is in it."""
    plain = "".join(each if each.isalnum() and each.isascii() else "_" for each in name)[:40]
    return f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _identity(store: Store) -> str:
    """What tells a database from others, however a process spells its address."""
    if store.kind != "postgres":
        return store.name
    try:
        return repr(store.read_now(lambda tx: tx.one(_IDENTITY)))
    except Failure as failure:
        if failure.kind is Kind.unavailable:
            raise
        return store.name  # this user may not ask the server who it is
