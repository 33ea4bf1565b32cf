"""Webhooks and deliveries as rows: every move of a delivery, each one conditional write.

What is to be told comes from the task's own log, by an offset that is kept with the webhook: a change that is on disk
becomes one delivery, whoever dies in between. Nothing is sent here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from fairlead._json import dumps, loads
from fairlead.gateway.agents import instant
from fairlead.outgoing.urls import parse
from fairlead.runtime.clock import random_id
from fairlead.store import Tx
from fairlead.store.statements import statements
from fairlead.tasks import Task, ledger
from fairlead.tasks.states import FINAL, State

SQL = statements(__file__, "deliveries.sql")
#: What those listen to who follow tasks: a webhook was added.
WEBHOOKS: Final = "gateway:webhooks"
#: What those listen to who deliver: something is due, or a place is free.
DUE: Final = "gateway:deliveries"
#: Seconds between an attempt and the next.
DELAYS: Final = (60.0, 300.0, 1800.0, 7200.0, 43_200.0)
#: Deliveries of one change that are made at once, in all processes.
ABREAST: Final = 5
#: Deliveries to one host that are made at once, in all processes.
EACH: Final = 32
#: How many places of a process an owner may hold for each that is free there: it never has all of them, and the more
#: owners there are, the fewer has each.
SHARE: Final = 3
#: Characters of an error that are kept.
_ERROR: Final = 2000
_FOLLOWED: Final = 100


class Webhook(NamedTuple):
    """Who is told of a task. Token and secret are sealed."""

    id: str
    task: str
    url: str
    renderer: str
    token: str | None
    secret: str | None
    created: float
    seen: int
    state: str
    run: int
    open: int

    def to_dict(self) -> dict[str, Any]:
        """As the contract has it."""
        return {
            "webhook_id": self.id,
            "task_id": self.task,
            "url": self.url,
            "has_secret": self.secret is not None,
            "created_at": instant(self.created),
        }


class Delivery(NamedTuple):
    """One change for one webhook."""

    id: str
    webhook: str
    task: str
    number: int | None
    renderer: str
    host: str
    payload: str
    status: str
    attempts: int
    response: int
    error: str | None
    due: float
    created: float
    attempted: float | None
    completed: float | None

    def to_dict(self) -> dict[str, Any]:
        """As the contract has it: without what is sent."""
        told: dict[str, Any] = {
            "delivery_id": self.id,
            "webhook_id": self.webhook,
            "task_id": self.task,
            "renderer": self.renderer,
            "status": self.status,
            "attempt_num": self.attempts,
            "last_response_status": self.response,
            "next_attempt_at": instant(self.due),
            "created_at": instant(self.created),
        }
        if self.error:
            told["last_error"] = self.error
        if self.attempted is not None:
            told["last_attempted_at"] = instant(self.attempted)
        if self.completed is not None:
            told["completed_at"] = instant(self.completed)
        return told


class Change(NamedTuple):
    """A task's new status, as its log has it."""

    task: Task
    status: State
    time: float
    number: int
    #: What a pause asks. The task itself has it only until it is answered.
    question: str = ""

    @property
    def context_id(self) -> str:
        """The channel that the task belongs to."""
        about = self.task.metadata.get("gateway")
        found = about.get("context_id") if isinstance(about, dict) else None
        return str(found or self.task.id)


class Renderer(NamedTuple):
    """How one protocol tells of a change: the body, and the headers that go with it."""

    payload: Callable[[Change], str]
    #: From a delivery and the webhook's token.
    headers: Callable[[Delivery, str | None], dict[str, str]]


class Attempt(NamedTuple):
    """A delivery to be attempted now, and where."""

    delivery: Delivery
    webhook: Webhook


def register(tx: Tx, row: Mapping[str, Any], task: Task, now: float) -> Webhook:
    """Add a webhook, or give one that is there a new token and secret.

    Of a task that has ended already there is one thing left to tell: how it did.
    """
    task = ledger.find(tx, task.id) or task
    place = {"seen": task.latest, "state": task.state.value, "run": task.run}
    found = tx.one(SQL.register, **row, **place, task=task.id, created=now, open=int(not task.state.final))
    assert found is not None
    webhook = Webhook(*found)
    if task.state.final:
        _add(tx, webhook, Change(task, task.state, task.ended or now, task.latest), now)
    tx.tell(WEBHOOKS)
    return webhook


def remove(tx: Tx, id: str) -> None:
    """Forget a webhook, and what it would have been told."""
    tx.run(SQL.remove_webhook, id=id)
    tx.run(SQL.remove_deliveries, id=id)


def changed(tx: Tx) -> list[str]:
    """Webhooks whose tasks have changed."""
    return [id for (id,) in tx.all(SQL.changed, size=_FOLLOWED)]


def follow(tx: Tx, id: str, now: float) -> int:
    """Make deliveries of what is new in a webhook's task; gives how many. Another process may have done it."""
    found = tx.one(SQL.webhook_locked, id=id)
    if found is None:
        return 0
    webhook = Webhook(*found)
    # First the task, then its log: the log has all that the task's state tells of.
    task = ledger.find(tx, webhook.task)
    if task is None:
        tx.run(SQL.advance, id=id, seen=webhook.seen, state=webhook.state, run=webhook.run, open=0)
        return 0
    changes, seen, status = _changes(tx, webhook, task)
    for change in changes:
        _add(tx, webhook, change, now)
    tx.run(SQL.advance, id=id, seen=seen, state=status, run=task.run, open=int(status not in FINAL))
    return len(changes)


