"""Every move of a task, each one conditional write: the database is the referee.

Whoever runs a task writes under its worker's name and its run number: after another has taken it, or it has been
ended, nothing he writes counts. All functions take a transaction and may be run again in another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from fairlead._json import dumps, loads
from fairlead.store.statements import Statement, statements
from fairlead.store.store import ONE, Call, Row, Single, Tx, Work
from fairlead.tasks.records import Event, Task
from fairlead.tasks.states import State

SQL = statements(__file__)

#: What was said, before it has an offset: type, time and data.
Said = tuple[str, float, Mapping[str, Any]]

#: Where an event says what comes before it elsewhere; for carriers alone.
AFTER: Final = "_after"

_LATER, _NOW, _PARKED = 0, 1, 2


class Fenced(Exception):
    """This run is not the task's any more: another worker has it, or it has been ended."""


class Held(NamedTuple):
    """One run of a task by one worker."""

    id: str
    run: int
    worker: str


#: Before the names of queues whose workers come over HTTP: no carrier brings them work, they are only woken.
APART: Final = "agent:"


def work_topic(queue: str) -> str:
    """What workers listen to."""
    return f"work:{queue}"


def task_topic(id: str) -> str:
    """What those who watch a task listen to."""
    return f"task:{id}"


def worker_topic(worker: str) -> str:
    """What a worker listens to, to hear that a run is not his any more."""
    return f"worker:{worker}"


#: What those listen to who end what is overdue: a deadline came that is nearer than their next look.
DEADLINES: Final = "deadlines"
#: Seconds until a deadline that is told of.
_NEAR: Final = 10.0
_OVERDUE: Final = "The deadline has passed."


def clock(tx: Tx) -> float | None:
    """What time the database has; None where that is ours."""
    row = tx.one(SQL.clock)
    return None if row is None else row[0]


def find(tx: Tx, id: str) -> Task | None:
    row = tx.one(SQL.by_id, id=id)
    return None if row is None else Task.of(row)


def find_locked(tx: Tx, id: str) -> Task | None:
    """The same, and nobody else moves it before this transaction ends."""
    row = tx.one(SQL.by_id_locked, id=id)
    return None if row is None else Task.of(row)


def submit(tx: Tx, row: dict[str, Any], now: float) -> Task | None:
    """Enter a task; None where its id or key is there already, which is left as it is."""
    _enters(tx, row, now)
    entered = Task.new(row) if tx.run(SQL.submit, **row) else None
    _entered(tx, row, now, 1)
    return entered


def submit_many(tx: Tx, row: dict[str, Any], ids: Sequence[str], inputs: Sequence[str], now: float) -> None:
    """Enter tasks that differ in their ids and inputs alone, all or none of which are there already."""
    _enters(tx, row, now)
    # After a lost connection this is done again, maybe while the first is still on its way. To find that out once
    # is cheaper than to be ready for it with every row.
    tx.one(SQL.lock_batch, first=ids[0])
    if find(tx, ids[0]) is None:
        tx.each(SQL.submit_many, {"id": ids, "input": inputs}, **row)
    _entered(tx, row, now, len(ids))


def _enters(tx: Tx, row: dict[str, Any], now: float) -> None:
    slot = row["slot"]
    if slot is not None:
        tx.run(SQL.need_slot, name=slot, size=row["slots"])
    later = row["due"] > now
    row["ready"] = _LATER if later else _PARKED if slot else _NOW


def _entered(tx: Tx, row: Mapping[str, Any], now: float, count: int) -> None:
    slot = row["slot"]
    if slot is not None:
        _admit(tx, slot)
    # Those with a slot are told of when they get it.
    tx.tell(work_topic(row["queue"]), count if slot is None else 0)
    if row["deadline"] is not None and row["deadline"] - now < _NEAR:
        tx.tell(DEADLINES)


