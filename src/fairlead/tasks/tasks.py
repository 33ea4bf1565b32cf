"""`Tasks`: what programs do with durable work. `app.tasks` is one, on the app's store.

task = await app.tasks.submit("import_orders", {"file": "orders.csv"}, key="2026-11")
async for event in app.tasks.events(task.id): ...
done = await app.tasks.wait(task.id)
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from fairlead._json import dumps, encode
from fairlead.actions import Action
from fairlead.failures import Failure, Kind
from fairlead.runtime import App
from fairlead.runtime.context import shown
from fairlead.runtime.permissions import permissions_of
from fairlead.runtime.runtime import NOTHING, Checked
from fairlead.schema import NotJsonable, jsonable
from fairlead.store import Store, Tx
from fairlead.store.store import Work
from fairlead.tasks import ledger, options, retrying
from fairlead.tasks.bus import LOOK, Bus, Presence, open_bus
from fairlead.tasks.ids import ids_from, task_id, task_ids, valid_id
from fairlead.tasks.ledger import SQL
from fairlead.tasks.options import Rate
from fairlead.tasks.records import Event, KeyUsed, Task, whose
from fairlead.tasks.retrying import TaskRetry
from fairlead.tasks.sealing import Sealing
from fairlead.tasks.states import FINAL, State
from fairlead.tasks.worker import Worker

#: States that few tasks are in: these are found by themselves.
_RARE: Final = frozenset(State) - {State.queued, State.running, State.completed}
#: Tasks on a page at most.
MOST: Final = 1000
#: Callers whose identities are known as they are kept.
_IDENTITIES: Final = 1024

Rows = list[tuple[Any, ...]]
Found = list[Task]
Workers = list[Presence]


class Tasks:
    """The tasks of one app in one store."""

    def __init__(self, app: App, store: Store, queue: str | None = None, bus: Bus | None = None) -> None:
        self.app = app
        self.store = store
        self.bus = bus or open_bus(store, app.clock)
        self.queue = queue or app.name
        self._wall = app.clock.time
        self._sealing = Sealing(store, app.redactor)
        #: Identities as they are kept, by a digest of how they were given.
        self._identities: dict[bytes, str] = {}

    async def submit(
        self,
        action: str | Action[..., Any],
        input: Any = NOTHING,
        *,
        key: str | None = None,
        request: bytes | None = None,
        id: str | None = None,
        delay: float = 0.0,
        deadline: float | None = None,
        priority: int = 0,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        parent: str | None = None,
        slot: str | None = None,
        slots: int = 1,
        rate: Rate | None = None,
        retry: TaskRetry | int | None = None,
        max_attempts: int = 5,
        surface: str = "unknown",
        user: Any = None,
        auth: Any = None,
        confirm: bool | str | None = None,
        also: Callable[[Tx, Task], None] | None = None,
    ) -> Task:
        """Accept a call, to be run soon, whatever happens to this process.

        It is checked as a call is: what would be refused is refused now. Once this returns it is on disk.

        Args:
            key: Idempotency: the same caller, action and key give the same task again.
            request: What tells a repetition from another request under the same key; the input by default.
            id: Its id, a UUID; a new one by default.
            delay: Seconds before it may be run.
            deadline: Seconds after which it ends as `timeout`, seven days at most.
            priority: Higher ones are run first.
            parent: The task it belongs to: it is cancelled with that one.
            slot: At most `slots` tasks of this name run at once, in all processes.
            rate: How often may be submitted.
            retry: When a failed run is tried again; a number is how often.
            max_attempts: How often it may take its worker down before it ends as failed.
            also: What is written with a new task, in the same transaction.

        Raises:
            Failure: the call would be refused; the key has been used for another request; the rate is exceeded.
        """
        options.a_text("surface", surface)
        checked = await self.app.check(action, input, surface=surface, user=user, auth=auth, confirm=confirm)
        row = self._row(checked, surface, user, auth)
        now = self._wall()
        row |= options.checked(
            now, delay, deadline, priority, title, metadata, parent, slot, slots, max_attempts
        )
        options.rate(rate)
        options.request(request)
        row["id"] = task_id(now) if id is None else valid_id(id)
        row["input"] = await self._sealing.sealed(checked.action, row["input"], row["id"])
        row["retry"] = retrying.spelled(checked.action, retry)
        if key is not None or id is not None:
            row |= {
                "key": options.name("key", key),
                "request": hashlib.sha256(request or checked.request).hexdigest(),
            }
        work: Work[Task] = partial(self._enter, row, now, rate, also)
        beside = also if isinstance(also, ledger.Written) and id is None else None
        alone = key is None and rate is None and parent is None and slot is None and also is beside
        entered = await self.store.write(ledger.submitting(row, now, work, beside)) if alone else None
        return await self.store.write(work) if entered is None else entered

    async def submit_many(
        self,
        action: str | Action[..., Any],
        inputs: Iterable[Any],
        *,
        delay: float = 0.0,
        deadline: float | None = None,
        priority: int = 0,
        metadata: Mapping[str, Any] | None = None,
        slot: str | None = None,
        slots: int = 1,
        retry: TaskRetry | int | None = None,
        max_attempts: int = 5,
        surface: str = "unknown",
        user: Any = None,
        auth: Any = None,
        confirm: bool | str | None = None,
    ) -> list[str]:
        """Accept many calls of one action, all or none, to be run in their order; gives their ids.

        Raises:
            Failure: one of them would be refused; `details["index"]` says which.
        """
        options.a_text("surface", surface)
        given: list[str] = []
        now = self._wall()
        row = options.checked(now, delay, deadline, priority, None, metadata, None, slot, slots, max_attempts)
        for index, input in enumerate(options.all_of("inputs", inputs)):
            try:
                checked = await self.app.check(
                    action, input, surface=surface, user=user, auth=auth, confirm=confirm
                )
            except Failure as failure:
                failure.details["index"] = index
                raise
            if not given:
                called = checked.action
                row |= self._row(checked, surface, user, auth)
                row["retry"] = retrying.spelled(called, retry)
            given.append(options.text(checked.input))
        if not given:
            return []
        # In order they are run in order, and are entered in half the time: each goes to the end of every index.
        ids = task_ids(now, len(given))
        kept = await self._sealing.sealed_all(called, given, ids)
        await self.store.write(lambda tx: ledger.submit_many(tx, row, ids, kept, now))
        return ids

    async def get(self, id: str, *, caller: str | None = None) -> Task:
        """The task; only the caller's own, if one is given.

        Raises:
            Failure: there is none.
        """
        _named(id, caller)
        return self._own(await self.store.read(lambda tx: ledger.find(tx, id)), id, caller)

    async def find(self, prefix: str, *, caller: str | None = None, limit: int = 10) -> Found:
        """Tasks whose ids begin with this."""
        options.whole("limit", limit, 0)
        _named(prefix, caller, "prefix")
        ends = ids_from(prefix)
        if ends is None:
            return []
        at = {"first": ends[0], "last": ends[1], "queue": self.queue, "size": limit}
        whom = None if caller is None else whose(caller)
        rows = await self.store.read(lambda tx: tx.all(SQL.by_prefix, **at, caller=whom))
        return [Task.of(row) for row in rows]

    async def list(
        self,
        *,
        state: State | str | None = None,
        caller: str | None = None,
        parent: str | None = None,
        limit: int = 50,
        before: str | None = None,
    ) -> tuple[list[Task], str | None]:
        """Tasks, the newest first, and where the next page begins, if there is one.

        `state` is a state, or `open`, `closed` or `all`.
        """
        wanted = _states(state)
        for field, each in (("caller", caller), ("parent", parent), ("before", before)):
            if each is not None:
                options.a_text(field, each)
        created, before_id = _cursor(before)
        options.whole("limit", limit, 0)
        size = max(1, min(limit, MOST))

        def work(tx: Tx) -> list[Task]:
            found: list[Task] = []
            at = {"before": created, "before_id": before_id}
            # Few states are rare: pages are read until one is full.
            while len(found) <= size:
                rows = [Task.of(row) for row in self._page(tx, caller, parent, wanted, at, size + 1)]
                found += [task for task in rows if task.state in wanted and self._is_of(task, caller)]
                if len(rows) <= size:
                    break
                at = {"before": rows[-1].created, "before_id": rows[-1].id}
            return found

        found = await self.store.read(work)
        more = found[size - 1] if len(found) > size else None
        return found[:size], None if more is None else f"{more.created!r}_{more.id}"

    async def counts(self) -> dict[str, int]:
        """How many tasks are in which state."""

        def work(tx: Tx) -> dict[str, int]:
            # Most have completed: they are counted by an index alone, as reading each takes five times as long.
            found: dict[str, int] = {}
            for statement in (SQL.counts_open, SQL.counts_rare):
                found.update(tx.all(statement, queue=self.queue))
            everything = tx.one(SQL.count_all, queue=self.queue)
            completed = (everything[0] if everything else 0) - sum(found.values())
            return {**found, **({State.completed.value: completed} if completed else {})}

        return await self.store.read(work)

    async def cancel(self, id: str, reason: str | None = None, *, caller: str | None = None) -> Task:
        """End a task and its children, whatever they are doing; one that has ended stays as it is."""
        _named(id, caller)
        why = options.words("reason", reason or "canceled")

        def work(tx: Tx) -> Task:
            self._own(ledger.find(tx, id), id, caller)
            ledger.cut(tx, id, State.canceled, why, self._wall())
            return self._own(ledger.find(tx, id), id, caller)

        return await self.store.write(work)

    async def answer(
        self,
        id: str,
        input: Any = None,
        *,
        caller: str | None = None,
        grant: bool = False,
        key: str | None = None,
    ) -> Task:
        """Let a paused task go on with an answer; its log tells one that is a `grant` from others.

        Args:
            key: Idempotency: an answer that is given again under the key answers no later question.

        Raises:
            Failure: it is not paused; the answer is none of the options; the key was used for another answer.
        """
        _named(id, caller)
        given, key = options.json_of(input), options.name("key", key)

        def work(tx: Tx) -> Task:
            # Of two answers under one key, the second waits here until the first is in the log.
            task = self._own(ledger.find(tx, id) if key is None else ledger.find_locked(tx, id), id, caller)
            before = None if key is None else ledger.answered(tx, id, key)
            if before is not None:
                return _same(task, before, given)
            if not task.state.paused:
                raise Failure(Kind.conflict, f"Task {id} is {task.state.value}: it waits for no answer.")
            moved = ledger.resume(tx, id, _chosen(task, given), self._wall(), grant, key)
            if moved is None:
                raise Failure(Kind.conflict, f"Task {id} waits for no answer any more: another came first.")
            return moved

        return await self.store.write(work)

    async def retry(self, id: str, *, caller: str | None = None) -> Task:
        """Submit an ended task's call again, as a new task: what has ended stays as it is."""
        now = self._wall()
        new = task_id(now)
        task = await self.get(id, caller=caller)
        if not task.state.final:
            raise Failure(
                Kind.conflict, f"Task {id} is {task.state.value}: only one that has ended can be retried."
            )
        input = await self._sealing.again(self.app.get(task.action), task.sealed_input, id, new)

        def work(tx: Tx) -> Task:
            metadata = dumps({**task.metadata, "retryOf": id})
            again = {
                "id": new, "queue": task.queue, "action": task.action, "input": input, "due": now,
                "priority": task.priority, "max_attempts": task.max_attempts, "retry": task.retry,
                "deadline": None if task.deadline is None else now + task.deadline - task.created,
                "created": now, "caller": task.caller, "identity": task.identity, "title": task.title,
                "metadata": metadata, "key": None, "request": None, "parent": task.parent, "slot": task.slot,
                "slots": _slots(tx, task.slot),
            }  # fmt: skip
            ledger.submit(tx, again, now)
            return self._own(ledger.find(tx, new), new, None)

        return await self.store.write(work)

    async def events(
        self, id: str, since: int = 0, *, follow: bool = True, caller: str | None = None
    ) -> AsyncIterator[Event]:
        """A task's log after an offset, and what is added to it, until the task has ended.

        Where deltas after `since` have been forgotten, a `truncated` event says up to which offset.
        """
        options.whole("since", since, -1, 2**63 - 1)
        task = await self.get(id, caller=caller)
        async for event in self.bus.tail(task, since, follow):
            yield event

    async def wait(self, id: str, timeout: float | None = None, *, caller: str | None = None) -> Task:
        """The task once it has ended, or is paused and needs an answer.

        Raises:
            Failure: it has not, after so many seconds.
        """
        options.seconds("timeout", timeout)
        _named(id, caller)
        try:
            async with asyncio.timeout(timeout):
                with self.store.listening(ledger.task_topic(id)) as bell:
                    while True:
                        task = await self.get(id, caller=caller)
                        if task.state.final or task.state.paused:
                            return task
                        await bell.rung(LOOK)
        except TimeoutError:
            raise Failure(Kind.timeout, f"Task {id} has not ended after {timeout:g} s. It goes on.") from None

    async def workers(self) -> Workers:
        """The workers of these tasks that have said lately that they are here, in any process."""
        return await self.bus.workers(self.queue)

    def worker(self, **options: Any) -> Worker:
        """A worker in this process: `async with app.tasks.worker(): ...`."""
        return Worker(self.app, self.store, self.bus, queue=self.queue, **options)

    def _row(self, checked: Checked, surface: str, user: Any, auth: Any) -> dict[str, Any]:
        return {
            "queue": self.queue,
            "action": checked.action.name,
            "input": options.text(checked.input),
            "caller": whose(checked.caller),
            "identity": self._identity({"surface": surface, "user": user, "auth": auth}),
            "key": None,
            "request": None,
        }

    def _identity(self, given: dict[str, Any]) -> str:
        """Who calls as it is kept, without secrets. Few callers make most of the calls."""
        try:
            asked = hashlib.blake2b(encode(given)).digest()
        except TypeError:
            return self._spelled(given)
        spelled = self._identities.get(asked)
        if spelled is None:
            if len(self._identities) == _IDENTITIES:
                self._identities.clear()
            spelled = self._identities[asked] = self._spelled(given)
        return spelled

    def _spelled(self, identity: dict[str, Any]) -> str:
        redactor = self.app.redactor
        known = {name: value for name, value in identity.items() if value is not None}
        return dumps({name: shown(_lasting(value), redactor) for name, value in known.items()})

    def _enter(
        self,
        row: dict[str, Any],
        now: float,
        rate: Rate | None,
        also: Callable[[Tx, Task], None] | None,
        tx: Tx,
    ) -> Task:
        """Enter a task, or find the one that was entered for the same before."""
        kept = self._kept(tx, row)
        if kept is not None:
            return kept
        if rate is not None:
            options.limited(tx, rate, now)
        if row["parent"] is not None:
            self._belongs(tx, row["parent"])
        task = ledger.submit(tx, row, now)
        if task is not None and also is not None:
            also(tx, task)
        task = task or ledger.find(tx, row["id"])
        if task is None:  # somebody else's id or key came first
            task = self._kept(tx, row)
        if task is None or _asked(task) != tuple(row[name] for name in _ASKED):
            raise Failure(Kind.conflict, f"There is a task with the id {row['id']} already.")
        return task

    def _kept(self, tx: Tx, row: Mapping[str, Any]) -> Task | None:
        """The task that the same key has given before."""
        if row["key"] is None:
            return None
        asked = {name: row[name] for name in ("queue", "action", "caller", "key")}
        found = tx.one(SQL.by_key, **asked)
        if found is None:
            return None
        task = Task.of(found)
        if task.request != row["request"]:
            raise KeyUsed(
                f"The key {row['key']!r} was used for another request to {row['action']!r}. "
                "Use a new key, or repeat the first request exactly.",
            )
        return task

    def _belongs(self, tx: Tx, parent: str) -> None:
        # Who ends it meanwhile waits, and finds the child; or has ended it, and no child is taken.
        task = ledger.find_locked(tx, parent)
        if task is None or task.queue != self.queue:
            raise Failure(Kind.not_found, f"There is no task {parent} that this one could belong to.")
        if task.state.final:
            raise Failure(
                Kind.conflict, f"Task {parent} has ended ({task.state.value}): it takes no more children."
            )

    def _own(self, task: Task | None, id: str, caller: str | None) -> Task:
        if task is None or not self._is_of(task, caller):
            raise Failure(Kind.not_found, f"There is no task {id[:100]}.")
        return task

    def _is_of(self, task: Task, caller: str | None) -> bool:
        return task.queue == self.queue and (caller is None or task.caller == whose(caller))

    def _page(
        self,
        tx: Tx,
        caller: str | None,
        parent: str | None,
        wanted: frozenset[State],
        at: Mapping[str, Any],
        size: int,
    ) -> Rows:
        if parent is not None:
            return tx.all(SQL.listed_children, parent=parent, size=size, **at)
        if caller is not None:
            return tx.all(SQL.listed_caller, caller=whose(caller), queue=self.queue, size=size, **at)
        if len(wanted) == 1 and wanted <= _RARE:
            return tx.all(SQL.listed_rare, queue=self.queue, state=min(wanted).value, size=size, **at)
        which = SQL.listed_open if wanted.isdisjoint(FINAL) else SQL.listed
        return tx.all(which, queue=self.queue, size=size, **at)


