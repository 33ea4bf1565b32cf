"""Whatever is killed, restarted, locked or moved, and whenever: what was accepted ends, once.

FAIRLEAD_FAULT_ROUNDS says how often something is killed; the default is quick, 200 is thorough.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sqlite3
import time
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from fairlead import Failure, Kind
from fairlead.runtime.clock import Clock
from fairlead.store import Statement, Store, Tx, migrate
from fairlead.store.sqlite import SqliteStore
from fairlead.tasks import State, Tasks, ledger
from servers import Postgres
from tasks.app_under_test import Marks, build
from tasks.stage import PATIENCE, Process, StartProcess, StartWorker, Where, ended, until

ROUNDS = int(os.environ.get("FAIRLEAD_FAULT_ROUNDS", "3"))
#: A lease that ends soon; a worker that lives may miss it on a busy machine, which costs an attempt and no more.
SHORT = 1.0
ENDS = Statement.of(
    "SELECT task, count(*), max(number) FROM task_events WHERE type = 'terminal' GROUP BY task"
)
TASKS = Statement.of("SELECT id, key, state, coalesce(reason, result), latest FROM tasks")


async def _all_ended(tasks: Tasks) -> bool:
    counts = await tasks.counts()
    return all(State(state).final for state in counts)


class Submitter:
    """Submits in lives: each begins with what the last one asked for and was not told of."""

    def __init__(self, process: StartProcess) -> None:
        self._process = process
        self._lives = 0
        self.asked: set[str] = set()
        self.accepted: dict[str, str] = {}
        self._spare = self._born()
        self._alive: Process | None = None

    def _born(self, count: int = 150) -> Process:
        self._lives += 1
        return self._process(
            "submit", wait=False, name=f"life{self._lives}", count=count, input={"pause": 0.01}
        )

    def start(self) -> None:
        """Begin a life; the next one is made ready meanwhile."""
        self._alive, self._spare = self._spare, self._born()
        assert self._alive.line() == "ready"
        self._alive.go(json.dumps(sorted(self.asked - self.accepted.keys())))

    def end(self, kill: bool) -> None:
        """Kill it, or let it end; whoever is told of an id twice is told of the same."""
        assert self._alive is not None
        if kill:
            self._alive.popen.kill()
        for line in self._alive.rest():
            word, *names = line.split()
            if word == "asked":
                self.asked.add(names[0])
            else:
                key, id = names
                assert self.accepted.setdefault(key, id) == id
        assert self._alive.ended() == 0 or kill, self._alive.errors


@pytest.mark.timeout(90 + 5 * ROUNDS)
async def test_nothing_accepted_is_lost_and_all_ends_once_whoever_is_killed(
    tasks: Tasks, process: StartProcess, store: Store, marks: Marks, form: str
) -> None:
    chance = random.Random(f"{form}{ROUNDS}")
    begun = time.monotonic()

    started: list[Process] = []

    def start_worker() -> Process:
        started.append(process(wait=False, lease=SHORT, concurrency=8))
        return started[-1]

    # Three, so that some work while another starts.
    workers = [start_worker() for _ in range(3)]
    submitter = Submitter(process)
    await asyncio.to_thread(submitter.start)
    killed = {"worker": 0, "submitter": 0, "both": 0}
    # Each in its turn, so that few rounds have them all.
    turns = chance.sample(list(killed), len(killed))
    for number in range(ROUNDS):
        # Not to wait for anything: the moment is what is random.
        await asyncio.sleep(chance.uniform(0, 0.4))
        whom = turns[number % len(turns)]
        killed[whom] += 1
        if whom != "submitter":
            workers.pop(0).kill()
            workers.append(start_worker())
        if whom != "worker":
            await asyncio.to_thread(submitter.end, kill=True)
            await asyncio.to_thread(submitter.start)
    await asyncio.to_thread(submitter.end, kill=False)
    assert submitter.asked == submitter.accepted.keys()
    await until(partial(_all_ended, tasks), PATIENCE)

    rows = await store.read(lambda tx: tx.all(TASKS))
    ends = {id: (count, last) for id, count, last in await store.read(lambda tx: tx.all(ENDS))}
    by_key = {key: (id, state, gave) for id, key, state, gave, _ in rows}
    assert len(by_key) == len(rows)
    assert by_key.keys() == submitter.asked
    for key, id in submitter.accepted.items():
        assert by_key[key][:2] == (id, "completed"), (by_key[key], *(each.errors for each in started))
    assert ends == {id: (1, latest) for id, _, _, _, latest in rows}
    assert sorted(marks.effects()) == sorted(submitter.asked)
    starts = await store.read(
        lambda tx: tx.one(Statement.of("SELECT count(*) FROM task_events WHERE type = 'started'"))
    )
    assert starts is not None
    took = f"{time.monotonic() - begun:.0f} s"
    print(f"{form}: {ROUNDS} rounds, killed {killed}, {len(rows)} tasks, {starts[0]} runs, {took}")


@pytest.mark.parametrize("form", ["local"], indirect=True)
async def test_work_goes_on_when_the_file_was_locked(
    tasks: Tasks, worker: StartWorker, process: StartProcess, marks: Marks
) -> None:
    worker(lease=SHORT)
    running = await tasks.submit("hold", {"name": "it"})
    await marks.seen("held-it")
    lock = process("lock")
    marks.leave("go-it")
    given = [asyncio.ensure_future(tasks.submit("effect")) for _ in range(5)]
    lock.go()
    done = await ended(tasks, running, *[task.id for task in await asyncio.gather(*given)])
    assert {task.state for task in done} == {State.completed}


async def test_a_result_is_kept_however_long_the_file_is_locked(tmp_path: Path) -> None:
    marks = Marks(tmp_path)
    app = build(tmp_path)
    with SqliteStore(tmp_path / "tasks.db", patience=0.05) as store:
        migrate(store, time.time())
        tasks = Tasks(app, store)
        async with tasks.worker():
            task = await tasks.submit("hold", {"name": "it"})
            await marks.seen("held-it")
            with closing(sqlite3.connect(store.name, isolation_level=None)) as file:
                file.execute("BEGIN IMMEDIATE")
                marks.leave("go-it")
                with pytest.raises(Failure) as refused:
                    await tasks.submit("echo")
                assert refused.value.kind is Kind.unavailable
                assert (await tasks.get(task.id)).state is State.running
                # Longer than one try to write the result takes.
                with pytest.raises(Failure):
                    await tasks.wait(task.id, 0.5)
                file.execute("ROLLBACK")
            (done,) = await ended(tasks, task)
    assert (done.state, done.run) == (State.completed, 1)


async def test_a_result_is_kept_until_the_store_is_mended_that_refuses_it(
    tasks: Tasks, worker: StartWorker, store: Store, marks: Marks
) -> None:
    worker()
    task = await tasks.submit("hold", {"name": "it"})
    await marks.seen("held-it")
    # As a server that has become a standby, or a table that somebody has moved.
    await store.write(lambda tx: tx.run(Statement.of("ALTER TABLE task_events RENAME TO elsewhere")))
    marks.leave("go-it")
    # Longer than one try to write the result takes.
    with pytest.raises(Failure) as late:
        await tasks.wait(task.id, 0.5)
    assert late.value.kind is Kind.timeout
    await store.write(lambda tx: tx.run(Statement.of("ALTER TABLE elsewhere RENAME TO task_events")))
    (done,) = await ended(tasks, task)
    assert (done.state, done.run) == (State.completed, 1)


@pytest.mark.parametrize("crash", [False, True], ids=["restart", "crash"])
async def test_work_goes_on_when_postgresql_restarts_under_load(
    own_postgres: Postgres, tmp_path: Path, crash: bool
) -> None:
    own_postgres.run("CREATE DATABASE tasks")
    where = Where(tmp_path, own_postgres.url("tasks"))
    marks = Marks(tmp_path)
    app = build(tmp_path)
    with where.open() as store:
        tasks = where.tasks(app, store)
        accepted: list[str] = []

        async def load() -> None:
            for _ in range(60):
                accepted.append((await tasks.submit("effect", {"pause": 0.01}, max_attempts=1000)).id)

        async with tasks.worker():
            held = await tasks.submit("hold", {"name": "it"})
            await marks.seen("held-it")
            loads = [asyncio.ensure_future(load()) for _ in range(4)]
            for _ in range(2):
                await until(partial(_more, accepted, len(accepted) + 20))
                await asyncio.to_thread(own_postgres.kill if crash else own_postgres.stop)
                await asyncio.to_thread(own_postgres.start)
            await asyncio.gather(*loads)
            marks.leave("go-it")
            done = await ended(tasks, held, *accepted)
    assert {task.state for task in done} == {State.completed}
    assert done[0].run == 1
    assert sorted(marks.effects()) == sorted(accepted)


async def _more(accepted: list[str], than: int) -> bool:
    return len(accepted) >= min(than, 200)


async def test_no_running_task_is_stolen_when_the_clock_jumps_an_hour(
    where: Where, store: Store, tmp_path: Path
) -> None:
    moved = 0.0
    app = build(tmp_path, Clock(wall=lambda: time.time() + moved))
    marks = Marks(tmp_path)
    tasks = where.tasks(app, store)
    async with tasks.worker(look=1.0):
        names = [f"t{number}" for number in range(3)]
        given = [await tasks.submit("hold", {"name": name}) for name in names]
        await asyncio.gather(*(marks.seen(f"held-{name}") for name in names))
        # The other looks more often: it sees leases that are long over before their holder sees the clock.
        async with tasks.worker(look=0.01):
            for jump in (3600.0, -3600.0):
                await tasks.get(given[0].id)
                moved += jump
                await until(partial(_all_renewed, tasks, [task.id for task in given]))
            for name in names:
                marks.leave(f"go-{name}")
            done = await ended(tasks, *given)
    assert {(task.state, task.run) for task in done} == {(State.completed, 1)}
    await tasks.bus.close()


@pytest.mark.parametrize("form", ["postgres", "nats"])
@pytest.mark.parametrize("off", [-3600.0, 3600.0])
async def test_what_a_worker_takes_as_its_clock_is_put_right_is_not_its_own_for_an_hour(
    where: Where, store: Store, tmp_path: Path, off: float
) -> None:
    """If it died, nobody else would take that for as long as its clock had been wrong."""
    moved = off
    app = build(tmp_path, Clock(wall=lambda: time.time() + moved))
    marks = Marks(tmp_path)
    tasks = where.tasks(app, store)
    async with tasks.worker(lease=20.0):
        await tasks.submit("hold", {"name": "first"})
        await marks.seen("held-first")
        moved = 0.0
        given = await tasks.submit("hold", {"name": "second"})
        await marks.seen("held-second")
        held = await tasks.get(given.id)
        assert held.lease is not None
        assert 0 < held.lease - await _time(tasks) < 60.0
        for name in ("first", "second"):
            marks.leave(f"go-{name}")
        await ended(tasks, given)
    await tasks.bus.close()


@pytest.mark.parametrize("form", ["postgres", "nats"])
@pytest.mark.parametrize("off", [-3600.0, 3600.0])
async def test_workers_on_machines_whose_clocks_differ_lose_no_runs_to_each_other(
    where: Where, store: Store, tmp_path: Path, off: float
) -> None:
    marks = Marks(tmp_path)
    tasks = where.tasks(build(tmp_path), store)
    elsewhere = where.tasks(build(tmp_path, Clock(wall=lambda: time.time() + off)), store)

    async def held(name: str) -> str:
        id = (await tasks.submit("hold", {"name": name})).id
        await marks.seen(f"held-{name}")
        return id

    async with elsewhere.worker(concurrency=1, lease=3.0, look=0.1):
        ids = [await held("there")]
        async with tasks.worker(concurrency=1, lease=3.0, look=0.1):
            ids.append(await held("here"))
            leases = {(await tasks.get(id)).lease for id in ids}
            # Each has looked after its own, and at the other's, when it renews.
            await until(partial(_renewed, tasks, ids, leases))
            for name in ("there", "here"):
                marks.leave(f"go-{name}")
            done = await ended(tasks, *ids)
    assert {(task.state, task.run) for task in done} == {(State.completed, 1)}
    await elsewhere.bus.close()
    await tasks.bus.close()


async def test_a_clock_that_is_moved_by_hand_while_the_database_says_what_time_it_is_still_counts(
    where: Where, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test's clock, years ahead of the database's: a worker that went by that one would never begin."""
    start = now = 4_000_000_000.0
    asked = ledger.clock

    def moved(tx: Tx) -> float | None:
        nonlocal now
        now = start + 600.0
        return asked(tx)

    tasks = where.tasks(build(tmp_path, Clock(wall=lambda: now)), store)
    given = await tasks.submit("add", {"a": 1, "b": 2}, delay=300.0)
    monkeypatch.setattr(ledger, "clock", moved)
    async with tasks.worker():
        done = await tasks.wait(given.id, 20.0)
    assert done.data == 3
    await tasks.bus.close()


async def _renewed(tasks: Tasks, ids: list[str], leases: set[float | None]) -> bool:
    return leases.isdisjoint([(await tasks.get(id)).lease for id in ids])


async def _time(tasks: Tasks) -> float:
    """What time it is: the database's, where it has a clock."""
    return await tasks.store.read(ledger.clock) or tasks.app.clock.time()


async def _all_renewed(tasks: Tasks, ids: list[str]) -> bool:
    now = await _time(tasks)
    held = [await tasks.get(id) for id in ids]
    assert {task.run for task in held} == {1}
    return all(task.lease is not None and 0 < task.lease - now < 60 for task in held)
