"""An app for several processes that share a store: agents that are held until a file is there, as `fairlead` runs it.

An agent that has begun leaves a mark in the folder, which says in which process that was. What a killed process was
delivering is delivered again soon, not in half a minute; and so is what went wrong on the way, not in a minute: on a
busy machine a connection may be cut, which is no loss.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from fairlead import App
from fairlead.agents import Agent
from fairlead.agents.models.model import Request
from fairlead.agents.models.script import ScriptModel, Turn
from fairlead.gateway import changes
from fairlead.gateway.deliveries import Deliverer

Deliverer.__init__.__kwdefaults__ = {"concurrency": 64, "timeout": 30.0, "lease": 3.0, "look": 0.5}
changes.DELAYS = (1.0, 1.0, 1.0, 1.0, 1.0)  # type: ignore[misc]
FOLDER = Path(os.environ["FLEET_FOLDER"])
LOOK = 0.01

app = App("fleet", store=os.environ["FLEET_STORE"])


async def echo(request: Request) -> Turn:
    word = [each.content for each in request.messages if each.role == "user"][-1]
    if word.startswith("held"):
        (FOLDER / f"begun-{os.getpid()}-{word}").touch()
        go = FOLDER / f"go-{word.split()[1]}"
        while not go.exists():  # noqa: ASYNC110  # another process makes it
            await asyncio.sleep(LOOK)
    pieces = ("You ", "said: ", word)
    return Turn("".join(pieces), pieces=pieces)


app.add(Agent("echo", model=ScriptModel(echo, record=False), instructions="Echo.", loop_tools=False))
