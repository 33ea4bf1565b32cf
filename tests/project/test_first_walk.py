"""README and tutorial, walked from nothing: a new environment, an empty folder, and every file and command copied
from the page."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from test_docs import DOCS, ROOT, Command, commands, read, run_on_terminal, squeezed

Install = Callable[..., Path]


def written(page: Path) -> Iterator[tuple[str, str]]:
    """The files that a page has its reader write: their names, and what is in them."""
    told = r"^Write \w+ to `([\w.]+)`:\n\n```\w+\n(.*?)^```"
    yield from re.findall(told, read(page), re.MULTILINE | re.DOTALL)


def walk(page: Path, folder: Path, programs: Path) -> int:
    """Run what a page shows, as someone does who copies it; gives how many commands that were."""
    path = f"{programs}{os.pathsep}/usr/bin{os.pathsep}/bin"
    done = 0
    for command in commands(page):
        exit_code, printed = run_on_terminal(
            command.line, folder, PATH=path, HOME=str(folder), PYTHONDONTWRITEBYTECODE=""
        )
        assert exit_code == command.exit_code, f"$ {command.line}\n{printed}"
        _shown(command, printed)
        done += 1
    return done


def _shown(command: Command, printed: str) -> None:
    for piece in (piece for line in command.shown for piece in line.split("...")):
        assert squeezed(piece) in squeezed(printed), f"{piece!r} is not in\n$ {command.line}\n{printed}"


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("DESK_FILE", "FAIRLEAD_DATA", "XDG_DATA_HOME", "FAIRLEAD_APP"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "empty"
    folder.mkdir()
    return folder


@pytest.mark.timeout(180)
def test_the_tutorial_can_be_copied_into_an_empty_folder(install: Install, empty: Path) -> None:
    programs = install("fairlead", "fairlead", "pytest", "pytest-asyncio")
    files = dict(written(DOCS / "tutorial.md"))
    for name, text in files.items():
        (empty / name).write_text(text)
    assert len(files) >= 7
    assert walk(DOCS / "tutorial.md", empty, programs) >= 15


@pytest.mark.timeout(180)
def test_the_environment_of_the_tour_runs_the_tutorial_s_tests_in_the_checkout_too(
    install: Install, empty: Path
) -> None:
    [told] = re.findall(r"--editable '\.(\[.+\])' (pytest .+)$", read(ROOT / "Makefile"), re.MULTILINE)
    extras, packages = told
    programs = install("fairlead", f"fairlead{extras}", *packages.split())
    # The checkout, for what pytest makes of it.
    (empty / "pyproject.toml").write_text(read(ROOT / "pyproject.toml"))
    (empty / "tests").mkdir()
    for name, text in written(DOCS / "tutorial.md"):
        (empty / name).write_text(text)
    tests = [each for each in commands(DOCS / "tutorial.md") if "pytest" in each.line]
    # What pytest makes of Fairlead for the first of them is there for the second.
    more = {"PATH": f"{programs}{os.pathsep}/usr/bin", "HOME": str(empty), "PYTHONDONTWRITEBYTECODE": ""}
    for command in tests:
        exit_code, printed = run_on_terminal(command.line, empty, **more)
        assert exit_code == command.exit_code == 0, printed
    assert len(tests) == 2


def test_the_readme_can_be_copied_into_an_empty_folder(install: Install, empty: Path) -> None:
    programs = install("fairlead", "fairlead", by="pip")
    [example] = re.findall(r"^```python\n(.*?)^```", read(ROOT / "README.md"), re.MULTILINE | re.DOTALL)
    (empty / "docs/examples").mkdir(parents=True)
    (empty / "docs/examples/hello.py").write_text(example)
    assert walk(ROOT / "README.md", empty, programs) >= 2
    exit_code, printed = run_on_terminal(f"{programs}/fairlead init --cwd made", empty, HOME=str(empty))
    assert exit_code == 0, printed


def test_the_extra_for_plugins_is_all_that_they_need(install: Install, empty: Path) -> None:
    programs = install("fairlead[plugins]", "fairlead[plugins]")
    for command in (
        f"plugin install {ROOT}/examples/plugins/notes_py --yes",
        """plugin run acme.notes_py add_py_note '{"title": "Tide", "body": "High at six."}'""",
    ):
        exit_code, printed = run_on_terminal(f"{programs}/fairlead {command}", empty, HOME=str(empty))
        assert exit_code == 0, printed
