"""One promise, held on every surface."""

from fairlead import App, Failure, Kind
from fairlead.testing import SurfaceDriver

app = App("well", description="Draw water.")


@app.action
async def draw_water(buckets: int) -> int:
    """Draw some buckets of water."""
    if buckets > 3:
        raise Failure(Kind.exhausted, "The well is dry.")
    return buckets


async def test_the_well_runs_dry_for_everyone(every_surface: SurfaceDriver) -> None:
    assert (await every_surface.call(app, "draw_water", {"buckets": 2})).data == 2
    assert (await every_surface.call(app, "draw_water", {"buckets": 9})).message == "The well is dry."
