"""Hints and help show the program as it was really started."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Program = Callable[[str], Path]

GO = "@app.action\ndef go(times: int):\n    'Go.'\n"


def told(*command: str, cwd: Path | None = None, path: str | None = None) -> str:
    """What a process says on stderr."""
    env = {**os.environ, "PATH": path or os.environ["PATH"]}
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=env).stderr


def test_a_file_is_run_by_python(program: Program) -> None:
    path = program(GO)
    assert f"Try '{sys.executable} program.py go --help'." in told(
        sys.executable, "program.py", "go", cwd=path.parent
    )


def test_a_module_is_run_by_python_m() -> None:
    assert f"Try '{sys.executable} -m fairlead errors --help'." in told(
        sys.executable, "-m", "fairlead", "errors", "--nope"
    )


def test_the_app_that_was_named_is_named_again(program: Program) -> None:
    path = program(GO)
    err = told(sys.executable, "-m", "fairlead", "--app", str(path), "go")
    assert f"-m fairlead --app {path} go --help'" in err


@pytest.mark.parametrize("found", [True, False])
def test_a_command_is_typed_by_its_name_where_the_shell_finds_it(program: Program, found: bool) -> None:
    path = program(GO)
    command = path.with_name("runner")
    command.write_text(f"#!{sys.executable}\nfrom program import app\napp.cli()\n")
    command.chmod(0o755)
    typed = "runner" if found else str(command)
    folders = f"{path.parent}{os.pathsep}{os.environ['PATH']}" if found else None
    assert f"Try '{typed} go --help'." in told(str(command), "go", path=folders)


def test_arguments_of_the_host_program_leave_the_apps_name() -> None:
    source = f"from fairlead import App\napp = App('hosted')\n{GO}app.cli(['go'])\n"
    assert "Try 'hosted go --help'." in told(sys.executable, "-c", source)


def test_completion_says_when_there_is_no_command_to_complete(program: Program) -> None:
    path = program(GO)
    assert "[project.scripts]" in told(sys.executable, str(path), "--completion", "bash")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_program_started_without_a_stream_does_its_work(closed: str) -> None:
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m fairlead errors {closed}"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
