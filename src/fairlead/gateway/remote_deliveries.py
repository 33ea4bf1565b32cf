"""Agents that run elsewhere, at work: whoever runs one reads its turns, says what it says, and how each ended.

A delivery is one run of a task by one registration. It is held by a lease, which each read with `holding`, each
`renew` and each `ack` renews. What is not held any more was cancelled, timed out or given to another: the agent is
told so in `stopped`, and nothing it says of it counts.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from fairlead._json import dumps, loads
from fairlead.failures import Failure, Kind
from fairlead.failures import action as action_wire
from fairlead.failures.gateway import AgentServiceUnavailable, InvalidBody, InvalidParam
from fairlead.failures.redaction import Redactor
from fairlead.gateway import files
from fairlead.gateway.agents import instant
from fairlead.gateway.call import LARGE, Answer, Call, Caller, Route
from fairlead.gateway.messages import BUSY
from fairlead.gateway.registration import CONFIRMED, SLACK, SQL, Registration
from fairlead.gateway.remote import ABOUT
from fairlead.runtime.context import shown
from fairlead.store import Bell, Store, Tx
from fairlead.tasks import ledger
from fairlead.tasks.bus import KEPT_DELTAS, idle
from fairlead.tasks.ledger import Fenced, Held, Said
from fairlead.tasks.records import Task
from fairlead.tasks.states import State

MOST: Final = 256
LONGEST_BLOCK: Final = 60_000
MOST_EVENTS: Final = 1000
#: Seconds between two looks at whether the server is about to stop.
_GLANCE: Final = 0.5
#: Offsets between two looks at how many deltas there are.
_THINNED: Final = 512
_ID: Final = re.compile(r"([0-9a-f-]{1,64})\.([0-9]{1,9})")
STATUSES: Final = ("completed", "failed", "refused", "busy", "input_required", "auth_required")


class Seen(NamedTuple):
    """What a look at an agent's work found."""

    deliveries: list[dict[str, Any]]
    stopped: list[dict[str, str]]
    kept: list[str]
    taken: list[Held]
    seconds: float


async def read(call: Call) -> Answer:
    body = call.json()
    who, store, app = Registration.of(call, body), call.gateway.app.store, call.gateway.app
    most = _whole(body, "maxCount", 32, 0, MOST)
    block = _whole(body, "blockMs", 5000, 0, LONGEST_BLOCK) / 1000
    holding = None if body.get("holding") is None else _held(who, body["holding"], "holding")
    draining = body.get("draining") is True
    room = 0 if draining else most
    if call.gateway.draining:
        raise AgentServiceUnavailable(
            "This gateway is about to stop. Read again, from another.", retry_after=1.0
        )
    bell, end = Bell(), app.clock.monotonic() + block
    unlisten = [store.listen(topic, bell.ring) for topic in _topics(who)]
    try:
        while True:
            seen = await _look(store, who, holding, room, draining, app.wall)
            end = min(end, app.clock.monotonic() + max(seen.seconds / 2, 0.1))
            if seen.deliveries or seen.stopped or not await _rung(call, bell, store, who, room, end):
                break
    finally:
        for each in unlisten:
            each()
    for each in seen.deliveries:
        await _address(call, each)
    status = "deliveries" if seen.deliveries else "empty"
    return Answer({"status": status, "deliveries": seen.deliveries, "stopped": seen.stopped})


async def _rung(call: Call, bell: Bell, store: Store, who: Registration, room: int, end: float) -> bool:
    """Wait until there may be something new; False when the time is up, or the server is about to stop."""
    clock, gateway = call.gateway.app.clock, call.gateway
    due = clock.monotonic() + await idle(store, who.queue, clock.time(), LONGEST_BLOCK) if room else end
    while not gateway.draining and (now := clock.monotonic()) < end:
        if now >= due:
            return True
        if await bell.rung(min(end - now, due - now, _GLANCE)):
            return True
    return False