class Written:
    """A row that is written with a new task, under its id and time. It travels with the task's own."""

    __slots__ = ("_packed", "_statement", "_values")

    def __init__(self, statement: Statement, packed: Statement, **values: Any) -> None:
        self._statement = statement
        self._packed = packed
        self._values = values

    def __call__(self, tx: Tx, task: Task) -> None:
        call = self.of(task.id, task.created)
        tx.run(call.statement, **call.values)

    def of(self, task: str, created: float) -> Call:
        return Call(self._statement, {**self._values, "task": task, "created": created}, self._packed)


def _new(row: Mapping[str, Any], entered: list[Row]) -> Task | None:
    return Task.new(row) if entered == ONE else None


def submitting(
    row: dict[str, Any], now: float, otherwise: Callable[[Tx], Task], beside: Written | None = None
) -> Work[Task | None]:
    """The same for one task that concerns no other, as one statement; None where `otherwise` has to be done."""
    later = row["due"] > now
    row["ready"] = _LATER if later else _NOW
    topics = [work_topic(row["queue"])]
    if row["deadline"] is not None and row["deadline"] - now < _NEAR:
        topics.append(DEADLINES)
    return Single(
        Call(SQL.submit, row, SQL.submit_packed),
        topics,
        partial(_new, row),
        otherwise,
        None if beside is None else beside.of(row["id"], row["created"]),
    )


def take(tx: Tx, queue: str, worker: str, size: int, now: float, lease: float) -> list[Task]:
    """Give a worker up to so many tasks that may be run now, the most urgent first."""
    promote(tx, queue, now)
    rows = tx.all(SQL.take, queue=queue, worker=worker, size=size, now=now, lease=now + lease)
    return _taken(tx, [Task.of(row) for row in rows], now)


def taking(queue: str, worker: str, size: int, now: float, lease: float) -> Work[tuple[list[Task], bool]]:
    """The same as one statement, for those that may be run already; and whether there are some to `promote` first."""
    values = {
        "queue": queue,
        "worker": worker,
        "size": size,
        "now": now,
        "lease": now + lease,
        "spelled": dumps(worker),
    }

    def read(rows: list[Row]) -> tuple[list[Task], bool]:
        found = [Task.of(row[1:]) for row in rows if row[1] is not None]
        found.sort(key=_urgency)
        return found, bool(rows[0][0])

    return Single(
        Call(SQL.take_now, values),
        lambda outcome: [task_topic(task.id) for task in outcome[0]],
        read,
        lambda tx: (take(tx, queue, worker, size, now, lease), False),
    )


def take_one(tx: Tx, id: str, worker: str, now: float, lease: float) -> Task | None:
    """Give a worker this task, if it may be run now."""
    row = tx.one(SQL.take_one, id=id, worker=worker, now=now, lease=now + lease)
    return None if row is None else _taken(tx, [Task.of(row)], now)[0]


def _taken(tx: Tx, tasks: list[Task], now: float) -> list[Task]:
    tasks.sort(key=_urgency)
    tx.many(
        SQL.add_event,
        [
            _row(task.id, task.latest, ("started", now, {"attempt": task.attempt, "worker": task.worker}))
            for task in tasks
        ],
    )
    for task in tasks:
        tx.tell(task_topic(task.id))
    return tasks


def _urgency(task: Task) -> tuple[int, float, str]:
    return -task.priority, task.created, task.id


def promote(tx: Tx, queue: str, now: float) -> None:
    """Let those whose time has come be taken."""
    for id, slot in tx.all(SQL.due_now, queue=queue, now=now):
        tx.run(SQL.set_ready, id=id, ready=_PARKED if slot else _NOW)
        if slot:
            _admit(tx, slot)
        else:
            tx.tell(work_topic(queue))


def soonest(tx: Tx, queue: str) -> tuple[float | None, float | None, float | None, int]:
    """When something is due, when the first lease ends, when the first deadline is; whether something is ready."""
    row = tx.one(SQL.soonest, queue=queue)
    assert row is not None
    return row[0], row[1], row[2], row[3]


