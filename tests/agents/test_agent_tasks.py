"""An agent as a durable task: its pauses hold no worker, and a run that is lost goes on from what was kept."""

from __future__ import annotations

import asyncio
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agents.agent_under_test import build
from pydantic import SecretStr

from fairlead import App, Context, Kind
from fairlead.agents import Agent, Limits, Policy
from fairlead.agents.models.model import Usage
from fairlead.agents.models.script import ScriptModel, Turn, call
from fairlead.failures import StoreFailure
from fairlead.store import Store
from fairlead.tasks import TaskRetry, Tasks, Worker
from warm import Warm
from warm_child import Child

StartProcess = Callable[[], "subprocess.Popen[str]"]


@pytest.fixture
def app(tmp_path: Path, store_url: str) -> App:
    made = App("shop", store=store_url)

    @made.action(side_effects="write", requires_confirmation=True)
    async def wipe(name: str) -> str:
        """Wipe a shelf."""
        with (tmp_path / "wiped").open("a") as file:
            file.write(f"{name}\n")
        return f"wiped {name}"

    return made


@pytest.fixture
async def worker(app: App) -> AsyncIterator[Worker]:
    started = app.tasks.worker()
    started.start()
    yield started
    await started.stop()
    app.store.close()


def agent(app: App, *turns: Any) -> ScriptModel:
    model = ScriptModel(turns, follow="conversation")
    app.add(Agent("clerk", model=model, instructions="You are a clerk.", tools=["wipe"]).action)
    return model


async def paused(tasks: Tasks, id: str) -> dict[str, Any]:
    """Wait until a task asks something; gives what it asks."""
    asked = [event async for event in _until(tasks, id, "clarification")]
    return asked[-1]


async def _until(tasks: Tasks, id: str, type: str, count: int = 1) -> AsyncIterator[dict[str, Any]]:
    async for event in tasks.events(id):
        if event.type == type:
            yield event.data
            count -= 1
            if not count:
                return


async def test_an_agent_runs_as_a_task_and_says_what_it_does(app: App, worker: Worker) -> None:
    agent(app, call("todo", markdown="- [ ] look"), "All is well.")
    task = await app.tasks.submit("clerk", {"prompt": "Go."})
    done = await app.tasks.wait(task.id)
    assert done.data == "All is well."
    events = [event async for event in app.tasks.events(task.id)]
    said = [event.data["kind"] for event in events if event.type == "activity"]
    assert said == ["tool_call", "todo", "tool_result"]


class Stumbling:
    """A store whose disk is full for one write."""

    def __init__(self, store: Store, at: int) -> None:
        self._store = store
        self._left = at

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write(self, work: Any) -> Any:
        self._left -= 1
        if not self._left:
            raise StoreFailure(Kind.unavailable, "The store has no room on its disk.")
        return await self._store.write(work)


@pytest.mark.parametrize("at", range(1, 9))
async def test_a_run_whose_conversation_could_not_be_written_goes_on_from_what_was_kept(
    app: App, worker: Worker, at: int
) -> None:
    stamped: list[str] = []

    @app.action(side_effects="write")
    async def stamp(name: str) -> str:
        """Stamp it."""
        stamped.append(name)
        return "stamped"

    model = ScriptModel([call("stamp", name="a"), "Done."], follow="conversation")
    app.add(Agent("porter", model=model, instructions="You stamp.", tools=["stamp"]).action)
    app.conversations._store = Stumbling(app.store, at)  # type: ignore[assignment]
    task = await app.tasks.submit("porter", {"prompt": "Go."}, retry=TaskRetry(delay=0.01))
    assert (await app.tasks.wait(task.id)).data == "Done."
    assert stamped == ["a"]


async def test_a_question_pauses_the_task_and_its_answer_resumes_the_same_run(
    app: App, worker: Worker
) -> None:
    model = agent(app, call("clarify", question="Which?", options=["red", "blue"]), "Red it is.")
    task = await app.tasks.submit("clerk", {"prompt": "Go."})
    asked = await paused(app.tasks, task.id)
    assert asked["question"] == "Which?"
    assert asked["options"] == ["red", "blue"]
    await app.tasks.answer(task.id, "red")
    assert (await app.tasks.wait(task.id)).data == "Red it is."
    assert len(model.requests) == 2
    assert "red" in model.requests[-1].messages[-1].content


