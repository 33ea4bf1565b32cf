"""What running promises: cancel, pause, retry, checkpoint and stop, whatever happens to the one who runs it."""

from __future__ import annotations

import asyncio
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import servers
from fairlead import App, Context, Failure, Kind
from fairlead.failures import StoreFailure
from fairlead.runtime.idempotency import Claim
from fairlead.store import DurableIdempotency, Statement, Store, Tx
from fairlead.tasks import State, Task, TaskRetry, Tasks, ledger
from tasks.app_under_test import Marks
from tasks.stage import StartProcess, StartWorker, Where, ended, until

#: A lease that ends soon, where a test waits for that; long enough for a worker that lives on a busy machine.
SHORT = 1.5


IS_CANCELED = Statement.of("SELECT 1 FROM tasks WHERE id = :id AND state = 'canceled'")
SOMEBODY_WAITS = Statement.of(
    "SELECT 1", "SELECT 1 FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))"
)


async def types(tasks: Tasks, id: str) -> list[str]:
    return [event.type async for event in tasks.events(id, follow=False)]


@pytest.mark.parametrize("action", ["hold", "hold_thread"])
async def test_a_cancel_reaches_the_running_code_of_another_process(
    tasks: Tasks, process: StartProcess, marks: Marks, action: str
) -> None:
    process()
    task = await tasks.submit(action, {"name": "it"})
    await marks.seen("held-it")
    canceled = await tasks.cancel(task.id, "changed my mind")
    assert (canceled.state, canceled.reason) == (State.canceled, "changed my mind")
    await marks.seen("stopped-it", patience=10)


async def test_a_cancel_is_not_overtaken_by_a_completion_that_comes_late(
    tasks: Tasks, worker: StartWorker, marks: Marks
) -> None:
    worker()
    names = [f"t{number}" for number in range(20)]
    given = [await tasks.submit("hold", {"name": name}) for name in names]
    await asyncio.gather(*(marks.seen(f"held-{name}") for name in names[:16]))

    async def race(task: Task, name: str) -> State:
        marks.leave(f"go-{name}")
        return (await tasks.cancel(task.id)).state

    told = await asyncio.gather(*(race(*each) for each in zip(given, names, strict=True)))
    done = await ended(tasks, *given)
    assert [task.state for task in done] == told
    for task in done:
        assert (await types(tasks, task.id)).count("terminal") == 1


@pytest.mark.parametrize("form", ["postgres"], indirect=True)
async def test_a_child_that_comes_while_its_parent_is_cancelled_is_cancelled_with_it(
    tasks: Tasks,
) -> None:
    parent = await tasks.submit("hold", {"name": "parent"})
    cancelling: asyncio.Future[Task] | None = None
    loop = asyncio.get_running_loop()

    def cancel() -> None:
        nonlocal cancelling
        cancelling = asyncio.ensure_future(tasks.cancel(parent.id))

    def meanwhile(tx: Tx, child: Task) -> None:
        loop.call_soon_threadsafe(cancel)
        # Until it is done, or waits for this transaction.
        seen = lambda: bool(tx.one(IS_CANCELED, id=parent.id) or tx.one(SOMEBODY_WAITS))  # noqa: E731
        servers.until(seen, "nobody cancels the parent")

    child = await tasks.submit("hold", {"name": "child"}, parent=parent.id, also=meanwhile)
    assert cancelling is not None
    await cancelling
    assert (await tasks.get(child.id)).state is State.canceled


async def test_a_worker_that_has_very_much_to_forget_keeps_its_leases(
    tasks: Tasks, worker: StartWorker, marks: Marks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "prune", lambda *_: 1)
    worker(lease=1.0)
    task = await tasks.submit("hold", {"name": "it"})
    await marks.seen("held-it")
    taken = (await tasks.get(task.id)).lease
    assert taken is not None

    async def renewed() -> bool:
        lease = (await tasks.get(task.id)).lease
        return lease is not None and lease > taken + 0.8  # more than once, that is

    await until(renewed, 10)
    marks.leave("go-it")
    assert (await ended(tasks, task))[0].attempt == 1


async def test_a_cancel_of_a_waiting_task_keeps_it_from_being_run(
    tasks: Tasks, worker: StartWorker, marks: Marks
) -> None:
    task = await tasks.submit("hold", {"name": "never"})
    await tasks.cancel(task.id)
    worker()
    await ended(tasks, await tasks.submit("echo"))
    assert not marks.there("held-never")
    assert (await tasks.cancel(task.id, "again")).reason == "canceled"


