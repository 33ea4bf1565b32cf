"""Plugins that brought their host down: the marks, the quarantine, and the ways out of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import pytest

from fairlead.plugins import quarantine as quarantines
from fairlead.plugins.quarantine import MARKER, QUARANTINE, STALE, Quarantine, Row


@pytest.fixture
def quarantine(tmp_path: Path) -> Quarantine:
    return Quarantine(tmp_path, "build 1")


def file(tmp_path: Path) -> Path:
    return tmp_path / QUARANTINE


def marker(tmp_path: Path) -> Path:
    return tmp_path / MARKER


def test_a_stale_mark_puts_its_plugin_into_quarantine(quarantine: Quarantine, tmp_path: Path) -> None:
    marker(tmp_path).write_text("test.toy\n")
    assert quarantine.promote(lambda _: "1.0.0") == ["test.toy"]
    assert not marker(tmp_path).exists()
    row = quarantine.find("test.toy")
    assert row is not None
    assert (row.version, row.build, row.reason) == ("1.0.0", "build 1", STALE)


@pytest.mark.parametrize("content", ["", "  \n", "\n\n"])
def test_an_empty_mark_promotes_nothing_and_goes(
    quarantine: Quarantine, tmp_path: Path, content: str
) -> None:
    marker(tmp_path).write_text(content)
    assert quarantine.promote() == []
    assert not marker(tmp_path).exists()
    assert not file(tmp_path).exists()


def test_a_load_that_went_well_leaves_nothing(quarantine: Quarantine, tmp_path: Path) -> None:
    quarantine.mark("test.toy")
    assert marker(tmp_path).read_text().startswith("test.toy ")
    quarantine.unmark("test.toy")
    assert quarantine.promote() == []
    assert [path.name for path in tmp_path.iterdir()] == []


def test_a_scan_after_the_promotion_does_not_quarantine_again(quarantine: Quarantine, tmp_path: Path) -> None:
    marker(tmp_path).write_text("a")
    quarantine.promote()
    quarantine.remove("a")
    assert quarantine.promote() == []
    assert quarantine.rows() == []


def test_a_mark_of_a_process_that_lives_is_not_stale(quarantine: Quarantine, tmp_path: Path) -> None:
    quarantine.mark("a")
    assert Quarantine(tmp_path, "build 1").promote() == []
    assert marker(tmp_path).exists()


def test_the_mark_of_a_process_that_was_killed_is_stale(quarantine: Quarantine, tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path; from fairlead.plugins.quarantine import Quarantine; "
        "Quarantine(Path(sys.argv[1]), 'b').mark('killed'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    quarantine.mark("ours")
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)])
    assert done.returncode == -signal.SIGKILL
    assert quarantine.promote() == ["killed"]
    assert marker(tmp_path).read_text().split()[0] == "ours"


def test_a_mark_is_stale_whose_process_ends_while_it_is_looked_at(
    quarantine: Quarantine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(path: str, mode: str) -> IO[bytes]:
        file: IO[bytes] = open(path, mode)  # noqa: SIM115
        host.kill()
        host.wait()
        return file

    with subprocess.Popen(["sleep", "60"]) as host:
        marker(tmp_path).write_text(f"test.toy {host.pid}:0 1.0.0\n")
        monkeypatch.setitem(vars(quarantines), "open", opened)
        assert quarantine.promote() == ["test.toy"]


def test_a_stale_mark_says_which_version_it_was(quarantine: Quarantine, tmp_path: Path) -> None:
    marker(tmp_path).write_text("a 1:0 3.0.0\n")
    quarantine.promote(lambda _: "1.0.0")
    row = quarantine.find("a")
    assert row is not None
    assert row.version == "3.0.0"


def test_several_loads_at_once_each_have_a_mark(quarantine: Quarantine, tmp_path: Path) -> None:
    for id in ("a", "b", "a"):
        quarantine.mark(id)
    quarantine.unmark("a")
    assert [line.split()[0] for line in marker(tmp_path).read_text().splitlines()] == ["b", "a"]


def test_the_marker_is_on_disk_before_anything_is_loaded(
    quarantine: Quarantine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []

    def told(name: str, step: str) -> None:
        original = getattr(os, name)

        def noted(*given: Any) -> Any:
            steps.append(step)
            return original(*given)

        monkeypatch.setattr(os, name, noted)

    told("fsync", "fsync")
    told("replace", "rename")
    quarantine.mark("a")
    assert steps == ["fsync", "rename", "fsync"]


def test_removing_one_leaves_the_others(quarantine: Quarantine) -> None:
    quarantine.put("a", "1.0.0", "why")
    quarantine.put("b", "1.0.0", "why")
    assert quarantine.remove("a")
    assert [row.id for row in quarantine.rows()] == ["b"]


def test_the_file_goes_with_the_last_row(quarantine: Quarantine, tmp_path: Path) -> None:
    quarantine.put("a", "1.0.0", "why")
    quarantine.remove("a")
    assert not file(tmp_path).exists()


def test_removing_one_that_is_not_there_changes_nothing(quarantine: Quarantine, tmp_path: Path) -> None:
    quarantine.put("a", "1.0.0", "why")
    before = file(tmp_path).read_bytes()
    assert not quarantine.remove("unknown")
    assert file(tmp_path).read_bytes() == before
    assert not Quarantine(tmp_path / "nowhere", "b").remove("a")


def test_removing_one_takes_its_stale_mark_along(quarantine: Quarantine, tmp_path: Path) -> None:
    quarantine.put("a", "1.0.0", "why")
    marker(tmp_path).write_text("a\n")
    quarantine.remove("a")
    assert not marker(tmp_path).exists()
    assert quarantine.promote() == []


def test_a_file_of_bare_ids_is_read(quarantine: Quarantine, tmp_path: Path) -> None:
    file(tmp_path).write_text('["a", "b"]')
    assert quarantine.rows() == [Row("a"), Row("b")]


def test_a_bare_id_is_never_released_by_itself(quarantine: Quarantine, tmp_path: Path) -> None:
    file(tmp_path).write_text('["a"]')
    assert quarantine.held("a", "2.0.0") == Row("a")
    assert quarantine.held("a", None) == Row("a")


def test_a_new_row_beside_bare_ids_keeps_them(quarantine: Quarantine, tmp_path: Path) -> None:
    file(tmp_path).write_text('["a"]')
    quarantine.put("b", "1.0.0", "why")
    assert [row.id for row in quarantine.rows()] == ["a", "b"]
    assert json.loads(file(tmp_path).read_text())[0] == {"id": "a"}


def test_an_unchanged_plugin_stays_in_quarantine(quarantine: Quarantine) -> None:
    quarantine.put("a", "1.0.0", "why")
    assert quarantine.held("a", "1.0.0") is not None
    assert quarantine.held("a", "1.0.0") is not None


@pytest.mark.parametrize("version", ["1.0.1", "0.9.0", None])
def test_another_version_is_released_for_one_try(quarantine: Quarantine, version: str | None) -> None:
    quarantine.put("a", "1.0.0", "why")
    assert quarantine.held("a", version) is None
    assert quarantine.find("a") is None


def test_another_build_of_the_host_releases_for_one_try(quarantine: Quarantine, tmp_path: Path) -> None:
    quarantine.put("a", "1.0.0", "why")
    assert Quarantine(tmp_path, "build 2").held("a", "1.0.0") is None


def test_a_release_touches_only_the_named_row(quarantine: Quarantine) -> None:
    quarantine.put("a", "1.0.0", "why")
    quarantine.put("b", "1.0.0", "why")
    quarantine.held("a", "2.0.0")
    assert [row.id for row in quarantine.rows()] == ["b"]


def test_one_that_is_not_in_quarantine_is_free(quarantine: Quarantine) -> None:
    assert quarantine.held("a", "1.0.0") is None


def test_falling_again_after_a_release_quarantines_the_new_version(quarantine: Quarantine) -> None:
    quarantine.put("a", "1.0.0", "why")
    assert quarantine.held("a", "2.0.0") is None
    quarantine.put("a", "2.0.0", "again")
    row = quarantine.held("a", "2.0.0")
    assert row is not None
    assert (row.version, row.reason) == ("2.0.0", "again")


@pytest.mark.parametrize("content", ["", "{}", "[1]", '[{"version": "1"}]', "\xff"])
def test_a_damaged_file_holds_nobody_back_and_is_told_of(
    quarantine: Quarantine, tmp_path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    file(tmp_path).write_text(content, "latin-1")
    assert quarantine.held("a", "1.0.0") is None
    assert quarantine.damaged
    assert "cannot be read" in caplog.text


def test_both_files_are_their_owner_s_alone(quarantine: Quarantine, tmp_path: Path) -> None:
    quarantine.mark("a")
    quarantine.put("a", "1.0.0", "why")
    assert {path.stat().st_mode & 0o077 for path in tmp_path.iterdir()} == {0}
