"""`fairlead store`: the database from the command line."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairlead import App, Failure
from fairlead.store import Statement, open_store
from fairlead.surfaces.cli.store import size

EVENT = Statement.of(
    "INSERT INTO task_events (task, number, type, time, data, passing) VALUES ('t', :number, 'log', 1.0, '{}', 0)"
)
Cli = Callable[..., Any]


@pytest.fixture(scope="session")
def _made() -> str:
    """Databases are empty here: a command makes their tables."""
    return "template1"


@pytest.fixture
def app() -> App:
    return App("Board")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with the app's store, three rows in it."""
    with open_store("Board", data=tmp_path / "data") as store:
        store.write_now(lambda tx: tx.many(EVENT, [{"number": number} for number in range(3)]))
    return tmp_path / "data"


def test_status_is_json_for_programs_and_words_for_people(cli: Cli, app: App, data: Path) -> None:
    told = cli(app, "store", "status", "--data", str(data)).json
    assert told["kind"] == "sqlite"
    assert told["name"] == str(data / "board.db")
    assert told["rows"]["task_events"] == 3
    assert told["pending"] == []
    shown = cli(app, "store", "status", "--data", str(data), tty=True)
    assert "task_events" in shown.out
    assert "sqlite" in shown.out
    assert "\x1b[" in shown.out
    plain = cli(app, "store", "status", "--data", str(data), tty=True, env={"NO_COLOR": "1"})
    assert "\x1b[" not in plain.out


def test_who_only_looks_makes_no_store(cli: Cli, app: App, tmp_path: Path) -> None:
    for verb in (["status"], ["backup", "x.db"], ["vacuum"], ["move", f"sqlite:///{tmp_path}/y.db"]):
        ran = cli(app, "store", *verb, "--data", str(tmp_path / "none"))
        assert ran.code == 4
        assert "store migrate" in ran.err
    assert not (tmp_path / "none").exists()


def test_migrate_makes_the_tables_once(cli: Cli, app: App, tmp_path: Path) -> None:
    first = cli(app, "store", "migrate", "--data", str(tmp_path), "--json").json
    assert first["applied"][0] == "0001_tasks"
    again = cli(app, "store", "migrate", "--data", str(tmp_path), "--json").json
    assert again == {**first, "applied": []}
    assert "nothing was to be done" in cli(app, "store", "migrate", "--data", str(tmp_path)).err


def test_a_backup_is_written_once_and_restored_with_force(
    cli: Cli, app: App, data: Path, tmp_path: Path
) -> None:
    file = str(tmp_path / "backup.db")
    where = ("--data", str(data))
    assert cli(app, "store", "backup", file, *where, "--json").json["rows"] == 3
    refused = cli(app, "store", "backup", file, *where)
    assert refused.code == 1
    assert "--force" in refused.err
    assert cli(app, "store", "backup", file, *where, "--force").code == 0
    assert cli(app, "store", "restore", file, *where).code == 1
    restored = cli(app, "store", "restore", file, *where, "--force", tty=True)
    assert restored.code == 0
    assert "3 rows were restored" in restored.err
    elsewhere = cli(app, "store", "restore", file, "--data", str(tmp_path / "new"), "--json").json
    assert elsewhere["tables"]["task_events"] == 3


def test_one_row_is_told_as_one(cli: Cli, app: App, tmp_path: Path) -> None:
    with open_store("Board", data=tmp_path / "data") as store:
        store.write_now(lambda tx: tx.run(EVENT, number=1))
    file = str(tmp_path / "backup.db")
    assert "1 row was written" in cli(app, "store", "backup", file, "--data", str(tmp_path / "data")).err
    assert "1 row was restored" in cli(app, "store", "restore", file, "--data", str(tmp_path / "new")).err


def test_the_way_out_of_a_damaged_store_is_a_command_of_this_program_for_this_store(
    cli: Cli, app: App, data: Path, tmp_path: Path
) -> None:
    file, where = str(tmp_path / "backup.db"), ("--data", str(data))
    assert cli(app, "store", "backup", file, *where).code == 0
    (data / "board.db").write_bytes(b"something else " * 1000)
    damaged = cli(app, "store", "status", *where)
    way_out = re.search(r"Restore a backup: (.+) \(", damaged.err)
    assert damaged.code == 1
    assert way_out is not None
    program, *arguments = shlex.split(way_out[1].replace("FILE", file))
    assert program == "Board"
    assert cli(app, *arguments).code == 0
    assert cli(app, "store", "status", *where).json["rows"]["task_events"] == 3


