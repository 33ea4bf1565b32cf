"""Schemathesis reads the document and tries to prove the server wrong: every check, and nothing found."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fairlead import App
from fairlead.surfaces.auth import ApiKeys

HERE = Path(__file__).parent
TASKBOARD = HERE.parents[2] / "examples" / "taskboard" / "app.py"


def attack(url: str, key: str, tmp_path: Path, *options: str) -> None:
    """Raise what schemathesis says unless it finds nothing."""
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(HERE / "schemathesis.toml")]
    command += [
        "run",
        f"{url}/openapi.json",
        "--checks",
        "all",
        "--max-examples",
        "6",
        "--seed",
        "1",
        "--no-color",
    ]
    command += ["--phases", "examples,coverage,fuzzing"]
    command += ["--header", f"Authorization: Bearer {key}", "--suppress-health-check", "all", *options]
    # Tables of characters are kept where our own tests keep theirs. Examples are not, so that each run is the same.
    command += ["--generation-database", "none"]
    settings = {
        "PYTHONPATH": str(HERE),
        "HYPOTHESIS_STORAGE_DIRECTORY": str(HERE.parents[2] / ".hypothesis"),
        "SCHEMATHESIS_HOOKS": "schemathesis_hooks",
    }
    ran = subprocess.run(
        command, env={**os.environ, **settings}, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "Server error" not in ran.stdout


@pytest.mark.timeout(180)
def test_nothing_is_found_in_a_broad_app(broad_url: str, key: str, tmp_path: Path) -> None:
    # An action's stream takes what its invocation takes: a few of them stand for all.
    attack(broad_url, key, tmp_path, "--exclude-path-regex", "/(?!run_job|count_up|paint)[a-z_]+/stream")


@pytest.fixture
def taskboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> App:
    monkeypatch.setenv("TASKBOARD_DB", str(tmp_path / "board.sqlite"))
    spec = importlib.util.spec_from_file_location("taskboard_served", TASKBOARD)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "taskboard_served", module)
    spec.loader.exec_module(module)
    app = module.app
    assert isinstance(app, App)
    return app


@pytest.mark.timeout(180)
def test_nothing_is_found_in_the_taskboard(
    taskboard: App, serve: Callable[..., str], key: str, tmp_path: Path
) -> None:
    keys = ApiKeys({key: {"name": "tester", "permissions": ["*"]}})
    url = serve(taskboard, resolve_context=keys, include_destructive=True)
    # It reads slips as what was meant, so wrong input is not always refused; and `fail` fails as it is told to. Two
    # streams stand for all here, too.
    left_out = "/fail/|/(?!import_tasks|search_tasks)[a-z_]+/stream"
    attack(
        url, key, tmp_path, "--exclude-checks", "negative_data_rejection", "--exclude-path-regex", left_out
    )
