"""What submitting promises: checked as a call, accepted once, in the order and at the time that was asked for."""

from __future__ import annotations

import asyncio
import base64
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairlead import App, Failure, Kind
from fairlead.runtime.identity import caller_of
from fairlead.store import Statement, Store, open_store
from fairlead.tasks import Rate, State, TaskRetry, Tasks
from tasks.app_under_test import Marks
from tasks.stage import PATIENCE, StartProcess, StartWorker, Where, ended


async def refusal(tasks: Tasks, *arguments: Any, **options: Any) -> Failure:
    with pytest.raises(Failure) as refused:
        await tasks.submit(*arguments, **options)
    return refused.value


async def test_a_submitted_call_is_run_and_its_result_kept(tasks: Tasks, worker: StartWorker) -> None:
    worker()
    task = await tasks.submit("add", {"a": 1, "b": 2}, title="Sum", metadata={"why": "test"})
    assert (task.state, task.title, task.metadata) == (State.queued, "Sum", {"why": "test"})
    (done,) = await ended(tasks, task)
    assert (done.state, done.data, done.attempt) == (State.completed, 3, 1)


async def test_a_task_is_found_by_the_beginning_of_its_id_among_those_of_others(tasks: Tasks) -> None:
    others = [await tasks.submit("echo", user="eve") for _ in range(8)]
    own = await tasks.submit("echo", user="ann")
    for length in (1, 4, 9, 12, 36):
        (found,) = await tasks.find(own.id[:length], caller=caller_of("ann", None), limit=2)
        assert found.id == own.id
    assert len(await tasks.find(own.id[:4], limit=20)) == len(others) + 1
    for nothing in ("~", "0~", "g", f"{own.id}0", own.id[:8] + "0", "a\x00", "a\udcff"):
        assert await tasks.find(nothing) == []


async def test_a_short_id_is_found_in_a_database_that_orders_texts_as_a_language_does(
    app: App, lettered_url: str
) -> None:
    with open_store(url=lettered_url) as store:
        tasks = Tasks(app, store)
        task = await tasks.submit("echo")
        assert [found.id for found in await tasks.find(task.id[:4])] == [task.id]


async def test_what_a_call_would_refuse_is_refused_when_it_is_submitted(tasks: Tasks) -> None:
    assert (await refusal(tasks, "ad", {})).kind is Kind.unknown_action
    assert (await refusal(tasks, "add", {"a": 1})).kind is Kind.invalid_input
    assert (await refusal(tasks, "buy")).kind is Kind.unauthenticated
    assert await tasks.counts() == {}


async def test_the_same_key_and_request_give_the_same_task(tasks: Tasks, worker: StartWorker) -> None:
    first = await tasks.submit("add", {"a": 1, "b": 2}, key="k")
    again = await tasks.submit("add", {"b": 2, "a": 1}, key="k")
    assert again.id == first.id
    worker()
    await ended(tasks, first)
    assert (await tasks.submit("add", {"a": 1, "b": 2}, key="k")).data == 3


async def test_the_same_key_with_another_request_is_a_conflict(tasks: Tasks) -> None:
    await tasks.submit("add", {"a": 1, "b": 2}, key="k")
    assert (await refusal(tasks, "add", {"a": 1, "b": 3}, key="k")).kind is Kind.conflict


async def test_a_long_key_and_a_long_slot_are_kept_in_every_database(
    tasks: Tasks, worker: StartWorker
) -> None:
    key, slot = ("".join(random.Random(each).choices("abcdefgh", k=20_000)) for each in (1, 2))
    first = await tasks.submit("add", {"a": 1, "b": 2}, key=key, slot=slot)
    assert (await tasks.submit("add", {"a": 1, "b": 2}, key=key)).id == first.id
    assert (await tasks.submit("add", {"a": 1, "b": 2}, key=f"{key}.")).id != first.id
    worker()
    assert (await ended(tasks, first))[0].data == 3


@pytest.mark.parametrize("odd", ["a\x00b", "a\udcffb"])
async def test_texts_that_a_database_cannot_keep_are_refused_or_mended_in_all_of_them(
    tasks: Tasks, odd: str
) -> None:
    for name in ("key", "slot"):
        assert (await refusal(tasks, "echo", **{name: odd})).field == name
    task = await tasks.submit("echo", title=odd)
    canceled = await tasks.cancel(task.id, odd)
    for kept in (canceled.title, canceled.reason):
        assert kept in ("a\ufffdb", "a?b")


