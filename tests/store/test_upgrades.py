"""Upgrades from every earlier version keep what is there, and there is a way back to each of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairlead import App
from fairlead.failures import Failure, Kind
from fairlead.store import Statement, Store, Tx, migrate, open_store
from fairlead.store import migrations as module
from fairlead.store.migrations import Migration, go_back, migrations, pending, version
from fairlead.store.upkeep import backup, restore
from fairlead.tasks import State

KNOWN = migrations()
EARLIER = [each.number for each in KNOWN[:-1]]
COLUMNS = Statement.of(
    "SELECT name, lower(type) FROM pragma_table_info(:name) ORDER BY cid",
    "SELECT column_name, data_type FROM information_schema.columns "
    "WHERE table_schema = current_schema() AND table_name = :name ORDER BY ordinal_position",
)
SCHEMA = Statement.of(
    "SELECT name, sql FROM sqlite_master ORDER BY name",
    "SELECT table_name || '.' || column_name, data_type || is_nullable FROM information_schema.columns "
    "WHERE table_schema = current_schema() UNION ALL "
    "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema() ORDER BY 1, 2",
)
Cli = Callable[..., Any]
Content = dict[str, list[dict[str, Any]]]


@pytest.fixture
def of_version(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Makes this process a Fairlead that knows the migrations up to a number, as an older one does."""
    return lambda number: monkeypatch.setattr(module, "migrations", lambda: KNOWN[:number])


def tables(number: int) -> list[str]:
    return [name for each in KNOWN[:number] for name in each.tables]


def fill(store: Store, names: list[str]) -> None:
    """One row in each table, with something in every column."""
    for name in names:
        columns = store.read_now(lambda tx, name=name: tx.all(COLUMNS, name=name))  # type: ignore[misc]
        row = {column: _value(type) for column, type in columns}
        given = ", ".join(f":{column}" for column in row)
        insert = Statement.of(f"INSERT INTO {name} ({', '.join(row)}) VALUES ({given})")
        store.write_now(lambda tx, insert=insert, row=row: tx.run(insert, **row))  # type: ignore[misc]


def _value(type: str) -> Any:
    if "int" in type:
        return 1
    if "double" in type:
        return 1.5
    return b"\x00\xff" if type in ("blob", "bytea") else "wörd"


def content(store: Store, names: list[str]) -> Content:
    """The rows of tables, by their columns."""

    def rows(tx: Tx, name: str) -> list[dict[str, Any]]:
        columns = [column for column, _ in tx.all(COLUMNS, name=name)]
        found = tx.all(Statement.of(f"SELECT {', '.join(columns)} FROM {name}"))
        return [dict(zip(columns, row, strict=True)) for row in found]

    return {name: store.read_now(lambda tx, name=name: rows(tx, name)) for name in names}  # type: ignore[misc]


def kept(now: Content, before: Content) -> Content:
    """What is there now in the columns that there were before."""
    return {
        name: [{column: row[column] for column in old} for row, old in zip(now[name], rows, strict=True)]
        for name, rows in before.items()
    }


@pytest.mark.parametrize("number", EARLIER)
def test_an_upgrade_keeps_every_row_and_there_is_a_way_back(
    store_url: str, of_version: Callable[[int], None], number: int
) -> None:
    old = tables(number)
    of_version(number)
    with open_store(url=store_url) as store:
        fill(store, old)
        before, schema = content(store, old), store.read_now(lambda tx: tx.all(SCHEMA))

    of_version(len(KNOWN))
    with open_store(url=store_url) as store:
        assert store.read_now(version) == len(KNOWN)
        assert kept(content(store, old), before) == before
        assert [each.number for each in go_back(store, number)] == list(range(len(KNOWN), number, -1))

    of_version(number)
    with open_store(url=store_url) as store:
        assert pending(store) == []
        assert content(store, old) == before
        assert store.read_now(lambda tx: tx.all(SCHEMA)) == schema


