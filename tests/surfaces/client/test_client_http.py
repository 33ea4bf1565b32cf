"""Clients against our own server: everything that is said on one side is heard on the other."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from datetime import date
from types import ModuleType
from typing import Any

import httpx
import pytest

from fairlead import App, Failure
from fairlead.failures import action as wire
from fairlead.surfaces.client import Client, SyncClient


@pytest.fixture(scope="module")
def sync(harbour_url: str) -> Iterator[SyncClient]:
    with SyncClient(url=harbour_url) as client:
        yield client


@pytest.fixture
async def client(harbour_url: str) -> Any:
    async with Client(url=harbour_url) as client:
        yield client


async def test_a_call_is_the_same_from_afar(client: Client, sync: SyncClient, harbour: ModuleType) -> None:
    assert await client.greet(name="Ada") == "Hello Ada"
    assert await client.invoke(harbour.add_boat, {"boat": {"name": "Elida", "built": date(1939, 5, 1)}}) == (
        harbour.Boat(name="Elida", built=date(1939, 5, 1))
    )
    assert sync.invoke(harbour.buoys, {"count": 2}) == ["buoy 0", "buoy 1"]
    reply = await client.sail({"legs": 1}, raw=True)
    assert [entry["message"] for entry in reply.logs] == ["Cast off.", "Leg 1", "Made fast."]
    assert reply.artifacts[0]["name"] == "log.txt"
    assert reply.meta["surface"] == "http"


async def test_23_null_survives_the_wire(client: Client) -> None:
    assert await client.nothing(None) == "null"
    assert await client.echo(None) is None
    assert (await client.nothing({}, raw=True)).failure.code == "VALIDATION_ERROR"


@pytest.mark.parametrize("value", ["ü𝄞\u2028", 2**70, -0.5, [[], {}], {"a": {"b": [None, True]}}, ""])
async def test_any_json_survives_the_wire(client: Client, value: Any) -> None:
    assert await client.echo(value) == value
    [event] = [event async for event in client.stream("echo", value)]
    assert event["envelope"]["data"] == value


async def test_failures_are_failures_again(client: Client, sync: SyncClient, harbour: ModuleType) -> None:
    with pytest.raises(harbour.HarbourFull) as raised:
        await client.moor(name="Elida")
    assert (raised.value.details, raised.value.field) == ({"berths": 3}, "name")
    with pytest.raises(wire.ValidationError) as invalid:
        sync.greet(nam="Ada")
    assert {issue.path for issue in invalid.value.issues} == {("name",), ("nam",)}
    with pytest.raises(wire.ActionNotFound):
        await client.scuttle(name="Elida")
    with pytest.raises(wire.InternalError):
        await client.wreck()


async def test_confirmation_metadata_and_keys_get_through(client: Client) -> None:
    with pytest.raises(wire.ConfirmationRequired):
        await client.launch(name="Elida")
    assert await client.launch({"name": "Elida"}, confirm=True) == "Elida floats"
    told = await client.whoami({}, metadata={"trip": 7}, idempotency_key="schlüssel")
    assert told["metadata"]["trip"] == 7
    assert told["key"] == "schlüssel"
    assert (await client.whoami({}, idempotency_key=" k "))["key"] == " k "


async def test_the_older_routes_serve_as_well(harbour_url: str) -> None:
    async with Client(url=harbour_url, base_path="/ageniti") as client:
        assert await client.greet(name="Ada") == "Hello Ada"


async def test_a_time_out_is_the_servers_to_tell(client: Client, harbour: ModuleType) -> None:
    reply = await client.anchor({"mark": "time-out"}, timeout=0.05, retry=False, raw=True)
    assert reply.failure.code == "TIMEOUT"
    assert reply.meta["surface"] == "http"
    assert harbour.runs["time-out cancelled"] == 1


async def test_events_come_as_they_happen(client: Client, sync: SyncClient) -> None:
    async with aclosing(client.stream("anchor", {"mark": "events"})) as events:
        # It is told while the action runs.
        assert (await anext(events))["message"] == "At anchor."
    told = [event["type"] for event in sync.stream("sail", {"legs": 2})]
    assert told == ["log", "progress", "progress", "artifact", "log", "result"]
    chunks = [event async for event in client.stream("buoys", {"count": 3})]
    assert [chunk["data"] for chunk in chunks[:-1]] == ["buoy 0", "buoy 1", "buoy 2"]


async def test_large_events_and_many_of_them_get_through(sync: SyncClient, client: Client) -> None:
    events = [event async for event in client.stream("buoys", {"count": 20, "size": 100_000})]
    assert len(events) == 21
    assert all(len(event["data"]) > 100_000 for event in events[:-1])
    assert sum(1 for _ in sync.stream("buoys", {"count": 3000})) == 3001


async def test_a_cancel_here_is_a_cancel_there(client: Client, harbour: ModuleType) -> None:
    task = asyncio.ensure_future(client.anchor(mark="http task"))
    await harbour.until("http task began")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await harbour.until("http task cancelled")


async def test_leaving_a_stream_here_is_a_cancel_there(
    client: Client, sync: SyncClient, harbour: ModuleType
) -> None:
    async for _ in client.stream("anchor", {"mark": "http stream"}):
        break
    await harbour.until("http stream cancelled")

    def leave() -> None:
        for _ in sync.stream("anchor", {"mark": "sync stream"}):
            return

    await asyncio.to_thread(leave)
    await harbour.until("sync stream cancelled")


def test_threads_share_a_client(sync: SyncClient) -> None:
    with ThreadPoolExecutor(8) as threads:
        told = list(threads.map(lambda number: sync.greet(name=str(number)), range(40)))
    assert told == [f"Hello {number}" for number in range(40)]


async def test_calls_run_side_by_side(client: Client) -> None:
    told = await asyncio.gather(*(client.greet(name=str(number)) for number in range(40)))
    assert told == [f"Hello {number}" for number in range(40)]


async def test_a_key_is_sent_as_a_bearer_token(harbour: ModuleType) -> None:
    import httpx

    from fairlead.surfaces.auth import Caller

    def resolver(request: Any) -> Any:
        return Caller(user=request.headers.get("authorization"), auth=None, metadata={})

    asgi = httpx.ASGITransport(harbour.app.http(resolve_context=resolver))
    async with httpx.AsyncClient(transport=asgi) as http:
        client = Client(url="http://harbour", http=http, api_key="k3y")
        assert (await client.whoami())["user"] == "Bearer k3y"
        headers = {"Authorization": "Bearer other"}
        assert (await Client(url="http://harbour", http=http, headers=headers).whoami())[
            "user"
        ] == "Bearer other"


async def test_a_wrong_place_says_so(harbour_url: str) -> None:
    async with Client(url=harbour_url, base_path="/nowhere") as client:
        with pytest.raises(Failure) as raised:
            await client.greet(name="Ada")
        assert raised.value.code == "NOT_FOUND"


PROGRAM = """
import os, sys
from fairlead.surfaces.client import SyncClient