def test_outside_a_program_the_way_out_names_the_store(tmp_path: Path) -> None:
    (tmp_path / "own.db").write_bytes(b"something else " * 1000)
    url = f"sqlite:///{tmp_path}/own.db"
    with pytest.raises(Failure) as caught:
        open_store(url=url)
    assert f"FAIRLEAD_DATABASE_URL={url} fairlead store restore FILE --force" in caught.value.message


def test_a_store_moves_to_postgresql(cli: Cli, app: App, data: Path, postgres_url: str) -> None:
    told = cli(app, "store", "move", postgres_url, "--data", str(data), "--json").json
    assert told["rows"] == 3
    assert told["target"] == postgres_url
    again = cli(app, "store", "move", postgres_url, "--data", str(data))
    assert again.code == 1
    assert "not empty" in again.err


def test_the_store_may_be_a_postgresql_database(
    cli: Cli, app: App, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRLEAD_DATABASE_URL", postgres_url)
    before = cli(app, "store", "status").json
    assert (before["kind"], before["version"]) == ("postgres", 0)
    assert cli(app, "store", "migrate").code == 0
    with open_store() as store:
        store.write_now(lambda tx: tx.many(EVENT, [{"number": number} for number in range(5)]))
    file = tmp_path / "backup.db"
    assert cli(app, "store", "backup", str(file), "--json").json["rows"] == 5
    assert cli(app, "store", "restore", str(file), "--force", "--json").json["rows"] == 5
    assert cli(app, "store", "vacuum", "--json").json["after"] > 0


def test_moving_a_store_onto_itself_is_refused(cli: Cli, app: App, data: Path) -> None:
    ran = cli(app, "store", "move", f"sqlite:///{data}/board.db", "--data", str(data))
    assert ran.code == 2
    assert "already" in ran.err


def test_the_store_that_an_app_names_itself_is_meant(cli: Cli, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/own.db"
    assert cli(App("own", store=url), "store", "migrate", "--json").json["name"] == f"{tmp_path}/own.db"
    opened = open_store(url=url)
    assert cli(App("own", store=opened), "store", "status").json["name"] == f"{tmp_path}/own.db"


@pytest.mark.parametrize(
    "arguments",
    [
        ("statsu",),
        ("backup",),
        ("restore",),
        ("move",),
        ("status", "more"),
        ("status", "--force"),
        ("backup", " "),
    ],
)
def test_a_wrong_command_line_is_told(cli: Cli, app: App, arguments: tuple[str, ...]) -> None:
    ran = cli(app, "store", *arguments, "--json")
    assert ran.code == 2
    assert json.loads(ran.out)["error"]["code"] == "VALIDATION_ERROR"


def test_a_wrong_address_is_told_without_its_password(cli: Cli, app: App, data: Path) -> None:
    ran = cli(app, "store", "move", "postgresql://me:hunter2@127.0.0.1:1/db", "--data", str(data))
    assert ran.code == 5
    assert "hunter2" not in ran.out + ran.err


def test_a_store_that_cannot_be_made_is_told(cli: Cli, app: App, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    ran = cli(app, "store", "migrate", "--data", str(tmp_path / "file"))
    assert ran.code == 1
    assert "Traceback" not in ran.err
    assert os.listdir(tmp_path) == ["file"]


def test_without_a_verb_it_helps(cli: Cli, app: App) -> None:
    assert "move URL" in cli(app, "store").out


@pytest.mark.parametrize(
    ("count", "told"),
    [(0, "0 bytes"), (999, "999 bytes"), (143_360, "143.4 kB"), (5_000_000_000_000_000, "5000.0 TB")],
)
def test_sizes_are_told_as_people_read_them(count: int, told: str) -> None:
    assert size(count) == told


def test_migrate_goes_back_for_an_older_program(cli: Cli, app: App, data: Path) -> None:
    at = ("--data", str(data))
    newest = cli(app, "store", "status", *at).json["version"]
    told = cli(app, "store", "migrate", "--to", "6", *at, "--json").json
    assert told["version"] == 6
    assert told["undone"][-1] == "0007_plugin_tasks"
    assert cli(app, "store", "status", *at).json["version"] == 6
    assert cli(app, "store", "migrate", *at, "--json").json["version"] == newest
    assert cli(app, "store", "status", *at).json["rows"]["task_events"] == 3


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["--to", "0"], 2), (["--to", "99"], 2), (["--to", "six"], 2), (["--to"], 2), (["--force"], 2)],
)
def test_a_version_that_cannot_be_gone_back_to_is_refused(
    cli: Cli, app: App, data: Path, arguments: list[str], code: int
) -> None:
    assert cli(app, "store", "migrate", *arguments, "--data", str(data)).code == code