def _changes(tx: Tx, webhook: Webhook, task: Task) -> tuple[list[Change], int, State]:
    changes: list[Change] = []
    seen, status = webhook.seen, State(webhook.state)
    events = tx.all(SQL.status_events, task=task.id, since=webhook.seen)
    if any(type == "terminal" for _, type, _, _ in events):
        # It may have ended after it was looked at: what it gave stands in the task alone.
        task = ledger.find(tx, task.id) or task
    for number, type, time, data in events:
        said = loads(data)
        seen, new = number, _status(type, said)
        if new is not status:
            status = new
            changes.append(Change(task, status, time, number, str(said.get("question", ""))))
    if task.state.final and status is not task.state:
        # Its log was forgotten before it was read.
        seen, status = task.latest, task.state
        changes.append(Change(task, status, task.ended or 0.0, seen))
    return changes, seen, status


def _status(type: str, said: Mapping[str, Any]) -> State:
    """What an event makes of its task."""
    if type == "terminal":
        return State(said["state"])
    if type == "clarification":
        return State(said.get("state", State.input_required))
    return State.running


def _add(tx: Tx, webhook: Webhook, change: Change, now: float) -> None:
    row = {"id": random_id(), "webhook": webhook.id, "task": webhook.task, "number": change.number}
    payload = RENDERERS[webhook.renderer].payload(change)
    host = parse(webhook.url).host
    tx.run(SQL.add_delivery, **row, renderer=webhook.renderer, host=host, payload=payload, now=now)
    tx.tell(DUE)


def again(tx: Tx, delivery: Delivery, new: str, now: float) -> Delivery:
    """Have the same sent once more, as a delivery of its own with this id."""
    same = {name: getattr(delivery, name) for name in ("webhook", "task", "renderer", "host", "payload")}
    tx.run(SQL.add_delivery, **same, id=new, number=None, now=now)
    tx.tell(DUE)
    found = tx.one(SQL.delivery, id=new)
    assert found is not None
    return Delivery(*found)


def take(tx: Tx, holder: str, size: int, now: float, lease: float) -> list[Attempt]:
    """Give a deliverer, which has so many places free, attempts that are due."""
    # One after the other: who takes has to know what others have under way.
    tx.one(SQL.lock_taking)
    abreast: Counter[tuple[str, int | None]] = Counter()
    each: Counter[str] = Counter()
    owned: Counter[str] = Counter()
    for task, number, host, by, owner in tx.all(SQL.under_way, now=now):
        abreast[task, number] += 1
        each[host] += 1
        owned[owner] += by == holder
    taken: list[Attempt] = []
    at_most = {"abreast": ABREAST, "each": EACH, "share": SHARE * size, "size": size}
    for id, task, number, host, owner in tx.all(SQL.ready, now=now, holder=holder, **at_most):
        if abreast[task, number] >= ABREAST or each[host] >= EACH:
            continue
        if owned[owner] >= SHARE * (size - len(taken)):
            continue
        row = tx.one(SQL.claim, id=id, holder=holder, lease=now + lease, now=now)
        if row is None:
            continue
        hook = tx.one(SQL.webhook, id=row[1])
        if hook is None:  # it was removed just now
            tx.run(SQL.remove_deliveries, id=row[1])
            continue
        abreast[task, number] += 1
        each[host] += 1
        owned[owner] += 1
        taken.append(Attempt(Delivery(*row), Webhook(*hook)))
    return taken


def settle(tx: Tx, delivery: Delivery, holder: str, response: int, error: str | None, now: float) -> None:
    """Write down how an attempt went. An error means another attempt, as long as there is one left."""
    told: dict[str, Any] = {"status": "succeeded", "due": None, "waiting": 0, "completed": now}
    if error is not None and delivery.attempts <= len(DELAYS):
        due = now + DELAYS[delivery.attempts - 1]
        told = {"status": "failed", "due": due, "waiting": 1, "completed": None}
    elif error is not None:
        told["status"] = "dead_letter"
    error = None if error is None else error[:_ERROR]
    tx.run(SQL.settle, id=delivery.id, holder=holder, response=response, error=error, **told)
    tx.tell(DUE)


def release(tx: Tx, delivery: Delivery, holder: str) -> None:
    """Give back an attempt that was not made after all."""
    tx.run(SQL.release, id=delivery.id, holder=holder)
    tx.tell(DUE)


def next_due(tx: Tx) -> float | None:
    """When something is due, or may be taken from one who is heard of no more."""
    row = tx.one(SQL.next_due)
    times = [time for time in row or () if time is not None]
    return min(times) if times else None


def forgotten(tx: Tx) -> list[str]:
    """Webhooks of tasks that are no more, with nothing left to tell; some of them."""
    return [id for (id,) in tx.all(SQL.forgotten, size=_FOLLOWED)]


def _payload(change: Change) -> str:
    return dumps(
        {
            "type": "task_status",
            "task_id": change.task.id,
            "context_id": change.context_id,
            "status": change.status.value,
            "final": change.status.final,
            "timestamp": int(change.time * 1000),
        }
    )


def _headers(delivery: Delivery, token: str | None) -> dict[str, str]:
    told = {
        "Content-Type": "application/json",
        "X-BeeOS-Webhook-Format": "openapi",
        "X-BeeOS-Event": "task.state",
        "X-BeeOS-Task-Id": delivery.task,
    }
    return told if token is None else {**told, "Authorization": f"Bearer {token}"}


#: By the name of a protocol.
RENDERERS: Final[dict[str, Renderer]] = {"openapi": Renderer(_payload, _headers)}
