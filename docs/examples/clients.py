"""Calling actions through a client: in process, over HTTP, and without an event loop."""

import asyncio

import httpx
from pydantic import BaseModel

from fairlead import App, Context, Failure, Kind
from fairlead.surfaces.client import Client, Reply, SyncClient

app = App("boats", description="Rent boats.")
rented: set[str] = set()


class Rental(BaseModel):
    boat: str
    days: int


class AlreadyRented(Failure, code="ALREADY_RENTED", kind=Kind.conflict):
    """Somebody else has the boat."""


@app.action(side_effects="write")
async def rent_boat(ctx: Context, boat: str, days: int = 1) -> Rental:
    """Rent a boat."""
    if boat in rented:
        raise AlreadyRented(details={"boat": boat})
    rented.add(boat)
    ctx.logger.info("Rented.", boat=boat)
    return Rental(boat=boat, days=days)


async def use(client: Client) -> None:
    rented.clear()
    # The fields by name, or the input and then options.
    assert await client.rent_boat(boat="Elida", days=3) == {"boat": "Elida", "days": 3}
    assert await client.rent_boat({"boat": "Jolie"}, timeout=5) == {"boat": "Jolie", "days": 1}
    assert await client.with_options(timeout=5).rent_boat(boat="Rosa")

    # The action itself instead of its name: the data is what its function returns.
    rental = await client.invoke(rent_boat, {"boat": "Svea"})
    assert rental.days == 1

    # A failure is raised, as the class that the action raised. `raw=True` gives the whole reply instead.
    try:
        await client.rent_boat(boat="Elida")
    except AlreadyRented as failure:
        print(failure.message, failure.details)
    reply = await client.rent_boat({"boat": "Elida"}, raw=True)
    assert reply.failure is not None
    assert reply.to_dict()["error"]["code"] == "ALREADY_RENTED"

    # What it says as it runs. Leaving the loop cancels the call.
    async for event in client.stream("rent_boat", {"boat": "Tove"}):
        if event["type"] == "log":
            assert event["message"] == "Rented."
        if event["type"] == "result":
            assert Reply(event["envelope"]).unwrap() == {"boat": "Tove", "days": 1}


async def main() -> None:
    await use(Client(runtime=app))

    # The same over HTTP, here without a port: `Client(url="https://boats.example.com", api_key=key)` with one.
    server = httpx.ASGITransport(app.http())
    async with httpx.AsyncClient(transport=server) as http:
        await use(Client(url="http://boats", http=http))


asyncio.run(main())

with SyncClient(runtime=app) as client:
    assert client.rent_boat(boat="Viola") == {"boat": "Viola", "days": 1}
