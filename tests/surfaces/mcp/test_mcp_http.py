"""Streamable HTTP on a real server: sessions, streams, headers, and who is let in."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from mcp_types import methods
from pydantic import BaseModel, Field

from fairlead import App, Context
from fairlead.runtime import Clock
from fairlead.surfaces.auth import Caller
from fairlead.surfaces.http.asgi import Request
from fairlead.surfaces.mcp import Server, client_of

NEWEST = "2026-07-28"
Start = Callable[..., Any]


class Sure(BaseModel):
    sure: bool


class Shop(App):
    """An app whose actions can be waited for."""

    def __init__(self, **options: Any) -> None:
        super().__init__("shop", description="A small shop.", **options)
        self.started, self.go, self.stopped = asyncio.Event(), asyncio.Event(), asyncio.Event()


def shop(**options: Any) -> Shop:
    app = Shop(**options)

    @app.action
    async def add(a: int, b: int = 1) -> int:
        """Add two numbers."""
        return a + b

    @app.action
    async def slow(ctx: Context, loud: bool = False) -> str:
        """Wait until told to go on."""
        if loud:
            await ctx.logger.info("waiting")
        app.started.set()
        try:
            await app.go.wait()
        finally:
            app.stopped.set()
        return "went"

    @app.action
    async def count(ctx: Context, to: int) -> str:
        """Count aloud."""
        for n in range(to):
            await ctx.progress.report(f"step {n}", n)
        return "counted"

    @app.action
    async def who(ctx: Context) -> Any:
        """Say who calls."""
        return ctx.user

    @app.action
    async def ask(ctx: Context) -> str:
        """Ask the person."""
        client = client_of(ctx)
        assert client is not None
        answer = await client.elicit("Sure?", Sure)
        return f"{answer.action} {answer.content.sure}"

    @app.action
    async def route(
        region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})], n: int = 0
    ) -> str:
        """Take an argument that is repeated in a header."""
        return region

    return app


def result(response: Any) -> Any:
    assert response.status_code == 200, response.text
    return response.json()["result"]


# Stateless requests


async def test_a_stateless_request_stands_for_itself(site: Start) -> None:
    place = await site(shop().mcp().http())
    said = await place.stateless("tools/call", {"name": "add", "arguments": {"a": 2}})
    assert said.headers["content-type"] == "application/json"
    assert "mcp-session-id" not in said.headers
    assert result(said)["structuredContent"] == 3
    for method in (
        "server/discover",
        "tools/list",
        "resources/list",
        "resources/templates/list",
        "prompts/list",
    ):
        methods.validate_server_result(method, NEWEST, result(await place.stateless(method)))
    read = await place.stateless("resources/read", {"uri": "fairlead://guide"})
    assert "# shop" in result(read)["contents"][0]["text"]


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"mcp-protocol-version": "2025-11-25"}, -32020),
        ({"mcp-protocol-version": "1999-01-01"}, -32020),
        ({"mcp-method": "tools/list"}, -32020),
        ({"mcp-method": "TOOLS/CALL"}, -32020),
        ({"mcp-method": ""}, -32020),
        ({"mcp-name": "other"}, -32020),
        ({"mcp-name": "=?base64?!!!?="}, -32020),
        ({"mcp-name": "=?base64?b3RoZXI=?="}, -32020),
    ],
)
async def test_headers_that_say_something_else_than_the_body_are_refused(
    site: Start, headers: Any, code: int
) -> None:
    place = await site(shop().mcp().http())
    said = await place.stateless("tools/call", {"name": "add", "arguments": {"a": 1}}, headers, id="x")
    assert said.status_code == 400
    assert said.json()["id"] == "x"
    assert said.json()["error"]["code"] == code


@pytest.mark.parametrize("header", ["mcp-protocol-version", "mcp-method", "mcp-name"])
async def test_headers_that_are_missing_or_doubled_are_refused(site: Start, header: str) -> None:
    place = await site(shop().mcp().http())
    meta = {
        "io.modelcontextprotocol/protocolVersion": NEWEST,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "add", "arguments": {"a": 1}, "_meta": meta}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {"mcp-protocol-version": NEWEST, "mcp-method": "tools/call", "mcp-name": "add"}
    assert (await place.post(message, headers)).status_code == 200
    missing = {name: value for name, value in headers.items() if name != header}
    doubled = [*headers.items(), (header, headers[header])]
    for wrong in (missing, doubled):
        said = await place.http.post(place.url, json=message, headers=wrong)
        assert (said.status_code, said.json()["error"]["code"]) == (400, -32020)


async def test_arguments_in_headers_must_be_those_of_the_body(site: Start) -> None:
    place = await site(shop().mcp().http())

    async def call(arguments: Any, **headers: str) -> int:
        told = {"mcp-param-" + name: value for name, value in headers.items()}
        said = await place.stateless("tools/call", {"name": "route", "arguments": arguments}, told)
        assert said.status_code == 200 or said.json()["error"]["code"] == -32020
        status: int = said.status_code
        return status

    assert await call({"region": "eu"}, region="eu") == 200
    assert await call({"region": "Zürich"}, region="=?base64?WsO8cmljaA==?=") == 200
    assert await call({"region": "eu"}, region="us") == 400
    assert await call({"region": "eu"}) == 400
    assert await call({}, region="eu") == 400
    assert await call({}) == 200
    assert await call({"region": None}) == 200
    assert await call({"region": "eu"}, region="eu", other="x") == 200


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, -32700),
        (b"", 400, -32700),
        (b"[]", 400, -32600),
        (b"7", 400, -32600),
        (b'{"jsonrpc":"2.0","id":1}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}', 400, -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{}}}', 400, -32602),
    ],
)
async def test_what_is_no_request_is_refused(site: Start, body: bytes, status: int, code: int) -> None:
    place = await site(shop().mcp().http())
    headers = {"content-type": "application/json", "mcp-protocol-version": NEWEST, "mcp-method": "tools/list"}
    said = await place.http.post(place.url, content=body, headers=headers)
    assert (said.status_code, said.json()["error"]["code"]) == (status, code)


@pytest.mark.parametrize(
    ("method", "params", "status", "code"),
    [
        ("no/such", {}, 404, -32601),
        ("initialize", {}, 404, -32601),
        ("tools/call", {"name": "nope"}, 200, -32602),
        ("tools/call", {"name": "ask"}, 400, -32021),
        ("tools/list", {"cursor": "x"}, 200, -32602),
        ("tools/list", {"_meta": {"io.modelcontextprotocol/protocolVersion": "v9"}}, 400, -32022),
    ],
)
async def test_errors_have_the_status_that_the_protocol_gives_them(
    site: Start, method: str, params: Any, status: int, code: int
) -> None:
    place = await site(shop().mcp().http())
    version = params.get("_meta", {}).get("io.modelcontextprotocol/protocolVersion", NEWEST)
    said = await place.stateless(method, params, {"mcp-protocol-version": version}, id=7)
    assert (said.status_code, said.json()["id"], said.json()["error"]["code"]) == (status, 7, code)


async def test_stateless_notifications_are_taken(site: Start) -> None:
    place = await site(shop().mcp().http())
    told = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    said = await place.post(told, {"mcp-protocol-version": NEWEST, "mcp-method": "notifications/cancelled"})
    assert (said.status_code, said.content) == (202, b"")


async def test_what_is_said_before_the_result_makes_it_a_stream(site: Start) -> None:
    place = await site(shop().mcp().http())
    params = {"name": "count", "arguments": {"to": 3}, "_meta": {"progressToken": "p"}}
    said = await place.stateless("tools/call", params)
    assert said.headers["content-type"] == "text/event-stream"
    assert said.headers["x-accel-buffering"] == "no"
    events = [json.loads(line[6:]) for line in said.text.splitlines() if line.startswith("data: ")]
    assert [event.get("method") for event in events] == ["notifications/progress"] * 3 + [None]
    assert events[-1]["result"]["structuredContent"] == "counted"
    assert "id: " not in said.text


async def test_a_stateless_call_stops_when_its_client_goes(site: Start) -> None:
    for loud in (False, True):
        app = shop()
        place = await site(app.mcp().http())
        meta = {"io.modelcontextprotocol/logLevel": "info"}
        params = {"name": "slow", "arguments": {"loud": loud}, "_meta": meta}
        call = asyncio.ensure_future(place.stateless("tools/call", params))
        await asyncio.wait_for(app.started.wait(), 5)
        call.cancel()
        await asyncio.wait_for(app.stopped.wait(), 5)


async def test_who_listens_over_http_hears_of_changes(site: Start) -> None:
    app = shop()
    server: Server = app.mcp()
    place = await site(server.http())
    async with _listening(place, {"toolsListChanged": True}) as events:
        assert (await events.next())["method"] == "notifications/subscriptions/acknowledged"
        app.add({"later": lambda: 1})
        assert (await events.next())["method"] == "notifications/tools/list_changed"
    async with asyncio.timeout(5):
        while server.subscriptions:  # noqa: ASYNC110  # nothing tells when the server has noticed
            await asyncio.sleep(0.001)


def _listening(place: Any, wanted: dict[str, Any]) -> Any:
    meta = {
        "io.modelcontextprotocol/protocolVersion": NEWEST,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"notifications": wanted, "_meta": meta}
    message = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
    headers = {"mcp-protocol-version": NEWEST, "mcp-method": "subscriptions/listen"}
    return place.visit(headers).stream(message)


async def test_closing_the_endpoint_ends_its_streams(site: Start) -> None:
    endpoint = shop().mcp().http()
    place = await site(endpoint)
    visit = await place.session()
    async with _listening(place, {"toolsListChanged": True}) as listening, visit.stream() as news:
        await listening.next()
        await endpoint.close()
        assert await news.rest() == []
        [last] = await listening.rest()
        methods.validate_server_result("subscriptions/listen", NEWEST, last["result"])
    assert (await visit.ask("ping")).status_code == 404


# Sessions


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_a_session_begins_with_the_handshake(site: Start, revision: str) -> None:
    visit = await (await site(shop().mcp().http())).session(revision)
    id = visit.headers["mcp-session-id"]
    assert len(id) >= 32
    assert all(0x21 <= ord(letter) <= 0x7E for letter in id)
    said = await visit.call("add", {"a": 1})
    assert said.headers["content-type"] == "application/json"
    assert result(said)["content"][0]["text"] == "2"
    methods.validate_server_result("tools/list", revision, result(await visit.ask("tools/list")))


async def test_a_session_is_needed_and_must_be_known(site: Start) -> None:
    place = await site(shop().mcp().http())
    message = {"jsonrpc": "2.0", "id": 5, "method": "tools/list"}
    said = await place.post(message)
    assert (said.status_code, said.json()["id"]) == (400, 5)
    said = await place.post(message, {"mcp-session-id": "guessed"})
    assert (said.status_code, said.json()["id"]) == (404, 5)
    visit = await place.session()
    assert (await visit.ask("ping", **{"mcp-protocol-version": "2025-06-18"})).status_code == 400
    assert (await visit.ask("ping", **{"mcp-protocol-version": "1999-01-01"})).status_code == 400
    del visit.headers["mcp-protocol-version"]
    assert (await visit.ask("ping")).status_code == 200


async def test_a_session_ends_when_its_client_says_so(site: Start) -> None:
    app = shop()
    place = await site(app.mcp().http())
    visit = await place.session()
    running = asyncio.ensure_future(visit.call("slow"))
    await app.started.wait()
    assert (await place.http.delete(place.url, headers=visit.headers)).status_code == 204
    await asyncio.wait_for(app.stopped.wait(), 5)
    assert (await running).status_code == 202
    assert (await visit.ask("ping")).status_code == 404
    assert (await place.http.delete(place.url, headers=visit.headers)).status_code == 404


async def test_a_session_is_its_callers_alone(site: Start) -> None:
    def resolve(request: Request) -> Caller | None:
        token = request.headers.get("authorization")
        return None if token is None else Caller(user={"id": token}, auth={"token": token})

    place = await site(shop().mcp().http(resolve_context=resolve))
    ann = await place.session(headers={"authorization": "ann"})
    assert result(await ann.call("who"))["structuredContent"] == {"id": "ann"}
    for thief in ({"authorization": "bob"}, {}):
        stolen = {key: value for key, value in ann.headers.items() if key != "authorization"} | thief
        assert (await place.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, stolen)).status_code == 404
        assert (await place.http.get(place.url, headers=stolen)).status_code == 404
        assert (await place.http.delete(place.url, headers=stolen)).status_code == 404
    assert (await ann.ask("ping")).status_code == 200


async def test_sessions_that_nobody_uses_expire(site: Start) -> None:
    now = 0.0
    place = await site(shop(clock=Clock(monotonic=lambda: now)).mcp().http(session_ttl=60))
    first, second = await place.session(), await place.session()
    now = 50
    assert (await second.ask("ping")).status_code == 200
    now = 100
    assert (await first.ask("ping")).status_code == 404
    assert (await second.ask("ping")).status_code == 200


async def test_there_are_no_more_sessions_than_allowed_and_those_in_use_stay(site: Start) -> None:
    app = shop()
    place = await site(app.mcp().http(max_sessions=2))
    busy, idle = await place.session(), await place.session()
    running = asyncio.ensure_future(busy.call("slow"))
    await app.started.wait()
    third = await place.session()
    assert (await idle.ask("ping")).status_code == 404
    async with third.stream() as news:
        refused = await place.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}})
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "30")
        assert news.response.status_code == 200
    app.go.set()
    assert result(await running)["content"][0]["text"] == "went"


async def test_notifications_and_answers_are_taken_without_a_word(site: Start) -> None:
    visit = await (await site(shop().mcp().http())).session()
    said = await visit.tell("notifications/whatever")
    assert (said.status_code, said.content) == (202, b"")
    said = await visit.site.post({"jsonrpc": "2.0", "id": 77, "result": {}}, visit.headers)
    assert (said.status_code, said.content) == (202, b"")


async def test_a_session_call_is_cancelled_by_a_notification(site: Start) -> None:
    app = shop()
    visit = await (await site(app.mcp().http())).session()
    for loud in (False, True):
        app.started.clear()
        app.stopped.clear()
        running = asyncio.ensure_future(visit.call("slow", {"loud": loud}))
        await app.started.wait()
        await visit.tell("notifications/cancelled", {"requestId": visit._last})
        await asyncio.wait_for(app.stopped.wait(), 5)
        said = await running
        assert said.status_code == (200 if loud else 202)
        assert '"result"' not in said.text


async def test_a_session_is_asked_on_the_stream_of_its_call(site: Start) -> None:
    visit = await (await site(shop().mcp().http())).session(capabilities={"elicitation": {}})
    async with visit.stream(visit.message("tools/call", {"name": "ask"})) as events:
        assert list(await events.next()) == ["event_id"]
        asked = await events.next()
        methods.parse_server_request("elicitation/create", "2025-11-25", asked["params"])
        answer = {"action": "accept", "content": {"sure": True}}
        reply = {"jsonrpc": "2.0", "id": asked["id"], "result": answer}
        assert (await visit.site.post(reply, visit.headers)).status_code == 202
        assert (await events.next())["result"]["structuredContent"] == {"result": "accept True"}


async def test_news_come_on_the_stream_of_the_session(site: Start) -> None:
    app = shop()
    server: Server = app.mcp()
    visit = await (await site(server.http())).session()
    await visit.ask("resources/subscribe", {"uri": "x://a"})
    server.updated("x://a")
    async with visit.stream() as events:
        assert (await events.next())["params"] == {"uri": "x://a"}
        app.add({"later": lambda: 1})
        assert (await events.next())["method"] == "notifications/tools/list_changed"


async def test_a_second_reader_takes_the_stream_over(site: Start) -> None:
    server: Server = shop().mcp()
    visit = await (await site(server.http())).session()
    await visit.ask("resources/subscribe", {"uri": "x://a"})
    async with visit.stream() as first, visit.stream() as second:
        assert await first.rest() == []
        server.updated("x://a")
        assert (await second.next())["params"] == {"uri": "x://a"}


@pytest.mark.parametrize("loud", [False, True])
async def test_without_sessions_a_call_ends_with_its_client(site: Start, loud: bool) -> None:
    app = shop()
    place = await site(app.mcp().http(sessions=False))
    params = {"name": "slow", "arguments": {"loud": loud}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    waiting = asyncio.ensure_future(place.post(call, {"mcp-protocol-version": "2025-06-18"}))
    await asyncio.wait_for(app.started.wait(), 5)
    waiting.cancel()
    await asyncio.wait_for(app.stopped.wait(), 5)


async def test_without_sessions_each_message_is_served_by_itself(site: Start) -> None:
    place = await site(shop().mcp().http(sessions=False))
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    said = await place.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
    assert result(said)["protocolVersion"] == "2025-06-18"
    assert "mcp-session-id" not in said.headers
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "add", "arguments": {"a": 1}},
    }
    said = result(await place.post(call, {"mcp-protocol-version": "2025-06-18"}))
    assert said["structuredContent"] == {"result": 2}
    assert "structuredContent" not in result(await place.post(call))
    for method in ("GET", "DELETE"):
        said = await place.http.request(method, place.url)
        assert (said.status_code, said.headers["allow"]) == (405, "POST")


# Streams that are left and resumed


async def test_a_cut_stream_goes_on_where_it_was_left(site: Start) -> None:
    app = shop()
    visit = await (await site(app.mcp().http())).session()
    async with visit.stream(
        visit.message("tools/call", {"name": "slow", "arguments": {"loud": True}})
    ) as events:
        primed = await events.next()
        assert list(primed) == ["event_id"]
        last = await events.next()
        assert last["method"] == "notifications/message"
    assert not app.stopped.is_set()
    async with visit.stream(**{"last-event-id": primed["event_id"]}) as events:
        again = await events.next()
        assert again == last
        app.go.set()
        said = await events.rest()
        assert [event["result"]["content"][0]["text"] for event in said] == ["went"]
    async with visit.stream(**{"last-event-id": last["event_id"]}) as events:
        assert [event["result"]["content"][0]["text"] for event in await events.rest()] == ["went"]
    async with visit.stream(**{"last-event-id": said[-1]["event_id"]}) as events:
        assert await events.rest() == []


async def test_event_ids_are_unique_and_streams_are_kept_apart(site: Start) -> None:
    visit = await (await site(shop().mcp().http())).session()
    ids: list[str] = []
    for to in (3, 4):
        params = {"name": "count", "arguments": {"to": to}, "_meta": {"progressToken": to}}
        async with visit.stream(visit.message("tools/call", params)) as events:
            said = await events.rest()
        assert {event["params"]["progressToken"] for event in said if "params" in event} == {to}
        ids += [event["event_id"] for event in said]
    assert len(ids) == len(set(ids))
    async with visit.stream(**{"last-event-id": ids[0]}) as events:
        replayed = await events.rest()
    assert {event["params"]["progressToken"] for event in replayed if "params" in event} == {3}


async def test_revisions_before_it_are_not_primed(site: Start) -> None:
    visit = await (await site(shop().mcp().http())).session("2025-06-18")
    params = {"name": "count", "arguments": {"to": 1}, "_meta": {"progressToken": 1}}
    async with visit.stream(visit.message("tools/call", params)) as events:
        assert (await events.next())["method"] == "notifications/progress"


@pytest.mark.parametrize("id", ["nope", "nope.1", "..", "é", "x" * 5000])
async def test_an_event_that_is_not_kept_is_refused(site: Start, id: str) -> None:
    visit = await (await site(shop().mcp().http())).session()
    headers = {**visit.headers, "accept": "text/event-stream", "last-event-id": id.encode()}
    said = await visit.site.http.get(visit.site.url, headers=headers)
    assert said.status_code == 400


async def test_no_more_events_are_kept_than_there_is_room_for(site: Start) -> None:
    visit = await (await site(shop().mcp().http())).session()
    params = {"name": "count", "arguments": {"to": 2000}, "_meta": {"progressToken": 1}}
    async with visit.stream(visit.message("tools/call", params)) as events:
        said = await events.rest()
    assert len(said) == 2002
    async with visit.stream(**{"last-event-id": said[0]["event_id"]}) as events:
        kept = await events.rest()
    assert 0 < len(kept) <= 256
    assert "result" in kept[-1]


async def test_a_quiet_stream_is_kept_alive(site: Start) -> None:
    app = shop()
    place = await site(app.mcp().http(keep_alive=0.01))
    visit = await place.session()
    headers = {**visit.headers, "accept": "text/event-stream"}
    async with place.http.stream("GET", place.url, headers=headers) as response:
        lines = response.aiter_lines()
        comments = [await anext(lines) for _ in range(6)]
    assert comments.count(": keep-alive") == 3


# Who is let in


@pytest.mark.parametrize("header", ["host", "origin"])
@pytest.mark.parametrize(
    "value",
    ["evil.example.com", "http://evil.example.com", "null", "127.0.0.1.evil.com", "localhost@evil.com", ""],
)
async def test_other_hosts_and_origins_are_not_let_in(site: Start, header: str, value: str) -> None:
    place = await site(shop().mcp().http())
    for method in ("POST", "GET", "DELETE"):
        said = await place.http.request(method, place.url, headers={header: value}, json={})
        assert said.status_code == 403
        assert said.json()["error"]["code"] == -32600


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "localhost"},
        {"host": "LOCALHOST:99"},
        {"host": "[::1]:8000"},
        {"origin": "http://localhost:3000"},
        {"origin": "https://127.0.0.1"},
    ],
)
async def test_this_machine_is_let_in(site: Start, headers: dict[str, str]) -> None:
    place = await site(shop().mcp().http())
    assert (await place.stateless("server/discover", headers=headers)).status_code == 200


async def test_hosts_and_origins_can_be_named(site: Start) -> None:
    server: Server = shop().mcp()
    place = await site(
        server.http(allowed_hosts=["mcp.example.com"], allowed_origins=["https://app.example.com"])
    )
    good = {"host": "mcp.example.com", "origin": "https://app.example.com"}
    assert (await place.stateless("server/discover", headers=good)).status_code == 200
    for wrong in (
        {"host": "localhost"},
        {"origin": "http://app.example.com"},
        {"origin": "https://mcp.example.com"},
    ):
        assert (await place.stateless("server/discover", headers={**good, **wrong})).status_code == 403
    place = await site(server.http(allowed_hosts=["*.example.com"]))
    for host, status in (("a.example.com:8080", 200), ("example.com", 403), ("a.example.com.evil.com", 403)):
        assert (await place.stateless("server/discover", headers={"host": host})).status_code == status
    place = await site(server.http(allowed_hosts=["*"]))
    for origin, status in (("https://who.knows", 200), ("https://where.ever", 403)):
        told = {"host": "who.knows", "origin": origin}
        assert (await place.stateless("server/discover", headers=told)).status_code == status
    place = await site(server.http(allowed_hosts=["*"], allowed_origins=["*"]))
    anyone = {"host": "who.knows", "origin": "https://where.ever"}
    assert (await place.stateless("server/discover", headers=anyone)).status_code == 200


@pytest.mark.parametrize("kind", ["text/plain", "", "application/jsonp", "multipart/form-data"])
async def test_bodies_that_are_no_json_are_not_read(site: Start, kind: str) -> None:
    place = await site(shop().mcp().http())
    said = await place.http.post(place.url, content=b"{}", headers={"content-type": kind})
    assert said.status_code == 415


@pytest.mark.parametrize("accept", ["text/html", "application/json", "text/event-stream"])
async def test_answers_that_cannot_be_taken_are_not_given(site: Start, accept: str) -> None:
    place = await site(shop().mcp().http())
    assert (await place.stateless("server/discover", headers={"accept": accept})).status_code == 406


@pytest.mark.parametrize(
    "accept", ["*/*", "application/*, text/*", "application/json;q=1, text/event-stream;q=0.5"]
)
async def test_answers_that_can_be_taken_are_given(site: Start, accept: str) -> None:
    place = await site(shop().mcp().http())
    assert (await place.stateless("server/discover", headers={"accept": accept})).status_code == 200


@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS", "HEAD"])
async def test_other_methods_are_not_allowed(site: Start, method: str) -> None:
    place = await site(shop().mcp().http())
    said = await place.http.request(method, place.url)
    assert (said.status_code, said.headers["allow"]) == (405, "GET, POST, DELETE")


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_what_belongs_to_sessions_is_not_for_stateless_clients(site: Start, method: str) -> None:
    place = await site(shop().mcp().http())
    said = await place.http.request(method, place.url, headers={"mcp-protocol-version": NEWEST})
    assert (said.status_code, said.headers["allow"]) == (405, "POST")


async def test_bodies_are_bounded_whether_they_say_their_size_or_not(site: Start) -> None:
    place = await site(shop().mcp().http(max_body=1000))
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "x" * 1000}).encode()

    async def pieces() -> Any:
        for start in range(0, len(body), 100):
            yield body[start : start + 100]

    for content in (body, pieces()):
        said = await place.http.post(place.url, content=content, headers={"content-type": "application/json"})
        assert said.status_code == 413


async def test_a_resolver_that_breaks_tells_nothing(site: Start) -> None:
    def resolve(request: Request) -> Caller:
        raise RuntimeError("password=hunter2")

    place = await site(shop().mcp().http(resolve_context=resolve))
    said = await place.stateless("server/discover")
    assert said.status_code == 500
    assert "hunter2" not in said.text


async def test_batches_are_answered_over_http_where_the_revision_has_them(site: Start) -> None:
    place = await site(shop().mcp().http())
    visit = await place.session("2025-03-26")
    batch = [visit.message("ping"), visit.message("tools/call", {"name": "add", "arguments": {"a": 1}})]
    said = (await place.post(batch, visit.headers)).json()
    assert [answer["id"] for answer in said] == [1, 2]
    told = [{"jsonrpc": "2.0", "method": "notifications/initialized"}]
    assert (await place.post(told, visit.headers)).status_code == 202
    newer = await place.session("2025-06-18")
    assert (await place.post(batch, newer.headers)).json()["error"]["code"] == -32600
