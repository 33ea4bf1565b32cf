"""A site with agents, on each kind of store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead import App
from gateway.site_under_test import Site, add_keys, build, serving, working


@pytest.fixture
def app(store_url: str, tmp_path: Path) -> Iterator[App]:
    built = build(store_url, tmp_path)
    add_keys(built)
    yield built
    built.store.close()


@pytest.fixture
def site(app: App, tmp_path: Path) -> Iterator[Site]:
    """The app on a real server, and a worker."""
    with working(app), serving(app.http(gateway={"heartbeat": 0.05})) as url:
        yield Site(url, tmp_path)
