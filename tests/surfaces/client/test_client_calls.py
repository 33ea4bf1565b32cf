"""Calling actions through a client, in process: the words that hold for every transport."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from datetime import date
from types import ModuleType
from typing import Any

import pytest

from fairlead import App, Context, Failure, Runtime, action
from fairlead.actions import DefinitionError, Retry
from fairlead.failures.action import InternalError
from fairlead.surfaces.client import Call, Client, Reply, SyncClient


@pytest.fixture
def client(harbour: ModuleType) -> Client:
    return Client(runtime=harbour.app)


async def test_22_a_call_gives_the_data_and_raw_gives_the_envelope(client: Client) -> None:
    assert await client.greet({"name": "Ada"}) == "Hello Ada"
    reply = await client.greet({"name": "Ada"}, raw=True)
    assert (reply.ok, reply.data, reply.failure) == (True, "Hello Ada", None)
    envelope = reply.to_dict()
    assert list(envelope) == ["ok", "data", "artifacts", "logs", "meta"]
    assert envelope["meta"]["surface"] == "json"


async def test_the_fields_of_an_input_can_be_given_by_name(client: Client) -> None:
    assert await client.greet(name="Ada", loud=True) == "HELLO ADA"
    assert await client.with_options(confirm=True).launch(name="Elida") == "Elida floats"


async def test_an_action_can_be_called_by_name_and_by_itself(client: Client, harbour: ModuleType) -> None:
    assert await client.invoke("greet", {"name": "Ada"}) == "Hello Ada"
    boat = await client.invoke(harbour.add_boat, {"boat": {"name": "Elida", "built": "1939-05-01"}})
    assert boat == harbour.Boat(name="Elida", built=date(1939, 5, 1))
    assert await client.add_boat({"boat": {"name": "Elida"}}) == {
        "name": "Elida",
        "kind": "sail",
        "built": None,
    }


async def test_what_an_action_yields_comes_as_a_list(client: Client, harbour: ModuleType) -> None:
    assert await client.invoke(harbour.berths, {"count": 3}) == [0, 1, 2]
    reply = await client.invoke(harbour.buoys, {"count": 2}, raw=True)
    assert reply.data == ["buoy 0", "buoy 1"]


async def test_data_of_another_type_than_the_action_returns_is_an_invalid_response(client: Client) -> None:
    @action(name="greet")
    async def other(name: str) -> int:
        """Say a number."""
        return 1

    class Elsewhere:
        retry = Retry()

        async def invoke(self, call: Call) -> Reply[Any]:
            return Reply({"ok": True, "data": "Hello"})

        def stream(self, call: Call) -> AsyncGenerator[Any, None]:
            raise NotImplementedError

        async def aclose(self) -> None: ...

    client = Client(transport=Elsewhere())
    assert await client.invoke("greet", {"name": "Ada"}) == "Hello"
    with pytest.raises(Failure) as raised:
        await client.invoke(other, {"name": "Ada"})
    assert raised.value.code == "INVALID_RESPONSE"
    assert raised.value.issues


async def test_23_null_is_an_input_and_is_not_the_same_as_none(client: Client) -> None:
    assert await client.nothing(None) == "null"
    assert await client.invoke("echo", None) is None
    with pytest.raises(Failure) as raised:
        await client.nothing({})
    assert raised.value.code == "VALIDATION_ERROR"


async def test_28_a_failure_is_raised_with_its_code(client: Client) -> None:
    with pytest.raises(InternalError) as raised:
        await client.wreck()
    assert raised.value.code == "INTERNAL_ERROR"


async def test_a_failure_of_the_apps_own_is_raised_as_its_own_class(
    client: Client, harbour: ModuleType
) -> None:
    with pytest.raises(harbour.HarbourFull) as raised:
        await client.moor(name="Elida")
    assert raised.value.details == {"berths": 3}
    assert isinstance(raised.value.__cause__, harbour.HarbourFull)
    reply = await client.moor({"name": "Elida"}, raw=True)
    assert isinstance(reply.failure, harbour.HarbourFull)
    assert not reply.ok


async def test_issues_of_an_invalid_input_are_in_the_traceback(client: Client) -> None:
    with pytest.raises(Failure) as raised:
        await client.greet(nam="Ada")
    assert {issue.path for issue in raised.value.issues} == {("name",), ("nam",)}
    assert len(raised.value.__notes__) == 2


async def test_who_is_calling_is_said_by_the_host(harbour: ModuleType) -> None:
    client = Client(runtime=harbour.app, user="ada", auth={"permissions": ["sail"]}, metadata={"trip": 1})
    told = await client.whoami()
    assert (told["user"], told["auth"], told["surface"]) == ("ada", {"permissions": ["sail"]}, "json")
    assert told["metadata"] == {"trip": 1}
    assert (await client.with_options(user="bob").whoami())["user"] == "bob"
    assert (await client.whoami())["user"] == "ada"


async def test_the_surface_of_a_client_can_be_chosen(harbour: ModuleType) -> None:
    assert (await Client(runtime=harbour.app, surface="react").whoami())["surface"] == "react"


async def test_private_actions_are_as_good_as_missing_by_name(client: Client, harbour: ModuleType) -> None:
    with pytest.raises(Failure) as raised:
        await client.treasure()
    assert raised.value.code == "ACTION_NOT_FOUND"
    assert await client.invoke(harbour.treasure) == "here"
    missing = await client.invoke("great", {}, raw=True)
    assert missing.to_dict()["meta"]["action"] == "great"
    assert missing.failure is not None
    assert "'greet'" in missing.failure.message


async def test_events_come_in_order_and_the_result_is_last(client: Client) -> None:
    events = [event async for event in client.stream("sail", {"legs": 1})]
    assert [event["type"] for event in events] == ["log", "progress", "artifact", "log", "result"]
    assert events[-1]["envelope"]["data"] == {"legs": 1}
    refused = [event async for event in client.stream("great")]
    assert [event["envelope"]["error"]["code"] for event in refused] == ["ACTION_NOT_FOUND"]


async def test_leaving_a_stream_early_cancels_the_call(client: Client, harbour: ModuleType) -> None:
    async with aclosing(client.stream("anchor", {"mark": "early"})) as events:
        async for event in events:
            assert event["message"] == "At anchor."
            break
    assert harbour.runs["early cancelled"] == 1


async def test_cancelling_the_awaiting_task_cancels_the_call(client: Client, harbour: ModuleType) -> None:
    task = asyncio.ensure_future(client.anchor(mark="task"))
    await harbour.until("task began")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert harbour.runs["task cancelled"] == 1


async def test_time_limits_end_a_call(client: Client) -> None:
    for limit in ({"timeout": 0.01}, {"deadline": 0.01}):
        with pytest.raises(Failure) as raised:
            await client.with_options(**limit).anchor(mark="late")  # type: ignore[arg-type]
        assert raised.value.code == "TIMEOUT"


async def test_a_bare_runtime_will_do() -> None:
    @action
    async def double(number: int) -> int:
        """Double a number."""
        return 2 * number

    assert await Client(runtime=Runtime([double])).double(number=2) == 4
    with SyncClient(runtime=Runtime([double])) as client:
        assert client.double(number=2) == 4
        with pytest.raises(Failure):
            client.triple(number=2)


async def test_the_app_makes_a_client_of_itself(harbour: ModuleType) -> None:
    assert await harbour.app.client(user="ada").greet(name="Ada") == "Hello Ada"


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({}, "none was given"),
        ({"url": "http://h", "runtime": App("x")}, "runtime and url were given"),
        ({"url": "ftp://h"}, "https://api.example.com"),
        ({"url": "h:80"}, "https://api.example.com"),
        ({"url": "http://h:port"}, "cannot be read"),
        ({"url": "http://h", "surface": "json"}, "unknown option 'surface'"),
        ({"runtime": App("x"), "api_key": "k"}, "unknown option 'api_key'"),
        ({"url": "http://h", "header": {}}, "Did you mean 'headers'?"),
        ({"url": "http://h", "timeout": 0}, "timeout is 0"),
        ({"url": "http://h", "retry": {"tries": 1}}, "unknown option 'tries'"),
        ({"url": "http://h", "api_key": "schlüssel"}, "'authorization' cannot be sent"),
        ({"url": "http://h", "headers": {"X-A": "a\r\nX-B: b"}}, "'x-a' cannot be sent"),
    ],
)
@pytest.mark.parametrize("cls", [Client, SyncClient])
def test_a_client_that_makes_no_sense_is_refused(cls: Any, options: dict[str, Any], hint: str) -> None:
    with pytest.raises(DefinitionError) as raised:
        cls(**options)
    assert hint in str(raised.value)


async def test_options_and_arguments_that_make_no_sense_are_refused(client: Client) -> None:
    wrong: list[dict[str, Any]] = [
        {"tiemout": 3},
        {"deadline": -1},
        {"retry": "often"},
        {"idempotency_key": ""},
    ]
    for options in wrong:
        with pytest.raises(DefinitionError):
            await client.greet({"name": "Ada"}, **options)
    with pytest.raises(DefinitionError):
        await client.greet({"name": "Ada"}, {"loud": True})
    with pytest.raises(AttributeError):
        client._repr_html_  # noqa: B018


def test_many_threads_share_a_sync_client(harbour: ModuleType) -> None:
    with SyncClient(runtime=harbour.app) as client, ThreadPoolExecutor(8) as threads:
        together = threading.Barrier(8, timeout=10)

        def call(number: int) -> str:
            together.wait()
            name: str = client.greet(name=str(number))
            return name

        assert sorted(threads.map(call, range(8))) == [f"Hello {number}" for number in range(8)]


def test_a_sync_stream_gives_events_and_cancels_when_left(harbour: ModuleType) -> None:
    client = SyncClient(runtime=harbour.app)
    assert [event["type"] for event in client.stream("buoys", {"count": 2})] == ["chunk", "chunk", "result"]
    for event in client.stream("anchor", {"mark": "sync"}):
        assert event["type"] == "log"
        break
    assert harbour.runs["sync cancelled"] == 1


async def test_a_sync_client_refuses_to_wait_for_the_loop_it_runs_on() -> None:
    app = App("x")

    @app.action
    async def outer(ctx: Context) -> str:
        """Call in a way that could never end."""
        name: str = SyncClient(runtime=app).inner()
        return name

    @app.action
    async def inner() -> str:
        """Answer."""
        return "inner"

    result = await asyncio.to_thread(app.invoke_sync, "outer")
    assert result.failure is not None
    assert "use a Client there" in result.failure.message
    # On any other loop it only blocks, as in a notebook.
    assert SyncClient(runtime=app).inner() == "inner"


def test_the_client_costs_no_http_library_until_it_has_a_url() -> None:
    program = """
import sys
from fairlead.surfaces.client import Client
assert not {"httpx", "uvicorn", "anyio"} & set(sys.modules)
sys.modules["httpx"] = None
try:
    Client(url="http://localhost")
except TypeError as error:
    assert "pip install 'fairlead[client]'" in str(error)
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", program], check=True)
