"""What every stream says: numbers, all at once, one at each turn of the event loop, or one and then nothing."""

import asyncio
from collections.abc import AsyncIterator


async def numbers(upto: int, wait: str) -> AsyncIterator[int]:
    for number in range(upto):
        yield number
        if wait == "turn":
            await asyncio.sleep(0)
    if wait == "idle":
        await asyncio.Event().wait()
