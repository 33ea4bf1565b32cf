"""Fairlead with one thing of a kind, and with a thousand: what a call costs beside all the others.

The name of a maker ends in how many there are.
"""

import asyncio
import atexit
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any

from fairlead import App
from fairlead.agents import Agent
from fairlead.agents.models import ScriptModel
from task import VALID, Batch, create_task, repeat


def actions(count: int) -> Batch:
    """Call the one in the middle of so many actions."""
    app = App("bench")
    for number in range(count):
        app.action(name=f"create_task_{number}")(create_task)
    return repeat(partial(app.invoke, f"create_task_{count // 2}"), VALID)


def agents(count: int) -> Batch:
    """Ask the one in the middle of so many agents."""
    app = App("bench")
    for number in range(count):
        model = ScriptModel(lambda request: "Done.", record=False)
        app.add(Agent(f"agent_{number}", model=model, instructions="Be done.", loop_tools=False))
    return repeat(partial(app.invoke, f"agent_{count // 2}"), {"prompt": "Go."})


def tasks(count: int) -> Batch:
    """Submit a task behind so many that wait for a worker."""
    app = _stored()
    waiting: list[str] = []

    async def batch(turns: int) -> None:
        if not waiting:
            waiting.extend(await app.tasks.submit_many("create_task", [VALID] * count))
        for _ in range(turns):
            await app.tasks.submit("create_task", VALID)

    return batch


def calls(count: int) -> Batch:
    """Call an action while so many calls of another are under way."""
    app = App("bench")
    app.action(create_task)

    @app.action
    async def wait() -> None:
        """Wait for ever."""
        await asyncio.Event().wait()

    held: list[asyncio.Task[Any]] = []

    async def batch(turns: int) -> None:
        if not held:
            held.extend(asyncio.create_task(app.invoke("wait", {})) for _ in range(count))
            await asyncio.sleep(0)
        for _ in range(turns):
            await app.invoke("create_task", VALID)

    return batch


def _stored() -> App:
    folder = tempfile.mkdtemp(prefix="fairlead-growth-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    app = App("bench", store=f"sqlite:///{folder}/bench.db")
    app.action(create_task)
    return app


def __getattr__(name: str) -> Callable[[], Batch]:
    what, _, count = name.rpartition("_")
    maker = globals().get(what)
    if maker is None or not count.isdigit():
        raise AttributeError(name)
    return partial(maker, int(count))
