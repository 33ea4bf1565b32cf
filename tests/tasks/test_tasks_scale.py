"""The cost of a move grows with the work there is to do, not with what was done before."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from fairlead.store import open_store
from fairlead.tasks import ledger

#: What counts everything looks at everything; and what only the other database is asked.
ELSEWHERE = {"count_all", "ready_since"}


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    folder = tmp_path_factory.mktemp("plans")
    open_store("plans", data=folder).close()
    found = {}
    with closing(sqlite3.connect(Path(folder) / "plans.db")) as file:
        titles = re.findall(
            r"^-- (\w+)(?: \(\w+\))?$", Path(ledger.__file__).with_name("statements.sql").read_text(), re.M
        )
        for name in titles:
            sql = getattr(ledger.SQL, name).sqlite
            if not sql:  # only PostgreSQL says it in one
                continue
            values = dict.fromkeys(re.findall(r":(\w+)", sql), 1)
            rows = file.execute(f"EXPLAIN QUERY PLAN {sql}", values).fetchall()
            found[name] = [str(row[3]) for row in rows]
    return found


def test_no_statement_looks_through_all_tasks_or_events(plans: dict[str, list[str]]) -> None:
    wrong = {
        name: step
        for name, steps in plans.items()
        for step in steps
        if name not in ELSEWHERE
        and (
            re.fullmatch(r"SCAN (tasks|task_events|task_slots)\b.*", step)
            or step.endswith("tasks_listed (queue=?)")
        )
    }
    assert wrong == {}


def test_what_comes_in_pages_is_not_sorted_first(plans: dict[str, list[str]]) -> None:
    for name in (
        "take",
        "next_parked",
        "due_now",
        "listed",
        "listed_open",
        "listed_rare",
        "listed_caller",
        "events",
    ):
        assert not any("TEMP B-TREE" in step for step in plans[name]), name
