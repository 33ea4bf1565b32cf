"""Tasks on the command line: submitted by one process, run by another, watched by a third."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from warm import Warm

PATIENCE = 30.0
Spawn = Callable[..., "subprocess.Popen[str]"]
OnTerminal = Callable[..., Any]

DESK = """
@app.action(side_effects="write")
async def add(a: int, b: int = 1, title: str = "none") -> str:
    "Add."
    return f"{a + b} {title}"

@app.action
async def count(ctx: Context):
    "Count."
    await ctx.progress.report(message="counting", percent=50)
    yield "one "
    await ctx.logger.warn("careful")
    yield "two"

@app.action
async def choose(ctx: Context) -> str:
    "Ask twice."
    colour = ctx.task.ask("Which colour?", ["red", "blue"])
    when = ctx.task.ask("When?")
    return f"{colour} {when}"

@app.action
async def refuse() -> None:
    "Fail."
    raise Failure(Kind.conflict, "It is taken.")

@app.action
async def crash() -> None:
    "Break."
    raise RuntimeError("oops")

@app.action
async def hold(gate: str, ctx: Context) -> int:
    "Wait for a file."
    import os
    while not os.path.exists(gate):
        await asyncio.sleep(0.01)
    return ctx.task.attempt

@app.action
async def stumble(ctx: Context) -> int:
    "Hang the first time."
    if ctx.task.attempt == 1:
        await asyncio.Event().wait()
    return ctx.task.attempt
