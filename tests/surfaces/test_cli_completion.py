"""What a shell is offered when someone presses tab."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from fairlead import App
from fairlead.surfaces.cli import run

Cli = Callable[..., Any]
Complete = Callable[..., list[str]]


def paints() -> App:
    app = App("paints")

    @app.action
    async def paint(
        colour: Literal["red", "green"], glossy: bool = False, coats: list[Literal[1, 2]] | None = None
    ) -> None:
        """Paint."""

    @app.action(visibility="private")
    async def paper() -> None:
        """Stay hidden."""

    return app


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Complete:
    """The lines that a shell is answered with."""

    def ask(words: str, at: str, shell: str = "bash") -> list[str]:
        monkeypatch.setenv("_PAINTS_COMPLETE", f"{shell}_complete")
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", at)
        with pytest.raises(SystemExit) as exit:
            run(paints(), [])
        assert exit.value.code == 0
        return capsys.readouterr().out.splitlines()

    return ask


def test_actions_and_commands_are_offered(complete: Complete) -> None:
    assert complete("paints pai", "1") == ["plain,paint"]
    assert "plain,version" in complete("paints ", "1")


def test_verbs_are_offered_and_what_can_be_run(complete: Complete) -> None:
    assert complete("paints tasks w", "2") == ["plain,watch", "plain,workers"]
    assert complete("paints keys re", "2") == ["plain,revoke"]
    assert complete("paints run pa", "2") == ["plain,paint"]
    assert complete("paints run --de", "2") == ["plain,--detach", "plain,--delay", "plain,--deadline"]
    assert "plain,--worker" in complete("paints serve --wo", "2")


def test_flags_are_offered(complete: Complete) -> None:
    assert complete("paints paint --co", "2") == ["plain,--colour", "plain,--coats", "plain,--confirm"]
    assert "plain,--no-glossy" in complete("paints paint --colour red --no", "4")


def test_choices_are_offered(complete: Complete) -> None:
    assert complete("paints paint --colour ", "3") == ["plain,red", "plain,green"]
    assert complete("paints paint --glossy ", "3") == ["plain,true", "plain,false"]
    assert complete("paints paint --coats 1 --coats ", "5") == ["plain,1", "plain,2"]
    assert complete("paints paint --output t", "3") == ["plain,table", "plain,text"]


def test_codes_and_pages_are_offered(complete: Complete) -> None:
    assert "plain,CONFLICT" in complete("paints errors CONFL", "2")
    assert complete("paints help pai", "2") == ["plain,paint"]


def test_every_shell_is_answered_in_its_own_form(complete: Complete) -> None:
    assert complete("paints pai", "1", "zsh") == ["plain", "paint", "Paint."]
    assert complete("paints pai", "pai", "fish")[0].startswith("plain,paint")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_printed_with_how_to_enable_it(cli: Cli, shell: str) -> None:
    ran = cli(paints(), "--completion", shell)
    assert ran.code == 0
    assert "_PAINTS_COMPLETE" in ran.out
    assert f"paints --completion {shell}" in ran.out


def test_fairlead_completes_for_the_app_that_is_named(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        "from fairlead import App\napp = App('x')\n@app.action\ndef go(): 'Go.'\n"
    )
    words = f"fairlead --app {tmp_path}/app.py g"
    env = {**os.environ, "_FAIRLEAD_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": "3"}
    command = [sys.executable, "-m", "fairlead"]
    assert subprocess.run(command, capture_output=True, text=True, env=env).stdout == "plain,go\n"


@pytest.mark.parametrize(
    ("env", "project", "offered"),
    [
        ({}, None, ""),
        ({}, '[tool.fairlead]\napp = "app"\n', "plain,go"),
        ({"FAIRLEAD_APP": "app"}, None, "plain,go"),
    ],
    ids=["bare", "project", "environment"],
)
def test_an_app_that_nobody_named_is_not_run_by_pressing_tab(
    tmp_path: Path, env: dict[str, str], project: str | None, offered: str
) -> None:
    (tmp_path / "app.py").write_text(
        "from pathlib import Path\nfrom fairlead import App\nPath('ran').touch()\n"
        "app = App('x')\n@app.action\ndef go(): 'Go.'\n"
    )
    if project is not None:
        (tmp_path / "pyproject.toml").write_text(project)
    asked = {"_FAIRLEAD_COMPLETE": "bash_complete", "COMP_WORDS": "fairlead g", "COMP_CWORD": "1"}
    command = [sys.executable, "-m", "fairlead"]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **asked, **env}, cwd=tmp_path
    )
    assert (done.stdout.strip(), (tmp_path / "ran").exists()) == (offered, bool(offered))


def test_a_broken_app_still_has_its_built_in_commands(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("1/0")
    env = {
        **os.environ,
        "FAIRLEAD_APP": "app",
        "_FAIRLEAD_COMPLETE": "bash_complete",
        "COMP_WORDS": "fairlead ver",
        "COMP_CWORD": "1",
    }
    command = [sys.executable, "-m", "fairlead"]
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("plain,version\n", "")
