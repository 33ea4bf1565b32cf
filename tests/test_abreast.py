"""Tests in several processes: every one is run and told of, also when a process dies."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
CONFTEST = """
import os, pathlib, pytest
from abreast import add_option
from abreast import pytest_runtestloop

def pytest_addoption(parser):
    add_option(parser)

@pytest.fixture(scope="session", autouse=True)
def shared():
    made = pathlib.Path(f"made-{os.getpid()}")
    made.touch()
    yield
    made.rename(f"ended-{os.getpid()}")
"""
TESTS = {
    "good": "def test_one(tmp_path): print('said')\ndef test_two(capfd): pass\n",
    "bad": "def test_three(): print('last words'); assert 1 == 2\ndef test_four(): pass\n",
    "dead": "import os\ndef test_five(): pass\ndef test_six(): os._exit(3)\ndef test_seven(): pass\n",
    "skipped": "import pytest\n@pytest.mark.skip(reason='not here')\ndef test_eight(): pass\n",
}


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(CONFTEST)
    for name, text in TESTS.items():
        (folder / f"test_{name}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--processes", "2", *options]
    environ = {**os.environ, "PYTHONPATH": str(HERE), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)


def test_all_are_run_and_told_of_though_a_process_dies(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.returncode == 1
    assert "2 failed, 5 passed, 1 skipped" in done.stdout
    assert "The process that ran this test ended by exit code 3." in done.stdout
    assert "last words" in done.stdout
    assert "said" not in done.stdout
    # What a process shares among its tests is made once and ended with it; the one that died ended nothing.
    assert list(tmp_path.glob("ended-*"))
    assert len(list(tmp_path.glob("made-*"))) == 1


def test_none_begins_after_the_failure_that_was_to_be_the_last(tmp_path: Path) -> None:
    done = run(tmp_path, "--maxfail=1", "test_dead.py", "test_good.py")
    assert done.returncode == 1
    assert "stopping after 1 failures" in done.stdout
    assert "test_seven" not in done.stdout
