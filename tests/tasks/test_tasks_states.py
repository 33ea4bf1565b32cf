"""Whoever races, in whatever order: the table of states holds, and the log and the slots agree with it."""

from __future__ import annotations

import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import wait
from contextlib import suppress
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fairlead import App
from fairlead.store import Statement, Tx, open_store
from fairlead.tasks import State, Tasks, ledger
from fairlead.tasks.ledger import Fenced, Held
from fairlead.tasks.records import Task
from fairlead.tasks.states import MOVES

QUEUE = "q"
LEASE = 10.0
SLOTS = {"one": 1, "two": 2}
ALL = Statement.of("SELECT * FROM tasks ORDER BY id")
EVENTS = Statement.of("SELECT task, number, type FROM task_events ORDER BY task, number")
TAKEN = Statement.of("SELECT name, taken, size FROM task_slots")


def row_of(number: int, now: float, **options: Any) -> dict[str, Any]:
    return {
        "id": f"task-{number:04}", "queue": QUEUE, "action": "any", "input": "{}", "due": now, "priority": 0,
        "max_attempts": 3, "retry": "{}", "deadline": None, "created": now, "caller": "", "identity": "{}",
        "title": None, "metadata": "{}", "key": None, "request": None, "parent": None, "slot": None, "slots": 1,
    } | options  # fmt: skip


