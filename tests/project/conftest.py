"""A small project in a folder of its own, and an empty environment to install what it is packaged as."""

from __future__ import annotations

import fcntl
import importlib.util
import io
import linecache
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import chdir, contextmanager
from functools import cache
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path
from types import SimpleNamespace
from typing import Literal, NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from fairlead.project import build, manifests, probe, wheel
from fairlead.surfaces.cli import Console, main
from warm import Warm

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

#: What a command is not told of the environment that tests run in.
HIDDEN = (
    "PYTHONPATH",
    "FAIRLEAD_APP",
    "VIRTUAL_ENV",
    "PIP_FIND_LINKS",
    "PYTEST_ADDOPTS",
)


def environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key not in HIDDEN}


@contextmanager
def from_here(folder: Path) -> Iterator[None]:
    """In a folder, with nothing left of what is imported from it: the next call may find other files there."""
    path, before, written = list(sys.path), set(sys.modules), sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    importlib.invalidate_caches()
    linecache.clearcache()
    try:
        with chdir(folder):
            yield
    finally:
        sys.path[:], sys.dont_write_bytecode = path, written
        for name in set(sys.modules) - before:
            if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(folder)):
                del sys.modules[name]


# Test processes are copies of the one that reads this, and have it in common.
_warm_parts = Warm(Path(__file__).with_name("warm_parts.py"))


@pytest.fixture(scope="session")
def warm_parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python for the parts of a verb's work that it starts processes for, in a third of the time."""
    python = tmp_path_factory.mktemp("warm") / "python"
    python.write_text(f'#!/bin/sh\nexec {_warm_parts.line()} "$@"\n')
    python.chmod(0o755)
    return python