def renew(tx: Tx, held: Iterable[Held], until: float) -> set[tuple[str, int]]:
    """Keep runs alive; gives those that still are."""
    return {(each.id, each.run) for each in held if tx.run(SQL.renew, **each._asdict(), lease=until)}


def still_held(tx: Tx, worker: str) -> set[tuple[str, int]]:
    """The runs that are this worker's."""
    return {(id, run) for id, run in tx.all(SQL.held, worker=worker)}


def append(
    tx: Tx, held: Held, said: Sequence[Said], batch: str, *, reserve: int = 0, after: int | None = None
) -> int:
    """Write what a run said; gives the newest offset, or 0 where that was done before.

    `reserve` sets aside so many offsets after it, for what is kept elsewhere; `after` says what comes before it there.

    Raises:
        Fenced: the task is not this run's any more.
    """
    row = tx.one(SQL.grow, **held._asdict(), size=len(said) + reserve, batch=batch)
    if row is None:
        if tx.one(SQL.wrote, id=held.id, batch=batch) is not None:
            return 0
        raise Fenced
    if after is not None:
        said = [(type, time, {**data, AFTER: after}) for type, time, data in said]
    _write(tx, held.id, row[0] - reserve, said)
    return int(row[0])


def checkpoint(tx: Tx, held: Held, state: str) -> None:
    """Keep where a run is.

    Raises:
        Fenced: the task is not this run's any more.
    """
    if not tx.run(SQL.checkpoint, **held._asdict(), state=state):
        raise Fenced


def finish(
    tx: Tx, held: Held, state: State, result: str | None, reason: str | None, said: Sequence[Said], now: float
) -> bool:
    """End a run's task; whether it was still this run's to end."""
    ending: dict[str, Any] = {"state": state.value}
    if reason:
        ending["reason"] = reason
    said = [*said, ("terminal", now, ending)]
    row = tx.one(
        SQL.finish,
        **held._asdict(),
        state=state.value,
        result=result,
        reason=reason,
        size=len(said),
        now=now,
    )
    if row is None:
        return tx.one(SQL.finished, id=held.id, run=held.run, state=state.value) is not None
    _left(tx, held.id, row, said)
    return True


def completing(held: Held, result: str, now: float, otherwise: Callable[[Tx], bool]) -> Work[bool]:
    """End a run's task as completed that has nothing more to say and holds no slot, as one statement.

    False where `otherwise` has to be done.
    """
    data = dumps({"state": State.completed.value})
    values = {**held._asdict(), "result": result, "now": now, "data": data}
    return Single(Call(SQL.complete, values), [task_topic(held.id)], bool, otherwise)


def pause(
    tx: Tx, held: Held, state: State, question: Mapping[str, Any], said: Sequence[Said], now: float
) -> bool:
    """Let go of a task until somebody answers; whether it was still this run's."""
    said = [*said, ("clarification", now, {**question, "state": state.value})]
    row = tx.one(SQL.pause, **held._asdict(), state=state.value, question=dumps(question), size=len(said))
    if row is None:
        return tx.one(SQL.paused, id=held.id, run=held.run) is not None
    _left(tx, held.id, row, said)
    return True


def again(tx: Tx, held: Held, due: float, said: Sequence[Said], *, lost: bool = False) -> bool:
    """Let go of a task that is to be tried again later; whether it was still this run's.

    One that was `lost` and holds a slot comes before those that wait for it: they keep their order.
    """
    return _due_again(tx, SQL.again_lost if lost else SQL.again, held, due, said)


def leave(tx: Tx, held: Held, due: float, said: Sequence[Said]) -> bool:
    """Let go of a task that this worker cannot run and another may: it counts as no attempt."""
    return _due_again(tx, SQL.leave, held, due, said)


def _due_again(tx: Tx, how: Statement, held: Held, due: float, said: Sequence[Said]) -> bool:
    row = tx.one(how, **held._asdict(), due=due, size=len(said))
    if row is None:
        return False
    _left(tx, held.id, row, said)
    tx.tell(work_topic(row[2]))
    return True


