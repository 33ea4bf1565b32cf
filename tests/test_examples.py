"""The example app keeps its promises, called in process and through its tour."""

from __future__ import annotations

import asyncio
import csv
import importlib.util
import os
import re
import runpy
import shlex
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import date
from pathlib import Path
from typing import Any

import httpx
import pytest

from fairlead import App, Kind
from fairlead.runtime import Signal
from fairlead.testing import collect_stream, expect_error, expect_log, expect_ok
from warm import Warm

FOLDER = Path(__file__).parents[1] / "examples" / "taskboard"
WRITER: dict[str, Any] = {"user": "ada", "auth": {"permissions": ["tasks:write"]}}
ROWS = """title,priority,due
Grease the winches,high,2030-05-02
,low,
Paint the hull,urgent,
Coil the lines,,
"""


def load() -> Any:
    spec = importlib.util.spec_from_file_location("taskboard_app", FOLDER / "app.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
async def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[App]:
    monkeypatch.setenv("TASKBOARD_DB", str(tmp_path / "board.sqlite"))
    monkeypatch.delenv("FAIRLEAD_MODEL", raising=False)
    app: App = load().app
    async with app:
        yield app


async def create(board: App, title: str, **more: Any) -> dict[str, Any]:
    task: dict[str, Any] = expect_ok(await board.invoke("create_task", {"title": title, **more}, **WRITER))
    return task


async def titles(board: App, **chosen: Any) -> list[str]:
    return [task["title"] for task in expect_ok(await board.invoke("list_tasks", chosen))]


async def test_created_tasks_are_listed_the_most_urgent_first(board: App) -> None:
    await create(board, "later", priority="low")
    await create(board, "soon", due="2030-01-02")
    await create(board, "sooner", due="2030-01-01")
    await create(board, "now", priority="high")
    assert await titles(board) == ["now", "sooner", "soon", "later"]
    assert await titles(board, limit=1) == ["now"]


async def test_a_completed_task_is_no_longer_open(board: App) -> None:
    task = await create(board, "mend the net", due=date(2030, 1, 1).isoformat())
    done = expect_ok(await board.invoke("complete_task", {"id": task["id"]}, **WRITER))
    assert done == {**task, "status": "done"}
    assert await titles(board) == []
    assert await titles(board, status="done") == ["mend the net"]


async def test_search_streams_what_it_finds_in_any_case(board: App) -> None:
    for title in ("Mend the net", "Mend the sail", "Rest"):
        await create(board, title)
    events = await collect_stream(board.stream("search_tasks", {"text": "MEND"}))
    assert [event["data"]["title"] for event in events[:-1]] == ["Mend the net", "Mend the sail"]
    assert events[-1]["envelope"]["ok"]


async def test_writing_needs_the_permission(board: App) -> None:
    expect_error(await board.invoke("create_task", {"title": "x"}), "AUTHENTICATION_ERROR")
    expect_error(await board.invoke("create_task", {"title": "x"}, user="bob"), "AUTHORIZATION_ERROR")
    assert await titles(board) == []


async def test_deleting_needs_a_yes_and_is_for_good(board: App) -> None:
    task = await create(board, "x")
    expect_error(await board.invoke("delete_task", {"id": task["id"]}, **WRITER), "CONFIRMATION_REQUIRED")
    assert expect_ok(await board.invoke("delete_task", {"id": task["id"]}, **WRITER, confirm=True)) == task
    failure = expect_error(await board.invoke("complete_task", {"id": task["id"]}, **WRITER), "NOT_FOUND")
    assert failure.field == "id"


async def test_a_key_makes_creating_twice_create_once(board: App) -> None:
    calls = [board.invoke("create_task", {"title": "x"}, **WRITER, idempotency_key="k") for _ in range(3)]
    tasks = [expect_ok(result) for result in await asyncio.gather(*calls)]
    assert tasks[0] == tasks[1] == tasks[2]
    assert await titles(board) == ["x"]


async def test_import_reports_progress_and_skips_what_it_cannot_use(board: App) -> None:
    result = await board.invoke("import_tasks", {"text": ROWS}, **WRITER)
    assert expect_ok(result) == {"imported": 2, "skipped": 2}
    assert expect_log(result, "Read 4 of 4")["fields"]["percent"] == 100
    assert expect_log(result, "Skipped row 2")["level"] == "warn"
    assert await titles(board) == ["Grease the winches", "Coil the lines"]


async def test_a_cancelled_import_leaves_the_board_as_it_was(board: App) -> None:
    signal = Signal()
    envelope: dict[str, Any] = {}
    async for event in board.stream("import_tasks", {"text": ROWS, "pause": 1}, **WRITER, signal=signal):
        if event["type"] == "progress":
            signal.cancel()
        envelope = event.get("envelope", {})
    assert envelope["error"]["code"] == "CANCELLED"
    assert await titles(board) == []


async def test_text_that_is_not_csv_is_refused(board: App) -> None:
    text = "title\n" + "x" * 200_000
    assert (
        expect_error(await board.invoke("import_tasks", {"text": text}, **WRITER)).kind is Kind.invalid_input
    )


async def test_a_full_board_takes_nothing_and_says_so(board: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["taskboard_app"], "MOST_TASKS", 1)
    failure = expect_error(await board.invoke("import_tasks", {"text": ROWS}, **WRITER), "board_full")
    assert failure.kind is Kind.conflict
    assert await titles(board) == []


async def test_export_writes_a_file_and_announces_it(board: App, tmp_path: Path) -> None:
    await create(board, "a, b", due="2030-01-01")
    result = await board.invoke("export_tasks", {"filename": "out.csv"}, **WRITER)
    assert expect_ok(result) == 1
    [artifact] = result.artifacts
    path = tmp_path / "out.csv"
    assert (artifact["uri"], artifact["sizeBytes"]) == (path.as_uri(), path.stat().st_size)
    with path.open(newline="", encoding="utf-8") as file:
        assert [row["title"] for row in csv.DictReader(file)] == ["a, b"]


@pytest.mark.parametrize("filename", ["../up.csv", "a/b.csv", "x.txt", "x.csv\n", ".csv", "C:x.csv"])
async def test_export_stays_in_its_folder(board: App, filename: str) -> None:
    expect_error(await board.invoke("export_tasks", {"filename": filename}, **WRITER), "VALIDATION_ERROR")


@pytest.mark.parametrize("kind", list(Kind))
async def test_fail_fails_as_told(board: App, kind: Kind) -> None:
    failure = expect_error(await board.invoke("fail", {"kind": kind.value, "retry_after": 3}))
    assert failure.kind is kind
    assert failure.retry_after == 3


async def test_tasks_outlive_the_app(board: App) -> None:
    await create(board, "x")
    async with load().app as again:
        assert await titles(again) == ["x"]


async def test_the_steward_ticks_off_what_was_spoken_of_and_nothing_else(board: App) -> None:
    for title in ("Mend the net", "Grease the winches"):
        await create(board, title)
    said = await board.invoke("steward", {"prompt": "The winches are greased."}, **WRITER)
    assert expect_ok(said) == "Task 2 is done: Grease the winches."
    assert await titles(board) == ["Mend the net"]
    said = await board.invoke("steward", {"prompt": "I had tea."}, **WRITER)
    assert "No title" in expect_ok(said)
    assert await titles(board) == ["Mend the net"]


async def test_asking_the_steward_needs_the_permission(board: App) -> None:
    await create(board, "Mend the net")
    said = await board.invoke("steward", {"prompt": "The net is mended."}, user="bob")
    expect_error(said, "AUTHORIZATION_ERROR")
    assert await titles(board) == ["Mend the net"]


async def test_a_report_becomes_a_task_or_ticks_one_off(board: App) -> None:
    todo = await board.invoke("file_report", {"words": "Mend the net", "done": False}, **WRITER)
    assert expect_ok(todo) == {"answer": "Mend the net"}
    done = await board.invoke("file_report", {"words": "The net is mended", "done": True}, **WRITER)
    assert expect_ok(done) == {"answer": "Task 1 is done: Mend the net."}
    assert await titles(board, status="done") == ["Mend the net"]
    nothing = await board.invoke("file_report", {"words": "", "done": False}, **WRITER)
    assert expect_ok(nothing) == {"answer": "Nothing was said."}
    expect_error(
        await board.invoke("file_report", {"words": "x", "done": False}, user="bob"), "AUTHORIZATION_ERROR"
    )


@pytest.fixture(scope="module")
def tour(warm_python: Warm, warm_executable: str) -> str:
    done = subprocess.run(
        warm_python.command(str(FOLDER / "tour.py")),
        env=os.environ | {"WARM_EXECUTABLE": warm_executable},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_tour_ends_as_it_says(tour: str) -> None:
    assert "\033" not in tour
    assert "The webhook hears: completed" in tour
    assert tour.count("(exit code") == 3


def test_the_python_that_the_tour_names_starts_the_app_from_the_checkout() -> None:
    named = runpy.run_path(str(FOLDER / "tour.py"))["APP"]
    done = subprocess.run(
        shlex.split(f"{named} --help"), cwd=FOLDER.parents[1], capture_output=True, timeout=60
    )
    assert (done.returncode, b"create-task" in done.stdout) == (0, True), done


#: What the tour says to try, how it ends, and for what runs on until Ctrl-C, what it says by then.
TRIED = {
    "serve --console": (0, "The console's link works once."),
    "dev": (130, "The console is at this link"),
    "chat steward": (0, "No title"),
    "mcp install": (0, "taskboard"),
    "--help": (0, "create-task"),
    "create-task --title 'Learn the ropes'": (0, "Learn the ropes"),
    "import-tasks --text @examples/taskboard/tasks.csv --pause 0.5": (0, "imported"),
    "plumb render examples/taskboard/log.plumb --format mermaid": (0, "flowchart"),
    "plugin run build/plugins/acme.notes list_notes": (0, "notes"),
    "fail --kind rate_limited --retry-after 3": (5, "RATE_LIMITED"),
    "errors board_full": (0, "The board is full"),
}


@pytest.mark.parametrize("command", TRIED)
def test_what_the_tour_says_to_try_works(tour: str, tmp_path: Path, command: str, warm_python: Warm) -> None:
    code, said = TRIED[command]
    assert f"app.py {command}\n" in tour
    if "--pause" in command:
        command = command.replace("--pause 0.5", "--pause 0.01")
    more = {"serve --console": ["--port=0", "--console=0"], "dev": ["--port=0"]}.get(command, [])
    words = [word for word in shlex.split(command) if not (more and word == "--console")]
    environment = {
        **os.environ,
        "FAIRLEAD_DATA": str(tmp_path),
        "TASKBOARD_DB": str(tmp_path / "board.sqlite"),
    }
    process = subprocess.Popen(
        warm_python.command(str(FOLDER / "app.py"), *words, *more),
        cwd=FOLDER.parents[1],
        env=environment | {"FAIRLEAD_MODEL": ""},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    told = ""
    if more:
        while said not in told:
            told += process.stdout.readline()
        if served := re.search(r"actions (http://[^/]+)", told):
            # It says where before it serves there, and who asks waits. What is stopped before has another code.
            assert httpx.get(f"{served[1]}/healthz", timeout=30).status_code == 200
        process.send_signal(signal.SIGINT)
    told += process.communicate("I had tea.\n" if "chat" in command else "", timeout=60)[0]
    assert (process.returncode, said in told) == (code, True), told


def test_everything_that_the_tour_says_to_try_is_tried(tour: str) -> None:
    offered = re.findall(r"app\.py (.+)\n      ", tour.partition("Try next")[2])
    assert offered == list(TRIED)