def _named(id: str, caller: str | None, field: str = "id") -> None:
    """Refuse what no task is found by."""
    options.a_text(field, id)
    if caller is not None:
        options.a_text("caller", caller)


def _lasting(identity: Any) -> Any:
    """An identity that can be kept: of an object that is no JSON, its id and what it may do."""
    if type(identity) is str or isinstance(identity, Mapping):
        return identity
    try:
        jsonable(identity)
    except NotJsonable:
        return {
            "id": getattr(identity, "id", type(identity).__name__),
            "permissions": sorted(permissions_of(identity)),
        }
    return identity


#: What a task was asked for by: of two submits with one id or key, the second must be the first again.
_ASKED: Final = ("queue", "action", "caller", "key", "request")


def _asked(task: Task) -> tuple[Any, ...]:
    return tuple(getattr(task, name) for name in _ASKED)


def _slots(tx: Tx, slot: str | None) -> int:
    row = None if slot is None else tx.one(SQL.slot_size, name=slot)
    return 1 if row is None else int(row[0])


def _same(task: Task, before: Event, given: Any) -> Task:
    """A task that was given an answer before, if that was the same one."""
    if before.data["input"] != given:
        raise KeyUsed(
            "This key was used for another answer. Use a new one, or repeat the first answer exactly."
        )
    return task


def _chosen(task: Task, answer: Any) -> Any:
    """An answer, checked against the options there are."""
    question = task.question or {}
    options = question.get("options")
    if not options:
        return answer
    given = answer if isinstance(answer, list) and question.get("allow_multiple") else [answer]
    wrong = [each for each in given if each not in options]
    if wrong or not given:
        raise Failure(
            Kind.invalid_input, f"The answer must be one of: {', '.join(map(str, options))}.", field="input"
        )
    return answer


def _states(given: State | str | None) -> frozenset[State]:
    if given is None or given == "all":
        return frozenset(State)
    if given in ("open", "active"):
        return frozenset(State) - FINAL
    if given == "closed":
        return FINAL
    try:
        return frozenset({State(given)})
    except ValueError:
        known = ", ".join(("open", "closed", "all", *State))
        raise Failure(
            Kind.invalid_input, f"There is no state {given!r}. Known: {known}.", field="state"
        ) from None


def _cursor(given: str | None) -> tuple[float, str]:
    if given is None:
        return 1e18, "~"
    try:
        created, _, id = given.partition("_")
        return float(created), id
    except (ValueError, AttributeError):
        raise Failure(Kind.invalid_input, "The cursor is not one that a list gave.", field="before") from None
