"""What only the fleet's bus can lose: its servers, its messages, its streams."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fairlead import App
from fairlead.failures import Failure, Kind
from fairlead.store import Statement, Store, Tx
from fairlead.tasks import State, Tasks, ledger
from fairlead.tasks.bus import UNHEARD, DatabaseBus, open_bus
from fairlead.tasks.ledger import Held, Said
from fairlead.tasks.nats import WORK, NatsBus
from fairlead.tasks.nats_log import NatsTail
from fairlead.tasks.records import Event
from servers import Nats, NatsCluster, Postgres
from tasks.stage import PATIENCE, StartWorker, Where, ended, until

if TYPE_CHECKING:
    from nats.aio.msg import Msg

_TYPES = Statement.of("SELECT DISTINCT type FROM task_events WHERE task = :id")


@pytest.fixture
def form() -> str:
    return "nats"


@pytest.fixture
def own(own_nats: Nats, postgres_url: str, tmp_path: Path) -> Where:
    return Where(tmp_path, postgres_url, own_nats.url)


async def all_completed(tasks: Tasks, ids: list[str]) -> None:
    async def done() -> bool:
        return (await tasks.counts()).get("completed", 0) == len(ids)

    await until(done, 2 * PATIENCE)


@pytest.mark.timeout(180)
async def test_work_goes_on_when_the_server_is_restarted_under_load(
    app: App, own: Where, own_nats: Nats
) -> None:
    store = own.open()
    tasks = own.tasks(app, store)
    async with tasks.worker(concurrency=8):
        ids = [(await tasks.submit("add", {"a": 1, "b": 1})).id for _ in range(50)]
        await asyncio.to_thread(own_nats.kill)
        # What is accepted while it is away is accepted.
        ids += [(await tasks.submit("add", {"a": 1, "b": 1})).id for _ in range(50)]
        await asyncio.to_thread(own_nats.start)
        ids += [(await tasks.submit("add", {"a": 1, "b": 1})).id for _ in range(50)]
        await all_completed(tasks, ids)
    await tasks.bus.close()
    store.close()


@pytest.mark.timeout(180)
async def test_tasks_whose_messages_were_never_sent_are_run_all_the_same(
    tasks: Tasks, worker: StartWorker
) -> None:
    tasks.store.carrier = lambda told: None  # the process dies between commit and send
    task = await tasks.submit("add", {"a": 1, "b": 1})
    worker()
    assert (await tasks.wait(task.id, PATIENCE)).state is State.completed


@pytest.mark.timeout(180)
async def test_a_stream_that_is_lost_is_made_again_with_its_messages(app: App, own: Where) -> None:
    store = own.open()
    tasks = own.tasks(app, store)
    assert isinstance(tasks.bus, NatsBus)
    ids = await tasks.submit_many("add", [{"a": 1, "b": 1}] * 30)
    await tasks.bus.call(tasks.bus.js.delete_stream(WORK))
    async with tasks.worker():
        await all_completed(tasks, ids)
    await tasks.bus.close()
    store.close()


async def test_processes_that_spell_the_databases_address_otherwise_hear_each_other(
    app: App, own: Where, own_nats: Nats, postgres: Postgres, postgres_url: str, tmp_path: Path
) -> None:
    name = postgres_url.partition("?")[0].rpartition("/")[2]
    other = Where(tmp_path, postgres.url(name, tcp=True), own_nats.url)
    here, there = own.open(), other.open()
    assert here.name != there.name
    tasks, worker = own.tasks(app, here), other.tasks(app, there)
    async with worker.worker():
        task = await tasks.submit("talk", {"words": 50})
        told = [event async for event in tasks.events(task.id)]
    assert len([event for event in told if event.type == "delta"]) > 0
    for each, store in ((tasks, here), (worker, there)):
        await each.bus.close()
        store.close()


async def test_a_message_that_comes_twice_runs_nothing_twice(tasks: Tasks, worker: StartWorker) -> None:
    assert isinstance(tasks.bus, NatsBus)
    task = await tasks.submit("add", {"a": 1, "b": 1})
    await tasks.bus.call(tasks.bus.permit(tasks.queue, 20))
    worker()
    (done,) = await ended(tasks, task)
    assert (done.state, done.attempt) == (State.completed, 1)


async def test_deltas_are_not_in_the_database(tasks: Tasks, store: Store, worker: StartWorker) -> None:
    worker()
    task = await tasks.submit("talk", {"words": 500})
    told = [event async for event in tasks.events(task.id)]
    text = "".join(event.data["data"] for event in told if event.type == "delta")
    assert text == "".join(f"{number} " for number in range(500))
    rows = await store.read(lambda tx: tx.all(_TYPES, id=task.id))
    assert "delta" not in {type for (type,) in rows}
    again = [event async for event in tasks.events(task.id)]
    assert again == told


async def test_messages_that_were_lost_with_their_server_are_waited_for_no_longer(
    app: App, own: Where, own_nats: Nats, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.tasks.nats._ANSWER", 2.0)
    store = own.open()
    bus = own.tasks(app, store).bus
    assert isinstance(bus, NatsBus)
    own_nats.signal(signal.SIGSTOP)
    sending = asyncio.ensure_future(bus.call(bus.permit("a queue", 20)))
    await until(partial(_is_sent, bus, 20))
    await asyncio.to_thread(own_nats.kill)
    await asyncio.to_thread(own_nats.start)
    await asyncio.wait_for(sending, PATIENCE)
    assert bus.js.publish_async_pending() == 0
    await bus.close()
    store.close()


async def test_who_reads_a_log_while_the_server_does_not_answer_hears_that_it_is_away(
    app: App, own: Where, own_nats: Nats, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = own.open()
    tasks = own.tasks(app, store)
    assert isinstance(tasks.bus, NatsBus)
    task = await tasks.submit("add", {"a": 1, "b": 1})
    monkeypatch.setattr(tasks.bus.js, "_timeout", 0.2)
    own_nats.signal(signal.SIGSTOP)
    with pytest.raises(Failure, match="does not answer") as caught:
        _ = [event async for event in tasks.events(task.id, follow=False)]
    assert caught.value.kind is Kind.unavailable
    with pytest.raises(Failure, match="does not answer"):
        await tasks.bus.workers(tasks.queue)
    own_nats.signal(signal.SIGCONT)
    monkeypatch.undo()
    assert [event async for event in tasks.events(task.id, follow=False)] == []
    await tasks.bus.close()
    store.close()


async def _is_sent(bus: NatsBus, count: int) -> bool:
    return bus.js.publish_async_pending() == count


async def test_a_delta_that_did_not_come_is_read_from_the_stream(
    tasks: Tasks, worker: StartWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus = tasks.bus
    assert isinstance(bus, NatsBus)
    came = 0
    subscribe = bus.subscribe

    async def losing_the_third(subject: str, heard: Callable[[Msg], Awaitable[None]]) -> Any:
        async def some(message: Msg) -> None:
            nonlocal came
            came += 1
            if came != 3:
                await heard(message)

        return await subscribe(subject, some)

    monkeypatch.setattr(bus, "subscribe", losing_the_third)
    task = await tasks.submit("dictate", {"words": 8})
    worker()
    told = [event async for event in tasks.events(task.id)]
    assert came > 4
    text = "".join(event.data["data"] for event in told if event.type == "delta")
    assert text == "".join(f"{number} " for number in range(8))
    assert [event.offset for event in told] == sorted({event.offset for event in told})


async def test_deltas_that_come_too_late_because_somebody_stood_still_are_asked_for_again(
    tasks: Tasks, worker: StartWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus = tasks.bus
    assert isinstance(bus, NatsBus)
    worker()
    task = await tasks.submit("talk", {"words": 50})
    await ended(tasks, task)
    subscribe, late = bus.js.subscribe, 0

    async def standing_still_at_first(*about: Any, **options: Any) -> Any:
        nonlocal late
        subscription = await subscribe(*about, **options)
        late += 1
        if late < 3:
            monkeypatch.setattr(subscription, "next_msg", too_late)
        return subscription

    async def too_late(timeout: float) -> Any:
        raise TimeoutError

    monkeypatch.setattr(bus.js, "subscribe", standing_still_at_first)
    told = [event async for event in tasks.events(task.id)]
    text = "".join(event.data["data"] for event in told if event.type == "delta")
    assert text == "".join(f"{number} " for number in range(50))
    assert late == 3


async def test_the_last_words_of_a_run_wait_for_a_server_that_is_away_for_long(
    tasks: Tasks, worker: StartWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus = tasks.bus
    assert isinstance(bus, NatsBus)
    publish = bus.publish
    refused = 0

    async def away_at_first(subject: str, *more: Any, **options: Any) -> int:
        nonlocal refused
        if refused < 2:
            refused += 1
            raise Failure(Kind.unavailable, "The bus cannot be reached.")
        return await publish(subject, *more, **options)

    monkeypatch.setattr(bus, "publish", away_at_first)
    worker(lease=1.0)
    task = await tasks.submit("talk", {"words": 3})
    told = [event async for event in tasks.events(task.id)]
    assert refused == 2
    assert [event.type for event in told].count("started") == 1
    assert "".join(event.data["data"] for event in told if event.type == "delta") == "0 1 2 "


async def test_a_delta_is_kept_once_though_what_was_said_with_it_had_to_wait_for_the_database(
    tasks: Tasks, worker: StartWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = ledger.append
    refused = 0

    def refusing_at_first(tx: Tx, held: Held, said: Sequence[Said], *more: Any, **options: Any) -> int:
        nonlocal refused
        if any(type == "progress" for type, _, _ in said) and not refused:
            refused += 1
            raise Failure(Kind.unavailable, "The disk is full.")
        return append(tx, held, said, *more, **options)

    monkeypatch.setattr(ledger, "append", refusing_at_first)
    worker()
    task = await tasks.submit("mutter", {"words": 3})
    told = [event async for event in tasks.events(task.id)]
    assert refused == 1
    text = "".join(event.data["data"] for event in told if event.type == "delta")
    assert text == "0 1 2 "
    assert [event.type for event in told].count("progress") == 3


async def test_a_delta_that_was_not_heard_is_told_though_later_ones_were(
    tasks: Tasks, worker: StartWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that the stream has a moment after a reader looked, who listens since a moment after it was sent."""
    hear, read, catch_up = NatsTail._hear, ledger.events, NatsTail._catch_up
    heard: list[Any] = []
    looked = asyncio.Event()

    def all_but_the_first(tail: NatsTail, message: dict[str, Any]) -> None:
        heard.append(message)
        if len(heard) > 1:
            hear(tail, message)

    def once_others_were_heard(tx: Tx, id: str, *more: Any, **options: Any) -> list[Event]:
        return read(tx, id, *more, **options) if len(heard) > 1 else []

    async def and_say_so(tail: NatsTail) -> None:
        await catch_up(tail)
        looked.set()

    monkeypatch.setattr(NatsTail, "_hear", all_but_the_first)
    monkeypatch.setattr(NatsTail, "_catch_up", and_say_so)
    monkeypatch.setattr(ledger, "events", once_others_were_heard)
    task = await tasks.submit("mutter", {"words": 10})
    told: list[Event] = []

    async def follow() -> None:
        told.extend([event async for event in tasks.events(task.id)])

    following = asyncio.create_task(follow())
    async with asyncio.timeout(PATIENCE):
        await looked.wait()
        worker()
        await following
    assert len(heard) > 1
    text = "".join(event.data["data"] for event in told if event.type == "delta")
    assert text == "".join(f"{number} " for number in range(10))


