"""What every test leaves as it found it, and the servers that tests share."""

from __future__ import annotations

import gc
import os
import random
import re
import signal
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from itertools import count, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit
from weakref import WeakSet

import psycopg
import pytest
from hypothesis import HealthCheck, settings

from abreast import add_option
from abreast import pytest_runtestloop as pytest_runtestloop
from brisk import hurry
from databases import Databases
from fairlead.store import Store
from servers import Nats, NatsCluster, Postgres
from warm import Warm

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from browsers import KeptBrowser

# How quickly examples are made says something of the machine, and nothing of the code. `make fuzz` makes many more.
# A change is judged by the same ones each time; at a desk they are other ones, and find what nobody thought of.
settings.register_profile(
    "here",
    max_examples=50,
    deadline=None,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("here")

# What a script starts in its background ignores Ctrl-C, and so would all that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

hurry()

#: The longest first. Begun late, they would keep one process busy when the others have nothing left to do.
LONGEST = (
    *("test_tasks_running", "test_chaos", "test_gateway_openapi", "test_pipelines_examples"),
    *("test_project_init", "test_tasks_nats", "test_local", "test_gateway_fleet", "test_http_hosts"),
    *("test_docs", "test_console_page", "test_console_chat", "test_console_dev"),
    *("test_openapi_schemathesis", "test_client_ts", "test_store_idempotency", "test_sandbox"),
    *("test_first_walk", "test_tasks_faults", "test_mcp_servers", "test_shell"),
)
Running = TypeVar("Running", Postgres, Nats, NatsCluster)


def pytest_addoption(parser: pytest.Parser) -> None:
    add_option(parser)
    parser.addoption("--shuffle", metavar="SEED", help="Run files, and the tests in each, in another order.")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if seed := config.getoption("--shuffle"):
        chance = random.Random(seed)
        files: defaultdict[Path, float] = defaultdict(chance.random)
        items.sort(key=lambda item: (files[item.path], chance.random()))
    else:
        places = {stem: place for place, stem in enumerate(LONGEST)}
        items.sort(key=lambda item: places.get(item.path.stem, len(places)))


# Modules and tests stay to the end: a collector that looks through all of them takes a second each time, and it would
# do so again and again while they come.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """What is there after a file's last test mostly stays, too: what it imported, and reports."""
    yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()


_stores: WeakSet[Store] = WeakSet()
_opened = Store._close_at_exit


def _opening(store: Store) -> None:
    _opened(store)
    _stores.add(store)


Store._close_at_exit = _opening  # type: ignore[assignment, method-assign]


@pytest.fixture(autouse=True, scope="module")
def _stores_are_closed() -> Iterator[None]:
    """An app is made for a test and forgotten: thousands of them would hold threads and files to the end."""
    before = set(_stores)
    yield
    for store in set(_stores) - before:
        store.close()


@pytest.fixture(autouse=True)
def _imports_of_temporary_files_are_undone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A module called `app` in one test's folder must not be the `app` of the next."""
    path, last = list(sys.path), next(reversed(sys.modules))
    yield
    sys.path[:] = path
    base = str(tmp_path_factory.getbasetemp())
    # Modules stand in the order of their imports, and there are thousands.
    for name in list(takewhile(lambda name: name != last, reversed(sys.modules))):
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(base):
            del sys.modules[name]


def _running(server: Running) -> Iterator[Running]:
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server of this test process. A test that stops or hurts one uses `own_postgres`."""
    yield from _running(Postgres())


@pytest.fixture
def own_postgres() -> Iterator[Postgres]:
    """A PostgreSQL server that the test may stop, restart and kill."""
    yield from _running(Postgres())


@pytest.fixture(scope="session")
def databases(postgres: Postgres) -> Iterator[Databases]:
    """The databases of that server."""
    with closing(Databases(postgres)) as made:
        yield made


@pytest.fixture(scope="session")
def _made() -> str:
    """What tests get: a database with tables, or `template1`, an empty one."""
    return "made"


@pytest.fixture
def postgres_url(postgres: Postgres, databases: Databases, _made: str) -> Iterator[str]:
    """The address of a database of the test's own, with tables and nothing in them."""
    name = databases.with_tables() if _made == "made" else databases.empty()
    yield postgres.url(name)
    for store in list(_stores):
        if store.kind == "postgres" and urlsplit(store.name).path == f"/{name}":
            store.close()
    databases.take_back(name)


@pytest.fixture
def lettered_url(postgres: Postgres) -> Iterator[str]:
    """The address of an empty database that orders texts as a language does, as `createdb` makes it on most servers."""
    name = "lettered"
    try:
        postgres.run(
            f"CREATE DATABASE {name} TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US' STRATEGY file_copy"
        )
    except psycopg.Error as exc:
        pytest.skip(f"This PostgreSQL knows the order of no language: {exc}")
    yield postgres.url(name)
    postgres.run(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def nats() -> Iterator[Nats]:
    """A NATS server with JetStream of this test process."""
    yield from _running(Nats())


@pytest.fixture
def own_nats() -> Iterator[Nats]:
    """A NATS server that the test may stop, restart and kill."""
    yield from _running(Nats())


@pytest.fixture
def nats_cluster() -> Iterator[NatsCluster]:
    """Three NATS servers, each of which the test may stop, restart and kill."""
    yield from _running(NatsCluster())


_folders = count()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the test's own. pytest's looks at all that came before for a number, and leaves a link to each."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    folder: Path = tmp_path_factory.getbasetemp() / f"{name}{next(_folders)}"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture(scope="session")
def warm_python() -> Iterator[Warm]:
    """`python FILE ...` for programs with Fairlead in them, which start in a tenth of the time. Each test process has
    its own, whose copies can be made its children."""
    kept = Warm.python = Warm(Path(__file__).with_name("warm_python.py"), "-W", "error")
    yield kept
    kept.close()


# Test processes are copies of this one, and have it in common.
_warm_bench = Warm(Path(__file__).parent / "tools" / "mcp_bench.py")


@pytest.fixture(scope="session")
def warm_bench() -> Warm:
    """`python tools/mcp_bench.py ...`: the SDK that it is made of takes most of a second to import."""
    return _warm_bench


@pytest.fixture(scope="session")
def warm_path(tmp_path_factory: pytest.TempPathFactory, warm_python: Warm) -> str:
    """A search path where `fairlead`, `python FILE` and `python -m MODULE` are started warm. As an environment has
    them they are started from README and tutorial, by `project/test_first_walk.py`."""
    folder, ours = tmp_path_factory.mktemp("warm"), Path(sys.executable).parent
    (folder / "fairlead").write_text(f'#!/bin/sh\nexec {warm_python.line(f"{ours}/fairlead")} "$@"\n')
    warm = f'*.py|-m) exec {warm_python.line()} "$@";;'
    (folder / "python").write_text(f'#!/bin/sh\ncase "$1" in {warm} *) exec {ours}/python "$@";; esac\n')
    for name in ("fairlead", "python"):
        (folder / name).chmod(0o755)
    return os.pathsep.join([str(folder), str(ours), os.environ.get("PATH", "")])


@pytest.fixture(scope="session")
def warm_executable(warm_path: str) -> str:
    """That `python`, for `WARM_EXECUTABLE`: what a warm program starts as `sys.executable` is warm, too."""
    return f"{warm_path.partition(os.pathsep)[0]}/python"


@pytest.fixture(scope="session")
def _kept_browser() -> Iterator[KeptBrowser]:
    from browsers import KeptBrowser  # most test processes at a desk need none

    with closing(KeptBrowser()) as kept:
        yield kept


@pytest.fixture(scope="module")
def browser(_kept_browser: KeptBrowser) -> Iterator[Browser]:
    """A browser in which nothing is open. From here to the end of the module, no other loop runs on this thread."""
    with _kept_browser.used() as browser:
        yield browser


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database of the test's own: the test runs once on each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture(autouse=True)
def _no_database_of_the_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whoever runs the tests keeps their own data."""
    monkeypatch.delenv("FAIRLEAD_DATABASE_URL", raising=False)
    monkeypatch.setenv("FAIRLEAD_DATA", str(tmp_path_factory.getbasetemp() / "fairlead-data"))