async def test_children_are_cancelled_with_their_parent_wherever_they_run(
    tasks: Tasks, process: StartProcess, marks: Marks
) -> None:
    parent = await tasks.submit("hold", {"name": "parent"})
    child = await tasks.submit("hold", {"name": "child"}, parent=parent.id)
    grandchild = await tasks.submit("echo", delay=3600, parent=child.id)
    process()
    await asyncio.gather(marks.seen("held-parent"), marks.seen("held-child"))
    await tasks.cancel(parent.id, "enough")
    done = await ended(tasks, parent, child, grandchild)
    assert {(task.state, task.reason) for task in done} == {(State.canceled, "enough")}
    await asyncio.gather(marks.seen("stopped-parent"), marks.seen("stopped-child"))
    with pytest.raises(Failure) as refused:
        await tasks.submit("echo", parent=parent.id)
    assert refused.value.kind is Kind.conflict
    listed, _ = await tasks.list(parent=parent.id)
    assert [task.id for task in listed] == [child.id]


async def test_a_paused_task_holds_no_worker_and_goes_on_with_its_answers(
    tasks: Tasks, worker: StartWorker
) -> None:
    worker(concurrency=1)
    (task,) = await ended(tasks, await tasks.submit("ask_two"))
    assert task.state is State.input_required
    question = {"question": "Which?", "options": ["tea", "coffee"], "allow_multiple": False}
    assert task.question == question
    (other,) = await ended(tasks, await tasks.submit("echo", {"value": 1}))
    assert other.data == 1
    with pytest.raises(Failure) as refused:
        await tasks.answer(task.id, "milk")
    assert refused.value.kind is Kind.invalid_input
    await tasks.answer(task.id, "tea")
    (task,) = await ended(tasks, task)
    assert task.question is not None
    assert task.question["details"] == {"of": "tea"}
    await tasks.answer(task.id, {"pots": 2})
    (task,) = await ended(tasks, task)
    assert (task.state, task.data) == (State.completed, ["tea", {"pots": 2}])
    said = await types(tasks, task.id)
    assert said == [
        "started",
        "clarification",
        "input",
        "started",
        "clarification",
        "input",
        "started",
        "terminal",
    ]
    with pytest.raises(Failure) as refused:
        await tasks.answer(task.id, "tea")
    assert refused.value.kind is Kind.conflict


async def test_several_options_may_be_chosen_where_that_is_asked_for(
    tasks: Tasks, worker: StartWorker
) -> None:
    worker()
    (task,) = await ended(tasks, await tasks.submit("ask_many"))
    for wrong in (["tea", "beer"], [], "beer"):
        with pytest.raises(Failure):
            await tasks.answer(task.id, wrong)
    await tasks.answer(task.id, ["milk", "tea"])
    assert (await ended(tasks, task))[0].data == ["milk", "tea"]


async def test_one_answer_of_many_at_once_is_taken(tasks: Tasks, worker: StartWorker) -> None:
    worker()
    (task,) = await ended(tasks, await tasks.submit("ask_auth"))
    assert task.state is State.auth_required
    outcomes = await asyncio.gather(
        *(tasks.answer(task.id, number) for number in range(5)), return_exceptions=True
    )
    (task,) = await ended(tasks, task)
    assert task.state is State.completed
    assert [at for at, each in enumerate(outcomes) if isinstance(each, Task)] == [task.data]


async def test_a_paused_task_can_be_cancelled(tasks: Tasks, worker: StartWorker) -> None:
    worker()
    (task,) = await ended(tasks, await tasks.submit("ask_two", slot="s"))
    assert (await tasks.cancel(task.id)).state is State.canceled
    (next,) = await ended(tasks, await tasks.submit("echo", slot="s"))
    assert next.state is State.completed


async def test_a_checkpoint_survives_kill_9(tasks: Tasks, process: StartProcess) -> None:
    task = await tasks.submit("steps", {"total": 6, "crash_at": 4})
    first = process(lease=SHORT, wait=False)
    first.ended()
    process(lease=SHORT)
    (done,) = await ended(tasks, task)
    assert (done.state, done.data) == (State.completed, {"from": 4, "attempt": 2})


async def test_code_that_is_not_async_keeps_its_state_too(tasks: Tasks, worker: StartWorker) -> None:
    worker()
    (done,) = await ended(tasks, await tasks.submit("steps_thread"))
    assert (done.data, done.checkpoint) == ({"half": "way"}, {"half": "way"})