async def test_an_id_of_half_characters_is_refused_and_not_an_error_of_ours(tasks: Tasks) -> None:
    with pytest.raises(Failure) as refused:
        await tasks.get("a\udcff")
    assert refused.value.kind is Kind.invalid_input


async def test_who_submits_may_say_what_tells_requests_with_one_key_apart(tasks: Tasks) -> None:
    first = await tasks.submit("add", {"a": 1, "b": 2}, key="k", request=b"the first")
    assert await tasks.submit("add", {"a": 1, "b": 3}, key="k", request=b"the first") == first
    asked = {"key": "k", "request": b"the second"}
    assert (await refusal(tasks, "add", {"a": 1, "b": 2}, **asked)).kind is Kind.conflict


async def test_callers_have_keys_of_their_own(tasks: Tasks) -> None:
    one = await tasks.submit("add", {"a": 1, "b": 2}, key="k", user={"id": 1})
    two = await tasks.submit("add", {"a": 3, "b": 4}, key="k", user={"id": 2})
    three = await tasks.submit("echo", key="k", user={"id": 1})
    assert len({one.id, two.id, three.id}) == 3


async def test_twenty_submits_at_once_in_two_processes_give_one_task(
    tasks: Tasks, process: StartProcess
) -> None:
    both = [process("same", name="k", count=10) for _ in range(2)]
    for each in both:
        each.go()
    ids = {line for each in both for line in each.rest()}
    assert len(ids) == 1
    assert await tasks.counts() == {"queued": 1}


async def test_a_given_id_is_the_tasks_and_is_given_once(tasks: Tasks) -> None:
    id = "0198a6de-0000-7000-8000-000000000001"
    assert (await tasks.submit("echo", {"value": 1}, id=id)).id == id
    assert (await tasks.submit("echo", {"value": 1}, id=id)).id == id
    assert (await refusal(tasks, "echo", {"value": 2}, id=id)).kind is Kind.conflict
    assert (await refusal(tasks, "add", {"a": 1, "b": 2}, id=id)).kind is Kind.conflict
    assert (await refusal(tasks, "echo", {"value": 1}, id=id, user={"id": 1})).kind is Kind.conflict
    assert (await refusal(tasks, "echo", id="me")).kind is Kind.invalid_input


async def test_a_deadline_may_be_seven_days_away_and_no_further(tasks: Tasks) -> None:
    task = await tasks.submit("echo", deadline=7 * 86_400)
    assert task.deadline is not None
    assert task.deadline - task.created == pytest.approx(7 * 86_400)
    for wrong in (7 * 86_400 + 1, 0, -1, float("nan")):
        assert (await refusal(tasks, "echo", deadline=wrong)).kind is Kind.invalid_input


async def test_other_wrong_options_are_refused(tasks: Tasks) -> None:
    wrong: list[dict[str, Any]] = [
        {"retry": -1},
        {"retry": "often"},
        {"retry": TaskRetry(delay=-1.0)},
        {"retry": TaskRetry(delay=float("nan"))},
        {"retry": TaskRetry(max_delay=float("inf"))},
        {"rate": Rate("k", limit=0)},
        {"rate": Rate("k", limit=1, per=0.0)},
        {"delay": -1},
        {"priority": 1001},
        {"slots": 0},
        {"max_attempts": 0},
        {"metadata": {"it": object()}},
        {"retry": TaskRetry(kinds=["bad luck"])},
    ]
    for options in wrong:
        assert (await refusal(tasks, "echo", **options)).kind is Kind.invalid_input


async def test_a_task_that_runs_past_its_deadline_is_stopped_and_times_out(
    tasks: Tasks, worker: StartWorker, marks: Marks
) -> None:
    worker()
    task = await tasks.submit("hold", {"name": "late"}, deadline=0.5)
    (done,) = await ended(tasks, task)
    assert (done.state, done.reason) == (State.timeout, "The deadline has passed.")
    await marks.seen("stopped-late")


