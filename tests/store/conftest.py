"""Where the tests of the store have theirs, and the other processes they talk to."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from others import Other

WITH_TABLES = ("test_store_idempotency", "test_store_rates", "test_store_secrets")


@pytest.fixture
def place(store_url: str) -> str:
    """The address of an empty database: SQLite, then PostgreSQL."""
    return store_url


@pytest.fixture
def other() -> Iterator[Callable[..., Other]]:
    started: list[Other] = []

    def start(program: str, *arguments: str) -> Other:
        started.append(Other(program, *arguments))
        return started[-1]

    yield start
    for each in started:
        each.remove()


@pytest.fixture(scope="module")
def _made(request: pytest.FixtureRequest) -> str:
    """Databases are empty where their tables are what is tested, and where tests make their own."""
    return "made" if request.path.stem in WITH_TABLES else "template1"
