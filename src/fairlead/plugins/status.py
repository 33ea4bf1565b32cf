"""A dispatched task as its plugin sees it: how far it is, what it did lately, what it said last."""

from __future__ import annotations

from typing import Any, Final

from fairlead._json import loads
from fairlead.plugins import answers, events
from fairlead.plugins.sessions import SQL, PluginSession
from fairlead.store.store import Tx
from fairlead.tasks.records import Task
from fairlead.tasks.states import State

#: Entries that are gathered, and how many of them are told.
GATHERED: Final = 40
TOLD: Final = 20
#: Entries of the log that are looked at.
_LOOKED: Final = 200
#: Seconds after which a cancelled task is not known any more.
GONE: Final = 15.0
_LEVELS: Final = {"info": "info", "warn": "warning", "error": "error"}
_KINDS: Final = frozenset(
    {"tool", "tool_call", "tool_result", "thinking", "writing", "info", "progress", "warning", "success"}
    | {"error"}
)


def is_gone(task: Task, now: float) -> bool:
    """Whether a task is one that was cancelled a while ago."""
    return events.was_cancelled(task) and now - (task.ended or now) > GONE


def told(tx: Tx, session: PluginSession, task: Task) -> dict[str, Any]:
    """A task's state."""
    rows = [
        (number, type, time, loads(data))
        for number, type, time, data in tx.all(SQL.recent, task=task.id, size=_LOOKED)
    ]
    rows.reverse()
    state: dict[str, Any] = {"id": session.id, "title": session.title}
    draft = session.draft
    if isinstance(draft, dict):
        state["draft"] = draft
    output = _output(tx, task)
    if output:
        state["output"] = output
    if events.was_cancelled(task):
        return {**state, "status": "cancelled"}
    if task.state.final:
        done = task.state is State.completed
        summary = events.COMPLETED_WORDS if done else events.failure_words(task)
        status = "completed" if done else "failed"
        return {**state, "status": status, "success": done, "summary": summary, "session_id": session.id}
    state["status"] = "running"
    activity = _activity(rows)
    if activity:
        state["activity"] = activity[-TOLD:]
        state["current_step"] = activity[-1].get("detail") or activity[-1]["title"]
    return state


def _activity(rows: list[tuple[int, str, float, dict[str, Any]]]) -> list[dict[str, Any]]:
    """What was done lately. What repeats itself is told once."""
    found: list[dict[str, Any]] = []
    for _, type, time, data in rows:
        item = _item(type, data)
        if item is None:
            continue
        if found and {**found[-1], "timestamp": ""} == {**item, "timestamp": ""}:
            continue
        found.append({**item, "timestamp": answers.moment(time)})
    return found[-GATHERED:]


def _item(type: str, data: dict[str, Any]) -> dict[str, Any] | None:
    if type == "log":
        kind = _LEVELS.get(str(data.get("level")))
        return None if kind is None else {"kind": kind, "title": str(data.get("message") or "")}
    if type == "progress":
        return {"kind": "progress", "title": str(data.get("message") or "Progress")}
    if type != "activity" or data.get("kind") not in _KINDS:
        return None
    kind, title = str(data["kind"]), str(data.get("title") or "")
    if kind in ("tool_call", "tool_result"):
        return {"kind": kind, "title": "Tool", "detail": title}
    detail = data.get("detail")
    return {"kind": kind, "title": title, **({"detail": str(detail)} if detail else {})}


def _output(tx: Tx, task: Task) -> str:
    """What was said last: the answer, or what is written by now; also while a tool runs, until there is more."""
    if isinstance(task.data, str):
        return task.data
    row = tx.one(SQL.last_piece, task=task.id)
    last = None if row is None else row[0]
    if last is None:
        return ""
    before = tx.all(SQL.tools_before, task=task.id, number=last, size=_LOOKED)
    turns = (number for number, data in before if loads(data).get("kind") in ("tool_call", "tool_result"))
    pieces = [loads(data).get("data") for (data,) in tx.all(SQL.pieces, task=task.id, since=next(turns, 0))]
    return "".join(each for each in pieces if isinstance(each, str))
