"""An agent that runs elsewhere: a gateway, a worker that serves an agent through it, and somebody who asks."""

import asyncio
import tempfile
from collections.abc import AsyncIterator

import httpx

from fairlead import App
from fairlead.gateway import AgentTurn, AgentWorker
from fairlead.gateway.keys import Keys


async def pilot(turn: AgentTurn) -> AsyncIterator[str]:
    """Answer in pieces: callers who stream see each one as it comes."""
    turn.think("Which berth is free?")
    yield "Take berth 4, "
    yield f"{turn.message}."


async def clerk(turn: AgentTurn) -> str:
    """Answer as a whole; ask first. The first `ask` ends the call, the next call has the answer."""
    cargo = turn.ask("What is the cargo?", ["fish", "timber"])
    return f"{turn.message} carries {cargo}."


async def main() -> None:
    app = App("harbour", store=f"sqlite:///{tempfile.mkdtemp()}/harbour.db")
    key, _ = await Keys(app.store).issue("workers", owner="local")
    # Here all of it is one process. Elsewhere the worker has an address only: AgentWorker("https://...", key, ...).
    way = httpx.ASGITransport(app=app.http(gateway={}))
    async with (
        AgentWorker("http://harbour", key, "pilot", pilot, transport=way),
        AgentWorker("http://harbour", key, "clerk", clerk, mode="queue", transport=way),
        httpx.AsyncClient(
            transport=way, base_url="http://harbour/api/v1", headers={"Authorization": f"Bearer {key}"}
        ) as caller,
    ):
        answer = await caller.post("/agents/pilot/invoke", json={"message": "Amalia"})
        assert answer.json()["data"]["text"] == "Take berth 4, Amalia."
        task = (await caller.post("/agents/clerk/tasks", json={"message": "Amalia"})).json()["data"]
        at = f"/agents/clerk/tasks/{task['task_id']}"
        while (await caller.get(at)).json()["data"]["status"] != "input_required":  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await caller.post(f"{at}/continue", json={"input": "fish"})
        while (done := (await caller.get(at)).json()["data"])["status"] != "completed":  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert done["result"] == "Amalia carries fish."
    gone = httpx.AsyncClient(
        transport=way, base_url="http://harbour", headers={"Authorization": f"Bearer {key}"}
    )
    async with gone:
        offline = await gone.post("/api/v1/agents/pilot/invoke", json={"message": "Amalia"})
    assert (offline.status_code, offline.json()["error"]["message"]) == (503, "agent is offline")
    app.store.close()


asyncio.run(main())