async def test_an_approval_pauses_the_task_and_a_yes_lets_the_tool_run_once(
    app: App, worker: Worker, tmp_path: Path
) -> None:
    agent(app, call("wipe", name="a"), "Done.")
    task = await app.tasks.submit("clerk", {"prompt": "Go."})
    asked = await paused(app.tasks, task.id)
    assert asked["details"]["approval"]["tool"] == "wipe"
    assert not (tmp_path / "wiped").exists()
    await app.tasks.answer(task.id, "approve")
    assert (await app.tasks.wait(task.id)).data == "Done."
    assert (tmp_path / "wiped").read_text() == "a\n"


async def test_a_no_is_told_to_the_model(app: App, worker: Worker, tmp_path: Path) -> None:
    model = agent(app, call("wipe", name="a"), "All right.")
    task = await app.tasks.submit("clerk", {"prompt": "Go."})
    await paused(app.tasks, task.id)
    await app.tasks.answer(task.id, "deny")
    assert (await app.tasks.wait(task.id)).data == "All right."
    assert '"kind":"user_denied"' in model.requests[-1].messages[-1].content
    assert not (tmp_path / "wiped").exists()


async def test_answers_go_to_their_questions_over_several_pauses(
    app: App, worker: Worker, tmp_path: Path
) -> None:
    agent(
        app,
        [call("wipe", name="a"), call("wipe", name="b")],
        call("clarify", question="And now?"),
        call("wipe", name="c"),
        "Done.",
    )
    task = await app.tasks.submit("clerk", {"prompt": "Go."})
    for count, answer in enumerate(["approve", "approve", "one more", "approve"], start=1):
        async for _ in _until(app.tasks, task.id, "clarification", count):
            pass
        await app.tasks.answer(task.id, answer)
    assert (await app.tasks.wait(task.id)).data == "Done."
    assert sorted((tmp_path / "wiped").read_text().split()) == ["a", "b", "c"]
    # However often it was run, each thing is told once.
    events = [event.data async for event in app.tasks.events(task.id) if event.type == "activity"]
    told = [(each["kind"], each["data"]["id"]) for each in events if "id" in each["data"]]
    assert len(set(told)) == len(told)
    assert Counter(kind for kind, _ in told) == {
        "tool_call": 4,
        "tool_result": 4,
        "approval": 3,
        "clarification": 1,
    }