@pytest.mark.parametrize("number", EARLIER)
def test_a_backup_of_an_earlier_version_is_restored_into_this_one(
    store_url: str, of_version: Callable[[int], None], number: int, tmp_path: Path
) -> None:
    of_version(number)
    with open_store(url=f"sqlite:///{tmp_path}/old.db") as store:
        fill(store, tables(number))
        before = content(store, tables(number))
    of_version(len(KNOWN))
    with open_store(url=store_url) as store:
        restore(tmp_path / "old.db", store)
        assert kept(content(store, tables(number)), before) == before


def test_what_stands_in_the_log_beside_a_backup_is_restored_too(tmp_path: Path) -> None:
    with (
        open_store(url=f"sqlite:///{tmp_path}/old.db") as old,
        open_store(url=f"sqlite:///{tmp_path}/new.db") as new,
    ):
        fill(old, tables(len(KNOWN)))
        restore(tmp_path / "old.db", new)
        assert content(new, tables(len(KNOWN))) == content(old, tables(len(KNOWN)))


@pytest.mark.parametrize("number", EARLIER)
async def test_an_upgraded_store_runs_tasks(
    store_url: str, of_version: Callable[[int], None], number: int
) -> None:
    of_version(number)
    open_store(url=store_url).close()
    of_version(len(KNOWN))
    app = App("shop", store=store_url)

    @app.action
    async def greet(name: str) -> str:
        """Greet somebody."""
        return f"Hello, {name}!"

    async with app, app.tasks.worker():
        task = await app.tasks.submit("greet", {"name": "Ada"})
        assert (await app.tasks.wait(task.id)).state == State.completed


def test_an_older_program_is_refused_and_told_the_way_back(
    store_url: str, of_version: Callable[[int], None], tmp_path: Path
) -> None:
    with open_store(url=store_url) as store:
        backup(store, tmp_path / "new.db")
    of_version(5)
    with pytest.raises(Failure) as caught:
        open_store(url=store_url)
    assert caught.value.kind is Kind.misconfigured
    assert caught.value.message.endswith("fairlead store migrate --to 5")
    with pytest.raises(Failure) as caught, open_store(url=f"sqlite:///{tmp_path}/other.db") as other:
        restore(tmp_path / "new.db", other)
    assert "Update Fairlead" in caught.value.message


def test_going_back_drops_rows_only_when_told_to(store_url: str) -> None:
    with open_store(url=store_url) as store:
        fill(store, ["tasks", "pipeline_steps"])
        before = content(store, ["tasks", "pipeline_steps"])
        with pytest.raises(Failure) as caught:
            go_back(store, 7)
        assert caught.value.kind is Kind.conflict
        assert "1 in pipeline_steps" in caught.value.message
        assert content(store, ["tasks", "pipeline_steps"]) == before
        assert store.read_now(version) == len(KNOWN)

        go_back(store, 7, lose=True)
        migrate(store, 0.0)
        tasks = [{**row, "lost": 0} for row in before["tasks"]]
        assert content(store, ["tasks", "pipeline_steps"]) == {"tasks": tasks, "pipeline_steps": []}


def test_a_version_that_is_not_there_is_refused(store_url: str) -> None:
    with open_store(url=store_url) as store:
        for number in (0, len(KNOWN) + 1):
            with pytest.raises(Failure) as caught:
                go_back(store, number)
            assert caught.value.kind is Kind.invalid_input
        assert go_back(store, len(KNOWN)) == []


def test_where_there_is_no_way_back_a_backup_is_the_way_out(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    final = Migration(len(KNOWN) + 1, "final", (Statement.of("CREATE TABLE final (id BIGINT)"),))
    monkeypatch.setattr(module, "migrations", lambda: (*KNOWN, final))
    with open_store(url=store_url) as store:
        with pytest.raises(Failure) as caught:
            go_back(store, 1)
        assert caught.value.kind is Kind.unsupported
        assert "restore a backup" in caught.value.message
        assert store.read_now(version) == final.number
