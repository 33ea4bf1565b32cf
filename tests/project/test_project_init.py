"""Every template is a project that runs, passes its own tests and can be given to others, as it is written."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from fairlead import Failure
from fairlead.project.init import ALIASES, TEMPLATES, init_project
from warm import Warm

ROOT = Path(__file__).parents[2]
NODE = ROOT / "tests" / "node" / "node_modules"
COMMANDS = Path(sys.executable).parent
Run = Callable[..., subprocess.CompletedProcess[str]]
WarmThere = Callable[[Path], Warm]

#: They start a dozen processes each, which takes its time where others are at work, too.
pytestmark = pytest.mark.timeout(180)


#: What every project's own dependencies and tools stand on.
WORK = ("fairlead[all]", "fastapi", "openai", "pytest", "pytest-asyncio")
#: What a packaged one may need.
USE = ("fairlead[serve]", "fastapi", "openai")


def in_project(
    folder: Path, *command: str | Path, path: Path | str = COMMANDS
) -> subprocess.CompletedProcess[str]:
    """A command as someone types it in the project, with an environment's programs."""
    hidden = ("PYTHONPATH", "FAIRLEAD_APP", "PYTEST_ADDOPTS")
    environment = {key: value for key, value in os.environ.items() if key not in hidden}
    environment["PATH"] = os.pathsep.join([str(path), environment.get("PATH", "")])
    return subprocess.run(
        [str(each) for each in command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=150,
        check=False,
    )


def test_a_new_project_is_named_throughout(tmp_path: Path) -> None:
    for template in TEMPLATES:
        folder = tmp_path / template / "tea-notes"
        made = init_project(folder, template=template)
        assert (made["template"], len(made["nextSteps"])) == (template, 3)
        assert {"app.py", "README.md", "pyproject.toml", ".gitignore"} <= set(made["files"])
        text = "".join((folder / file).read_text() for file in made["files"])
        assert not [word for word in ("my-app", "my_app", "MY_APP", "MyApp") if word in text]


def test_a_readme_has_fairlead_installed_by_a_path(tmp_path: Path) -> None:
    """Its environment is new, and by the name alone pip would fetch another project."""
    for template in TEMPLATES:
        init_project(tmp_path / template, template=template, name="tea")
        page = (tmp_path / template / "README.md").read_text()
        assert "python -m venv" in page
        assert "pip install /path/to/fairlead " in page


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_new_project_runs_and_passes_its_own_tests(
    template: str, tmp_path: Path, install: Callable[..., Path], warm_there: WarmThere
) -> None:
    folder = tmp_path / "tea-notes"
    init_project(folder, template=template)
    there = install(".[dev]", *WORK, cwd=folder, replaces="tea-notes")
    python, fairlead = warm_there(there), str(there / "fairlead")
    added = in_project(
        folder,
        *python.command(fairlead, "add-note", "--text", "Buy tea", "--output", "json"),
        path=there,
    )
    assert json.loads(added.stdout)["data"] == {"id": 1, "text": "Buy tea"}
    tests = in_project(folder, *python.command("-m", "pytest", "-q", "-p", "no:cacheprovider"), path=there)
    assert tests.returncode == 0, tests.stdout
    lint = in_project(folder, *python.command(fairlead, "lint", "--strict"), path=there)
    assert lint.returncode == 0, lint.stdout
    # It looks at the app in a process of its own.
    own = tmp_path / "python"
    own.write_text(f'#!/bin/sh\nexec {python.line()} "$@"\n')
    own.chmod(0o755)
    doctor = in_project(
        folder, "env", f"WARM_EXECUTABLE={own}", *python.command(fairlead, "doctor"), path=there
    )
    assert json.loads(doctor.stdout)["ok"] is True, doctor.stdout


@pytest.mark.parametrize("template", TEMPLATES)
async def test_a_packaged_project_runs_where_nothing_of_it_is(
    template: str,
    tmp_path: Path,
    install: Callable[..., Path],
    warm_there: WarmThere,
    execute: Run,
    run: Run,
) -> None:
    folder, empty = tmp_path / "project", tmp_path / "empty"
    empty.mkdir()
    init_project(folder, template=template, name="tea-notes")
    packaged = run("package", cwd=folder)
    assert packaged.returncode == 0, packaged.stderr
    wheel = tmp_path / "tea_notes_fairlead-0.1.0-py3-none-any.whl"
    (folder / "dist" / "fairlead" / wheel.name).rename(wheel)
    shutil.rmtree(folder)
    there = install(wheel, *USE, replaces="tea-notes-fairlead")
    whence = "import fairlead, sys; print(fairlead.__file__, *sys.path, sep='\\n')"
    paths = execute([there / "python", "-I", "-c", whence], empty).stdout.split()
    assert paths[0].startswith(str(there.parent))
    assert not [path for path in paths if path.startswith(str(ROOT))]
    python = warm_there(there)
    command = python.command(str(there / "tea-notes"), "add-note", "--text", "Buy tea", "--output", "json")
    added = execute(command, empty)
    assert json.loads(added.stdout)["data"] == {"id": 1, "text": "Buy tea"}, added.stderr
    first, *more = python.command(str(there / "tea-notes-mcp"))
    server = StdioServerParameters(command=first, args=more, cwd=empty)
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        tools = {tool.name for tool in (await session.list_tools()).tools}
        assert tools == {"add_note", "find_notes", "read_note", *({"keeper"} if template == "agent" else ())}
        found = await session.call_tool("find_notes", {"word": "tea"})
        assert found.structured_content == {"result": [{"id": 1, "text": "Buy tea"}]}
        prompts = {prompt.name for prompt in (await session.list_prompts()).prompts}
        assert ("tidy_up" in prompts) is (template == "mcp")


@pytest.mark.parametrize(("template", "inside"), [("ai-sdk", "host"), ("react", "web")])
def test_a_front_end_passes_its_own_tests(template: str, inside: str, tmp_path: Path, warm_path: str) -> None:
    init_project(tmp_path, template=template, name="tea-notes")
    (tmp_path / inside / "node_modules").symlink_to(NODE)
    tests = in_project(tmp_path / inside, "npm", "test", path=warm_path)
    assert tests.returncode == 0, tests.stdout


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
