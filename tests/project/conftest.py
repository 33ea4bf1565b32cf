"""A small project in a folder of its own, and an empty environment to install what it is packaged as."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path
from typing import Literal, NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from fairlead.surfaces.cli import Console, main

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
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
    hidden = (
        "PYTHONPATH",
        "FAIRLEAD_APP",
        "VIRTUAL_ENV",
        "PIP_FIND_LINKS",
        "PYTEST_ADDOPTS",
        "PYTEST_XDIST_WORKER",
    )
    environment = {key: value for key, value in os.environ.items() if key not in hidden}
    return subprocess.run(
        [str(each) for each in command],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=150,
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


@pytest.fixture(scope="session")
def shelf(own_wheel: Path) -> Callable[..., dict[str, Path]]:
    """Tells which files packages and all that they need consist of, as they are installed here, and nothing else."""

    inside = zipfile.Path(own_wheel).iterdir()
    ours = PathDistribution(next(place for place in inside if place.name.endswith(".dist-info")))

    @cache
    def shelf(*requirements: str) -> dict[str, Path]:
        return {
            file.parts[0]: Path(str(each.locate_file(file.parts[0])))
            for each in closure(requirements, ours)
            for file in each.files or ()
            if file.parts[0] not in ("..", "__pycache__")
        }

    return shelf


def closure(requirements: Iterable[str], ours: Distribution) -> list[Distribution]:
    """The packages that requirements name and all that these need, but ours, which is what is tested."""
    found: dict[str, Distribution] = {}
    waiting, seen = list(requirements), set[str]()
    while waiting:
        wanted = Requirement(waiting.pop())
        if str(wanted) in seen:
            continue
        seen.add(str(wanted))
        name = canonicalize_name(wanted.name)
        found[name] = here = ours if name == "fairlead" else distribution(name)
        for needed in map(Requirement, here.requires or ()):
            extras = {"", *wanted.extras}
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
                waiting.append(str(needed).partition(";")[0])
    return [each for each in found.values() if each is not ours]


Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, own_wheel: Path, shelf: Callable[..., dict[str, Path]]) -> Install:
    """Installs something in an environment of its own, with Fairlead's wheel and what it `needs` at hand, and no
    more; gives the folder of its commands. Nothing is fetched from anywhere."""

    def install(what: str | Path, *needs: str, cwd: Path = tmp_path, by: Literal["uv", "pip"] = "uv") -> Path:
        place = tmp_path / "environment"
        python = place / "bin" / "python"
        venv.create(place, symlinks=True)
        packages = next(place.glob("lib/python*/site-packages"))
        for name, there in shelf(*needs).items():
            if name.endswith(".dist-info"):  # a link is no installed package to uv
                shutil.copytree(there, packages / name)
            else:
                (packages / name).symlink_to(there)
        # Both refuse what lacks anything; uv takes a fifth of the time.
        uv = [f"{BIN}/uv", "pip", "install", f"--python={python}", "--no-config", "--no-cache", "--offline"]
        pip = [sys.executable, "-m", "pip", f"--python={python}", "install", "--no-compile"]
        alone = ["--quiet", "--no-index", "--no-build-isolation", f"--find-links={own_wheel.parent}"]
        done = execute([*(uv if by == "uv" else pip), *alone, what], cwd)
        assert done.returncode == 0, done.stdout + done.stderr
        return place / "bin"

    return install


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Seen(NamedTuple):
    """What a person or a program gets from a command."""

    code: int
    out: str
    err: str


@pytest.fixture
def look(project: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Seen]:
    """`fairlead` in the project's folder, as someone at a terminal sees it; with `tty=False`, as a program does."""

    def look(*arguments: str, tty: bool = True, cwd: Path = project, **environ: str) -> Seen:
        monkeypatch.chdir(cwd)
        out, err = (Terminal(), Terminal()) if tty else (io.StringIO(), io.StringIO())
        with pytest.raises(SystemExit) as exit:
            main(arguments, console=Console(io.StringIO(), out, err, environ))
        assert isinstance(exit.value.code, int)
        for name in ("app", "shelf"):
            sys.modules.pop(name, None)
        return Seen(exit.value.code, out.getvalue(), err.getvalue())

    return look
