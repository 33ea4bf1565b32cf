"""Where the tests of the store have theirs, and the other processes they talk to."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from others import Other


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


@pytest.fixture(scope="session")
def _made() -> str:
    """Databases are empty here: their tables are what is tested."""
    return "template1"
