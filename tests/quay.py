"""An app with agents that follow scripts, for the tests of the console's chats."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr

from fairlead import App, Context
from fairlead.agents import Agent
from fairlead.agents.models.script import ScriptModel
from fairlead.tools.charts import charts
from fairlead.tools.shell import shell

PATIENCE = 20.0


class Quay(App):
    """Remembers what was done. `script` is what the model says next, turn by turn."""

    done: list[Any]
    script: list[Any]
    model: ScriptModel
    #: Set to let `load` go on; set by `wait_here` when it runs, and when it was stopped.
    go: threading.Event
    waiting: threading.Event
    stopped: threading.Event

    def told(self) -> Any:
        """What the model was last told by a tool."""
        return json.loads(self.model.requests[-1].messages[-1].content)


class Order(BaseModel):
    what: str


def quay(folder: Path) -> Quay:
    app = Quay("quay", description="Agents by the water.", store=f"sqlite:///{folder}/quay.db")
    app.done, app.script = [], []
    app.model = ScriptModel(lambda _: app.script.pop(0), name="script/quay")
    app.go, app.waiting, app.stopped = threading.Event(), threading.Event(), threading.Event()

    @app.action
    async def look(where: str) -> dict[str, Any]:
        """Look around."""
        if where == "down":
            raise ValueError("It is too dark.")
        return {"where": where, "ships": ["Anna", "Bertha"]}

    @app.action(requires_confirmation=True, side_effects="write")
    async def burn(pier: int) -> str:
        """Burn a pier down."""
        app.done.append(pier)
        return "ash"

    @app.action
    async def load(ctx: Context) -> str:
        """Load a ship: says much, and waits half way."""
        ctx.logger.info("The first crate")
        ctx.progress.report("Half of it", percent=50)
        ctx.artifacts.add("bill.txt", data="two crates", mime_type="text/plain")
        await asyncio.to_thread(app.go.wait, PATIENCE)
        return "loaded"

    @app.action
    async def wait_here() -> None:
        """Wait until it is cancelled."""
        app.waiting.set()
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            app.stopped.set()

    for tool in (*charts(), *shell(folder)):
        app.add(tool)
    tools = ["look", "burn", "load", "wait_here", "render_chart", "shell_run"]
    app.add(Agent("mate", model=app.model, instructions="Help at the quay.", tools=tools).action)

    def asked(ship: str, tons: int) -> Any:
        """Judge a ship."""
        return f"Is {ship} good for {tons} tons?"

    def given(order: Order) -> str:
        """Carry something out."""
        return f"Carry out {order.what}."

    app.add(
        Agent("porter", model=app.model, instructions="Obey.", function=given, tools=["shell_run"]).action
    )

    def unlocked(chest: str, pin: SecretStr) -> str:
        """Open a chest."""
        return f"Open {chest}."

    app.add(Agent("keeper", model=app.model, instructions="Obey.", function=unlocked, tools=["load"]).action)
    app.add(Agent("judge", model=app.model, instructions="Judge a ship.", function=asked).action)
    return app
