"""Fairlead fixtures for pytest: a clock and ids that hold still, and one test for every surface.

Every pytest run of everyone who has Fairlead loads this: it imports nothing of ours until a test asks for it.
"""

from __future__ import annotations

from importlib.util import find_spec
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

    surfaces = [pytest.param(driver, id=driver.name, marks=_unless_there(driver)) for driver in SURFACES]
    metafunc.parametrize("every_surface", surfaces, indirect=True)


def _unless_there(driver: SurfaceDriver) -> list[pytest.MarkDecorator]:
    """Skip a surface that cannot be called from here."""
    needed = getattr(driver, "needs", None)
    if needed is None or find_spec(needed) is not None:
        return []
    return [pytest.mark.skip(reason=f"the surface {driver.name} needs {needed}, which is not installed")]