@pytest.mark.parametrize(
    ("kind", "retry", "attempts"),
    [
        ("busy", TaskRetry(2, 0.01), 3),  # nothing has been done: any action is tried again
        ("unavailable", TaskRetry(2, 0.01), 1),  # it may have been: not one that must not be called twice
        ("unavailable", TaskRetry(2, 0.01, kinds=["unavailable"]), 3),
        ("invalid_input", TaskRetry(2, 0.01, kinds=["unavailable"]), 1),
        ("unavailable", TaskRetry(0), 1),
    ],
)
async def test_a_failure_is_tried_again_by_its_kind(
    tasks: Tasks, worker: StartWorker, kind: str, retry: TaskRetry, attempts: int
) -> None:
    worker()
    (done,) = await ended(tasks, await tasks.submit("flaky", {"kind": kind, "times": 9}, retry=retry))
    state = State.rejected if kind == "busy" else State.failed
    assert (done.state, done.attempt, done.reason) == (state, attempts, "Not this time.")
    assert done.failure is not None
    assert done.failure.kind is Kind(kind)


async def test_a_failure_is_kept_whatever_its_words_are(tasks: Tasks, worker: StartWorker) -> None:
    worker()
    (done,) = await ended(tasks, await tasks.submit("stammer"))
    assert (done.state, done.attempt) == (State.failed, 1)
    assert done.reason is not None
    assert done.reason.startswith("Half a ")


async def test_a_task_whose_input_cannot_be_read_ends_as_failed(
    tasks: Tasks, worker: StartWorker, store: Store
) -> None:
    task = await tasks.submit("echo", delay=0.01)
    sealed = Statement.of("UPDATE tasks SET input = 'sealed1.of another key' WHERE id = :id")
    await store.write(lambda tx: tx.run(sealed, id=task.id))
    worker()
    (done,) = await ended(tasks, task)
    assert (done.state, done.attempt) == (State.failed, 1)
    assert done.reason


async def test_why_an_input_cannot_be_read_is_told_without_where_the_store_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("FAIRLEAD_DATA", str(tmp_path))
    app = App("vault")

    @app.action
    async def pay(password: str) -> int:
        """Pay."""
        return len(password)

    task = await app.tasks.submit("pay", {"password": "x"})
    (tmp_path / "vault.secret.key").unlink()
    async with app.tasks.worker():
        (done,) = await ended(app.tasks, task)
    assert done.state is State.failed
    assert done.reason
    assert str(tmp_path) not in done.reason
    assert str(tmp_path) in caplog.text


async def test_what_fails_twice_may_succeed_the_third_time(tasks: Tasks, worker: StartWorker) -> None:
    worker()
    given = await tasks.submit("flaky", {"kind": "busy", "times": 2}, retry=TaskRetry(3, 0.01))
    (done,) = await ended(tasks, given)
    assert (done.state, done.data) == (State.completed, 3)
    assert (await types(tasks, done.id)).count("started") == 3


async def test_a_task_that_takes_its_worker_down_ends_as_failed_and_others_go_on(
    tasks: Tasks, process: StartProcess
) -> None:
    bad = await tasks.submit("poison", max_attempts=2)
    good = [await tasks.submit("effect", max_attempts=100) for _ in range(5)]
    for _ in range(2):
        assert process(lease=SHORT, wait=False).ended() == 9
    process(lease=SHORT)
    (done,) = await ended(tasks, bad)
    assert (done.state, done.reason) == (State.failed, "The worker was lost 2 times while it ran this task.")
    assert {task.state for task in await ended(tasks, *good)} == {State.completed}


async def test_tries_that_failed_do_not_count_as_workers_that_were_lost(
    tasks: Tasks, process: StartProcess
) -> None:
    bad = await tasks.submit("flaky_poison", {"times": 3}, max_attempts=2, retry=TaskRetry(5, 0.01))
    for _ in range(2):
        assert process(lease=SHORT, wait=False).ended() == 9
    process(lease=SHORT)
    (done,) = await ended(tasks, bad)
    assert (done.state, done.attempt) == (State.failed, 5)
    assert done.reason == "The worker was lost 2 times while it ran this task."


async def test_a_retry_of_an_ended_task_is_a_new_task(tasks: Tasks, worker: StartWorker) -> None:
    worker()
    options: dict[str, Any] = {"key": "k", "title": "T", "metadata": {"a": 1}, "user": {"id": 1}}
    (first,) = await ended(tasks, await tasks.submit("flaky", {"kind": "internal", "times": 9}, **options))
    second = await tasks.retry(first.id)
    assert second.id != first.id
    assert (second.title, second.metadata) == ("T", {"a": 1, "retryOf": first.id})
    (second,) = await ended(tasks, second)
    assert second.state is State.failed
    assert await tasks.get(first.id) == first
    waiting = await tasks.submit("echo", delay=60)
    with pytest.raises(Failure) as refused:
        await tasks.retry(waiting.id)
    assert refused.value.kind is Kind.conflict


