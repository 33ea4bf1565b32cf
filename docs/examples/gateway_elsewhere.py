"""An agent that runs anywhere, and is served by a gateway. Here both are in one process."""

import asyncio

import httpx

from fairlead.gateway import AgentWorker
from fairlead.gateway.keys import Keys
from gateway import app


async def parrot(turn):
    """Answer a turn: give a text, or its pieces as they come."""
    yield "You said: "
    yield turn.message


async def main():
    key, _ = Keys(app.store).issue_now("elsewhere", owner="ann")
    transport = httpx.ASGITransport(app.http())
    url = "http://gateway.example"
    headers = {"Authorization": f"Bearer {key}"}
    async with (
        AgentWorker(url, key, "parrot", parrot, transport=transport),
        httpx.AsyncClient(transport=transport, base_url=f"{url}/api/v1", headers=headers) as client,
    ):
        answer = await client.post("/agents/parrot/invoke", json={"message": "hello"})
        assert answer.json()["data"]["text"] == "You said: hello"


asyncio.run(main())