def hand_back(tx: Tx, held: Held, now: float) -> None:
    """Let go of a task that this worker cannot go on with because he stops: it counts as no attempt.

    One that holds a slot stays before those that wait for it.
    """
    row = tx.one(SQL.hand_back, **held._asdict(), now=now)
    if row is not None:
        _leave_slot(tx, row[0])
        tx.tell(work_topic(row[1]))


def answered(tx: Tx, id: str, key: str) -> Event | None:
    """The answer that a task was given under a key."""
    rows = tx.all(SQL.answers, id=id)
    given = (Event(number, type, time, loads(data)) for number, type, time, data in rows)
    return next((each for each in given if each.data.get("key") == key), None)


def resume(
    tx: Tx, id: str, answer: Any, now: float, grant: bool = False, key: str | None = None
) -> Task | None:
    """Let a paused task go on with an answer; None if it is not paused."""
    task = find_locked(tx, id)
    if task is None:
        return None
    moved = tx.one(SQL.resume, id=id, answers=dumps([*task.answers, answer]), now=now)
    if moved is None:
        return None
    more = {**({"grant": True} if grant else {}), **({} if key is None else {"key": key})}
    _write(tx, id, moved[0], [("input", now, {"input": answer, **more})])
    _wake(tx, task.id, task.queue, task.slot)
    return find(tx, id)


def run_out(tx: Tx, held: Held, said: Sequence[Said], now: float) -> None:
    """End a run's task, and its children, because its time is over; with what it said until then."""
    if finish(tx, held, State.timeout, None, _OVERDUE, said, now):
        _cut_below(tx, held.id, State.timeout, _OVERDUE, now)


def cut(tx: Tx, id: str, state: State, reason: str | None, now: float) -> bool:
    """End a task, and its children, from outside; whether it was not ended before."""
    ended = _cut_one(tx, id, state, reason, now)
    if ended:
        _cut_below(tx, id, state, reason, now)
    return ended


def _cut_below(tx: Tx, id: str, state: State, reason: str | None, now: float) -> None:
    # Not one inside the other: families may be deep.
    family = [id]
    while family:
        children = [child for (child,) in tx.all(SQL.children, id=family.pop())]
        family += [child for child in children if _cut_one(tx, child, state, reason, now)]


def _cut_one(tx: Tx, id: str, state: State, reason: str | None, now: float) -> bool:
    task = find_locked(tx, id)
    if task is None:
        return False
    moved = tx.one(SQL.cut, id=id, state=state.value, reason=reason, now=now)
    if moved is None:
        return False
    data = {"state": state.value, **({"reason": reason} if reason else {})}
    _write(tx, id, moved[0], [("terminal", now, data)])
    if task.worker is not None:
        tx.tell(worker_topic(task.worker))
    if task.slot is not None and (task.ready == _NOW or task.worker is not None):
        _leave_slot(tx, task.slot)
    return True


def expire(tx: Tx, now: float, grace: float = 0.0) -> int:
    """End what is past its deadline; gives how many. What is being run has so many seconds more for last words."""
    rows = tx.all(SQL.overdue, now=now, late=now - grace)
    for row in rows:
        cut(tx, Task.of(row).id, State.timeout, _OVERDUE, now)
    return len(rows)


def recover(tx: Tx, now: float, pause: float) -> int:
    """Take back what workers have that are heard of no more; gives how many. The poisonous end as failed."""
    rows = tx.all(SQL.lost, now=now)
    for row in rows:
        task = Task.of(row)
        assert task.worker is not None
        held = Held(task.id, task.run, task.worker)
        lost = task.lost + 1
        if lost >= task.max_attempts:
            words = f"The worker was lost {lost} times while it ran this task."
            reason = loads(task.retry).get("lost") or words
            finish(tx, held, State.failed, None, reason, (), now)
        else:
            log = {"level": "warn", "message": "The worker was lost. Trying again.", "fields": {}}
            again(tx, held, now + pause * task.lost, [("log", now, log)], lost=True)
        tx.tell(worker_topic(task.worker))
    return len(rows)