async def test_a_task_that_is_taken_after_its_deadline_is_not_begun(
    tasks: Tasks, worker: StartWorker, marks: Marks
) -> None:
    task = await tasks.submit("hold", {"name": "late"}, deadline=1e-6)
    worker()
    (done,) = await ended(tasks, task)
    assert (done.state, done.reason) == (State.timeout, "The deadline has passed.")
    await ended(tasks, await tasks.submit("echo"))
    assert not marks.there("held-late")


async def test_what_a_run_says_when_its_deadline_stops_it_is_in_its_log(
    tasks: Tasks, worker: StartWorker
) -> None:
    worker()
    task = await tasks.submit("part", deadline=0.5)
    said = [(event.type, event.data.get("text")) async for event in tasks.events(task.id)]
    assert said == [("started", None), ("output", "fare"), ("output", "well"), ("terminal", None)]
    assert (await tasks.get(task.id)).state is State.timeout


async def test_a_task_that_nobody_takes_times_out(tasks: Tasks, worker: StartWorker, marks: Marks) -> None:
    worker(concurrency=1)
    busy = await tasks.submit("hold", {"name": "busy"})
    await marks.seen("held-busy")
    waiting = await tasks.submit("echo", deadline=0.2)
    (done,) = await ended(tasks, waiting)
    assert (done.state, done.started) == (State.timeout, None)
    marks.leave("go-busy")
    assert (await ended(tasks, busy))[0].state is State.completed


async def test_a_delayed_task_is_not_run_before_its_time(tasks: Tasks, worker: StartWorker) -> None:
    worker()
    task = await tasks.submit("echo", delay=0.5)
    (done,) = await ended(tasks, task)
    assert done.started is not None
    assert done.started >= task.created + 0.5
    assert done.state is State.completed


async def test_urgent_tasks_are_run_first_and_equal_ones_in_order(tasks: Tasks, worker: StartWorker) -> None:
    given = [await tasks.submit("echo", priority=priority) for priority in (0, 5, -5, 0, 5)]
    worker(concurrency=1)
    done = await ended(tasks, *given)
    order = sorted(done, key=lambda task: task.started or 0)
    assert [task.id for task in order] == [given[at].id for at in (1, 4, 0, 3, 2)]


async def test_many_are_submitted_all_or_none(tasks: Tasks, worker: StartWorker) -> None:
    inputs: list[dict[str, Any]] = [{"a": number, "b": 1} for number in range(100)]
    with pytest.raises(Failure) as refused:
        await tasks.submit_many("add", [*inputs, {"a": "x", "b": 1}])
    assert refused.value.details["index"] == 100
    assert await tasks.counts() == {}
    worker()
    ids = await tasks.submit_many("add", inputs)
    assert [task.data for task in await ended(tasks, *ids)] == list(range(1, 101))


async def test_a_batch_is_run_in_its_order(tasks: Tasks, worker: StartWorker) -> None:
    ids = await tasks.submit_many("echo", [{"value": number} for number in range(50)])
    worker(concurrency=1)
    done = await ended(tasks, *ids)
    assert sorted(done, key=lambda task: task.started or 0) == done