async def _look(
    store: Store, who: Registration, holding: list[Held] | None, room: int, draining: bool, wall: Any
) -> Seen:
    """Take what there is, even when the one who asked goes away meanwhile: then it is given back."""

    def work(tx: Tx) -> Seen:
        return _seen(tx, who, holding, room, draining, wall())

    looking = asyncio.ensure_future(store.write(work))
    try:
        return await asyncio.shield(looking)
    except asyncio.CancelledError:
        with suppress(Failure):
            seen = await looking
            if holding is None:  # the others say with the next read that it never came
                await store.write(lambda tx: _handed_back(tx, seen.taken, wall()))
        raise


def _seen(
    tx: Tx, who: Registration, holding: list[Held] | None, room: int, draining: bool, now: float
) -> Seen:
    seconds = who.keep(tx, now, draining)
    kept, stopped = _renewed(tx, holding or (), now + seconds + SLACK)
    deliveries: list[dict[str, Any]] = []
    if holding is not None:
        known = {each[:2] for each in holding}
        held = [Task.of(row) for row in tx.all(SQL.held_tasks, worker=who.worker)]
        unheard = [task for task in held if (task.id, task.run) not in known]
        if draining:
            _handed_back(tx, [Held(task.id, task.run, who.worker) for task in unheard], now)
        else:
            deliveries = [_delivery(who, task, True) for task in unheard]
    within = min(CONFIRMED, seconds) + SLACK
    taken = ledger.take(tx, who.queue, who.worker, room, now, within) if room else []
    deliveries += [_delivery(who, task, False) for task in taken]
    return Seen(deliveries, stopped, kept, [Held(task.id, task.run, who.worker) for task in taken], seconds)


def _renewed(tx: Tx, held: Iterable[Held], until: float) -> tuple[list[str], list[dict[str, str]]]:
    """Keep deliveries; gives those that are, and those that are not any more."""
    kept, stopped = [], []
    for each in held:
        acked = dumps({"acked": each.run})
        if tx.run(SQL.keep_task, **each._asdict(), lease=until, acked=acked):
            kept.append(_id_of(each))
        else:
            stopped.append(_stopped(tx, each))
    return kept, stopped


def _stopped(tx: Tx, held: Held) -> dict[str, str]:
    """Why a delivery is not the agent's any more."""
    task = ledger.find(tx, held.id)
    reason = task.state.value if task is not None and task.state.final else "lost"
    return {"deliveryId": _id_of(held), "reason": reason}


def _handed_back(tx: Tx, held: Iterable[Held], now: float) -> None:
    for each in held:
        ledger.hand_back(tx, each, now)


def _delivery(who: Registration, task: Task, again: bool) -> dict[str, Any]:
    about: Mapping[str, Any] = task.metadata.get(ABOUT, {})
    told = {
        "deliveryId": _id_of(Held(task.id, task.run, who.worker)),
        "taskId": task.id,
        "agentId": who.agent,
        "message": loads(task.sealed_input)["message"],
        "messageId": about.get("message_id") or task.id,
        "contextId": about.get("context_id") or task.id,
        "metadata": about.get("metadata", {}),
        "attachments": about.get("attachments", []),
        "answers": task.answers,
        "attempt": task.attempt,
        "redelivered": again or task.attempt > 1,
        "caller": (loads(task.identity).get("user") or {}).get("id"),
        "createdAt": instant(task.created),
    }
    if about.get("history"):
        told["history"] = about["history"]
    if task.deadline is not None:
        told["deadlineAt"] = instant(task.deadline)
    return told


async def _address(call: Call, delivery: dict[str, Any]) -> None:
    """Say anew where a delivery's attachments are: it may have waited longer than addresses last."""
    if delivery["attachments"]:
        owner = Call(call.gateway, call.request, Caller(str(delivery["caller"])), {}, call.request_id)
        with suppress(InvalidParam):  # a file that was taken away since has its old address
            delivery["attachments"] = list(await files.resolve(owner, delivery["attachments"]))


async def renew(call: Call) -> Answer:
    kept, stopped = await _kept(call)
    return Answer({"status": "renewed", "renewed": kept, "stopped": stopped})


async def ack(call: Call) -> Answer:
    kept, stopped = await _kept(call)
    return Answer({"status": "acknowledged", "acknowledged": kept, "stopped": stopped})


