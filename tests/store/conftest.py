"""Where the tests of the store have theirs, and the other processes they talk to."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from brisk import anew
from fairlead.store import opening
from others import Other
from warm import Warm

WITH_TABLES = ("test_store_idempotency", "test_store_rates", "test_store_secrets")


@pytest.fixture
def place(store_url: str) -> str:
    """The address of an empty database: SQLite, then PostgreSQL."""
    return store_url


@pytest.fixture
def other(warm_python: Warm) -> Iterator[Callable[..., Other]]:
    """Start another process; cold where the test is of how an interpreter ends."""
    started: list[Other] = []

    def start(program: str, *arguments: str, cold: bool = False) -> Other:
        started.append(Other(None if cold else warm_python, program, *arguments))
        return started[-1]

    yield start
    for each in started:
        each.remove()


@pytest.fixture(scope="module")
def _made(request: pytest.FixtureRequest) -> str:
    """Databases are empty where their tables are what is tested, and where tests make their own."""
    return "made" if request.path.stem in WITH_TABLES else "template1"


@pytest.fixture(autouse=True, scope="module")
def _files_are_new(_made: str) -> Iterator[None]:
    """So are files: elsewhere a new one has its tables at once."""
    with pytest.MonkeyPatch.context() as patch:
        if _made != "made":
            patch.setattr(opening, "open_at", anew)
        yield