async def test_a_batch_is_entered_once_even_if_its_transaction_is_begun_again(
    tasks: Tasks, where: Where, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a lost connection, when nobody knows whether the first was committed, or will be."""
    with where.open() as other:
        write = tasks.store.write

        async def twice(work: Any) -> Any:
            await asyncio.gather(write(work), other.write(work))
            return await write(work)

        monkeypatch.setattr(tasks.store, "write", twice)
        await tasks.submit_many("echo", [{"value": number} for number in range(3000)])
    assert await tasks.counts() == {"queued": 3000}


async def test_inputs_of_a_batch_come_as_they_were_given(tasks: Tasks, worker: StartWorker) -> None:
    values = ["", '"', "\\", '{"a":"\\n"}', "a,b", "{}", "NULL", "ünï 🚢 \x00 \n", None, [1, {"b": [2.5]}]]
    worker()
    ids = await tasks.submit_many("echo", [{"value": value} for value in values])
    assert [task.data for task in await ended(tasks, *ids)] == values


async def test_ten_a_minute_are_accepted_under_one_key(tasks: Tasks) -> None:
    rate = Rate("plugin:agent", 10, 60)
    given = [tasks.submit("echo", {"value": number}, rate=rate) for number in range(15)]
    outcomes = await asyncio.gather(*given, return_exceptions=True)
    refused = [each for each in outcomes if isinstance(each, Failure)]
    assert len(refused) == 5
    assert {each.kind for each in refused} == {Kind.rate_limited}
    assert all(0 < (each.retry_after or 0) <= 60 for each in refused)
    assert await tasks.counts() == {"queued": 10}
    await tasks.submit("echo", rate=Rate("plugin:other", 10, 60))


async def test_a_repeated_submit_does_not_count_against_the_rate(tasks: Tasks) -> None:
    rate = Rate("few", 1, 60)
    first = await tasks.submit("echo", key="k", rate=rate)
    assert (await tasks.submit("echo", key="k", rate=rate)).id == first.id


async def test_no_more_run_at_once_under_one_name_than_it_has_slots_in_all_processes(
    tasks: Tasks, process: StartProcess, marks: Marks
) -> None:
    names = [f"s{number}" for number in range(5)]
    given = [await tasks.submit("hold", {"name": name}, slot="printer", slots=2) for name in names]
    other = await tasks.submit("hold", {"name": "free"}, slot="scanner")
    workers = [process("worker", concurrency=8) for _ in range(2)]
    await marks.seen("held-free")
    left = list(names)
    while left:
        # Whoever has started is let go one by one; the marks tell how many were there at once.
        held = [name for name in left if marks.there(f"held-{name}")]
        assert len(held) <= 2
        if held:
            marks.leave(f"go-{held[0]}")
            await ended(tasks, given[names.index(held[0])])
            left.remove(held[0])
        await asyncio.sleep(0)
    marks.leave("go-free")
    done = await ended(tasks, *given, other)
    assert {task.state for task in done} == {State.completed}
    del workers


async def test_slots_are_given_on_whatever_happens_to_those_who_have_them(
    tasks: Tasks, worker: StartWorker, store: Store
) -> None:
    for _ in range(3):
        worker(concurrency=4)
    actions = ["echo", "ask_auth", "echo", "flaky"]
    given = []
    for number in range(80):
        action = actions[number % 4]
        given.append(
            await tasks.submit(
                action,
                {"kind": "busy", "times": 1} if action == "flaky" else {},
                slot=f"s{number % 2}",
                delay=0.01 * (number % 3),
                retry=TaskRetry(2, 0.01),
            )
        )

    async def through(number: int) -> State:
        task = await tasks.wait(given[number].id, PATIENCE)
        if number % 5 == 0:
            return (await tasks.cancel(task.id)).state
        if task.state.paused:
            await tasks.answer(task.id, "yes")
            task = await tasks.wait(task.id, PATIENCE)
        return task.state

    assert set(await asyncio.gather(*map(through, range(80)))) == {State.completed, State.canceled}
    slots = await store.read(
        lambda tx: tx.all(Statement.of("SELECT name, taken FROM task_slots ORDER BY name"))
    )
    assert slots == [("s0", 0), ("s1", 0)]


async def test_an_identity_holds_when_the_task_is_run(tasks: Tasks, worker: StartWorker) -> None:
    worker()
    user = {"id": "ann", "permissions": ["shop:buy"]}
    (done,) = await ended(tasks, await tasks.submit("buy", user=user))
    assert (done.state, done.data) == (State.completed, user)


async def test_an_identity_that_is_an_object_keeps_its_permissions(tasks: Tasks, worker: StartWorker) -> None:
    class Member:
        id = "ann"
        scope = "shop:*"

    worker()
    (done,) = await ended(tasks, await tasks.submit("buy", user=Member()))
    assert (done.state, done.data) == (State.completed, {"id": "ann", "permissions": ["shop:*"]})


async def test_a_permission_that_was_taken_away_meanwhile_is_missed_at_run_time(
    where: Where, store: Store
) -> None:
    granted = True
    app = App("under test", permission_checker=lambda *_: granted)
    app.action(leave_home)
    tasks = where.tasks(app, store)
    task = await tasks.submit("leave_home")
    granted = False
    async with tasks.worker():
        (done,) = await ended(tasks, task)
    assert done.state is State.failed
    assert done.failure is not None
    assert done.failure.kind is Kind.forbidden
    await tasks.bus.close()


async def leave_home() -> None:
    """Leave."""


async def test_an_action_that_needs_a_token_needs_it_at_submit_and_runs_without_asking_again(
    tasks: Tasks, worker: StartWorker
) -> None:
    asked = await refusal(tasks, "destroy", {"what": "it"})
    assert asked.kind is Kind.needs_confirmation
    token = asked.details["confirmation"]["code"]
    assert (await refusal(tasks, "destroy", {"what": "all"}, confirm=token)).kind is Kind.needs_confirmation
    worker()
    (done,) = await ended(tasks, await tasks.submit("destroy", {"what": "it"}, confirm=token))
    assert (done.state, done.data) == (State.completed, "it")
    assert (await refusal(tasks, "destroy", {"what": "it"}, confirm=token)).kind is Kind.needs_confirmation


@pytest.mark.parametrize("form", ["local"], indirect=True)
async def test_secrets_of_an_identity_are_not_on_disk(
    tasks: Tasks, worker: StartWorker, store: Store
) -> None:
    worker()
    secrets = {"token": "tok-5f1e", "password": "pass-77aa", "api_key": "key-90bc"}
    given = [
        await tasks.submit("whoami", user={"id": "ann", **secrets}, key="k"),
        await tasks.submit("whoami", auth={"scopes": ["a"], **secrets}),
        await tasks.submit(
            "whoami", auth={"token": "tok-5f1e"}, user={"name": None, "password": "pass-77aa"}
        ),
    ]
    done = await ended(tasks, *given)
    assert {task.state for task in done} == {State.completed}
    listed, _ = await tasks.list(caller=given[0].caller)
    assert [task.id for task in listed] == [given[0].id]
    folder = tasks.store.name.rpartition("/")[0]
    kept = b"".join(path.read_bytes() for path in _files(folder))
    assert b"whoami" in kept
    for secret in secrets.values():
        assert secret.encode() not in kept


def _files(folder: str | Path) -> list[Any]:
    return [path for path in Path(folder).rglob("*") if path.is_file()]


def vault(redact: Any = None) -> App:
    app = App("vault", redact=redact)

    @app.action
    async def pay(amount: int, pin: str) -> str:
        """Pay."""
        return pin[-4:]

    @app.action
    async def keep(data: dict[str, Any]) -> int:
        """Keep some data."""
        return len(data)

    @app.action
    async def note(words: str) -> int:
        """Take a note."""
        return len(words)

    @app.action
    async def log_in(name: str, password: str) -> int:
        """Log in."""
        return len(password)

    @app.action
    async def scale(by: int, up: bool = True) -> int:
        """Scale, by numbers alone."""
        return by

    return app


def without_pins(value: Any) -> Any:
    """A developer's own function, which changes what it is given."""
    if isinstance(value, dict):
        value.pop("pin", None)
    return value


@pytest.mark.parametrize(
    ("redact", "action", "input"),
    [
        ({"keys": ["pin"]}, "pay", {"amount": 1, "pin": "CANARY-4711"}),
        (without_pins, "pay", {"amount": 1, "pin": "CANARY-4711"}),
        ({"keys": ["pin"]}, "keep", {"data": {"pin": "CANARY-4711"}}),
        (None, "keep", {"data": {"user": {"password": "CANARY-4711"}}}),
        (None, "keep", {"data": {"env": [{"name": "API_KEY", "value": "CANARY-4711"}]}}),
        (None, "note", {"words": "Send it with Authorization: Bearer CANARY-4711"}),
        (without_pins, "log_in", {"name": "ann", "password": "CANARY-4711"}),
    ],
)
async def test_what_the_app_would_hide_of_an_input_is_not_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redact: Any, action: str, input: Any
) -> None:
    monkeypatch.setenv("FAIRLEAD_DATA", str(tmp_path))
    tasks: Tasks = vault(redact).tasks
    one = await tasks.submit(action, input)
    many = await tasks.submit_many(action, [input, input])
    kept = b"".join(path.read_bytes() for path in _files(tmp_path))
    assert one.id.encode() in kept
    assert b"CANARY" not in kept
    async with tasks.worker():
        done = await ended(tasks, one, *[await tasks.get(id) for id in many])
    assert {task.state for task in done} == {State.completed}


