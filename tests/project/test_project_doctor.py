"""Doctor looks from outside, breaks nothing, and has a way out for each thing it warns of."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fairlead.project import doctor
from fairlead.project.doctor import doctor_project
from fairlead.project.init import init_project
from fairlead.store import open_store
from fairlead.tasks.bus import carry

Run = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.usefixtures("parts_are_warm")


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    init_project(tmp_path, name="tea-notes")
    return tmp_path


def codes(report: dict[str, Any], level: str = "warning") -> list[str]:
    return [check["code"] for check in report["checks"] if check["level"] == level]


def test_an_empty_folder_is_not_a_project(tmp_path: Path) -> None:
    report = doctor_project(tmp_path)
    assert report["ok"] is False
    assert codes(report) == ["MISSING_PYPROJECT", "MISSING_APP_MODULE"]
    assert len(report["recommendations"]) == 2


def test_a_new_project_is_well(fresh: Path) -> None:
    report = doctor_project(fresh)
    assert report["ok"] is True, report
    assert (report["kind"], report["defaultAppModule"]) == ("python", "app:app")
    assert {"PYPROJECT", "PROJECT_KIND", "CONFIG_FOUND", "DEFAULT_APP_MODULE", "APP_IMPORTABLE"} <= set(
        codes(report, "info")
    )


HEAD = "import threading\nfrom fairlead import App\napp = App('x')\n"
ACTION = "@app.action\ndef act() -> int:\n    'Act on nothing.'\n    return 1\n"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("APP_BROKEN", "import nothing_like_this"),
        ("APP_BROKEN", "def ("),
        ("APP_BROKEN", "import os\nos._exit(3)"),
        ("APP_BROKEN", "raise SystemExit"),
        ("NO_ACTIONS", HEAD),
        ("IMPORT_SIDE_EFFECTS", HEAD + ACTION + "print('hello')"),
        ("IMPORT_SIDE_EFFECTS", HEAD + ACTION + "threading.Thread(target=threading.Event().wait).start()"),
    ],
)
def test_an_app_that_cannot_be_used_is_told(fresh: Path, code: str, text: str) -> None:
    (fresh / "app.py").write_text(text)
    report = doctor_project(fresh)
    assert code in codes(report)
    assert all("wayOut" in check for check in report["checks"] if check["level"] == "warning")


@pytest.mark.parametrize("text", ["{", '{"mcpServers": {"files": {"comand": "x"}}}'])
def test_a_server_that_cannot_be_used_as_it_is_written_is_told(fresh: Path, text: str) -> None:
    (fresh / ".mcp.json").write_text(text)
    assert codes(doctor_project(fresh)) == ["MCP_SERVER_INVALID"]


def test_wrong_settings_are_told(fresh: Path) -> None:
    (fresh / "pyproject.toml").write_text("[tool.fairlead]\nap = 'app:app'\n")
    assert codes(doctor_project(fresh)) == ["CONFIG_INVALID"]


def test_a_key_file_that_others_can_read_is_mended(fresh: Path) -> None:
    keys = fresh / "fairlead-keys.json"
    keys.write_text('{"keys": {}}')
    keys.chmod(0o644)
    assert codes(doctor_project(fresh)) == ["KEYS_TOO_OPEN"]
    mended = doctor_project(fresh, fix=True)
    assert (mended["ok"], mended["fixed"]) == (True, ["KEYS_TOO_OPEN"])
    assert keys.stat().st_mode & 0o777 == 0o600


def test_what_cannot_be_mended_is_told_with_the_reason(fresh: Path) -> None:
    (fresh / "fairlead-keys.json").symlink_to("/proc/self/status")  # whose mode nobody can change
    told = doctor_project(fresh, fix=True)
    assert (codes(told), told["fixed"]) == (["KEYS_TOO_OPEN"], [])
    assert "could not be mended" in told["checks"][-1]["message"]


def test_the_kind_follows_from_what_the_project_needs(fresh: Path) -> None:
    (fresh / "requirements.txt").write_text("fastapi\n")
    assert doctor_project(fresh)["kind"] == "fastapi"


def test_the_exit_code_is_one_when_something_warns(run: Run, fresh: Path) -> None:
    assert run("doctor", cwd=fresh).returncode == 0
    (fresh / "empty").mkdir()
    done = run("doctor", cwd=fresh / "empty")
    assert done.returncode == 1
    assert json.loads(done.stdout)["ok"] is False
    assert run("doctor", "--cwd", "nowhere", cwd=fresh).returncode == 2


def found(folder: Path, code: str) -> Any:
    [check] = [check for check in doctor_project(folder)["checks"] if check["code"] == code]
    return check


def test_a_port_that_is_taken_is_told(fresh: Path) -> None:
    with socket.socket() as listener:
        with suppress(OSError):  # somebody else has it, which is as good
            listener.bind(("127.0.0.1", 8000))
            listener.listen()
        assert "--port 8001" in found(fresh, "PORT_TAKEN")["wayOut"]


def test_a_store_is_told_as_found_or_with_what_is_wrong_with_it(
    fresh: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRLEAD_DATABASE_URL", f"sqlite:///{tmp_path}/kept.db")
    assert "STORE_FOUND" not in {check["code"] for check in doctor_project(fresh)["checks"]}
    open_store().close()
    assert "up to date" in found(fresh, "STORE_FOUND")["message"]
    (tmp_path / "kept.db").write_text("this is no database, and long enough to be read as one " * 20)
    check = found(fresh, "STORE_UNUSABLE")
    assert (check["level"], "fairlead store" in check["wayOut"]) == ("warning", True)


def test_a_bus_that_does_not_answer_is_told(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRLEAD_BUS_URL", "nats://127.0.0.1:1")
    assert "JetStream" in found(fresh, "BUS_UNREACHABLE")["wayOut"]


def test_a_bus_that_only_others_use_is_told(
    fresh: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRLEAD_DATABASE_URL", f"sqlite:///{tmp_path}/kept.db")
    with open_store() as store:
        assert "BUS_MISSING" not in {check["code"] for check in doctor_project(fresh)["checks"]}
        store.write_now(lambda tx: carry(tx, time.time()))
        assert "FAIRLEAD_BUS_URL" in found(fresh, "BUS_MISSING")["message"]
    monkeypatch.setenv("FAIRLEAD_BUS_URL", "nats://127.0.0.1:1")
    assert "BUS_MISSING" not in {check["code"] for check in doctor_project(fresh)["checks"]}


def test_an_extra_that_is_missing_is_told_with_what_it_is_for(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "find_spec", lambda name: None if name == "jwt" else object())
    check = found(fresh, "MISSING_EXTRA")
    assert (check["level"], check["wayOut"]) == ("info", "pip install 'fairlead[jwt]'")


def test_an_old_python_and_a_clock_that_is_behind_are_told(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_OLDEST_PYTHON", (9, 0))
    monkeypatch.setattr(doctor, "_EARLIEST", 1e12)
    assert found(fresh, "OLD_PYTHON")["wayOut"] == "Install Python 9.0 or newer."
    assert "tokens expire" in found(fresh, "CLOCK_SKEW")["wayOut"]


def test_an_import_that_takes_long_is_told(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_SLOW_IMPORT", 0.0)
    assert "seconds" in found(fresh, "IMPORT_SIDE_EFFECTS")["message"]


def test_doctor_never_imports_the_app_itself(fresh: Path) -> None:
    before = set(sys.modules)
    doctor_project(fresh)
    assert not {"app", "notebook"} & (set(sys.modules) - before)