async def _kept(call: Call) -> tuple[list[str], list[dict[str, str]]]:
    body = call.json()
    who, now = Registration.of(call, body), call.gateway.app.wall()
    held, draining = _held(who, body.get("deliveries", []), "deliveries"), body.get("draining") is True

    def work(tx: Tx) -> tuple[list[str], list[dict[str, str]]]:
        return _renewed(tx, held, now + who.keep(tx, now, draining) + SLACK)

    kept: tuple[list[str], list[dict[str, str]]] = await call.gateway.app.store.write(work)
    return kept


async def release(call: Call) -> Answer:
    body = call.json()
    who, now = Registration.of(call, body), call.gateway.app.wall()
    held = _held(who, body.get("deliveries", []), "deliveries")

    def work(tx: Tx) -> None:
        who.check(tx)
        _handed_back(tx, held, now)

    await call.gateway.app.store.write(work)
    return Answer({"status": "released"})


async def say(call: Call) -> Answer:
    body = call.json()
    who, held = _one(call, body)
    said = _events(call, body.get("events"), call.gateway.app.wall())
    batch = body.get("batch")
    if not isinstance(batch, str) or not 0 < len(batch) <= 128:
        words = "batch must be a text of 1 to 128 characters, a new one for each batch: one sent twice counts once."
        raise InvalidBody(words, field="batch")

    def work(tx: Tx) -> list[dict[str, str]]:
        who.check(tx)
        try:
            latest = ledger.append(tx, held, said, f"{held.run}:{batch}")
        except Fenced:
            return [_stopped(tx, held)]
        if latest // _THINNED != (latest - len(said)) // _THINNED:
            ledger.thin(tx, held.id, KEPT_DELTAS)
        return []

    return _heard(await call.gateway.app.store.write(work))


async def reply(call: Call) -> Answer:
    body = call.json()
    who, held = _one(call, body)
    now = call.gateway.app.wall()
    said = _events(call, body.get("events") or [], now)
    status = body.get("status")
    if status not in STATUSES:
        raise InvalidParam(f"status must be one of {', '.join(STATUSES)}.", field="status")
    ending = _paused(body, State(status)) if status.endswith("_required") else _end(call, body, status)

    def work(tx: Tx) -> list[dict[str, str]]:
        who.check(tx)
        return [] if ending(tx, held, said, now) else [_stopped(tx, held)]

    return _heard(await call.gateway.app.store.write(work))


def _heard(stopped: list[dict[str, str]]) -> Answer:
    return Answer({"status": "stopped" if stopped else "accepted", "stopped": stopped})


def _end(call: Call, body: Mapping[str, Any], status: str) -> Any:
    """How a turn ends, as a move of its task. Why it failed is told as the app tells its own failures."""
    result, reason, redactor = None, None, call.gateway.app.redactor
    if status == "completed":
        state = State.completed
        data = body["data"] if "data" in body else _words(body, "text", "")
        result = dumps({"ok": True, "data": data})
    elif status == "failed":
        state, reason = State.failed, redactor.text(_words(body, "error", "The agent failed."))
        failure = Failure(Kind.upstream, reason)
        result = dumps({"ok": False, "error": action_wire.render(failure, redactor)})
    else:
        state = State.rejected
        refused = _words(body, "reason", "The agent refused the request.")
        reason = BUSY if status == "busy" else redactor.text(refused)

    def ending(tx: Tx, held: Held, said: Sequence[Said], now: float) -> bool:
        return ledger.finish(tx, held, state, result, reason, said, now)

    return ending


def _paused(body: Mapping[str, Any], state: State) -> Any:
    question: dict[str, Any] = {"question": _words(body, "question", "")}
    if not question["question"]:
        raise InvalidBody("question must be a text that is not empty.", field="question")
    options = body.get("options") or []
    if not isinstance(options, list) or not all(isinstance(each, str) for each in options):
        raise InvalidBody("options must be a list of texts.", field="options")
    question["allow_multiple"] = bool(body.get("allowMultiple") and options)
    if options:
        question["options"] = options
    if isinstance(body.get("details"), dict):
        question["details"] = body["details"]

    def pausing(tx: Tx, held: Held, said: Sequence[Said], now: float) -> bool:
        return ledger.pause(tx, held, state, question, said, now)

    return pausing