@pytest.mark.parametrize(
    "option",
    [
        {"priority": 1.5},
        {"priority": True},
        {"priority": "5"},
        {"slot": "a", "slots": 1.5},
        {"max_attempts": 2.5},
    ],
)
async def test_a_number_that_not_every_database_can_keep_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: dict[str, Any]
) -> None:
    monkeypatch.setenv("FAIRLEAD_DATA", str(tmp_path))
    tasks: Tasks = vault(None).tasks
    name = list(option)[-1]
    for submitted in (
        tasks.submit("scale", {"by": 1}, **option),
        tasks.submit_many("scale", [{"by": 1}], **option),
    ):
        with pytest.raises(Failure, match=f"{name} must be a whole number") as refused:
            await submitted
        assert (refused.value.kind, refused.value.field) == (Kind.invalid_input, name)


@pytest.mark.parametrize("user", ["ann\ud800", {"id": "ann\ud800"}])
async def test_a_caller_of_half_characters_is_refused_by_saying_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: Any
) -> None:
    monkeypatch.setenv("FAIRLEAD_DATA", str(tmp_path))
    refused = await refusal(vault().tasks, "scale", {"by": 1}, user=user)
    assert refused.kind is Kind.misconfigured
    assert "half a character" in refused.message
    assert "has no id" not in refused.message


