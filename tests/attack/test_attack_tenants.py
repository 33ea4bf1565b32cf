"""Every route of the gateway, asked by others: made of the route table, so that a new one is tried, too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from attack.gateway_world import PRIVATE, REFUSED_TO_ALL, ROUTES, UNDER_WAY, World, name_of, world
from fairlead.gateway.call import Route
from gateway.site_under_test import PATIENCE

OPEN = {"a2aCard", "mcpMetadata", "getOpenApi", "getSpec", "getVersion", "uploadFile", "downloadFile"}
#: Routes that name something by id: theirs are refused. The others list, or make, what is the caller's own.
NAMED = [route for route in ROUTES if "{" in route.path]
#: What strangers may do with an agent that its owner opened to all: use it.
USED = {
    *("invokeAgent", "createTask", "listAgentTasks", "createConversation", "listConversations"),
    *("getModel", "a2aInvoke", "mcp", "a2aCard", "mcpMetadata"),
}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("world")) as made:
        yield made


def test_what_needs_no_key_is_these() -> None:
    assert {route.name for route in ROUTES if route.open} == OPEN


@pytest.mark.parametrize("who", ["nobody", "guess"])
@pytest.mark.parametrize("route", [route for route in ROUTES if not route.open], ids=name_of)
def test_nothing_is_said_to_those_without_a_key(here: World, route: Route, who: str) -> None:
    told = here.ask(who, route)
    assert told.status == 401
    assert PRIVATE not in told.body


@pytest.mark.parametrize("who", ["bob", "cat", "dan", "nobody"])
@pytest.mark.parametrize("route", ROUTES, ids=name_of)
def test_nobody_reads_what_is_not_theirs(here: World, route: Route, who: str) -> None:
    told = here.ask(who, route)
    if route.name == "getFile" and who == "cat":
        assert told.served  # a file is its owner's, whatever agent a key is for
        return
    assert PRIVATE not in told.body
    if route.name != "adminAudit":  # there one sees one's own requests, with what they asked for
        assert here.ids["task"] not in told.body
    if "{" in route.path and route.name not in ("mcpMetadata",):
        assert not told.served, told
        assert told.status < 500


@pytest.mark.parametrize("route", NAMED, ids=name_of)
def test_an_agent_that_is_open_to_all_opens_nothing_of_its_other_users(here: World, route: Route) -> None:
    here.open_to_all(True)
    try:
        told = here.ask("bob", route)
    finally:
        here.open_to_all(False)
    assert PRIVATE not in told.body
    assert told.served == (route.name in USED and (route.method, route.name) not in REFUSED_TO_ALL), told
    assert told.status < 500


#: How an action of a name is asked for by the server's own routes.
AS_ACTION = {
    "describe": ("GET", "/fairlead/actions/{}", None),
    "describe a version": ("GET", "/fairlead/actions/{}@1.0.0", None),
    "invoke": ("POST", "/fairlead/actions/{}/invoke", {"input": {"prompt": "hi"}}),
    "invoke by the other name": ("POST", "/ageniti/actions/{}/invoke", {"input": {"prompt": "hi"}}),
    "stream": ("POST", "/fairlead/actions/{}/stream", {"input": {"prompt": "hi"}}),
    "batch": ("POST", "/fairlead/batch", {"calls": [{"action": "{}", "input": {"prompt": "hi"}}]}),
}


@pytest.mark.parametrize("way", AS_ACTION)
def test_a_private_agent_is_no_action_to_other_owners(here: World, way: str) -> None:
    method, path, body = AS_ACTION[way]

    def told(who: str, name: str) -> str:
        sent = None if body is None else json.loads(json.dumps(body).replace("{}", name))
        answer = here.say(who, method, path.format(name), sent, keyed=False)
        return f"{answer.status} {answer.body}"

    hidden, absent = told("bob", "echo"), told("bob", "ochre")
    assert "ACTION_NOT_FOUND" in hidden
    assert hidden == absent.replace("ochre", "echo")
    for who in ("ann", "nobody"):  # and where no key is asked for, all is as it was
        assert '"ok":true' in told(who, "echo")
    here.open_to_all(True)
    assert '"ok":true' in told("bob", "echo")
    here.open_to_all(False)
    assert told("bob", "echo") == hidden


@pytest.mark.parametrize("path", ["/fairlead/actions", "/openapi.json"])
def test_a_private_agent_is_in_no_list_of_other_owners(here: World, path: str) -> None:
    def listed(who: str) -> tuple[bool, bool]:
        told = here.say(who, "GET", path).body
        return "look" in told, "talker" in told or "echo" in told

    assert [listed("ann"), listed("bob"), listed("nobody")] == [(True, True), (True, False), (True, True)]
    here.open_to_all(True)
    assert listed("bob") == (True, True)
    here.open_to_all(False)
    assert listed("bob") == (True, False)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_private_agent_is_no_tool_to_other_owners(here: World, mode: Any) -> None:
    async def seen(who: str) -> tuple[bool, bool, bool, bool]:
        headers = {"Authorization": f"Bearer {here.keys[who]}"}
        async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http:
            transport = streamable_http_client(f"{here.http.base_url}/mcp", http_client=http)
            async with Client(transport, mode=mode) as client:
                tools = {each.name for each in (await client.list_tools()).tools}
                assert "look" in tools
                about = [
                    str(await client.read_resource(f"fairlead://{each}")) for each in ("manifest", "guide")
                ]
                try:
                    called = not (await client.call_tool("echo", {"prompt": "hi"})).is_error
                except MCPError:
                    called = False
                return "echo" in tools, called, "echo" in about[0], "echo" in about[1]

    assert await seen("ann") == (True, True, True, True)
    assert await seen("bob") == (False, False, False, False)
    here.open_to_all(True)
    assert await seen("bob") == (True, True, True, True)
    here.open_to_all(False)


def test_a_key_for_some_agents_sees_no_other_key_and_nothing_done_without_them(here: World) -> None:
    def listed(page: str, name: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = json.loads(here.say("cat", "GET", f"/api/v1/admin/{page}").body)["data"][
            name
        ]
        return rows

    here.made("POST", "/api/v1/files/presign-upload", {"filename": "a", "content_type": "text/plain"})
    here.say("cat", "POST", "/api/v1/agents/memory/invoke", {"message": "hi"})
    assert {key["name"] for key in listed("keys", "keys")} == {"cat", "dan"}
    assert {row["key"] for row in listed("rates", "rates")} <= {"cat", "dan"}
    lines = listed("audit", "lines")
    assert {line["agent"] for line in lines} == {"memory"}


def test_what_was_tried_changed_nothing_and_each_request_was_a_whole_one(here: World) -> None:
    before = here.seen_by_owner()
    while (now := here.seen_by_owner()) != before:  # until her own turns are written down
        before = now
    assert sum(PRIVATE in body for body in before.values()) >= 6
    for who in ("bob", "cat", "dan", "guess", "nobody"):
        for route in ROUTES:
            if not (who == "cat" and route.name == "getFile"):
                here.ask(who, route)
    assert here.seen_by_owner() == before
    # The same requests, by her who may make them: first what looks, last what takes away.
    order = {"GET": 0, "PATCH": 1, "PUT": 1, "POST": 2, "DELETE": 3}
    ending = ("runtime.release", "runtime.reply", "runtime.unregister")
    for route in sorted(ROUTES, key=lambda each: (order[each.method], each.name in ending)):
        told = here.ask("ann", route)
        if (route.method, route.name) in REFUSED_TO_ALL:
            assert not told.served
        else:
            assert told.served or told.status == UNDER_WAY, (name_of(route), told)
