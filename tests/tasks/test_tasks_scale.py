"""The cost of a move grows with the work there is to do, not with what was done before."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from fairlead.store import Statement, Tx, open_store
from fairlead.store.store import Single
from fairlead.tasks import Tasks, ledger
from tasks.app_under_test import build

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


END = Statement.of("UPDATE tasks SET state = 'completed', ready = 0, due = NULL, ended = created")
PLANS = Statement.of("SELECT custom_plans FROM pg_prepared_statements WHERE statement LIKE :like")


async def test_postgresql_plans_a_claim_no_more_often_when_many_tasks_have_ended(
    postgres_url: str, tmp_path: Path
) -> None:
    """To plan it takes longer than to do it. Five times it is planned in any case."""
    # At another address than other tests', whose connections have planned it before.
    with open_store(url=f"{postgres_url}&connect_timeout=9") as store:
        tasks = Tasks(build(tmp_path), store)
        await tasks.submit_many("echo", [{"value": 1}] * 20_000)
        await store.write(lambda tx: tx.run(END))
        await asyncio.to_thread(store.vacuum)
        await tasks.submit_many("echo", [{"value": 1}] * 20)
        claim = ledger.taking(tasks.queue, "w", 1, tasks.app.clock.time(), 60.0)
        assert isinstance(claim, Single)

        def work(tx: Tx) -> tuple[int, int]:
            taken = [tx.one(claim.call.statement, **claim.call.values) for _ in range(20)]
            planned = tx.one(PLANS, like="WITH chosen%")
            assert planned is not None
            return len({row[1] for row in taken if row is not None}), planned[0]

        assert await store.write(work) == (20, 5)