@pytest.mark.timeout(180)
async def test_connections_that_came_to_nothing_while_a_server_was_away_are_closed(
    app: App, own: Where, own_nats: Nats
) -> None:
    store = own.open()
    tasks = own.tasks(app, store)
    called = asyncio.Semaphore(0)

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        called.release()
        writer.close()

    await asyncio.to_thread(own_nats.kill)
    async with await asyncio.start_server(hang_up, "127.0.0.1", own_nats.port), asyncio.timeout(PATIENCE):
        for _ in range(3):
            await called.acquire()
    await asyncio.to_thread(own_nats.start)
    task = await tasks.submit("add", {"a": 1, "b": 1})
    async with tasks.worker():
        assert (await tasks.wait(task.id, PATIENCE)).state is State.completed
    gc.collect()  # one that was left open is told of as a warning
    await tasks.bus.close()
    store.close()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("fault", ["killed", "cut off"])
async def test_work_goes_on_when_a_cluster_loses_a_node(
    app: App, postgres_url: str, tmp_path: Path, fault: str
) -> None:
    cluster = NatsCluster()
    cluster.start()
    where = Where(tmp_path, postgres_url, cluster.url)
    store = where.open()
    tasks = where.tasks(app, store)
    try:
        async with tasks.worker(concurrency=8):
            ids = [(await tasks.submit("add", {"a": 1, "b": 1})).id for _ in range(40)]
            node = cluster.nodes[0]
            assert node.process is not None
            if fault == "killed":
                await asyncio.to_thread(node.kill)
            else:
                os.kill(node.process.pid, signal.SIGSTOP)
            ids += [(await tasks.submit("add", {"a": 1, "b": 1})).id for _ in range(40)]
            await all_completed(tasks, ids)
            if fault == "cut off":
                os.kill(node.process.pid, signal.SIGCONT)
        await tasks.bus.close()
    finally:
        store.close()
        cluster.stop()
        cluster.remove()


async def test_a_bus_that_is_not_there_is_told_with_a_way_out(
    app: App, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.tasks.nats._PATIENCE", 0.1)
    with pytest.raises(Failure, match="Is the server running, with JetStream on"):
        await asyncio.to_thread(open_bus, store, app.clock, "nats://127.0.0.1:1")
    with pytest.raises(Failure, match="nats://"):
        open_bus(store, app.clock, "kafka://somewhere")


async def test_a_worker_without_the_bus_that_others_have_is_warned_once(
    tasks: Tasks, store: Store, app: App, worker: StartWorker, caplog: pytest.LogCaptureFixture
) -> None:
    async def seen(tasks: Tasks) -> bool:
        return bool(await tasks.workers())

    worker()
    await until(lambda: seen(tasks))
    alone = Tasks(app, store, bus=DatabaseBus(store, app.clock))
    for _ in range(2):
        async with alone.worker():
            await until(lambda: seen(alone))
    assert [record.message for record in caplog.records].count(UNHEARD) == 1
