"""An app with an agent, as a worker in a process of its own runs it: `agent_under_test.py FOLDER URL`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from fairlead import App
from fairlead.agents import Agent
from fairlead.agents.models.script import ScriptModel, call


def build(folder: Path, url: str) -> App:
    async def layer(call: Any, next: Any) -> Any:
        told = await next()
        if call.action.name == "teller":
            await stuck()
        return told

    app = App("shop", store=url, middleware=[layer])

    def note(line: str) -> None:
        with (folder / "done").open("a") as file:
            file.write(f"{line}\n")

    async def stuck() -> None:
        """Wait for ever, the first time."""
        if not (folder / "stuck").exists():
            (folder / "stuck").touch()
            print("stuck", flush=True)
            await asyncio.Event().wait()

    @app.action(side_effects="write")
    async def pay(amount: int) -> str:
        """Pay."""
        note(f"pay {amount}")
        await stuck()
        return "paid"

    @app.action
    async def look() -> str:
        """Look."""
        note("look")
        await stuck()
        return "seen"

    app.add(
        Agent(
            "payer",
            model=ScriptModel([call("pay", amount=5), "It is over."], follow="conversation"),
            instructions="You pay.",
            tools=["pay"],
        )
    )
    app.add(
        Agent(
            "asker",
            model=ScriptModel(
                [call("pay", amount=5), call("pay", amount=500), "It is over."], follow="conversation"
            ),
            instructions="You pay after asking.",
            tools=["pay"],
            gates={"pay": "ask"},
        )
    )
    app.add(
        Agent(
            "teller",
            model=ScriptModel(["It is over.", "Once more."], follow="conversation"),
            instructions="You tell.",
        )
    )
    app.add(
        Agent(
            "looker",
            model=ScriptModel([call("look"), "It is over."], follow="conversation"),
            instructions="You look.",
            tools=["look"],
        )
    )
    return app


async def main() -> None:
    app = build(Path(sys.argv[1]), sys.argv[2])
    worker = app.tasks.worker(lease=1.0)
    worker.start()
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