def say(tx: Tx, id: str, said: Said) -> bool:
    """Add to the log of a task that has not ended, from outside; whether it has not."""
    row = tx.one(SQL.say, id=id)
    if row is None:
        return False
    _write(tx, id, row[0], [said])
    return True


def ready_since(tx: Tx, queue: str, before: float, most: int) -> int:
    """How many tasks have been ready since then; so many are counted at most."""
    row = tx.one(SQL.ready_since, queue=queue, before=before, most=most)
    return 0 if row is None else int(row[0])


def events(tx: Tx, id: str, since: int, size: int, *, after: bool = False) -> list[Event]:
    """What comes after an offset, so many at most; `after` leaves in what `append` was told."""
    found = [
        Event(number, type, time, loads(data))
        for number, type, time, data, _ in tx.all(SQL.events, id=id, since=since, size=size)
    ]
    if not after:
        for event in found:
            event.data.pop(AFTER, None)
    return found


def prune(tx: Tx, ended_before: float, passing_before: float, size: int = 200) -> int:
    """Forget tasks that ended long ago, and deltas that were said long ago; gives how many rows' worth went."""
    gone = tx.all(SQL.old_tasks, before=ended_before, size=size)
    for (id,) in gone:
        tx.run(SQL.drop_events, id=id)
        tx.run(SQL.drop_task, id=id)
    old = tx.all(SQL.old_passing, before=passing_before, size=size * 10)
    for id, upto in old:
        _forget(tx, id, upto)
    return len(gone) + len(old)


def thin(tx: Tx, id: str, kept: int) -> None:
    """Keep only the newest deltas of a task."""
    row = tx.one(SQL.many_passing, id=id, kept=kept)
    if row is not None:
        _forget(tx, id, row[0])


def _forget(tx: Tx, id: str, upto: int) -> None:
    tx.run(SQL.drop_passing, id=id, upto=upto)
    tx.run(SQL.set_oldest, id=id, upto=upto)


def _left(tx: Tx, id: str, row: tuple[Any, ...], said: Sequence[Said]) -> None:
    """What follows when a worker lets go: what was said is written, and the slot is given on."""
    latest, slot, _ = row
    _write(tx, id, latest, said)
    _leave_slot(tx, slot)


def _write(tx: Tx, id: str, latest: int, said: Sequence[Said]) -> None:
    first = latest - len(said) + 1
    tx.many(SQL.add_event, [_row(id, first + at, each) for at, each in enumerate(said)])
    tx.tell(task_topic(id))


def _row(id: str, number: int, said: Said) -> dict[str, Any]:
    type, time, data = said
    spelled = dumps(data)
    return {
        "task": id,
        "number": number,
        "type": type,
        "time": time,
        "data": spelled,
        "passing": int(type == "delta"),
    }


def _wake(tx: Tx, id: str, queue: str, slot: str | None) -> None:
    """Let a task be taken that has a time in the past."""
    tx.run(SQL.set_ready, id=id, ready=_PARKED if slot else _NOW)
    if slot:
        _admit(tx, slot)
    tx.tell(work_topic(queue))


def _leave_slot(tx: Tx, slot: str | None) -> None:
    if slot is not None:
        tx.run(SQL.free_slot, name=slot)
        _admit(tx, slot)


def _admit(tx: Tx, slot: str) -> None:
    """Let those that wait for this key be taken, as many as there is room for."""
    # One at a time: who looks for room while another makes some would see neither it nor the other's parked task.
    tx.one(SQL.lock_slot, name=slot)
    while tx.run(SQL.take_slot, name=slot):
        row = tx.one(SQL.next_parked, name=slot)
        if row is None:
            tx.run(SQL.free_slot, name=slot)
            return
        tx.run(SQL.set_ready, id=row[0], ready=_NOW)
        tx.tell(work_topic(row[1]))