async def test_inputs_with_nothing_to_hide_are_kept_as_they_are_and_need_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRLEAD_DATA", str(tmp_path))
    asked: list[Any] = []

    def seen(value: Any) -> Any:
        asked.append(value)
        return value

    looks: list[tuple[Callable[[Any], Any] | None, str, Any]] = [
        (None, "scale", {"by": 3}),
        (None, "note", {"words": "Buy rope: 3 m, and a token of thanks."}),
        (seen, "keep", {"data": {"user": "ann"}}),
    ]
    for redact, action, input in looks:
        task = await vault(redact).tasks.submit(action, input)
        assert task.sealed_input.startswith("{")
    assert asked[-1] == {"data": {"user": "ann"}}
    assert not [path for path in _files(tmp_path) if path.suffix == ".key"]


async def test_of_many_inputs_those_with_secrets_are_sealed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRLEAD_DATA", str(tmp_path))
    tasks: Tasks = vault().tasks
    ids = await tasks.submit_many("keep", [{"data": {"a": 1}}, {"data": {"password": "x"}}, {"data": {}}])
    kept = [(await tasks.get(id)).sealed_input for id in ids]
    assert [input.startswith("{") for input in kept] == [True, False, True]


async def test_a_retry_by_a_program_that_has_no_such_action_keeps_what_was_sealed_in_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRLEAD_DATA", str(tmp_path))
    tasks: Tasks = vault().tasks
    first = await tasks.submit("log_in", {"name": "ann", "password": "CANARY-4711"})
    await tasks.cancel(first.id)
    others: Tasks = App("vault").tasks
    again = await others.retry(first.id)
    assert again.sealed_input.startswith("sealed1.")
    async with tasks.worker():
        (done,) = await ended(tasks, again)
    assert done.state is State.completed


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("delay", "1"),
        ("deadline", "5"),
        ("title", 5),
        ("metadata", "none"),
        ("parent", 5),
        ("slot", 5),
        ("key", 4711),
        ("request", "text"),
        ("rate", ("k", 5)),
        ("rate", Rate("k", "5")),  # type: ignore[arg-type]
        ("retry", [1]),
        ("retry", TaskRetry(kinds=5)),  # type: ignore[arg-type]
        ("retry", TaskRetry(kinds="busy")),
    ],
)
async def test_an_argument_of_a_wrong_type_is_refused_by_its_name(
    tasks: Tasks, field: str, given: Any
) -> None:
    refused = await refusal(tasks, "echo", **{field: given})
    assert (refused.kind, refused.field) == (Kind.invalid_input, field)
    assert await tasks.counts() == {}


