"""How `fairlead` finds the app it is to work with."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]

SOURCE = """
from fairlead import App
{name} = App("{name}")

@{name}.action
async def whoami() -> str:
    "Say the app's name."
    return {name}.name
"""
_numbers = itertools.count()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def module(directory: Path, app: str = "app") -> str:
    """A module of a fresh name with an app in it."""
    name = f"located_{next(_numbers)}"
    (directory / f"{name}.py").write_text(SOURCE.format(name=app))
    return name


@pytest.mark.parametrize(
    "form", ["{0}:app", "{0}", "{0}.py:app", "{0}.py", "./{0}.py", "{1}/{0}.py:app", "{1}/{0}"]
)
def test_app_names_a_module_or_a_file(cli: Cli, here: Path, form: str) -> None:
    target = form.format(module(here), here)
    assert cli(None, "--app", target, "whoami").json["data"] == "app"
    assert cli(None, f"--app={target}", "whoami").json["data"] == "app"


@pytest.mark.parametrize("form", ["{0}:app", "{1}/{0}.py"])
def test_the_file_that_was_named_is_imported_wherever_its_folder_stands_on_the_path(
    cli: Cli, here: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    name = module(here)
    (here / "other").mkdir()
    (here / "other" / f"{name}.py").write_text(
        SOURCE.format(name="app").replace('App("app")', 'App("other")')
    )
    monkeypatch.setattr(sys, "path", [str(here / "other"), *sys.path, str(here)])
    assert cli(None, "--app", form.format(name, here), "whoami").json["data"] == "app"


def test_the_only_app_of_a_module_needs_no_name(cli: Cli, here: Path) -> None:
    assert cli(None, "--app", module(here, "board"), "whoami").json["data"] == "board"


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("serve main:app", "--app main:app serve"),
        ("serve --port 0 src/main.py", "--app src/main.py serve"),
        ("serve --app main:app --port 0", "--app main:app serve"),
        ("dev --app=main:app", "--app main:app dev"),
        ("tasks --app main:app", "--app main:app tasks"),
        ("mcp main.py", "--app main.py mcp"),
        ("actions --app", "--app MODULE:NAME actions"),
    ],
)
def test_an_app_that_is_named_after_the_command_is_told_where_it_goes(
    cli: Cli, here: Path, line: str, wanted: str
) -> None:
    ran = cli(None, *line.split())
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines()[1].endswith(f" {wanted}")


@pytest.mark.parametrize(
    "line", ["actions one", "keys new a b:c", "serve --prot 0", "serve http://main:app/"]
)
def test_no_app_is_seen_where_none_is_named(cli: Cli, here: Path, line: str) -> None:
    ran = cli(None, *line.split())
    assert ran.code == 2
    assert "--app" not in ran.err


def test_a_module_of_a_package_is_imported_as_one(cli: Cli, here: Path) -> None:
    package = here / f"package_{next(_numbers)}"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "words.py").write_text("NAME = 'inner'")
    name = module(package, "inner")
    source = (package / f"{name}.py").read_text()
    (package / f"{name}.py").write_text("from .words import NAME\n" + source)
    assert cli(None, "--app", f"{package.name}.{name}:inner", "whoami").json["data"] == "inner"
    assert cli(None, "--app", f"{package.name}/{name}.py", "whoami").json["data"] == "inner"


def test_the_environment_names_the_app(cli: Cli, here: Path) -> None:
    assert cli(None, "whoami", env={"FAIRLEAD_APP": module(here)}).json["data"] == "app"


@pytest.mark.parametrize(("file", "head"), [("pyproject.toml", "[tool.fairlead]\n"), ("fairlead.toml", "")])
def test_a_settings_file_names_the_app(cli: Cli, here: Path, file: str, head: str) -> None:
    (here / file).write_text(f'{head}app = "{module(here, "settings")}:settings"\n')
    assert cli(None, "whoami").json["data"] == "settings"


def test_app_py_is_the_default(cli: Cli, here: Path) -> None:
    (here / "app.py").write_text(SOURCE.format(name="app"))
    (here / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert cli(None, "whoami").json["data"] == "app"


def test_the_nearer_word_wins(cli: Cli, here: Path) -> None:
    (here / "fairlead.toml").write_text(f'app = "{module(here, "toml")}"')
    (here / "pyproject.toml").write_text(f'[tool.fairlead]\napp = "{module(here, "project")}"')
    env = {"FAIRLEAD_APP": module(here, "env")}
    assert cli(None, "whoami").json["data"] == "project"
    assert cli(None, "whoami", env=env).json["data"] == "env"
    assert cli(None, "--app", module(here, "flag"), "whoami", env=env).json["data"] == "flag"


def test_directories_above_are_not_searched(cli: Cli, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "fairlead.toml").write_text(f'app = "{module(here)}"')
    (here / "below").mkdir()
    monkeypatch.chdir(here / "below")
    assert cli(None, "whoami").code == 2


def test_without_an_app_the_commands_that_need_none_work(cli: Cli, here: Path) -> None:
    helped = cli(None, "--help")
    assert (helped.code, "FAIRLEAD_APP" in helped.out) == (0, True)
    assert cli(None, "errors", "CONFLICT").code == 0
    assert cli(None, "version").code == 0
    assert cli(None, "actions").code == 2
    assert cli(None, "whoami").code == 2
    assert cli(None, "versio").code == 4


def test_what_is_not_there_gets_the_near_miss(cli: Cli, here: Path) -> None:
    name = module(here, "board")
    for target, near in ((f"{name[:-1]}x", name), (f"{name}x.py", f"{name}.py"), (f"{name}:bord", "board")):
        ran = cli(None, "--app", target, "whoami")
        assert ran.code == 2
        assert f"Did you mean {near!r}?" in ran.err


@pytest.mark.parametrize(
    "target", ["json", "json:loads", "json:nothing", "no.such.module", "nowhere/at/all.py"]
)
def test_what_is_no_app_ends_with_2(cli: Cli, here: Path, target: str) -> None:
    assert cli(None, "--app", target, "whoami").code == 2


@pytest.mark.parametrize(
    "source",
    ["def f(:", "import no_such_package", "raise ValueError('token=abc123')", "1/0", "raise SystemExit(0)"],
)
def test_an_app_that_cannot_be_imported_is_told_without_a_traceback(
    cli: Cli, here: Path, source: str
) -> None:
    name = f"broken_{next(_numbers)}"
    (here / f"{name}.py").write_text(source)
    ran = cli(None, "--app", name, "whoami")
    assert (ran.code, ran.json["error"]["code"]) == (1, "INTERNAL_ERROR")
    assert name in ran.err
    assert "Traceback" not in ran.err
    assert "abc123" not in ran.out + ran.err


def test_debug_shows_the_traceback_of_a_broken_app(cli: Cli, here: Path) -> None:
    name = f"broken_{next(_numbers)}"
    (here / f"{name}.py").write_text("1/0")
    assert "Traceback" in cli(None, "--app", name, "whoami", env={"FAIRLEAD_DEBUG": "1"}).err


def test_help_of_a_broken_app_still_helps(cli: Cli, here: Path) -> None:
    name = f"broken_{next(_numbers)}"
    (here / f"{name}.py").write_text("1/0")
    ran = cli(None, "--app", name, "--help")
    assert ran.code == 1
    assert "The project:" in ran.out
    assert "ZeroDivisionError" in ran.err
    assert cli(None, "--app", name, "errors", "CONFLICT").code == 0


def test_a_settings_file_that_is_not_toml_is_told(cli: Cli, here: Path) -> None:
    (here / "fairlead.toml").write_text("app = ")
    assert cli(None, "whoami").code == 1
    (here / "fairlead.toml").write_text("app = 3")
    assert cli(None, "whoami").code == 1


@pytest.mark.parametrize(("file", "head"), [("pyproject.toml", "[tool.fairlead]\n"), ("fairlead.toml", "")])
def test_a_misspelt_setting_is_told_with_the_near_miss(cli: Cli, here: Path, file: str, head: str) -> None:
    # It would be taken for the app, and is not the one that was meant.
    (here / "app.py").write_text(SOURCE.format(name="app"))
    (here / file).write_text(f'{head}ap = "shop:app"\nlnit = 1\n')
    for argv in (["actions"], ["whoami"]):
        ran = cli(None, *argv)
        assert ran.code == 1
        assert f"{file} has settings that cannot be used" in ran.err
        assert "ap: There is no such setting. Did you mean 'app'?" in ran.err
        assert "lnit: There is no such setting. Did you mean 'lint'?" in ran.err


def test_the_settings_that_are_known_are_those_of_a_project() -> None:
    from fairlead.project.config import settings_schema
    from fairlead.surfaces.cli.locate import SETTINGS

    assert sorted(SETTINGS) == sorted(settings_schema()["properties"])


def test_settings_without_an_app_are_fine(cli: Cli, here: Path) -> None:
    (here / "app.py").write_text(SOURCE.format(name="app"))
    (here / "pyproject.toml").write_text("[tool.fairlead.lint]\nignore = []\n")
    assert cli(None, "actions").code == 0


def test_a_project_file_that_is_not_toml_is_told_where_no_app_is_found(cli: Cli, here: Path) -> None:
    (here / "pyproject.toml").write_text("[tool.fairl")
    for argv in (["actions"], ["whoami"], ["chat"], ["dev"]):
        ran = cli(None, *argv)
        assert (ran.code, "pyproject.toml is not TOML" in ran.err) == (1, True)
    assert "pyproject.toml is not TOML" in cli(None, "--help").err


def test_settings_that_are_no_table_are_told(cli: Cli, here: Path) -> None:
    (here / "pyproject.toml").write_text('[tool]\nfairlead = "shop:app"\n')
    ran = cli(None, "actions")
    assert (ran.code, "tool.fairlead must be a table" in ran.err) == (1, True)


@pytest.mark.parametrize("target", ["", ":app", "..two", ".two:app", "two.", "two..three"])
def test_what_is_no_name_of_a_module_ends_with_2_in_plain_words(cli: Cli, here: Path, target: str) -> None:
    (here / "two.py").write_text(SOURCE.format(name="app"))
    for argv in (["actions"], ["whoami"]):
        ran = cli(None, "--app", target, *argv)
        assert ran.code == 2
        assert "MODULE:NAME" in ran.err
        assert "importlib" not in ran.err


def test_what_an_app_prints_while_it_is_imported_is_not_a_result(cli: Cli, here: Path) -> None:
    name = module(here)
    path = here / f"{name}.py"
    path.write_text("print('importing')\n" + path.read_text())
    ran = cli(None, "--app", name, "whoami")
    assert ran.json["data"] == "app"
    assert "importing" in ran.err


def test_a_definition_error_is_told_with_the_developers_own_line(cli: Cli, here: Path) -> None:
    name = f"broken_{next(_numbers)}"
    (here / f"{name}.py").write_text("from fairlead import App\napp = App('x')\n@app.action\ndef f(): pass\n")
    assert f"{name}.py, line 3" in cli(None, "--app", name, "f").err


def test_a_working_directory_that_is_gone_is_told(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    leave = f"import os; os.chdir({str(gone)!r}); os.rmdir({str(gone)!r})"
    source = f"{leave}; from fairlead.surfaces.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", source, "actions"], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("error: The working directory cannot be read")