async def test_a_secret_in_a_call_outlives_the_pause_and_is_never_kept_in_the_clear(
    app: App, worker: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRLEAD_SECRET_KEY", f"file:{tmp_path / 'secret.key'}")
    got: list[str] = []

    @app.action(side_effects="write", requires_confirmation=True)
    async def unlock(password: str, code: SecretStr) -> str:
        """Unlock the shop."""
        got.extend((password, code.get_secret_value()))
        return "open"

    model = ScriptModel(
        [call("unlock", password="open sesame", code="4711-4712"), "Open."], follow="conversation"
    )
    app.add(Agent("porter", model=model, instructions="You open doors.", tools=["unlock"]).action)
    task = await app.tasks.submit("porter", {"prompt": "Go."})
    await paused(app.tasks, task.id)
    conversation, kept = await app.conversations.get(task.id, "")
    for secret in ("open sesame", "4711-4712"):
        assert secret not in f"{conversation} {kept}"
    await app.tasks.answer(task.id, "approve")
    assert (await app.tasks.wait(task.id)).data == "Open."
    assert got == ["open sesame", "4711-4712"]


async def answered(tasks: Tasks, id: str, *answers: str) -> list[str]:
    """Answer a task's questions one after the other; gives what was asked."""
    asked: list[str] = []
    for count, answer in enumerate(answers, start=1):
        question = [data async for data in _until(tasks, id, "clarification", count)][-1]
        asked.append(question["question"])
        await tasks.answer(id, answer)
    return asked


async def test_an_agent_that_is_a_tool_asks_through_the_task_and_gets_its_own_answers(
    app: App, worker: Worker, tmp_path: Path
) -> None:
    helper = ScriptModel(
        [call("clarify", question="Which shelf?"), call("wipe", name="b"), "Helped."], follow="conversation"
    )
    app.add(Agent("helper", model=helper, instructions="You help.", tools=["wipe"]).action)
    boss = ScriptModel(
        [call("wipe", name="a"), call("helper", prompt="Go."), call("wipe", name="c"), "Done."],
        follow="conversation",
    )
    app.add(Agent("boss", model=boss, instructions="You lead.", tools=["wipe", "helper"]).action)
    task = await app.tasks.submit("boss", {"prompt": "Go."})
    asked = await answered(app.tasks, task.id, "approve", "the upper one", "approve", "deny")
    assert asked == ["May boss use wipe?", "Which shelf?", "May helper use wipe?", "May boss use wipe?"]
    assert (await app.tasks.wait(task.id)).data == "Done."
    assert (tmp_path / "wiped").read_text() == "a\nb\n"
    assert "the upper one" in helper.requests[1].messages[-1].content
    assert "Helped." in boss.requests[2].messages[-1].content


async def test_tools_that_ask_side_by_side_each_get_their_own_answer_and_nothing_is_done_twice(
    app: App, worker: Worker, tmp_path: Path
) -> None:
    @app.action(side_effects="write")
    async def note(name: str, ctx: Context) -> str:
        """Write a name down."""
        with (tmp_path / "noted").open("a") as file:
            file.write(f"{name}\n")
        return name

    @app.action(side_effects="write")
    async def paint(name: str, ctx: Context) -> str:
        """Paint something in two colours."""
        assert ctx.task is not None
        first = ctx.task.ask(f"First colour of {name}?")
        return f"{name}: {first} and {ctx.task.ask(f'Second colour of {name}?')}"

    turn = [call("paint", name="door"), call("note", name="x"), call("paint", name="wall")]
    model = ScriptModel([turn, "Done."], follow="conversation")
    app.add(Agent("painter", model=model, instructions="You paint.", tools=["note", "paint"]).action)
    task = await app.tasks.submit("painter", {"prompt": "Go."})
    asked = await answered(app.tasks, task.id, "red", "blue", "green", "grey")
    colours = dict(zip(asked, ["red", "blue", "green", "grey"], strict=True))
    assert (await app.tasks.wait(task.id)).data == "Done."
    assert (tmp_path / "noted").read_text() == "x\n"
    said = "".join(each.content for each in model.requests[-1].messages if each.role == "tool")
    for name in ("door", "wall"):
        first, second = colours[f"First colour of {name}?"], colours[f"Second colour of {name}?"]
        assert f"{name}: {first} and {second}" in said


async def test_a_pause_does_not_give_a_run_its_limits_anew(app: App, worker: Worker) -> None:
    turns = [Turn(calls=(call("clarify", question="And?"),), usage=Usage(input=90, output=10))] * 9
    model = ScriptModel(turns, follow="conversation")
    policy = Policy(limits=Limits(tokens=300))
    app.add(Agent("clerk", model=model, instructions="You are a clerk.", policy=policy).action)
    task = await app.tasks.submit("clerk", {"prompt": "Go."})
    await answered(app.tasks, task.id, "one", "two", "three")
    ended = await app.tasks.wait(task.id)
    assert ended.state.value == "failed"
    assert len(model.requests) == 3


async def test_what_an_agent_that_is_a_tool_used_before_a_pause_is_paid_once(
    app: App, worker: Worker
) -> None:
    turns = [Turn(calls=(call("clarify", question="And?"),), usage=Usage(input=90, output=10))] * 9
    helper = ScriptModel(turns, follow="conversation")
    app.add(Agent("helper", model=helper, instructions="You help.").action)
    boss = ScriptModel([[call("helper", prompt="Go."), call("todo", items=[])]], follow="conversation")
    policy = Policy(limits=Limits(tokens=300))
    app.add(Agent("boss", model=boss, instructions="You lead.", tools=["helper"], policy=policy).action)
    task = await app.tasks.submit("boss", {"prompt": "Go."})
    await answered(app.tasks, task.id, "one", "two", "three")
    ended = await app.tasks.wait(task.id)
    assert ended.failure is not None
    assert ended.failure.code == "budget_exceeded"
    assert len(helper.requests) == 3


async def test_what_a_run_asks_is_no_call_of_its_limit(app: App, worker: Worker) -> None:
    model = ScriptModel(
        [call("clarify", question="Which?"), call("wipe", name="b"), "Done."], follow="conversation"
    )
    policy = Policy(limits=Limits(tool_calls=1))
    app.add(Agent("clerk", model=model, instructions="You help.", tools=["wipe"], policy=policy).action)
    task = await app.tasks.submit("clerk", {"prompt": "Go."})
    await answered(app.tasks, task.id, "b", "approve")
    assert (await app.tasks.wait(task.id)).data == "Done."


async def test_a_call_that_waits_for_an_answer_is_one_call(app: App, worker: Worker) -> None:
    helper = ScriptModel(
        [call("clarify", question="Which?"), call("wipe", name="b"), "Helped."], follow="conversation"
    )
    app.add(Agent("helper", model=helper, instructions="You help.", tools=["wipe"]).action)
    boss = ScriptModel([call("helper", prompt="Go."), "Done."], follow="conversation")
    policy = Policy(limits=Limits(tool_calls=2))
    app.add(Agent("boss", model=boss, instructions="You lead.", tools=["helper"], policy=policy).action)
    task = await app.tasks.submit("boss", {"prompt": "Go."})
    await answered(app.tasks, task.id, "b", "approve")
    assert (await app.tasks.wait(task.id)).data == "Done."
    assert "Helped." in boss.requests[-1].messages[-1].content


@pytest.fixture
def process(tmp_path: Path, store_url: str, warm_python: Warm) -> Iterator[StartProcess]:
    """Start a worker in a process of its own; it is killed at the end."""
    started: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        program = Path(__file__).with_name("agent_under_test.py")
        new = Child(warm_python, str(program), str(tmp_path), store_url, stdout=subprocess.PIPE, text=True)
        started.append(new)
        return new

    yield start
    for each in started:
        each.kill()
        each.communicate()


@pytest.mark.parametrize(
    ("agent", "done", "told"),
    [
        ("payer", ["pay 5"], "interrupted"),
        ("looker", ["look", "look"], '"result":"seen"'),
    ],
)
async def test_a_killed_worker_s_run_goes_on_and_what_has_effects_is_not_done_twice(
    tmp_path: Path, store_url: str, process: StartProcess, agent: str, done: list[str], told: str
) -> None:
    app = build(tmp_path, store_url)
    task = await app.tasks.submit(agent, {"prompt": "Go."}, max_attempts=3)
    first = process()
    assert first.stdout is not None
    assert await asyncio.to_thread(_line, first, "stuck")
    first.kill()
    process()
    ended = await app.tasks.wait(task.id)
    assert ended.data == "It is over."
    assert (tmp_path / "done").read_text().split("\n")[:-1] == done
    _, kept = await app.conversations.get(task.id, "")
    assert [each.role for each in kept] == ["user", "assistant", "tool", "assistant"]
    assert told in kept[2].content
    app.store.close()


async def test_a_yes_that_a_killed_run_used_is_not_used_for_another_call(
    tmp_path: Path, store_url: str, process: StartProcess
) -> None:
    app = build(tmp_path, store_url)
    task = await app.tasks.submit("asker", {"prompt": "Go."}, max_attempts=3)
    first = process()
    await answered(app.tasks, task.id, "approve")
    assert await asyncio.to_thread(_line, first, "stuck")
    first.kill()
    process()
    second = [data async for data in _until(app.tasks, task.id, "clarification", 2)][-1]
    assert second["details"]["approval"]["input"] == {"amount": 500}
    assert (tmp_path / "done").read_text() == "pay 5\n"
    await app.tasks.answer(task.id, "deny")
    assert (await app.tasks.wait(task.id)).data == "It is over."
    assert (tmp_path / "done").read_text() == "pay 5\n"
    app.store.close()


async def test_last_words_that_were_kept_before_a_kill_are_told_and_not_asked_for_again(
    tmp_path: Path, store_url: str, process: StartProcess
) -> None:
    app = build(tmp_path, store_url)
    task = await app.tasks.submit("teller", {"prompt": "Go."}, max_attempts=3)
    first = process()
    assert await asyncio.to_thread(_line, first, "stuck")
    first.kill()
    process()
    assert (await app.tasks.wait(task.id)).data == "It is over."
    _, kept = await app.conversations.get(task.id, "")
    assert [each.role for each in kept] == ["user", "assistant"]
    app.store.close()


def _line(process: subprocess.Popen[str], wanted: str) -> bool:
    assert process.stdout is not None
    return any(line.strip() == wanted for line in process.stdout)
