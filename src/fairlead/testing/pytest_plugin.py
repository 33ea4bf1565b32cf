"""Fairlead fixtures for pytest: a clock and ids that hold still, and one test for every surface.

Every pytest run of everyone who has Fairlead loads this: it imports nothing of ours until a test asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from fairlead.testing import FixedClock, SequentialIds, SurfaceDriver


@pytest.fixture
def fixed_clock() -> FixedClock:
    """A clock that stands still until the test moves it."""
    from fairlead.testing import FixedClock

    return FixedClock()


@pytest.fixture
def sequential_ids() -> SequentialIds:
    """Ids `id-1`, `id-2`, and so on; pass it as `new_id`."""
    from fairlead.testing import SequentialIds

    return SequentialIds()


@pytest.fixture
def every_surface(request: pytest.FixtureRequest) -> SurfaceDriver:
    """The test runs once for each surface; this is the one to call over."""
    driver: SurfaceDriver = request.param
    return driver


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "every_surface" not in metafunc.fixturenames:
        return
    from fairlead.testing import SURFACES

    metafunc.parametrize("every_surface", SURFACES, ids=[driver.name for driver in SURFACES], indirect=True)
