"""What a process loads, and what it leaves alone: starting quickly, held without a clock."""

import gc
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

#: Loaded by asyncio itself, so by every process that defines an app.
LOOP = ["asyncio", "logging", "ssl", "subprocess"]
#: Loaded by pydantic when it looks through the installed packages for plugins.
PLUGINS = ["importlib.metadata", "pydantic.plugin._loader", "zipfile", "email"]

APP = '''
from datetime import date
from typing import Annotated, TypedDict

from fairlead import App

app = App("small")


class Sum(TypedDict):
    total: int


@app.action
def add(a: Annotated[int, "One number."], b: int = 2) -> Sum:
    """Add two numbers."""
    return {"total": a + b}


@app.action
async def shout(words: list[str]) -> str:
    """Say it loud."""
    return " ".join(words).upper()


@app.action
def wait(until: date) -> date:
    """Wait for a day."""
    return until
'''

#: Two names for one shape: a type that pydantic alone knows to be no shape.
BROKEN = (
    APP
    + '''

class Opaque:
    pass


@app.action
def keep(value: Opaque) -> None:
    """Keep something."""
'''
)

PROGRAM = """
import atexit, json, sys
from fairlead.surfaces.cli import main
atexit.register(lambda: print("\\n" + json.dumps(sorted(sys.modules)), file=sys.stderr))
main(sys.argv[1:])
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "small.py").write_text(APP)
    (tmp_path / "broken.py").write_text(BROKEN)
    return tmp_path


def fairlead(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {key: value for key, value in os.environ.items() if key != "FAIRLEAD_APP"}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], cwd=folder, env=environ, capture_output=True, text=True
    )


def loaded(done: subprocess.CompletedProcess[str]) -> frozenset[str]:
    assert done.returncode == 0, done.stderr
    return frozenset(json.loads(done.stderr.splitlines()[-1]))


def absent(names: Iterable[str], modules: frozenset[str]) -> bool:
    return not modules.intersection(names)


def test_importing_fairlead_loads_neither_pydantic_nor_an_event_loop() -> None:
    program = "import sys, json; import fairlead; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    modules = frozenset(json.loads(done.stdout))
    assert absent(["pydantic", "orjson", "click", "dataclasses", "inspect", *LOOP, *PLUGINS], modules)


def test_help_without_an_app_loads_nothing_that_runs_actions(folder: Path) -> None:
    modules = loaded(fairlead(folder, "--help"))
    assert absent(["pydantic", "click", "fairlead.runtime", "fairlead.actions", *LOOP, *PLUGINS], modules)


def test_help_of_an_app_compiles_no_shape(folder: Path) -> None:
    done = fairlead(folder, "--app", "small", "--help")
    assert "shout" in done.stdout
    assert absent(["pydantic", "pydantic_core", "click", "difflib", *PLUGINS], loaded(done))


def test_a_call_of_an_action_with_plain_types_loads_the_core_of_pydantic_only(folder: Path) -> None:
    done = fairlead(folder, "--app", "small", "add", "--a", "1")
    assert json.loads(done.stdout)["data"] == {"total": 3}
    modules = loaded(done)
    assert "pydantic_core" in modules
    assert absent(["click", "difflib", "pydantic", *PLUGINS], modules)


def test_a_call_looks_for_no_plugins(folder: Path) -> None:
    done = fairlead(folder, "--app", "small", "wait", "--until", "2030-01-01")
    assert json.loads(done.stdout)["data"] == "2030-01-01"
    modules = loaded(done)
    assert "pydantic" in modules
    assert absent(["click", "difflib", "pydantic.type_adapter", *PLUGINS], modules)


def test_a_shape_that_cannot_be_compiled_is_told_when_its_action_is_called(folder: Path) -> None:
    done = fairlead(folder, "--app", "broken", "keep", "--value", "x")
    told = json.loads(done.stdout)["error"]
    assert done.returncode != 0
    assert "'keep'" in told["message"]
    assert "Traceback" not in done.stderr


def test_a_shape_that_cannot_be_compiled_leaves_the_other_actions_alone(folder: Path) -> None:
    assert fairlead(folder, "--app", "broken", "--help").returncode == 0
    assert fairlead(folder, "--app", "broken", "add", "--a", "1").returncode == 0


def test_a_shape_that_cannot_be_compiled_stops_what_needs_the_whole_app(folder: Path) -> None:
    done = fairlead(folder, "--app", "broken", "manifest")
    assert done.returncode != 0
    assert "'keep'" in done.stderr


COLLECTED = """
import gc

from fairlead import App

app = App("collected")
{setting}


@app.action
def look() -> list[int]:
    \"\"\"Say what is collected when, and how much is left alone.\"\"\"
    return [*gc.get_threshold(), gc.get_freeze_count()]
"""


@pytest.mark.parametrize(
    ("setting", "first"), [("", gc.get_threshold()[0]), ("gc.set_threshold(9_000)", 9000)]
)
def test_what_was_loaded_is_not_looked_through_for_garbage_and_what_follows_is(
    tmp_path: Path, setting: str, first: int
) -> None:
    (tmp_path / "collected.py").write_text(COLLECTED.format(setting=setting))
    command = [sys.executable, "-m", "fairlead", "--app", "collected", "look"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    told = json.loads(done.stdout)["data"]
    assert told[0] == first
    assert told[-1] > 10_000
