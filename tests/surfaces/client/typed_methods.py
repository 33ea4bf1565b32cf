# mypy: ignore-errors
"""Checked by mypy without the line above, and run against a server: what a written client says, and what it refuses."""

from __future__ import annotations

import asyncio
import sys
from typing import Any, Literal, assert_type

from harbour_client import (
    AddBoatInput,
    AddBoatOutput,
    HarbourClient,
    ShapesInput,
    ShapesOutput,
    SyncHarbourClient,
)

from fairlead.surfaces.client import Reply

SHAPES: ShapesInput = {
    "pair": [1, "a"],
    "counts": {"any": 1},
    "either": None,
    "one": "two",
    "odd": {"odd-key": 1},
    "tree": {"label": "root", "children": [{"label": "leaf"}]},
}


async def calls(url: str) -> None:
    async with HarbourClient(url=url, retry=False) as client:
        told = await client.greet(name="Ada")
        assert_type(told, str)
        assert told == "Hello Ada"
        assert await client.greet({"name": "Ada", "loud": True}, timeout=5) == "HELLO ADA"
        reply = await client.sail({"legs": 1}, raw=True)
        assert_type(reply, Reply[dict[str, int]])
        assert reply.logs
        boat: AddBoatInput = {"boat": {"name": "Elida", "kind": "motor"}}
        added = await client.add_boat(boat)
        assert_type(added, AddBoatOutput)
        assert_type(added["kind"], Literal["sail", "motor"])
        assert added["built"] is None
        assert await client.nothing(None) == "null"
        assert await client.buoys(count=2) == ["buoy 0", "buoy 1"]
        assert_type(await client.shapes(SHAPES), ShapesOutput)
        await client.sail()
        assert_type(await client.with_options(timeout=5).greet(name="Ada"), str)
        # An action that is newer than the file can be called all the same.
        assert_type(await client.invoke("greet", {"name": "Ada"}), Any)


def sync_calls(url: str) -> None:
    with SyncHarbourClient(url=url) as client:
        told = client.greet(name="Ada")
        assert_type(told, str)
        assert told == "Hello Ada"
        assert_type(client.sail({}, raw=True), Reply[dict[str, int]])
        reply = client.moor({"name": "Elida"}, raw=True)
        assert reply.failure is not None
        assert reply.failure.code == "HARBOUR_FULL"


def refused(client: SyncHarbourClient) -> None:
    client.greet()  # type: ignore[call-overload]
    client.greet(nam="Ada")  # type: ignore[call-overload]
    client.greet({"name": 1})  # type: ignore[call-overload]
    client.add_boat(boat={"name": "Elida", "kind": "raft"})  # type: ignore[call-overload]
    client.greet({"name": "Ada"}, tiemout=5)  # type: ignore[call-overload]


if __name__ == "__main__":
    asyncio.run(calls(sys.argv[1]))
    sync_calls(sys.argv[1])
    print("good")
