"""Agents as durable tasks: they pause for a person in one process, are answered in another, and go on in a third."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from talking import AGENT
from warm import Warm

PATIENCE = 30.0
Spawn = Callable[..., "subprocess.Popen[str]"]


class Office:
    """A program with an agent and a store of its own, run in processes."""

    def __init__(
        self, path: Path, spawn: Spawn, on_terminal: Callable[..., Any], data: Path, warm: Warm
    ) -> None:
        self._path = path
        self._warm = warm
        self._spawn = spawn
        self._on_terminal = on_terminal
        self._env = {"FAIRLEAD_DATA": str(data)}

    def start(self, *argv: str) -> subprocess.Popen[str]:
        return self._spawn(self._path, *argv, env=os.environ | self._env)

    def on_terminal(self, *argv: str) -> Any:
        plain = {"NO_COLOR": "1", "LC_ALL": "C.UTF-8"}
        return self._on_terminal(self._path, *argv, **(self._env | plain))

    def run(self, *argv: str) -> str:
        """A command that ends by itself."""
        done = subprocess.run(
            self._warm.command(str(self._path), *argv),
            env=os.environ | self._env,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def submit(self, prompt: str) -> str:
        return self.run("run", "bob", "--prompt", prompt, "--detach").strip()

    def show(self, task: str) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.run("tasks", "show", task))
        return told

    def worker(self) -> subprocess.Popen[str]:
        worker = self.start("worker", "--json")
        heard(worker, "ready")
        return worker


def heard(worker: subprocess.Popen[str], word: str) -> None:
    """Read what a worker says until it says this."""
    assert worker.stdout is not None
    for line in worker.stdout:
        told = json.loads(line)
        if word in (told["type"], told.get("event")):
            return
    raise AssertionError(f"it ended without {word}: {worker.stderr and worker.stderr.read()}")


@pytest.fixture
def office(
    program: Callable[[str], Path],
    spawn: Spawn,
    on_terminal: Callable[..., Any],
    tmp_path: Path,
    warm_python: Warm,
) -> Office:
    return Office(program(AGENT), spawn, on_terminal, tmp_path / "data", warm_python)


@pytest.mark.parametrize(("answer", "came"), [("approve", "wiped disk"), ("deny", "user_denied")])
def test_a_task_pauses_for_an_approval_and_goes_on_when_it_has_an_answer(
    office: Office, answer: str, came: str
) -> None:
    task = office.submit("wipe")
    worker = office.worker()
    heard(worker, "auth_required")
    paused = office.show(task)
    assert paused["question"]["options"] == ["approve", "deny"]
    assert paused["question"]["details"]["approval"]["input"] == {"target": "disk"}
    office.run("tasks", "answer", task, answer)
    heard(worker, "completed")
    assert came in office.show(task)["data"]


@pytest.mark.parametrize(
    ("prompt", "answer", "came"),
    [("colour", ["blue"], "blue"), ("colours", ["red", "blue"], "red\\nblue"), ("name", ["Ada L"], "Ada L")],
)
def test_a_task_pauses_for_a_question_and_goes_on_with_the_answer(
    office: Office, prompt: str, answer: list[str], came: str
) -> None:
    task = office.submit(prompt)
    worker = office.worker()
    heard(worker, "input_required")
    office.run("tasks", "answer", task, *answer)
    heard(worker, "completed")
    assert f'"{came}"' in office.show(task)["data"]


def test_another_worker_goes_on_with_what_the_first_has_paused(office: Office) -> None:
    task = office.submit("wipe")
    first = office.worker()
    heard(first, "auth_required")
    first.send_signal(signal.SIGKILL)
    first.wait(PATIENCE)
    office.run("tasks", "answer", task, "approve")
    heard(office.worker(), "completed")
    assert "wiped disk" in office.show(task)["data"]


def test_who_watches_sees_tools_and_words_and_answers(office: Office) -> None:
    task = office.submit("wipe")
    watching = office.on_terminal("tasks", "watch", task)
    worker = office.worker()
    watching.wait_for("Answer, by number or word:")
    watching.type("1\n")
    code, seen = watching.finish()
    heard(worker, "completed")
    assert code == 0
    assert "May bob use wipe?\n  target: disk\n  1  approve\n  2  deny\n" in seen
    assert "✓ wipe disk" in seen
    assert seen.count("It said") == 1


def test_what_a_tool_gives_is_one_line_for_who_watches(office: Office) -> None:
    task = office.submit("look")
    heard(office.worker(), "completed")
    _, seen = office.on_terminal("tasks", "watch", task).finish()
    assert "I look.\n" in seen
    assert "✓ look notes.txt" in seen
    assert "│" not in seen


def test_programs_that_watch_get_deltas_and_activities(office: Office) -> None:
    task = office.submit("look")
    heard(office.worker(), "completed")
    told = [json.loads(line) for line in office.run("tasks", "watch", task, "--json").splitlines()]
    kinds = [each["data"]["kind"] for each in told if each["type"] == "activity"]
    assert kinds == ["tool_call", "tool_progress", "tool_result", "usage"]
    assert "".join(each["data"]["data"] for each in told if each["type"] == "delta").startswith(
        "I look.It said"
    )