class Moves(RuleBasedStateMachine):
    """Every move there is, by workers in time and by workers that come late."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.store = open_store("states", url=f"sqlite:///{Path(self.folder.name) / 'states.db'}")
        self.now = 1000.0
        self.count = 0
        #: Every run that ever was; most of them are over.
        self.runs: list[Held] = []
        self.seen: dict[str, Task] = {}

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()

    def write(self, work: Any) -> Any:
        return self.store.write_now(work)

    def tasks(self) -> dict[str, Task]:
        return {task.id: task for task in map(Task.of, self.store.read_now(lambda tx: tx.all(ALL)))}

    def is_current(self, held: Held) -> bool:
        task = self.tasks()[held.id]
        return (task.run, task.worker) == (held.run, held.worker)

    def fenced(self, held: Held, work: Any) -> None:
        """What a run writes counts if the task is its own, and changes nothing else."""
        current = self.is_current(held)
        before = self.everything()
        with suppress(Fenced):
            self.write(work)
        assert current or self.everything() == before

    def everything(self) -> Any:
        return self.store.read_now(lambda tx: (tx.all(ALL), tx.all(EVENTS), tx.all(TAKEN)))

    @rule(
        slot=st.sampled_from([None, *SLOTS]),
        delay=st.sampled_from([0.0, 5.0]),
        deadline=st.sampled_from([None, 15.0]),
        priority=st.integers(-1, 1),
        child=st.booleans(),
    )
    def submit(
        self, slot: str | None, delay: float, deadline: float | None, priority: int, child: bool
    ) -> None:
        self.count += 1
        options: dict[str, Any] = {
            "slot": slot,
            "slots": SLOTS.get(slot or "", 1),
            "due": self.now + delay,
            "deadline": None if deadline is None else self.now + deadline,
            "priority": priority,
            "parent": f"task-{self.count - 1:04}" if child and self.count > 1 else None,
        }
        row = row_of(self.count, self.now, **options)
        # Submitted twice, as after a lost connection.
        for _ in range(2):
            self.write(lambda tx: ledger.submit(tx, dict(row), self.now))

    @rule(size=st.integers(1, 3), worker=st.sampled_from(["a", "b"]))
    def take(self, size: int, worker: str) -> None:
        taken = self.write(lambda tx: ledger.take(tx, QUEUE, worker, size, self.now, LEASE))
        assert len(taken) <= size
        self.runs += [Held(task.id, task.run, worker) for task in taken]

    @precondition(lambda self: self.runs)
    @rule(data=st.data(), state=st.sampled_from([State.completed, State.failed]))
    def finish(self, data: st.DataObject, state: State) -> None:
        held = data.draw(st.sampled_from(self.runs))
        said = [("log", self.now, {"message": "last words"})]
        self.fenced(held, lambda tx: ledger.finish(tx, held, state, "{}", None, said, self.now))

    @precondition(lambda self: self.runs)
    @rule(data=st.data(), auth=st.booleans())
    def pause(self, data: st.DataObject, auth: bool) -> None:
        held = data.draw(st.sampled_from(self.runs))
        state = State.auth_required if auth else State.input_required
        self.fenced(held, lambda tx: ledger.pause(tx, held, state, {"question": "?"}, (), self.now))

    @precondition(lambda self: self.runs)
    @rule(data=st.data())
    def again(self, data: st.DataObject) -> None:
        held = data.draw(st.sampled_from(self.runs))
        self.fenced(held, lambda tx: ledger.again(tx, held, self.now + 1, ()))

    @precondition(lambda self: self.runs)
    @rule(data=st.data())
    def hand_back(self, data: st.DataObject) -> None:
        held = data.draw(st.sampled_from(self.runs))
        self.fenced(held, lambda tx: ledger.hand_back(tx, held, self.now))

    @precondition(lambda self: self.runs)
    @rule(data=st.data(), size=st.integers(1, 3))
    def append(self, data: st.DataObject, size: int) -> None:
        held = data.draw(st.sampled_from(self.runs))
        said = [("delta", self.now, {"data": "word"})] * size
        batch = f"batch-{self.now}-{len(self.runs)}"

        def twice(tx: Tx) -> None:
            ledger.append(tx, held, said, batch)
            # Again, as after a lost connection: it is there once.
            assert ledger.append(tx, held, said, batch) == 0

        self.fenced(held, twice)

    @precondition(lambda self: self.runs)
    @rule(data=st.data())
    def checkpoint(self, data: st.DataObject) -> None:
        held = data.draw(st.sampled_from(self.runs))
        self.fenced(held, lambda tx: ledger.checkpoint(tx, held, "1"))

    @precondition(lambda self: self.runs)
    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        held = data.draw(st.sampled_from(self.runs))
        current = self.is_current(held)
        kept = self.write(lambda tx: ledger.renew(tx, [held], self.now + LEASE))
        assert ((held.id, held.run) in kept) is current

    @precondition(lambda self: self.count)
    @rule(data=st.data())
    def resume(self, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from(sorted(self.tasks())))
        paused = self.tasks()[id].state.paused
        moved = self.write(lambda tx: ledger.resume(tx, id, "yes", self.now))
        assert (moved is not None) is paused

    @precondition(lambda self: self.count)
    @rule(data=st.data(), state=st.sampled_from([State.canceled, State.rejected]))
    def cut(self, data: st.DataObject, state: State) -> None:
        id = data.draw(st.sampled_from(sorted(self.tasks())))
        was_open = not self.tasks()[id].state.final
        assert self.write(lambda tx: ledger.cut(tx, id, state, "why", self.now)) is was_open
        after = self.tasks()
        if was_open:
            assert all(task.state.final for task in after.values() if task.parent == id)

    @rule(seconds=st.sampled_from([1.0, 6.0, 20.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def expire(self) -> None:
        self.write(lambda tx: ledger.expire(tx, self.now))
        assert not any(
            task.deadline is not None and task.deadline <= self.now and not task.state.final
            for task in self.tasks().values()
        )

    @rule()
    def recover(self) -> None:
        self.write(lambda tx: ledger.recover(tx, self.now, 1.0))
        for task in self.tasks().values():
            assert task.lease is None or task.lease >= self.now

    @invariant()
    def only_moves_of_the_table_happen(self) -> None:
        now = self.tasks()
        for id, task in now.items():
            before = self.seen.get(id)
            if before is None or before.state == task.state:
                continue
            reached = {before.state}
            for _ in State:  # one rule may make several moves
                reached |= {State(to) for each in reached for to in MOVES[each]}
            assert not before.state.final
            assert task.state in reached
        for id, before in self.seen.items():
            if before.state.final:
                assert now[id] == before
        self.seen = now

    @invariant()
    def who_runs_has_a_lease_and_who_waits_has_none(self) -> None:
        for task in self.tasks().values():
            assert (task.worker is None) == (task.lease is None)
            assert task.worker is None or task.state is State.running
            waits = task.state is State.queued or (task.state is State.running and task.worker is None)
            assert (task.due is not None) is waits
            assert task.ready == 0 or waits

    @invariant()
    def offsets_increase_and_the_last_event_of_an_ended_task_is_its_only_end(self) -> None:
        events: dict[str, list[tuple[int, str]]] = {}
        for id, number, type in self.store.read_now(lambda tx: tx.all(EVENTS)):
            events.setdefault(id, []).append((number, type))
        for id, task in self.tasks().items():
            said = events.get(id, [])
            numbers = [number for number, _ in said]
            assert numbers == sorted(set(numbers))
            assert task.latest == (numbers[-1] if numbers else 0)
            ends = [number for number, type in said if type == "terminal"]
            assert ends == ([task.latest] if task.state.final else [])

    @invariant()
    def slots_are_neither_exceeded_nor_lost(self) -> None:
        tasks = self.tasks().values()
        holding = Counter(task.slot for task in tasks if task.slot and (task.ready == 1 or task.worker))
        parked = Counter(task.slot for task in tasks if task.slot and task.ready == 2)
        for name, taken, size in self.store.read_now(lambda tx: tx.all(TAKEN)):
            assert taken == holding[name] <= size
            assert taken == size or not parked[name]


TestMoves = Moves.TestCase
TestMoves.settings = settings(
    max_examples=15, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


def test_final_states_lead_nowhere_and_every_state_can_be_left_or_is_final() -> None:
    assert set(MOVES) == set(State)
    for state, moves in MOVES.items():
        assert state.final is (not moves)
        assert state not in moves
    assert all(State.canceled in moves and State.timeout in moves for moves in MOVES.values() if moves)


async def test_a_task_that_is_parked_while_a_slot_is_given_up_gets_it(
    postgres_url: str, tmp_path: Path
) -> None:
    """PostgreSQL alone lets two do so at once, and none of them sees what the other has not committed."""
    now = time.time()
    given_up, go_on = threading.Event(), threading.Event()
    with open_store(url=postgres_url) as one, open_store(url=postgres_url) as other:
        rows = [row_of(number, now, slot="s") for number in (1, 2)]

        def paused(tx: Tx) -> Held:
            """The first has asked and waits for its answer; the second has the slot."""
            for row in rows:
                ledger.submit(tx, row, now)
            (first,) = ledger.take(tx, QUEUE, "w", 1, now, LEASE)
            ledger.pause(tx, Held(first.id, first.run, "w"), State.input_required, {}, (), now)
            (second,) = ledger.take(tx, QUEUE, "w", 1, now, LEASE)
            return Held(second.id, second.run, "w")

        held = one.write_now(paused)

        def finish(tx: Tx) -> None:
            ledger.finish(tx, held, State.completed, "{}", None, (), now)
            given_up.set()
            assert go_on.wait(30)

        finishing = one.submit(finish, True)
        assert given_up.wait(30)
        resuming = other.submit(lambda tx: ledger.resume(tx, "task-0001", "yes", now), True)
        # It has to wait for the other; should it not, that is seen below.
        wait([resuming], timeout=0.3)
        go_on.set()
        finishing.result(30)
        resuming.result(30)
        assert [task.id for task in one.write_now(lambda tx: ledger.take(tx, QUEUE, "w", 9, now, LEASE))] == [
            "task-0001"
        ]


async def test_a_claim_that_waited_behind_a_submit_starts_no_task_before_it_was_made(store_url: str) -> None:
    now = time.time()
    with open_store(url=store_url) as store:
        await store.write(lambda tx: ledger.submit(tx, row_of(1, now), now))
        taken, _ = await store.write(ledger.taking(QUEUE, "w", 1, now - 1, LEASE))
        await store.write(lambda tx: ledger.submit(tx, row_of(2, now), now))
        (other,) = await store.write(lambda tx: ledger.take(tx, QUEUE, "w", 1, now - 1, LEASE))
    assert taken[0].started == other.started == now


def test_two_that_forget_old_tasks_at_once_do_not_wait_for_each_other(postgres_url: str) -> None:
    now = time.time()
    forgetting, go_on = threading.Event(), threading.Event()
    with open_store(url=postgres_url) as one, open_store(url=postgres_url) as other:

        def end(tx: Tx) -> None:
            for number in range(5):
                ledger.submit(tx, row_of(number, now), now)
            for task in ledger.take(tx, QUEUE, "w", 5, now, LEASE):
                held = Held(task.id, task.run, "w")
                ledger.finish(tx, held, State.completed, "{}", None, (), now)

        def forget(tx: Tx) -> int:
            gone = ledger.prune(tx, now + 1, now + 1, size=3)
            forgetting.set()
            assert go_on.wait(30)
            return gone

        one.write_now(end)
        first = one.submit(forget, True)
        assert forgetting.wait(30)
        rest = other.submit(lambda tx: ledger.prune(tx, now + 1, now + 1, size=3), True).result(10)
        go_on.set()
        assert (first.result(30), rest) == (3, 2)


async def test_a_family_of_any_depth_is_cancelled_with_its_elder(tmp_path: Path) -> None:
    store = open_store("deep", data=tmp_path)
    tasks = Tasks(App("q"), store)
    rows = [row_of(number, 1.0, parent=f"task-{number - 1:04}" if number else None) for number in range(1500)]
    await store.write(lambda tx: [ledger.submit(tx, row, 1.0) for row in rows])
    await tasks.cancel("task-0000")
    assert await tasks.counts() == {"canceled": 1500}
    store.close()