async def test_what_is_asked_of_a_list_a_cancel_or_a_log_is_refused_by_its_name(tasks: Tasks) -> None:
    task = await tasks.submit("echo")
    asked: list[tuple[str, Callable[[], Any]]] = [
        ("limit", lambda: tasks.list(limit=2.5)),  # type: ignore[arg-type]
        ("limit", lambda: tasks.find("", limit="5")),  # type: ignore[arg-type]
        ("before", lambda: tasks.list(before=5)),  # type: ignore[arg-type]
        ("reason", lambda: tasks.cancel(task.id, reason=5)),  # type: ignore[arg-type]
        ("timeout", lambda: tasks.wait(task.id, "5")),  # type: ignore[arg-type]
        ("since", lambda: anext(tasks.events(task.id, 2**70))),
        ("id", lambda: tasks.get(5)),  # type: ignore[arg-type]
        ("id", lambda: tasks.cancel(None)),  # type: ignore[arg-type]
        ("id", lambda: tasks.answer(5)),  # type: ignore[arg-type]
        ("id", lambda: tasks.retry(b"x")),  # type: ignore[arg-type]
        ("id", lambda: tasks.wait(5)),  # type: ignore[arg-type]
        ("id", lambda: anext(tasks.events(5))),  # type: ignore[arg-type]
        ("prefix", lambda: tasks.find(5)),  # type: ignore[arg-type]
        ("caller", lambda: tasks.get(task.id, caller=5)),  # type: ignore[arg-type]
        ("caller", lambda: tasks.list(caller=["x"])),  # type: ignore[arg-type]
        ("parent", lambda: tasks.list(parent=5)),  # type: ignore[arg-type]
        ("inputs", lambda: tasks.submit_many("echo", 5)),  # type: ignore[arg-type]
        ("surface", lambda: tasks.submit("echo", surface=["x"])),  # type: ignore[arg-type]
    ]
    for field, ask in asked:
        with pytest.raises(Failure) as refused:
            await ask()
        assert (refused.value.kind, refused.value.field) == (Kind.invalid_input, field)


@pytest.mark.parametrize("options", [{"concurrency": 0}, {"lease": 0}, {"lease": "x"}, {"look": 0}])
def test_a_worker_that_would_take_nothing_or_keep_nothing_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(Failure) as refused:
        vault().tasks.worker(**options)
    assert refused.value.field in options


async def test_a_sealed_task_is_left_to_a_worker_that_has_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRLEAD_DATA", str(tmp_path))
    monkeypatch.setattr("fairlead.tasks.worker._LONGEST_PAUSE", 0.05)
    begun, free = asyncio.Event(), asyncio.Event()
    app = vault()

    @app.action
    async def block() -> None:
        """Keep a worker busy."""
        begun.set()
        await free.wait()

    tasks: Tasks = app.tasks
    async with tasks.worker(concurrency=1):
        blocking = await tasks.submit("block")
        await begun.wait()
        sealed = await tasks.submit("log_in", {"name": "ann", "password": "CANARY-4711"})
        monkeypatch.setenv("FAIRLEAD_SECRET_KEY", base64.b64encode(bytes(32)).decode())
        async with vault().tasks.worker():
            async for event in tasks.events(sealed.id):
                if event.type == "log":
                    break
        monkeypatch.delenv("FAIRLEAD_SECRET_KEY")
        free.set()
        done, _ = await ended(tasks, sealed, blocking)
    assert (event.data["level"], done.state, done.attempt) == ("warn", State.completed, 1)


async def test_a_sealed_task_that_nobody_has_the_key_for_ends_by_saying_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRLEAD_DATA", str(tmp_path))
    tasks: Tasks = vault().tasks
    sealed = await tasks.submit("log_in", {"name": "ann", "password": "CANARY-4711"})
    with monkeypatch.context() as other:
        other.setenv("FAIRLEAD_SECRET_KEY", base64.b64encode(bytes(32)).decode())
        async with vault().tasks.worker():
            (done,) = await ended(tasks, sealed)
    assert done.state is State.failed
    assert "key" in (done.reason or "")
    # It can be tried again where the key is.
    again = await tasks.retry(sealed.id)
    async with tasks.worker():
        assert (await ended(tasks, again))[0].state is State.completed


async def test_callers_that_differ_only_in_a_secret_do_not_get_each_others_results(
    tasks: Tasks, worker: StartWorker
) -> None:
    worker()
    given = [await tasks.submit("once", key="k", auth={"token": name}) for name in ("one", "two")]
    one, two = await ended(tasks, *given)
    assert one.data != two.data


async def test_what_json_can_hold_comes_through_unchanged(tasks: Tasks, worker: StartWorker) -> None:
    worker()
    value = {"text": "tea ☕ \x00 end", "big": 2**70, "deep": [[{"a": None}]], "float": 0.1, "empty": ""}
    (done,) = await ended(tasks, await tasks.submit("echo", {"value": value}))
    assert done.data == value