async def test_a_worker_that_stops_waits_for_what_runs(tasks: Tasks, marks: Marks) -> None:
    worker = tasks.worker()
    worker.start()
    task = await tasks.submit("hold", {"name": "slow"})
    await marks.seen("held-slow")
    stopping = asyncio.ensure_future(worker.stop(patience=60))
    later = await tasks.submit("echo")
    marks.leave("go-slow")
    await stopping
    assert (await tasks.get(task.id)).state is State.completed
    left = await tasks.get(later.id)
    assert (left.worker, left.attempt) == (None, 0)


async def test_a_worker_that_stops_keeps_its_leases_while_it_waits(
    tasks: Tasks, worker: StartWorker, marks: Marks
) -> None:
    first = tasks.worker(lease=SHORT)
    first.start()
    task = await tasks.submit("hold", {"name": "slow"})
    await marks.seen("held-slow")
    stopping = asyncio.ensure_future(first.stop(patience=60))
    worker(lease=SHORT)
    lease = (await tasks.get(task.id)).lease or 0
    await until(partial(_renewed, tasks, task.id, lease + SHORT))
    marks.leave("go-slow")
    await stopping
    (done,) = await ended(tasks, task)
    assert (done.state, done.attempt, done.run) == (State.completed, 1, 1)


async def _renewed(tasks: Tasks, id: str, beyond: float) -> bool:
    task = await tasks.get(id)
    assert task.run == 1
    return (task.lease or 0) > beyond


async def test_what_a_stopping_worker_hands_back_is_run_by_another_and_counts_as_no_attempt(
    tasks: Tasks, process: StartProcess, worker: StartWorker, marks: Marks
) -> None:
    leaving = process()
    task = await tasks.submit("hold", {"name": "it"}, slot="s")
    await marks.seen("held-it")
    (marks.folder / "held-it").unlink()
    leaving.signal(signal.SIGTERM)
    assert leaving.ended() == 0
    back = await tasks.get(task.id)
    assert (back.state, back.worker, back.attempt) == (State.running, None, 0)
    worker()
    await marks.seen("held-it")
    marks.leave("go-it")
    (done,) = await ended(tasks, task)
    assert (done.state, done.attempt) == (State.completed, 1)


async def test_no_task_is_left_behind_by_workers_that_stop_while_they_take(tasks: Tasks) -> None:
    ids = await tasks.submit_many("echo", [{"value": number} for number in range(300)])
    for _ in range(15):
        worker = tasks.worker(concurrency=8)
        worker.start()
        await asyncio.sleep(0)
        await worker.stop()
        held, _ = await tasks.list(state="running", limit=1000)
        assert [task.id for task in held if task.worker is not None] == []
    async with tasks.worker():
        done = await ended(tasks, *ids)
    assert {(task.state, task.attempt) for task in done} == {(State.completed, 1)}


async def test_two_workers_with_one_lease_and_the_fenced_one_cannot_write(
    tasks: Tasks, process: StartProcess, marks: Marks
) -> None:
    stopped = process(lease=SHORT)
    task = await tasks.submit("hold", {"name": "it"})
    await marks.seen("held-it-1")
    # Not in the middle of a write: who sleeps with a lock of SQLite's keeps everybody out.
    await tasks.store.write(lambda tx: stopped.signal(signal.SIGSTOP))
    process(lease=SHORT)
    await marks.seen("held-it-2")
    # Both may end it now; the first was given up, and comes too late.
    stopped.signal(signal.SIGCONT)
    await marks.seen("stopped-it")
    taken = await tasks.get(task.id)
    assert taken.run == 2
    marks.leave("go-it")
    (done,) = await ended(tasks, task)
    assert (done.state, done.attempt, done.run) == (State.completed, 2, 2)
    assert (await types(tasks, task.id)).count("terminal") == 1


