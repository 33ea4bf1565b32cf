"""Calling actions: at once, as a stream, without an event loop, and cancelled."""

import asyncio

from fairlead import App, Context
from fairlead.runtime import Signal

app = App("oven", description="Bake.")


@app.action(side_effects="write")
async def bake_bread(ctx: Context, loaves: int) -> dict[str, int]:
    """Bake some loaves."""
    for loaf in range(1, loaves + 1):
        await ctx.progress.report(f"Loaf {loaf}", percent=100 * loaf / loaves)
        await asyncio.sleep(0)
    ctx.logger.info("The bread is ready.", loaves=loaves)
    ctx.artifacts.add("bread.txt", uri="file:///tmp/bread.txt", mime_type="text/plain")
    return {"loaves": loaves}


async def main() -> None:
    result = await app.invoke("bake_bread", {"loaves": 2})
    assert result.ok
    assert result.data == {"loaves": 2}
    assert [entry["message"] for entry in result.logs] == ["Loaf 1", "Loaf 2", "The bread is ready."]
    assert result.artifacts[0]["name"] == "bread.txt"
    assert list(result.to_dict()) == ["ok", "data", "artifacts", "logs", "meta"]

    types = [event["type"] async for event in app.stream("bake_bread", {"loaves": 2})]
    assert types == ["progress", "progress", "log", "artifact", "result"]

    signal = Signal()
    signal.cancel("The oven is cold.")
    result = await app.invoke("bake_bread", {"loaves": 2}, signal=signal)
    assert result.failure is not None
    assert result.failure.code == "CANCELLED"


asyncio.run(main())
assert app.invoke_sync("bake_bread", {"loaves": 1}).ok
