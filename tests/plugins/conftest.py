"""Compiled plugins, and runners that leave nothing behind."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import pytest

from fairlead.plugins.inprocess import InProcessRunner
from fairlead.plugins.process import ProcessRunner
from fairlead.store import open_store
from plugins.native_kit import SOURCES, Answering, compile_c
from plugins.plugin_host import Host


class Compiled(Protocol):
    """Compiles a plugin of `tests/plugins/c`, once for each set of options."""

    def __call__(self, name: str, *options: str) -> Path: ...


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    """A host whose store is a file of the test's own."""
    with open_store(url=f"sqlite:///{tmp_path}/store.db") as store:
        host = Host(store, tmp_path)
        yield host
        await host.close()


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """The library of a C file, with macros like `-DV1`."""
    made: dict[tuple[str, ...], Path] = {}

    def compile(name: str, *options: str) -> Path:
        key = (name, *options)
        if key not in made:
            folder = tmp_path_factory.mktemp(name)
            made[key] = compile_c(SOURCES / f"{name}.c", folder / f"{name}.so", *options)
        return made[key]

    return compile


@pytest.fixture(scope="session")
def toy(compiled: Compiled) -> Path:
    """The plugin that does what a test asks of it."""
    return compiled("toy")


@pytest.fixture
async def process_runner() -> AsyncIterator[Callable[..., ProcessRunner]]:
    """Makes runners with a process each, and stops them in the end."""
    made: list[ProcessRunner] = []

    def make(library: Path, services: Any = None, **options: Any) -> ProcessRunner:
        made.append(ProcessRunner("test.toy", library, services or Answering(), **options))
        return made[-1]

    yield make
    for each in made:
        await each.stop()


@pytest.fixture
async def in_process_runner(tmp_path: Path) -> AsyncIterator[Callable[..., InProcessRunner]]:
    """Makes runners in this process, each with a library of its own, and stops them in the end."""
    made: list[InProcessRunner] = []
    numbers = count()

    def make(library: Path, services: Any = None) -> InProcessRunner:
        # The same file would be the same library, with the same variables.
        own = shutil.copy(library, tmp_path / f"{next(numbers)}-{library.name}")
        made.append(InProcessRunner("test.toy", own, services or Answering()))
        return made[-1]

    yield make
    for each in made:
        await each.stop()


@pytest.fixture(params=["process", "in_process"])
def runner(request: pytest.FixtureRequest) -> Callable[..., ProcessRunner | InProcessRunner]:
    """Makes runners: the test runs once for each form."""
    made: Callable[..., ProcessRunner | InProcessRunner] = request.getfixturevalue(f"{request.param}_runner")
    return made
