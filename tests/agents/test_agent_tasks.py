"""An agent as a durable task: its pauses hold no worker, and a run that is lost goes on from what was kept."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agents.agent_under_test import build

from fairlead import App
from fairlead.agents import Agent
from fairlead.agents.models.script import ScriptModel, call
from fairlead.tasks import Tasks, Worker
from servers import ends_with_us

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


@pytest.fixture
def process(tmp_path: Path, store_url: str) -> Iterator[StartProcess]:
    """Start a worker in a process of its own; it is killed at the end."""
    started: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        program = Path(__file__).with_name("agent_under_test.py")
        new = subprocess.Popen(
            [sys.executable, str(program), str(tmp_path), store_url],
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=ends_with_us(signal.SIGKILL),
        )
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


def _line(process: subprocess.Popen[str], wanted: str) -> bool:
    assert process.stdout is not None
    return any(line.strip() == wanted for line in process.stdout)
