"""Every promise about tasks is kept on every form of the engine: each test runs on all of them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from fairlead import App
from fairlead.store import Store
from fairlead.tasks import Tasks, Worker
from tasks.app_under_test import Marks, build
from tasks.stage import Process, StartProcess, StartWorker, Where
from warm import Warm

FORMS = ("local", "postgres", "nats")


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def where(form: str, tmp_path: Path, request: pytest.FixtureRequest) -> Where:
    url = None if form == "local" else request.getfixturevalue("postgres_url")
    bus = request.getfixturevalue("nats").url if form == "nats" else None
    return Where(tmp_path, url, bus)


@pytest.fixture
def store(where: Where) -> Iterator[Store]:
    opened = where.open()
    yield opened
    opened.close()


@pytest.fixture
def marks(tmp_path: Path) -> Marks:
    return Marks(tmp_path)


@pytest.fixture
def app(tmp_path: Path) -> App:
    return build(tmp_path)


@pytest.fixture
async def tasks(app: App, store: Store, where: Where) -> AsyncIterator[Tasks]:
    opened = where.tasks(app, store)
    # On NATS, which is not emptied, those that an earlier test killed are remembered for half a minute.
    for gone in await opened.bus.workers(opened.queue):
        await opened.bus.absent(gone)
    yield opened
    await opened.bus.close()


@pytest.fixture
async def worker(tasks: Tasks) -> AsyncIterator[StartWorker]:
    """Start a worker in this process; it is stopped at the end."""
    started: list[Worker] = []

    def start(**options: Any) -> Worker:
        new = tasks.worker(**options)
        new.start()
        started.append(new)
        return new

    async with AsyncExitStack() as stack:
        yield start
        for each in started:
            stack.push_async_callback(each.stop)


@pytest.fixture
def process(where: Where, warm_python: Warm) -> Iterator[StartProcess]:
    """Start the app in a process of its own; it is killed at the end."""
    started: list[Process] = []

    def start(role: str = "worker", *, wait: bool = True, **options: Any) -> Process:
        arguments = [role, str(where.folder)]
        if where.url is not None:
            arguments += ["--url", where.url]
        for name, value in options.items():
            arguments += [f"--{name}", value if isinstance(value, str) else json.dumps(value)]
        new = Process(warm_python, arguments, where.environment)
        started.append(new)
        if wait:
            assert new.line() == "ready"
        return new

    yield start
    for each in started:
        if each.popen.returncode is None:
            each.kill()
