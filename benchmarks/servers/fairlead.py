"""Fairlead, as `app.http()` serves it, with its defaults."""

from collections.abc import AsyncIterator

from fairlead import App
from servers import numbers as source
from task import create_task

app = App("bench")
app.action(create_task)


@app.action
async def numbers(upto: int, wait: str) -> AsyncIterator[int]:
    """Count."""
    async for number in source.numbers(upto, wait):
        yield number


site = app.http()
