"""What a task's log promises: everything in order, live or later, from any process, from any offset."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from fairlead import App, Context, Failure, Kind
from fairlead.store import Store
from fairlead.tasks import Event, State, Tasks, ledger
from tasks.app_under_test import Marks
from tasks.stage import StartProcess, StartWorker, ended


async def log(tasks: Tasks, id: str, since: int = 0, follow: bool = False) -> list[Event]:
    return [event async for event in tasks.events(id, since, follow=follow)]


def in_order(events: list[Event]) -> bool:
    offsets = [event.offset for event in events]
    return offsets == sorted(set(offsets))


async def test_everything_a_task_says_is_in_its_log_in_order(tasks: Tasks, worker: StartWorker) -> None:
    worker()
    task = await tasks.submit("speak", {"lines": 3})
    events = await log(tasks, task.id, follow=True)
    assert in_order(events)
    assert [event.type for event in events if event.type not in ("activity", "draft", "output")] == [
        "started", "log", "log", "log", "progress", "artifact", "terminal",
    ]  # fmt: skip
    said = {event.type: event.data for event in events}
    assert said["activity"] == {"kind": "search", "title": "Looking", "detail": "everywhere"}
    assert said["draft"] == {"draft": {"text": "so far"}}
    assert said["output"] == {"text": "done"}
    assert said["progress"]["percent"] == 50
    assert said["artifact"]["artifact"]["name"] == "report.txt"
    assert said["terminal"] == {"state": "completed"}
    assert [event.data["fields"] for event in events if event.type == "log"] == [
        {"number": number} for number in range(3)
    ]


async def test_what_a_task_tells_of_itself_is_shown_as_the_app_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRLEAD_DATA", str(tmp_path))
    app = App("teller", redact={"keys": ["customer_code"]})

    @app.action(side_effects="write")
    async def tell(ctx: Context) -> None:
        """Tell of it."""
        assert ctx.task is not None
        ctx.task.activity("search", "customer_code=CANARY", "password=CANARY")
        ctx.task.draft({"customer_code": "CANARY", "lines": ["Bearer CANARY0123456789"]})
        ctx.task.output("with customer_code=CANARY, done")

    task = await app.tasks.submit("tell")
    async with app.tasks.worker():
        events = await log(app.tasks, task.id, follow=True)
    app.store.close()
    said = {event.type: event.data for event in events}
    assert said["activity"] == {
        "kind": "search", "title": "customer_code=[REDACTED]", "detail": "password=[REDACTED]",
    }  # fmt: skip
    assert said["draft"] == {"draft": {"customer_code": "[REDACTED]", "lines": ["Bearer [REDACTED]"]}}
    assert said["output"] == {"text": "with customer_code=[REDACTED], done"}


async def test_what_a_task_asks_is_shown_as_the_app_shows_it_and_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRLEAD_DATA", str(tmp_path))
    app = App("asker", redact={"keys": ["customer_code"]})

    @app.action(side_effects="write")
    async def ask(ctx: Context) -> str:
        """Ask about a file."""
        assert ctx.task is not None
        name = b"caf\xe9".decode(errors="surrogateescape")
        about = {"customer_code": "CANARY", "pages": 1}
        told: str = ctx.task.ask(f"Send {name} with password=CANARY?", ["yes", "key=CANARY"], details=about)
        return told

    task = await app.tasks.submit("ask")
    async with app.tasks.worker():
        await app.tasks.wait(task.id)
        [listed], _ = await app.tasks.list()
        # What can be answered is as it is.
        await app.tasks.answer(task.id, "key=CANARY")
        done = await app.tasks.wait(task.id)
    app.store.close()
    assert listed.question is not None
    assert "CANARY" not in listed.question["question"]
    assert listed.question["details"] == {"customer_code": "[REDACTED]", "pages": 1}
    assert done.state is State.completed


async def test_a_log_is_read_from_any_offset_and_to_its_present_end(
    tasks: Tasks, worker: StartWorker
) -> None:
    worker()
    (task,) = await ended(tasks, await tasks.submit("speak", {"lines": 2500}))
    events = await log(tasks, task.id)
    assert in_order(events)
    assert sum(event.type == "log" for event in events) == 2500
    for at in (0, 1, 999, 1000, 1001, len(events) - 2):
        assert await log(tasks, task.id, events[at].offset, follow=True) == events[at + 1 :]
    assert await log(tasks, task.id, task.latest, follow=True) == []
    assert await log(tasks, task.id, 10**9, follow=True) == []


async def test_a_log_that_is_not_followed_ends_where_it_is(tasks: Tasks) -> None:
    task = await tasks.submit("echo")
    assert await log(tasks, task.id) == []


async def test_a_log_is_followed_live_from_another_process(
    tasks: Tasks, process: StartProcess, worker: StartWorker, marks: Marks
) -> None:
    task = await tasks.submit("hold", {"name": "it"})
    tail = process("tail", name=task.id)
    worker()
    started = json.loads(await asyncio.to_thread(tail.line))
    assert started["type"] == "started"
    marks.leave("go-it")
    rest = [json.loads(line) for line in await asyncio.to_thread(tail.rest)]
    assert [event["type"] for event in rest] == ["terminal"]
    assert tail.ended() == 0


async def test_deltas_are_joined_and_nothing_of_them_is_missing(tasks: Tasks, worker: StartWorker) -> None:
    worker()
    task = await tasks.submit("talk", {"words": 5000})
    events = await log(tasks, task.id, follow=True)
    deltas = [event for event in events if event.type == "delta"]
    assert "".join(event.data["data"] for event in deltas) == "".join(f"{number} " for number in range(5000))
    assert len(deltas) < 1000
    assert in_order(events)


@pytest.mark.parametrize("sizes", [[10_000] * 300, [5, 3_000_000, 5]])
async def test_more_text_than_a_message_holds_is_told_once_and_in_order(
    tasks: Tasks, worker: StartWorker, sizes: list[int]
) -> None:
    worker()
    task = await tasks.submit("pour", {"sizes": sizes})
    events = await log(tasks, task.id, follow=True)
    told = [event.data["data"]["text"] for event in events if event.type == "delta"]
    assert told == [f"{number}".ljust(size) for number, size in enumerate(sizes)]
    assert in_order(events)
    assert await log(tasks, task.id) == events
    assert (await tasks.get(task.id)).attempt == 1


@pytest.mark.parametrize("form", ["local", "postgres"], indirect=True)
async def test_forgotten_deltas_are_told_of_and_the_rest_stays(
    tasks: Tasks, worker: StartWorker, store: Store
) -> None:
    worker()
    (task,) = await ended(tasks, await tasks.submit("talk", {"words": 50}))
    before = await log(tasks, task.id)
    await store.write(lambda tx: ledger.prune(tx, 0.0, task.created + 3600))
    (notice, *rest) = await log(tasks, task.id, follow=True)
    last = max(event.offset for event in before if event.type == "delta")
    assert (notice.type, notice.data) == ("truncated", {"oldest": last + 1, "since": 0})
    assert rest == [event for event in before if event.type != "delta"]
    assert (await log(tasks, task.id, last)) == [before[-1]]
    assert (await tasks.get(task.id)).oldest == last


@pytest.mark.parametrize("form", ["local", "postgres"], indirect=True)
async def test_a_reader_is_told_of_deltas_that_were_forgotten_while_he_was_slow(
    tasks: Tasks, worker: StartWorker, store: Store
) -> None:
    worker()
    (task,) = await ended(tasks, await tasks.submit("count", {"to": 2500}))
    tail = aiter(tasks.events(task.id))
    seen = [await anext(tail)]
    await store.write(lambda tx: ledger.thin(tx, task.id, 100))
    seen += [event async for event in tail]
    (notice,) = [event for event in seen if event.type == "truncated"]
    at = seen.index(notice)
    assert notice.data == {"since": seen[at - 1].offset, "oldest": seen[at + 1].offset}
    assert in_order([event for event in seen if event is not notice])
    assert [event.data["data"]["number"] for event in seen[-101:-1]] == list(range(2400, 2500))


@pytest.mark.parametrize("form", ["local", "postgres"], indirect=True)
async def test_tasks_that_ended_long_ago_are_forgotten_and_no_others(
    tasks: Tasks, worker: StartWorker, store: Store
) -> None:
    waiting = await tasks.submit("echo", delay=3600)
    worker()
    (done,) = await ended(tasks, await tasks.submit("speak", {"lines": 2}))
    assert done.ended is not None
    edge = done.ended
    assert await store.write(lambda tx: ledger.prune(tx, edge, 0.0)) == 0
    assert await store.write(lambda tx: ledger.prune(tx, edge + 1, 0.0)) == 1
    with pytest.raises(Failure) as gone:
        await tasks.get(done.id)
    assert gone.value.kind is Kind.not_found
    assert (await tasks.get(waiting.id)).state is State.queued
    assert await store.read(lambda tx: ledger.events(tx, done.id, 0, 10)) == []


async def test_a_thousand_tails_in_one_process_all_end(
    tasks: Tasks, worker: StartWorker, marks: Marks
) -> None:
    worker()
    given = [await tasks.submit("hold", {"name": f"h{number}"}) for number in range(10)]
    tails = [asyncio.ensure_future(log(tasks, given[number % 10].id, follow=True)) for number in range(1000)]
    await asyncio.gather(*(marks.seen(f"held-h{number}") for number in range(10)))
    for number in range(10):
        marks.leave(f"go-h{number}")
    for events in await asyncio.gather(*tails):
        assert [event.type for event in events] == ["started", "terminal"]


async def test_a_tail_hears_of_a_cancel(tasks: Tasks, worker: StartWorker, marks: Marks) -> None:
    worker()
    task = await tasks.submit("hold", {"name": "it"})
    tail = asyncio.ensure_future(log(tasks, task.id, follow=True))
    await marks.seen("held-it")
    await tasks.cancel(task.id, "enough")
    events = await tail
    assert (events[-1].type, events[-1].data) == ("terminal", {"state": "canceled", "reason": "enough"})


async def test_what_cannot_be_written_is_refused_to_the_one_who_said_it(
    tasks: Tasks, worker: StartWorker
) -> None:
    worker()
    (done,) = await ended(tasks, await tasks.submit("mumble"))
    assert (done.state, done.data) == (State.completed, "invalid_input")