"""


class Desk:
    """A program with a store of its own, run in processes."""

    def __init__(self, path: Path, spawn: Spawn, on_terminal: OnTerminal, data: Path, warm: Warm) -> None:
        self.path = path
        self._warm = warm
        self._spawn = spawn
        self._on_terminal = on_terminal
        self.env = {"FAIRLEAD_DATA": str(data)}

    def start(self, *argv: str, cold: bool = False) -> subprocess.Popen[str]:
        return self._spawn(self.path, *argv, env=os.environ | self.env, cold=cold)

    def on_terminal(self, *argv: str, **env: str) -> Any:
        return self._on_terminal(self.path, *argv, **(self.env | {"NO_COLOR": "1"} | env))

    def run(self, *argv: str, stdin: str = "") -> tuple[int, str, str]:
        """A command that ends by itself."""
        done = subprocess.run(
            self._warm.command(str(self.path), *argv),
            env=os.environ | self.env,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        return done.returncode, done.stdout, done.stderr

    def json(self, *argv: str) -> Any:
        code, out, err = self.run(*argv)
        assert code == 0, err
        return json.loads(out)

    def submit(self, *argv: str) -> str:
        code, out, err = self.run("run", *argv, "--detach")
        assert code == 0, err
        return out.strip()

    def worker(self, *argv: str) -> Worker:
        return Worker(self.start("worker", "--json", *argv))


class Worker:
    """A worker that is running, and what it says."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.next("ready")

    def next(self, type: str, event: str | None = None) -> dict[str, Any]:
        """Read until it says this."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            told: dict[str, Any] = json.loads(line)
            if told["type"] == type and event in (None, told.get("event")):
                return told
        raise AssertionError(
            f"it ended without {type} {event}: {self.process.stderr and self.process.stderr.read()}"
        )

    def signal(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def stop(self) -> int:
        self.signal()
        return self.process.wait(PATIENCE)


@pytest.fixture
def desk(
    program: Callable[[str], Path], spawn: Spawn, on_terminal: OnTerminal, tmp_path: Path, warm_python: Warm
) -> Desk:
    return Desk(program(DESK), spawn, on_terminal, tmp_path / "data", warm_python)


def test_one_process_submits_another_runs_a_third_watches(desk: Desk) -> None:
    task = desk.submit("add", "--a", "2", "--title", "x")
    watching = desk.start("tasks", "watch", task)
    worker = desk.worker()
    out, _ = watching.communicate(timeout=PATIENCE)
    assert watching.returncode == 0
    assert json.loads(out)["data"] == "3 x"
    assert worker.stop() == 0
    assert desk.json("tasks", "show", task)["state"] == "completed"


def test_a_task_whose_worker_is_killed_is_finished_by_another(desk: Desk) -> None:
    task = desk.submit("stumble")
    first = desk.worker("--lease", "1s")
    assert first.next("task", "started")["id"] == task
    first.process.kill()
    second = desk.worker("--lease", "1s")
    assert second.next("task", "completed")["id"] == task
    assert desk.json("tasks", "show", task)["data"] == 2
    assert second.stop() == 0


def test_two_workers_share_the_tasks_and_each_is_run_once(desk: Desk) -> None:
    lines = "".join(f'{{"a": {number}}}\n' for number in range(40))
    code, out, _ = desk.run("run", "add", "--batch", "-", stdin=lines)
    assert (code, len(out.split())) == (0, 40)
    workers = [desk.worker("--concurrency", "2") for _ in range(2)]
    while {task["state"] for task in desk.json("tasks", "list", "--limit", "40")} != {"completed"}:
        pass
    for worker in workers:
        worker.signal()
    assert sum(worker.next("stopped")["runs"] for worker in workers) == 40


def test_the_first_signal_lets_a_worker_finish_what_it_runs(desk: Desk, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    task = desk.submit("hold", "--gate", str(gate))
    worker = desk.worker("--drain", "60")
    worker.next("task", "started")
    worker.signal()
    assert worker.next("draining")["running"] == 1
    later = desk.submit("add", "--a", "1")
    gate.touch()
    assert worker.next("task", "completed")["id"] == task
    assert worker.process.wait(PATIENCE) == 0
    assert desk.json("tasks", "show", later)["state"] == "queued"


def test_the_second_signal_hands_back_what_a_worker_runs(desk: Desk, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    task = desk.submit("hold", "--gate", str(gate))
    worker = desk.worker("--drain", "60")
    worker.next("task", "started")
    worker.signal(signal.SIGINT)
    worker.next("draining")
    worker.signal(signal.SIGINT)
    assert worker.next("task", "handed_back")["id"] == task
    assert worker.process.wait(PATIENCE) == 0
    gate.touch()
    desk.worker().next("task", "completed")
    assert desk.json("tasks", "show", task)["data"] == 1  # the try that was handed back does not count


def test_a_worker_that_is_not_asked_to_talk_says_two_lines(desk: Desk) -> None:
    task = desk.submit("add", "--a", "1")
    worker = desk.start("worker", "--data", desk.env["FAIRLEAD_DATA"])
    assert desk.run("tasks", "watch", task)[0] == 0
    worker.send_signal(signal.SIGTERM)
    out, err = worker.communicate(timeout=PATIENCE)
    assert (worker.returncode, out) == (0, "")
    first, last = err.splitlines()
    assert first.startswith("Worker ")
    assert last == "Stopped. 1 run of tasks."


def test_a_folder_that_is_named_holds_a_store_of_its_own(desk: Desk, tmp_path: Path) -> None:
    other = tmp_path / "other"
    submitting = desk.on_terminal("run", "add", "--a", "1", "--detach", "--data", str(other))
    code, seen = submitting.finish()
    task = seen.split()[0]
    assert code == 0
    assert f"tasks watch {task} --data {other}" in seen
    assert [each["id"] for each in desk.json("tasks", "list", "--data", str(other))] == [task]
    assert desk.json("tasks", "list") == []


def test_what_goes_wrong_beside_the_tasks_is_told_in_a_line(desk: Desk) -> None:
    task = desk.submit("crash")
    worker = desk.worker()
    assert worker.next("warning")["message"] == "Action 'crash' failed."
    assert worker.next("task", "failed")["id"] == task
    assert worker.stop() == 0


def test_a_verbose_worker_says_a_line_when_a_run_begins_and_ends(desk: Desk) -> None:
    task = desk.submit("refuse")
    worker = desk.start("worker", "--verbose")
    assert desk.run("tasks", "watch", task)[0] == 1
    worker.send_signal(signal.SIGINT)
    _, err = worker.communicate(timeout=PATIENCE)
    started, failed = (line for line in err.splitlines() if task in line)
    assert started.startswith("started ")
    assert failed.startswith("failed ")
    assert "It is taken." in failed


def test_watching_on_a_terminal_shows_text_and_log_lines_and_a_bar(desk: Desk) -> None:
    task = desk.submit("count")
    watching = desk.on_terminal("tasks", "watch", task)
    worker = desk.worker()
    code, seen = watching.finish()
    assert (code, worker.stop()) == (0, 0)
    assert "50% counting" in seen
    assert seen.replace("\r\x1b[2K", "").endswith("one \nwarn  careful\ntwo\n")


def test_the_person_who_watches_answers_at_the_terminal(desk: Desk) -> None:
    task = desk.submit("choose")
    worker = desk.worker()
    watching = desk.on_terminal("tasks", "watch", task)
    watching.wait_for("Which colour?")
    watching.wait_for("by number or word: ")
    watching.type("green\n")
    watching.wait_for("must be one of: red, blue")
    watching.type("2\n")
    watching.wait_for("When?")
    watching.wait_for("Answer: ")
    watching.type("at noon\n")
    code, seen = watching.finish()
    assert (code, worker.stop()) == (0, 0)
    assert seen.endswith("blue at noon\n")


def test_a_question_that_somebody_else_answers_is_asked_no_more(desk: Desk) -> None:
    task = desk.submit("choose")
    worker = desk.worker()
    watching = desk.on_terminal("tasks", "watch", task)
    watching.wait_for("by number or word: ")
    assert desk.run("tasks", "answer", task, "red")[0] == 0
    watching.wait_for("Answered: red")
    watching.wait_for("When?")
    assert desk.run("tasks", "answer", task, "now")[0] == 0
    code, seen = watching.finish()
    assert (code, worker.stop()) == (0, 0)
    assert seen.endswith("red now\n")


def test_ctrl_c_stops_watching_and_not_the_task(desk: Desk, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    task = desk.submit("hold", "--gate", str(gate))
    worker = desk.worker()
    worker.next("task", "started")
    watching = desk.on_terminal("tasks", "watch", task)
    watching.wait_for("Ctrl-C stops watching")
    watching.type("\x03")
    code, seen = watching.finish()
    assert code == 130
    assert "the task goes on" in seen
    assert desk.json("tasks", "show", task)["state"] == "running"
    gate.touch()
    assert desk.run("tasks", "watch", task)[0] == 0
    assert worker.stop() == 0


def test_ctrl_c_at_a_question_leaves_the_task_paused(desk: Desk) -> None:
    task = desk.submit("choose")
    desk.worker().next("task", "input_required")
    watching = desk.on_terminal("tasks", "watch", task)
    watching.wait_for("by number or word: ")
    watching.type("\x03")
    code, _ = watching.finish()
    assert code == 130
    assert desk.json("tasks", "show", task)["state"] == "input_required"


def test_a_pipe_is_told_how_to_answer(desk: Desk) -> None:
    task = desk.submit("choose")
    desk.worker().next("task", "input_required")
    watching = desk.start("tasks", "watch", task)
    assert watching.stderr is not None
    told = [watching.stderr.readline() for _ in range(4)]
    assert told[0] == "Which colour?\n"
    assert f"tasks answer {task} VALUE" in told[3]
    assert desk.run("tasks", "cancel", task)[0] == 0
    watching.communicate(timeout=PATIENCE)
    assert watching.returncode == 130


def test_the_embedded_worker_of_a_server_runs_tasks(desk: Desk) -> None:
    serving = desk.start("serve", "--port", "0", "--worker=2")
    task = desk.submit("add", "--a", "1")
    code, out, _ = desk.run("tasks", "watch", task)
    assert (code, json.loads(out)["data"]) == (0, "2 none")
    serving.send_signal(signal.SIGTERM)
    serving.communicate(timeout=PATIENCE)
    assert serving.returncode == 0


def test_a_server_that_stops_lets_its_worker_finish(desk: Desk, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    serving = desk.start("serve", "--port", "0", "--worker", "--drain", "60")
    # Not started warm: the server is to be there before its worker finds something to do.
    submitting = desk.start("run", "hold", "--gate", str(gate), "--detach", cold=True)
    submitted, _ = submitting.communicate(timeout=PATIENCE)
    watching = desk.start("tasks", "watch", submitted.strip(), "--json")
    assert watching.stdout is not None
    assert json.loads(watching.stdout.readline())["type"] == "started"
    serving.send_signal(signal.SIGTERM)
    gate.touch()
    watching.communicate(timeout=PATIENCE)
    serving.communicate(timeout=PATIENCE)
    assert (watching.returncode, serving.returncode) == (0, 0)
