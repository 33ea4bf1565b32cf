"""A small project in a folder of its own, and an empty environment to install what it is packaged as."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import venv
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
APP = '''
"""A shop."""
from pathlib import Path
from typing import Annotated

from fairlead import App
from shelf import things

app = App("Tea Shop", description="Sell tea.", version="1.2.0",
          attribution={"text": "Powered by tea", "vendor": "Tea Ltd", "url": "https://example.com"})


@app.action
def stock(of: Annotated[str, "What to look for."] = "tea") -> int:
    """Count what is on the shelf."""
    return things.count(of)


@app.action(side_effects="write", idempotency="idempotent", permissions=["shop:buy"])
def buy(what: Annotated[str, "What to buy."]) -> str:
    """Buy a thing from the shelf."""
    return what


@app.action(visibility="private")
def audit() -> None:
    """Look behind the counter."""
'''
#: What fairlead itself stands on.
CORE = (
    "annotated_types",
    "click",
    "orjson",
    "pydantic",
    "pydantic_core",
    "typing_extensions",
    "typing_inspection",
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a loose module and a package beside it."""
    folder = tmp_path / "shop"
    (folder / "shelf").mkdir(parents=True)
    (folder / "app.py").write_text(APP)
    (folder / "shelf" / "__init__.py").write_text(
        "from pathlib import Path\nthings = Path(__file__).with_name('things.txt').read_text()\n"
    )
    (folder / "shelf" / "things.txt").write_text("tea tea cup\n")
    (folder / "notes.md").write_text("not part of the app\n")
    return folder


Fairlead = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(project: Path) -> Fairlead:
    """`fairlead` as a process in the project's folder."""

    def run(*arguments: str, cwd: Path = project) -> subprocess.CompletedProcess[str]:
        return execute([sys.executable, "-m", "fairlead", *arguments], cwd)

    return run


def execute(command: Sequence[str | Path], cwd: Path) -> subprocess.CompletedProcess[str]:
    hidden = ("PYTHONPATH", "FAIRLEAD_APP", "VIRTUAL_ENV")
    environment = {key: value for key, value in os.environ.items() if key not in hidden}
    return subprocess.run(
        [str(each) for each in command],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


@pytest.fixture(name="execute")
def _execute() -> Fairlead:
    """Any command as a process, with nothing of this environment in its own."""
    return execute


@pytest.fixture(scope="session")
def own_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fairlead's own wheel, as it would be published."""
    folder = tmp_path_factory.mktemp("wheel")
    build = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    done = execute([sys.executable, "-c", build, folder], ROOT)
    assert done.returncode == 0, done.stderr
    return next(folder.glob("*.whl"))


@pytest.fixture
def install(tmp_path: Path, own_wheel: Path) -> Callable[[Path], Path]:
    """Installs a wheel beside fairlead's own, where nothing else is; gives the folder of commands."""

    def install(wheel: Path) -> Path:
        place = tmp_path / "environment"
        venv.create(place, with_pip=True, symlinks=True)
        linked = tmp_path / "core"
        linked.mkdir()
        for name in CORE:
            spec = importlib.util.find_spec(name)
            assert spec is not None
            assert spec.origin is not None
            origin = Path(spec.origin)
            source = origin.parent if origin.name == "__init__.py" else origin
            (linked / source.name).symlink_to(source)
        packages = next(place.glob("lib/python*/site-packages"))
        (packages / "core.pth").write_text(f"{linked}\n")
        pip: list[str | Path] = [
            place / "bin" / "python",
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--no-index",
        ]
        done = execute([*pip, "--disable-pip-version-check", own_wheel, wheel], tmp_path)
        assert done.returncode == 0, done.stderr
        return place / "bin"

    return install
