"""Taskboard: tasks kept in SQLite, offered as actions to every caller.

    python examples/taskboard/app.py create-task --title "Mend the net" --priority high
    python examples/taskboard/app.py list-tasks

The tasks live in the file that TASKBOARD_DB names, or else in your data folder.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sqlite3
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, TypedDict, cast

from pydantic import Field

from fairlead import App, Context, Failure, Kind
from fairlead.agents import Agent
from fairlead.agents.models import Request, ScriptModel, ToolCall, call
from fairlead.pipelines import add_pipeline

# What there is on a board.

LONGEST_TITLE = 200
MOST_TASKS = 100_000

Status = Literal["open", "done"]


class Priority(StrEnum):
    low = "low"
    normal = "normal"
    high = "high"


class Task(TypedDict):
    id: int
    title: str
    priority: Priority
    due: date | None
    status: Status


class Imported(TypedDict):
    imported: int
    skipped: int


class BoardFull(Failure, code="board_full", kind=Kind.conflict):
    """The board is full. Delete some tasks first."""


# The app. Actions of the group change the board: callers need a permission for them.

app = App(
    "taskboard",
    description="Keep a board of tasks.",
    attribution={"text": "Taskboard, the example app of Fairlead"},
    docs={
        "summary": "A board of tasks in one SQLite file.",
        "audience": "People who keep a list, and programs that keep it for them.",
        "quick_start": ["Create a task with create_task.", "See what is open with list_tasks."],
    },
)
writes = app.group(side_effects="write", permissions=["tasks:write"])


@app.service
def board() -> Iterator[Board]:
    """`ctx.services.board`, open from the first call until the app stops."""
    with closing(Board(board_path())) as opened:
        yield opened


# The actions. A function's signature is the contract: what it takes, what it gives.

TaskId = Annotated[int, Field(ge=1, le=10**9, description="The task's number, as list_tasks shows it.")]


@writes.action(
    idempotency="non_idempotent",
    docs={"input_example": {"title": "Mend the net", "priority": "high", "due": "2030-06-01"}},
)
def create_task(
    ctx: Context,
    title: Annotated[str, Field(min_length=1, max_length=LONGEST_TITLE, description="What is to be done.")],
    priority: Annotated[Priority, "How much it matters."] = Priority.normal,
    due: Annotated[date | None, "The day it should be done by."] = None,
) -> Task:
    """Add a task to the board."""
    return board_of(ctx).add([NewTask(title, priority, due)])[0]


@app.action
def list_tasks(
    ctx: Context,
    status: Annotated[Literal["open", "done", "all"], "Which tasks to show."] = "open",
    limit: Annotated[int, Field(ge=1, le=1000, description="How many at most.")] = 50,
) -> list[Task]:
    """List tasks, the most urgent first."""
    return board_of(ctx).find(status, limit=limit)


@app.action
def search_tasks(
    ctx: Context,
    text: Annotated[str, Field(min_length=1, description="Part of a title, in any case.")],
) -> Iterator[Task]:
    """Find tasks by their title, each told as it is found."""
    yield from board_of(ctx).find(text=text)


@writes.action(idempotency="idempotent")
def complete_task(ctx: Context, id: TaskId) -> Task:
    """Mark a task as done. Doing so twice changes nothing."""
    return board_of(ctx).complete(id)


@writes.action(side_effects="destructive", idempotency="idempotent")
def delete_task(ctx: Context, id: TaskId) -> Task:
    """Delete a task for good, and show what was deleted."""
    return board_of(ctx).delete(id)


@writes.action(concurrency={"max": 1, "queue": 8}, timeout=600, idempotency="non_idempotent")
def import_tasks(
    ctx: Context,
    text: Annotated[str, "CSV with a header line; the columns are title, priority and due."],
    pause: Annotated[float, Field(ge=0, le=1, description="Seconds to rest after each row.")] = 0,
) -> Imported:
    """Import tasks from CSV text; a row that cannot be used is skipped, with a warning.

    All rows are read before the first is stored, so that a cancelled import leaves the board as it was.
    """
    try:
        rows = list(csv.DictReader(io.StringIO(text)))
    except csv.Error as error:
        raise Failure(Kind.invalid_input, f"The text is not CSV: {error}.", field="text") from error
    tasks: list[NewTask] = []
    for number, row in enumerate(rows, start=1):
        try:
            tasks.append(NewTask.from_row(row))
        except ValueError as error:
            ctx.logger.warn(f"Skipped row {number}: {error}.")
        ctx.progress.report(f"Read {number} of {len(rows)} rows", percent=100 * number / len(rows))
        ctx.signal.sleep(pause)
    board_of(ctx).add(tasks)
    return {"imported": len(tasks), "skipped": len(rows) - len(tasks)}


@writes.action(idempotency="idempotent")
def export_tasks(
    ctx: Context,
    filename: Annotated[str, Field(pattern=r"^[\w-]+\.csv$", description="What to call it.")] = "tasks.csv",
) -> int:
    """Write all tasks to a CSV file beside the board, and say how many they are."""
    tasks = board_of(ctx).find()
    path = board_of(ctx).path.with_name(filename)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(Task.__annotations__))
        writer.writeheader()
        writer.writerows(tasks)
    ctx.artifacts.add(filename, uri=path.as_uri(), mime_type="text/csv", size_bytes=path.stat().st_size)
    return len(tasks)


@app.action
def fail(
    kind: Annotated[Kind, "What should go wrong."] = Kind.internal,
    message: Annotated[str | None, "What to say about it."] = None,
    retry_after: Annotated[float | None, Field(ge=0, description="Seconds after which to try again.")] = None,
) -> None:
    """Fail on demand, to see how a failure reaches you."""
    raise Failure(kind, message, retry_after=retry_after)


# The agent: a model that uses the actions. FAIRLEAD_MODEL names one; without it, a script plays the part.


def written(request: Request) -> str | ToolCall:
    """Play a model that ticks off the open task whose title the prompt speaks of."""
    told = request.messages[-1]
    if told.role != "tool":
        return call("list_tasks")
    answer = json.loads(told.content)
    if not answer["ok"]:
        return f"That did not work: {answer['message']}"
    if told.name == "complete_task":
        return f"Task {answer['result']['id']} is done: {answer['result']['title']}."
    prompt = next(each.content for each in reversed(request.messages) if each.role == "user")
    meant = max(answer["result"], key=lambda task: in_common(task["title"], prompt), default=None)
    if meant is None or not in_common(meant["title"], prompt):
        return "No title of an open task has words of what you said."
    return call("complete_task", id=meant["id"])


def in_common(title: str, prompt: str) -> int:
    words, others = (set(re.findall(r"\w{3,}", text.lower())) for text in (title, prompt))
    return len((words & others) - {"the", "and", "for"})


app.add(
    Agent(
        "steward",
        model=os.environ.get("FAIRLEAD_MODEL") or ScriptModel(written, record=False),
        tools=[list_tasks, search_tasks, create_task, complete_task],
        permissions=["tasks:write"],
        description="Keep the board for people who say in words what they did.",
        instructions="""
            You keep a board of tasks. Look at it before you change it.
            When somebody says that something is done, find the open task that they mean, and complete it.
            Never complete a task that nobody spoke of. Answer in one short sentence.
        """,
    )
)


# The pipeline wires actions and the agent; its types are checked now. Plugins bring what was installed for the board.

add_pipeline(
    app,
    Path(__file__).with_name("log.plumb"),
    "file_report",
    permissions=["tasks:write"],
    idempotency="non_idempotent",
)
app.add_plugins()


# The store: plain SQLite, which knows nothing of actions or callers.

TABLE = """
    CREATE TABLE IF NOT EXISTS tasks (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        title TEXT NOT NULL,
        priority TEXT NOT NULL,
        due TEXT,
        status TEXT NOT NULL DEFAULT 'open'
    )
