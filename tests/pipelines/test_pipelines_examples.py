"""The examples run: with their scripts, and on the small local model, whose form is looked at and not its wisdom."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from warm import Warm

pytestmark = pytest.mark.usefixtures("warm_python")

EXAMPLES = Path(__file__).parents[2] / "examples" / "pipelines"
MODELS = Path(os.environ.get("FAIRLEAD_MODELS") or Path(__file__).parents[2] / ".venv" / "models")
INPUTS = {"triage": "tickets.jsonl", "debate": "proposals.jsonl", "documents": "questions.jsonl"}
KEYS = {
    "triage": {"team", "urgency", "summary"},
    "debate": {"accept", "because"},
    "documents": {"topic", "text", "words"},
}


@pytest.fixture(params=sorted(INPUTS))
def example(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """One of the examples, in a folder that it may change."""
    folder = tmp_path / str(request.param)
    shutil.copytree(EXAMPLES / str(request.param), folder)
    return folder


def plumb(folder: Path, *options: str, model: str = "script/answers") -> "subprocess.CompletedProcess[str]":
    name = folder.name
    words = ["--docroot", "shelf", "--auto-approve"] if name == "documents" else []
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    environ |= {"FAIRLEAD_LOCAL_SERVER": "off", "FAIRLEAD_LOCAL_THREADS": "1", "FAIRLEAD_MODELS": str(MODELS)}
    return subprocess.run(
        Warm.python.command(
            "-m", "fairlead", "plumb", "run", f"{name}.plumb", "--model", model, *words, *options
        ),
        cwd=folder,
        input=(folder / INPUTS[name]).read_text(),
        capture_output=True,
        text=True,
        timeout=280,
        env=environ,
        check=False,
    )


def results(done: "subprocess.CompletedProcess[str]") -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


ENDS_LATE = """
import atexit, pathlib, time
atexit.register(pathlib.Path("ended").touch)
atexit.register(time.sleep, 0.3)
"""
EXPECTED = {
    "triage": [
        {"team": "billing", "urgency": 4, "summary": "Paid twice in March."},
        {"team": "support", "urgency": 2, "summary": "Cannot log in."},
    ],
    "debate": [{"accept": True, "because": "A day each week is worth a try, with a measurement."}],
    "documents": [
        {
            "topic": "fairlead",
            "text": "A fairlead is a ring that guides a line and keeps it from chafing.",
            "words": 14,
        }
    ],
}


def test_an_example_runs_with_its_script(example: Path) -> None:
    done = plumb(example)
    assert (done.returncode, done.stderr) == (0, "")
    assert results(done) == EXPECTED[example.name]
    if example.name == "documents":
        assert (example / "shelf" / "answers" / "fairlead.txt").read_text() == "It guides a line."


def test_an_example_is_formatted(example: Path) -> None:
    name = f"{example.name}.plumb"
    command = Warm.python.command("-m", "fairlead", "plumb", "fmt", "--check", name)
    done = subprocess.run(command, cwd=example, check=False)
    assert done.returncode == 0


def test_an_example_is_recorded_and_replayed(example: Path) -> None:
    assert plumb(example, "--record", f"{example.name}.rec.jsonl").returncode == 0
    shutil.rmtree(example / "answers")
    command = Warm.python.command("-m", "fairlead", "plumb", "test", f"{example.name}.plumb")
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(command, cwd=example, capture_output=True, text=True, env=environ, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_run_that_fails_waits_for_the_server_of_its_tools_to_end(tmp_path: Path) -> None:
    folder = tmp_path / "documents"
    shutil.copytree(EXAMPLES / "documents", folder)
    program, server = folder / "documents.plumb", folder / "glossary.py"
    program.write_text(re.sub(r" calls: \d+", " calls: 2", program.read_text()))
    server.write_text(ENDS_LATE + server.read_text())
    done = plumb(folder)
    assert [json.loads(line)["error"] for line in done.stderr.splitlines()] == ["budget_exceeded"]
    assert (folder / "ended").exists()


@pytest.mark.timeout(300)
def test_an_example_runs_on_the_small_model(example: Path) -> None:
    if not (MODELS / "smollm2.gguf").exists():
        pytest.fail(f"smollm2 is not in {MODELS}. Get it: fairlead models pull smollm2")
    # It does not become wise by more turns: what is looked at, a few of them show.
    program = example / f"{example.name}.plumb"
    program.write_text(re.sub(r"max_tool_calls: \d+", "max_tool_calls: 3", program.read_text()))
    done = plumb(example, model="local")
    for result in results(done):
        assert set(result) == KEYS[example.name]
    if done.returncode:
        # It may not become wise within its budget, and is held to that.
        told = json.loads(done.stderr.splitlines()[-1])
        assert told["error"] in (
            "budget_exceeded",
            "max_tool_calls",
            "max_tokens",
            "output_extraction_failed",
        )
    else:
        assert results(done)
