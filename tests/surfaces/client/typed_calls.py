# mypy: ignore-errors
"""Only checked by mypy, by test_client_py.py and without the line above: what the types of a client say."""

from __future__ import annotations

from typing import Any, assert_type

from harbour import Boat, add_boat, berths, buoys, greet, sail

from fairlead.surfaces.client import Client, Reply, SyncClient


async def calls(client: Client) -> None:
    assert_type(await client.invoke(greet, {"name": "Ada"}), str)
    assert_type(await client.invoke(add_boat, {"boat": {"name": "Elida"}}, timeout=5), Boat)
    assert_type(await client.invoke(sail), dict[str, int])
    assert_type(await client.invoke(berths, {"count": 1}), list[int])
    assert_type(await client.invoke(buoys, {"count": 1}), list[str])
    assert_type(await client.invoke(greet, {"name": "Ada"}, raw=True), Reply[str])
    assert_type(await client.invoke(buoys, {"count": 1}, raw=True), Reply[list[str]])
    assert_type((await client.invoke(add_boat, raw=True)).unwrap(), Boat)
    assert_type(await client.invoke("greet", {"name": "Ada"}), Any)
    assert_type(await client.invoke("greet", raw=True), Reply[Any])
    assert_type(client.with_options(timeout=5), Client)
    async for event in client.stream(greet, {"name": "Ada"}, confirm=True):
        assert_type(event, dict[str, Any])
    await client.invoke(greet, tiemout=5)  # type: ignore[call-overload]
    Client(link="http://localhost")  # type: ignore[call-arg]


def sync_calls(client: SyncClient) -> None:
    assert_type(client.invoke(greet, {"name": "Ada"}), str)
    assert_type(client.invoke(add_boat, {"boat": {"name": "Elida"}}), Boat)
    assert_type(client.invoke(buoys, {"count": 1}, raw=True), Reply[list[str]])
    assert_type(client.invoke("greet"), Any)
    for event in client.stream("greet"):
        assert_type(event, dict[str, Any])