client = SyncClient(url=sys.argv[1])
assert client.greet(name="Ada") == "Hello Ada"
events = client.stream("anchor", {"mark": sys.argv[2]})
assert next(events)["message"] == "At anchor."
child = os.fork()
if child == 0:
    assert client.greet(name="Bob") == "Hello Bob"
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
if sys.argv[3:]:
    client.anchor(mark=sys.argv[3])
"""


async def test_a_program_that_closes_nothing_ends_quietly_and_cancels_its_calls(
    harbour_url: str, harbour: ModuleType
) -> None:
    # Newer Pythons warn of every fork beside threads.
    strict = ("-W", "error", "-W", "ignore:This process:DeprecationWarning")
    ended = await asyncio.create_subprocess_exec(
        sys.executable, *strict, "-c", PROGRAM, harbour_url, "exit", stderr=asyncio.subprocess.PIPE
    )
    _, told = await asyncio.wait_for(ended.communicate(), 20)
    assert (ended.returncode, told) == (0, b"")
    await harbour.until("exit cancelled")


async def test_ctrl_c_cancels_the_call_that_is_waited_for(harbour_url: str, harbour: ModuleType) -> None:
    arguments = (harbour_url, "stream of ctrl-c", "ctrl-c")
    interrupted = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, *arguments, stderr=asyncio.subprocess.PIPE
    )
    await harbour.until("ctrl-c began")
    interrupted.send_signal(signal.SIGINT)
    _, told = await asyncio.wait_for(interrupted.communicate(), 20)
    assert told.splitlines()[-1] == b"KeyboardInterrupt"
    await harbour.until("ctrl-c cancelled")


async def test_an_action_that_is_given_itself_is_called_in_its_version() -> None:
    app = App("x")

    @app.action(name="greet", version="1.0.0")
    async def formerly(name: str) -> str:
        """Greet."""
        return f"Good day, {name}"

    @app.action(name="greet", version="2.0.0")
    async def now(name: str) -> str:
        """Greet."""
        return f"Hi {name}"

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app.http())) as http:
        for client in (Client(runtime=app), Client(url="http://localhost", http=http)):
            assert await client.invoke(formerly, {"name": "Ada"}) == "Good day, Ada"
            assert await client.invoke(now, {"name": "Ada"}) == "Hi Ada"
            assert await client.invoke("greet", {"name": "Ada"}) == "Hi Ada"
            events = [event async for event in client.stream(formerly, {"name": "Ada"})]
            assert events[-1]["envelope"]["data"] == "Good day, Ada"