async def test_sync_and_async_runs_longer_than_the_lease_stay_with_their_worker(
    tasks: Tasks, worker: StartWorker, marks: Marks
) -> None:
    worker(lease=SHORT)
    worker(lease=SHORT)
    given = [await tasks.submit("hold", {"name": "a"}), await tasks.submit("hold_thread", {"name": "b"})]
    await asyncio.gather(marks.seen("held-a"), marks.seen("held-b"))
    for task in given:
        lease = (await tasks.get(task.id)).lease or 0
        await until(partial(_renewed, tasks, task.id, lease + SHORT))
    marks.leave("go-a")
    marks.leave("go-b")
    assert {(task.state, task.run) for task in await ended(tasks, *given)} == {(State.completed, 1)}


async def test_a_wait_that_ends_leaves_the_task_to_go_on(
    tasks: Tasks, worker: StartWorker, marks: Marks
) -> None:
    worker()
    task = await tasks.submit("hold", {"name": "it"})
    with pytest.raises(Failure) as ended_early:
        await tasks.wait(task.id, 0.05)
    assert ended_early.value.kind is Kind.timeout
    marks.leave("go-it")
    assert (await ended(tasks, task))[0].state is State.completed
    with pytest.raises(Failure) as unknown:
        await tasks.wait("nobody")
    assert unknown.value.kind is Kind.not_found


async def test_lists_come_in_pages_by_state_and_by_caller(tasks: Tasks, worker: StartWorker) -> None:
    ids = [(await tasks.submit("echo", user={"id": number % 2})).id for number in range(7)]
    await tasks.cancel(ids[0])
    seen: list[str] = []
    cursor = None
    while True:
        page, cursor = await tasks.list(limit=3, before=cursor)
        seen += [task.id for task in page]
        if cursor is None:
            break
    assert seen == ids[::-1]
    for state, expected in {
        "open": ids[:0:-1],
        "closed": ids[:1],
        "queued": ids[:0:-1],
        "failed": [],
    }.items():
        assert [task.id for task in (await tasks.list(state=state))[0]] == expected
    mine, _ = await tasks.list(caller='user:{"id":1}')
    assert [task.id for task in mine] == ids[5::-2]
    with pytest.raises(Failure):
        await tasks.list(state="lost")
    with pytest.raises(Failure):
        await tasks.list(before="page two")


async def test_a_task_is_shown_to_its_caller_alone(tasks: Tasks, store: Store) -> None:
    task = await tasks.submit("ask_two", user={"id": 1})
    mine, other = 'user:{"id":1}', 'user:{"id":2}'
    assert (await tasks.get(task.id, caller=mine)).id == task.id
    refused = [
        tasks.get(task.id, caller=other),
        tasks.cancel(task.id, caller=other),
        tasks.answer(task.id, caller=other),
        tasks.retry(task.id, caller=other),
        tasks.wait(task.id, caller=other),
        anext(aiter(tasks.events(task.id, caller=other))),
        Tasks(tasks.app, store, queue="another").get(task.id),
    ]
    for outcome in await asyncio.gather(*refused, return_exceptions=True):
        assert isinstance(outcome, Failure)
        assert outcome.kind is Kind.not_found


async def test_who_lost_its_worker_comes_before_those_that_wait_for_its_slot(
    tasks: Tasks, worker: StartWorker, marks: Marks, process: StartProcess
) -> None:
    first = await tasks.submit("hold", {"name": "first"}, slot="line")
    second = await tasks.submit("hold", {"name": "second"}, slot="line")
    lost = process(lease=1.0)
    await marks.seen("held-first")
    lost.kill()
    marks.leave("go-first")
    worker(lease=1.0)
    await marks.seen("held-second")
    assert (await tasks.get(first.id)).state is State.completed
    marks.leave("go-second")
    await ended(tasks, second)


async def test_a_write_whose_key_could_not_be_claimed_was_not_begun_and_is_tried_again(
    store: Store, where: Where
) -> None:
    class Stumbling(DurableIdempotency):
        """Its store is full at first."""

        claims = 0

        async def claim(self, key: str, request: bytes) -> Claim:
            self.claims += 1
            if self.claims == 1:
                raise StoreFailure(Kind.unavailable, "The store has no room on its disk.")
            return await super().claim(key, request)

    app = App("stumbling", idempotency=Stumbling(store))
    done: list[str | None] = []

    @app.action(side_effects="write")
    async def once(ctx: Context) -> None:
        """Do something that must not be done twice."""
        done.append(ctx.idempotency_key)

    tasks = where.tasks(app, store)
    async with tasks.worker():
        task = await tasks.submit("once", {}, retry=TaskRetry(delay=0.01))
        [task] = await ended(tasks, task)
    await tasks.bus.close()
    assert (task.state, done) == (State.completed, [task.id])