"""
FIND = """
    SELECT * FROM tasks WHERE :status IN ('all', status) AND instr(lower(title), lower(:text))
    ORDER BY CASE priority WHEN 'high' THEN 0 WHEN 'normal' THEN 1 ELSE 2 END, due IS NULL, due, id
    LIMIT :limit
"""


class NewTask(NamedTuple):
    title: str
    priority: Priority
    due: date | None

    @classmethod
    def from_row(cls, row: Mapping[str, str | None]) -> NewTask:
        """A task from a row of CSV. Raises ValueError when a column cannot be used."""
        title = (row.get("title") or "").strip()
        if not 0 < len(title) <= LONGEST_TITLE:
            raise ValueError(f"the title needs 1 to {LONGEST_TITLE} characters")
        due = row.get("due")
        return cls(title, Priority(row.get("priority") or "normal"), date.fromisoformat(due) if due else None)


class Board:
    """The tasks of one file, which is made when it is missing. Safe to use from many threads."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._lock = threading.Lock()
        self._database = sqlite3.connect(path, check_same_thread=False)
        self._database.row_factory = sqlite3.Row
        self._database.execute(TABLE)

    def add(self, tasks: list[NewTask]) -> list[Task]:
        """Store all of them, or none when the board would be too full."""
        with self._lock, self._database:
            self._database.execute("BEGIN IMMEDIATE")
            [count] = self._database.execute("SELECT count(*) FROM tasks").fetchone()
            if count + len(tasks) > MOST_TASKS:
                raise BoardFull
            return [self._get(self._insert(task)) for task in tasks]

    def find(self, status: str = "all", text: str = "", limit: int = -1) -> list[Task]:
        with self._lock:
            rows = self._database.execute(FIND, {"status": status, "text": text, "limit": limit})
            return [_task(row) for row in rows]

    def complete(self, id: int) -> Task:
        with self._lock, self._database:
            self._database.execute("UPDATE tasks SET status = 'done' WHERE id = ?", (id,))
            return self._get(id)

    def delete(self, id: int) -> Task:
        with self._lock, self._database:
            task = self._get(id)
            self._database.execute("DELETE FROM tasks WHERE id = ?", (id,))
            return task

    def close(self) -> None:
        self._database.close()

    def _insert(self, task: NewTask) -> int:
        due = task.due and task.due.isoformat()
        cursor = self._database.execute(
            "INSERT INTO tasks (title, priority, due) VALUES (?, ?, ?)", (task.title, task.priority, due)
        )
        return cast("int", cursor.lastrowid)

    def _get(self, id: int) -> Task:
        row = self._database.execute("SELECT * FROM tasks WHERE id = ?", (id,)).fetchone()
        if row is None:
            raise Failure(Kind.not_found, f"No task has number {id}. Find it with list_tasks.", field="id")
        return _task(row)


def _task(row: sqlite3.Row) -> Task:
    return cast("Task", dict(row))


def board_of(ctx: Context) -> Board:
    return cast("Board", ctx.services.board)


def board_path() -> Path:
    given = os.environ.get("TASKBOARD_DB")
    return Path(given).absolute() if given else data_folder() / "taskboard" / "board.sqlite"


def data_folder() -> Path:
    if sys.platform == "win32":
        return Path(os.environ["LOCALAPPDATA"])
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")


if __name__ == "__main__":
    app.cli()