@pytest.fixture
def parts_are_warm(warm_parts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have verbs in this process start that Python. Commands that are processes start the one that is theirs."""
    monkeypatch.setattr(probe, "_COMMAND", (str(warm_parts), *probe._COMMAND[1:]))
    for module in (build, manifests, wheel):
        monkeypatch.setattr(module, "sys", SimpleNamespace(executable=str(warm_parts)))


@pytest.fixture
def run(project: Path, monkeypatch: pytest.MonkeyPatch, parts_are_warm: None) -> Fairlead:
    """`fairlead` in the project's folder, as a program would start it, in this process.

    What a process of its own adds is shown by `test_a_verb_is_a_command_that_ends_with_its_code`.
    """

    def run(*arguments: str, cwd: Path = project) -> subprocess.CompletedProcess[str]:
        for name in HIDDEN:
            monkeypatch.delenv(name, raising=False)
        out, err = io.StringIO(), io.StringIO()
        with from_here(cwd), pytest.raises(SystemExit) as exit:
            main(arguments, console=Console(io.StringIO(), out, err, environment()))
        assert isinstance(exit.value.code, int)
        return subprocess.CompletedProcess(arguments, exit.value.code, out.getvalue(), err.getvalue())

    return run


def execute(command: Sequence[str | Path], cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(each) for each in command],
        cwd=cwd,
        env=environment(),
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
    """Fairlead's own wheel, as it would be published, and compiled as far as it is here: a new environment would
    compile it anew each time. The first test process that needs it makes it for all of them."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if base.name.startswith("process-") else base) / "own-wheel"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = folder / "made"
        if not made.exists():
            # One that fails half-way leaves none that looks made.
            build_compiled(Path(tempfile.mkdtemp(dir=folder))).rename(made)
    return next(made.glob("*.whl"))


def build_compiled(folder: Path) -> Path:
    build = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    done = execute([sys.executable, "-c", build, folder], ROOT)
    assert done.returncode == 0, done.stderr
    wheel = next(folder.glob("*.whl"))
    with zipfile.ZipFile(wheel, "a") as archive:
        for name in archive.namelist():
            if name.endswith(".py") and (code := compiled(ROOT / "src" / name)):
                archive.writestr(importlib.util.cache_from_source(name), code)
    return folder


def compiled(source: Path) -> bytes | None:
    """A module's bytecode, if it is kept and of this source, to be taken without another look at any source."""
    kept = Path(importlib.util.cache_from_source(str(source)))
    if not source.is_file() or not kept.is_file():
        return None
    code, about = kept.read_bytes(), source.stat()
    made_of = struct.pack("<III", 0, int(about.st_mtime) & 0xFFFFFFFF, about.st_size & 0xFFFFFFFF)
    if code[:16] != importlib.util.MAGIC_NUMBER + made_of:
        return None
    unchecked = struct.pack("<I", 0b01)  # PEP 552
    return code[:4] + unchecked + importlib.util.source_hash(source.read_bytes()) + code[16:]


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


Furnished = Callable[[Path, Sequence[str]], Path]


@pytest.fixture(scope="session")
def furnished(shelf: Callable[..., dict[str, Path]]) -> Furnished:
    """Makes an environment that has what is needed at hand, and no more; gives the folder of its commands."""

    def furnished(place: Path, needs: Sequence[str]) -> Path:
        venv.create(place, symlinks=True)
        packages = next(place.glob("lib/python*/site-packages"))
        for name, there in shelf(*needs).items():
            if name.endswith(".dist-info"):  # a link is no installed package to uv
                shutil.copytree(there, packages / name)
            else:
                (packages / name).symlink_to(there)
        return place / "bin"

    return furnished


@pytest.fixture(scope="session")
def shared(furnished: Furnished, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Such an environment for all who need the same. What one installs there, the next replaces."""

    @cache
    def shared(*needs: str) -> Path:
        return furnished(tmp_path_factory.mktemp("environment"), needs)

    return shared


Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, own_wheel: Path, furnished: Furnished, shared: Callable[..., Path]) -> Install:
    """Installs something, with Fairlead's wheel and what it `needs` at hand; gives the folder of its commands.
    Nothing is fetched from anywhere. The environment is new, or the shared one where the package that is named is
    replaced: Fairlead is installed, and compiled for pytest, only once there."""

    def install(
        what: str | Path,
        *needs: str,
        cwd: Path = tmp_path,
        by: Literal["uv", "pip"] = "uv",
        replaces: str | None = None,
    ) -> Path:
        commands = shared(*needs) if replaces else furnished(tmp_path / "environment", needs)
        python = commands / "python"
        # Both refuse what lacks anything; uv takes a fifth of the time.
        uv = [f"{BIN}/uv", "pip", "install", f"--python={python}", "--no-config", "--no-cache", "--offline"]
        pip = [sys.executable, "-m", "pip", f"--python={python}", "install", "--no-compile"]
        alone = ["--quiet", "--no-index", "--no-build-isolation", f"--find-links={own_wheel.parent}"]
        anew = [f"--reinstall-package={replaces}"] if replaces else []
        done = execute([*(uv if by == "uv" else pip), *alone, *anew, what], cwd)
        assert done.returncode == 0, done.stdout + done.stderr
        return commands

    return install


@pytest.fixture(scope="session")
def warm_there() -> Iterator[Callable[[Path], Warm]]:
    """The Python of a shared environment, by the folder of its commands, started warm. What it adds to start the
    commands themselves is shown by the walks from nothing and by the wheel that is built."""
    kept: dict[Path, Warm] = {}

    def warm_there(commands: Path) -> Warm:
        if commands not in kept:
            program = Path(__file__).with_name("warm_there.py")
            kept[commands] = Warm(program, "-E", python=commands / "python")
        return kept[commands]

    yield warm_there
    for each in kept.values():
        each.close()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Seen(NamedTuple):
    """What a person or a program gets from a command."""

    code: int
    out: str
    err: str


@pytest.fixture
def look(project: Path, parts_are_warm: None) -> Callable[..., Seen]:
    """`fairlead` in the project's folder, as someone at a terminal sees it; with `tty=False`, as a program does."""

    def look(*arguments: str, tty: bool = True, cwd: Path = project, **environ: str) -> Seen:
        out, err = (Terminal(), Terminal()) if tty else (io.StringIO(), io.StringIO())
        with from_here(cwd), pytest.raises(SystemExit) as exit:
            main(arguments, console=Console(io.StringIO(), out, err, environ))
        assert isinstance(exit.value.code, int)
        return Seen(exit.value.code, out.getvalue(), err.getvalue())

    return look
