"""What every test leaves as it found it."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _imports_of_temporary_files_are_undone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A module called `app` in one test's folder must not be the `app` of the next."""
    path, before = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    base = str(tmp_path_factory.getbasetemp())
    for name in set(sys.modules) - before:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(base):
            del sys.modules[name]
