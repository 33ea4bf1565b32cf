"""Every template is a project that runs, passes its own tests and can be given to others, as it is written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fairlead import Failure
from fairlead.project.init import ALIASES, TEMPLATES, init_project

ROOT = Path(__file__).parents[2]
NODE = ROOT / "tests" / "node" / "node_modules"
COMMANDS = Path(sys.executable).parent
Run = Callable[..., subprocess.CompletedProcess[str]]


def in_project(folder: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    """A command as someone types it in the project, with this environment's programs."""
    hidden = ("PYTHONPATH", "FAIRLEAD_APP", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER")
    environment = {key: value for key, value in os.environ.items() if key not in hidden}
    environment["PATH"] = os.pathsep.join([str(COMMANDS), environment.get("PATH", "")])
    return subprocess.run(
        [str(each) for each in command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=55,
        check=False,
    )


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_new_project_runs_and_passes_its_own_tests(template: str, tmp_path: Path) -> None:
    folder = tmp_path / "tea-notes"
    made = init_project(folder, template=template)
    assert made["template"] == template
    assert len(made["nextSteps"]) == 3
    assert {"app.py", "README.md", "pyproject.toml", ".gitignore"} <= set(made["files"])
    added = in_project(folder, "fairlead", "add-note", "--text", "Buy tea", "--output", "json")
    assert json.loads(added.stdout)["data"] == {"id": 1, "text": "Buy tea"}
    tests = in_project(folder, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert tests.returncode == 0, tests.stdout
    lint = in_project(folder, "fairlead", "lint", "--strict")
    assert lint.returncode == 0, lint.stdout
    doctor = in_project(folder, "fairlead", "doctor")
    assert json.loads(doctor.stdout)["ok"] is True, doctor.stdout
    text = "".join(
        path.read_text() for path in folder.rglob("*.*") if path.suffix in (".py", ".md", ".toml", ".ts")
    )
    assert "my-app" not in text
    assert "MY_APP" not in text


@pytest.mark.parametrize(("template", "inside"), [("ai-sdk", "host"), ("react", "web")])
def test_a_front_end_passes_its_own_tests(template: str, inside: str, tmp_path: Path) -> None:
    init_project(tmp_path, template=template, name="tea-notes")
    (tmp_path / inside / "node_modules").symlink_to(NODE)
    tests = in_project(tmp_path / inside, "npm", "test")
    assert tests.returncode == 0, tests.stdout


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_new_project_is_packaged(template: str, tmp_path: Path) -> None:
    init_project(tmp_path, template=template, name="tea-notes")
    packaged = in_project(tmp_path, "fairlead", "package")
    assert packaged.returncode == 0, packaged.stdout
    assert (tmp_path / "dist/fairlead/tea_notes_fairlead-0.1.0-py3-none-any.whl").is_file()


@pytest.mark.parametrize("name", ALIASES)
def test_names_that_existing_users_know_work(name: str, tmp_path: Path) -> None:
    assert init_project(tmp_path, template=name, name="x")["template"] == ALIASES[name]


def test_a_file_that_is_there_is_not_overwritten_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("mine")
    with pytest.raises(Failure) as refused:
        init_project(tmp_path, name="x")
    assert refused.value.code == "CONFLICT"
    assert [path.name for path in tmp_path.iterdir()] == ["app.py"]
    assert init_project(tmp_path, name="x", force=True)["ok"] is True
    assert (tmp_path / "app.py").read_text() != "mine"


@pytest.mark.parametrize(
    ("template", "name"), [("reactt", "x"), ("", "x"), ("app", "7 seas"), ("../app", "x")]
)
def test_what_cannot_be_made_is_refused(template: str, name: str, tmp_path: Path) -> None:
    with pytest.raises(Failure) as refused:
        init_project(tmp_path, template=template, name=name)
    assert refused.value.code == "VALIDATION_ERROR"
    assert list(tmp_path.iterdir()) == []


def test_the_command_asks_nothing_and_tells_what_it_made(run: Run, tmp_path: Path) -> None:
    done = run("init", "mcp", "--cwd", "made", "--name", "tea", cwd=tmp_path)
    assert json.loads(done.stdout)["appModule"] == "app:app"
    again = run("init", "mcp", "--cwd", "made", "--name", "tea", cwd=tmp_path)
    assert again.returncode == 1
    assert "Nothing was written" in again.stderr
