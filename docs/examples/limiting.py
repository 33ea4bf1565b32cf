"""Time limits, retries, and limits on how much runs."""

import asyncio

from fairlead import App, Context, Failure, Kind

app = App("limits", description="Stay within bounds.")
tries = 0


@app.action(timeout=0.02)
async def sleep_in() -> None:
    """Sleep for too long."""
    await asyncio.sleep(60)


@app.action(retry={"retries": 3, "delay": 0.001, "backoff": "exponential", "max_delay": 1, "jitter": True})
async def flaky() -> int:
    """Fail twice, then succeed."""
    global tries
    tries += 1
    if tries < 3:
        raise Failure(Kind.unavailable, "Not yet.")
    return tries


@app.action(rate_limit="2/minute")
async def knock() -> str:
    """Knock at the door."""
    return "knock"


@app.action(concurrency={"max": 1, "queue": 1})
async def enter(ctx: Context) -> str:
    """Go through the door, one at a time."""
    await asyncio.sleep(0.01)
    return "in"


async def codes(*calls: str) -> list[str]:
    results = await asyncio.gather(*(app.invoke(call) for call in calls))
    return sorted("ok" if result.failure is None else result.failure.code for result in results)


async def main() -> None:
    assert await codes("sleep_in") == ["TIMEOUT"]
    assert (await app.invoke("flaky")).data == 3
    assert await codes("knock", "knock", "knock") == ["RATE_LIMITED", "ok", "ok"]
    assert await codes("enter", "enter", "enter") == ["CONCURRENCY_LIMIT", "ok", "ok"]


asyncio.run(main())