def _topics(who: Registration) -> tuple[str, str]:
    return ledger.work_topic(who.queue), ledger.worker_topic(who.worker)


def _id_of(held: Held) -> str:
    return f"{held.id}.{held.run}"


def _one(call: Call, body: Mapping[str, Any]) -> tuple[Registration, Held]:
    who = Registration.of(call, body)
    return who, _held(who, [call.id("deliveryId")], "deliveryId")[0]


def _held(who: Registration, given: Any, name: str) -> list[Held]:
    if not isinstance(given, list) or len(given) > 10 * MOST:
        raise InvalidBody(f"{name} must be a list of at most {10 * MOST} deliveries.", field=name)
    found = []
    for each in given:
        named = _ID.fullmatch(each) if isinstance(each, str) else None
        if named is None:
            raise InvalidBody("A delivery is named by its deliveryId.", field=name)
        found.append(Held(named[1], int(named[2]), who.worker))
    return found


def _events(call: Call, given: Any, now: float) -> list[Said]:
    """What a turn says meanwhile, as the app shows what its own agents say."""
    if not isinstance(given, list) or len(given) > MOST_EVENTS:
        raise InvalidBody(f"events must be a list of at most {MOST_EVENTS}.", field="events")
    redactor = call.gateway.app.redactor
    return [_event(each, now, redactor) for each in given]


def _event(given: Any, now: float, redactor: Redactor) -> Said:
    about = given if isinstance(given, dict) else {}
    type, text = about.get("type"), redactor.text
    if type == "delta":
        return "delta", now, {"data": text(_words(about, "text", ""))}
    if type == "thinking":
        told = {"text": text(_words(about, "text", ""))}
        return "activity", now, _activity("thinking", "Thinking", None, told)
    if type == "output":
        return "output", now, {"text": text(_words(about, "text", ""))}
    if type == "draft" and isinstance(about.get("draft"), dict):
        return "draft", now, {"draft": shown(about["draft"], redactor)}
    if type == "activity":
        kind, title, detail = _words(about, "kind", "info"), _words(about, "title", ""), about.get("detail")
        data = about.get("data") if isinstance(about.get("data"), dict) else {}
        more = text(detail) if isinstance(detail, str) else None
        return "activity", now, _activity(kind, text(title), more, shown(data, redactor))
    words = "Each event must be an object whose type is delta, thinking, output, draft or activity."
    raise InvalidBody(words, field="events")


def _activity(kind: str, title: str, detail: str | None, data: Any) -> dict[str, Any]:
    told = {"kind": kind, "title": title, "data": data}
    return told if detail is None else {**told, "detail": detail}


def _words(body: Mapping[str, Any], name: str, usual: str) -> str:
    given = body.get(name)
    if given is None:
        return usual
    if not isinstance(given, str):
        raise InvalidBody(f"{name} must be a text.", field=name)
    return given


def _whole(body: Mapping[str, Any], name: str, usual: int, least: int, most: int) -> int:
    given = body.get(name)
    if given is None:
        return usual
    if type(given) is not int or not least <= given <= most:
        raise InvalidParam(f"{name} must be a whole number from {least} to {most}.", field=name)
    return given


_DELIVERIES: Final = "/api/v1/runtime/registrations/{agentId}/deliveries"
ROUTES: Final = (
    Route("POST", f"{_DELIVERIES}/read", read, "runtime.read", body=LARGE, counted=False),
    Route("POST", f"{_DELIVERIES}/renew", renew, "runtime.renew", body=LARGE, counted=False),
    Route("POST", f"{_DELIVERIES}/ack", ack, "runtime.ack", body=LARGE, counted=False),
    Route("POST", f"{_DELIVERIES}/release", release, "runtime.release", body=LARGE, counted=False),
    Route("POST", f"{_DELIVERIES}/{{deliveryId}}/say", say, "runtime.say", body=LARGE, counted=False),
    Route("POST", f"{_DELIVERIES}/{{deliveryId}}/reply", reply, "runtime.reply", body=LARGE, counted=False),
)
