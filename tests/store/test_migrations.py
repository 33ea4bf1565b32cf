"""Tables are brought up to date once, by one process at a time, and never by an older program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fairlead.failures import Failure, Kind
from fairlead.store import Statement, migrate, open_store
from fairlead.store import migrations as module
from fairlead.store.migrations import Migration, migrations, pending, version
from others import Other

NUMBERS = [each.number for each in migrations()]
APPLIED = Statement.of("SELECT number FROM migrations ORDER BY number")


def test_the_numbers_are_without_gaps() -> None:
    assert list(range(1, len(NUMBERS) + 1)) == NUMBERS


def test_opening_brings_the_tables_up_to_date(store_url: str) -> None:
    with open_store(url=store_url) as store:
        assert [number for (number,) in store.read_now(lambda tx: tx.all(APPLIED))] == NUMBERS
        assert pending(store) == []
        assert migrate(store, 0.0) == []


def test_what_is_missing_is_applied_and_told(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known = migrations()
    with open_store(url=store_url, migrate=False) as store:
        assert store.read_now(version) == 0
        assert [each.number for each in pending(store)] == NUMBERS
        migrate(store, 0.0)
        more = Migration(len(known) + 1, "more", (Statement.of("CREATE TABLE more (id BIGINT)"),))
        monkeypatch.setattr(module, "migrations", lambda: (*known, more))
        assert [each.name for each in migrate(store, 0.0)] == ["more"]
        assert store.read_now(lambda tx: tx.all(Statement.of("SELECT * FROM more"))) == []


def test_a_migration_that_fails_leaves_nothing(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known = migrations()
    parts = (Statement.of("CREATE TABLE half (id BIGINT)"), Statement.of("CREATE TABLE half (id BIGINT)"))
    with open_store(url=store_url) as store:
        with monkeypatch.context() as patch:
            patch.setattr(module, "migrations", lambda: (*known, Migration(len(known) + 1, "half", parts)))
            with pytest.raises(Failure):
                migrate(store, 0.0)
        assert store.read_now(version) == len(known)
        store.write_now(lambda tx: tx.run(parts[0]))


def test_a_newer_database_is_refused(store_url: str) -> None:
    with open_store(url=store_url) as store:
        store.write_now(lambda tx: tx.run(Statement.of("INSERT INTO migrations VALUES (9999, 'future', 0)")))
    with pytest.raises(Failure) as caught:
        open_store(url=store_url)
    assert caught.value.kind is Kind.misconfigured
    assert "9999" in caught.value.message
    assert "Update Fairlead" in caught.value.message


def test_processes_that_race_apply_each_once(store_url: str, other: Callable[..., Other]) -> None:
    program = """
from fairlead.store import migrate
say("ready")
hear()
with open_store(url=url, migrate=False) as store:
    say(*[each.number for each in migrate(store, 0.0)])
"""
    processes = [other(program, store_url) for _ in range(4)]
    for process in processes:
        assert process.hear() == "ready"
    for process in processes:
        process.say("go")
    done = sorted(process.hear() for process in processes)
    assert done == ["", "", "", " ".join(map(str, NUMBERS))]


def test_a_migration_is_one_that_both_databases_read(tmp_path: Path) -> None:
    for each in migrations():
        for statement in each.statements:
            assert b"$" not in statement.postgres
