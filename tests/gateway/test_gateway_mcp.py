"""Each agent as an MCP server, called with the official client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import beeos_sdk as sdk
import httpx
import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import TextContent

from gateway.site_under_test import OWNER, PATIENCE, STRANGER, Site

MODES = ("legacy", "auto")


@asynccontextmanager
async def client(site: Site, agent: str, key: str = OWNER, mode: Any = "auto") -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http:
        transport = streamable_http_client(f"{site.url}/agents/{agent}/mcp", http_client=http)
        async with Client(transport, mode=mode) as found:
            yield found


def text(result: Any) -> str:
    (said,) = result.content
    assert isinstance(said, TextContent)
    return said.text


@pytest.mark.parametrize("mode", MODES)
async def test_an_agent_is_one_tool_of_its_own_name(site: Site, mode: str) -> None:
    async with client(site, "echo", mode=mode) as server:
        (tool,) = (await server.list_tools()).tools
        assert tool.name == "echo"
        assert tool.input_schema["required"] == ["message"]
        assert "context_id" in tool.input_schema["properties"]
        assert text(await server.call_tool("echo", {"message": "hello"})) == "You said: hello"


@pytest.mark.parametrize("mode", MODES)
async def test_what_the_agent_says_comes_as_progress(site: Site, mode: str) -> None:
    heard: list[str] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message or "")

    async with client(site, "talker", mode=mode) as server:
        result = await server.call_tool("talker", {"message": "go"}, progress_callback=hear)
    assert text(result) == "one two three four five"
    assert "".join(heard) == "one two three four five"


async def test_a_context_goes_on_with_what_was_said(site: Site) -> None:
    async with client(site, "memory") as server:
        await server.call_tool("memory", {"message": "one", "context_id": "mine"})
        result = await server.call_tool("memory", {"message": "two", "context_id": "mine"})
        assert text(result) == "one | two"
        first = await server.call_tool("memory", {"message": "three"})
        assert first.meta is not None
        context = first.meta["fairlead/envelope"]["meta"]["context_id"]
        assert (
            text(await server.call_tool("memory", {"message": "four", "context_id": context}))
            == "three | four"
        )


@pytest.mark.parametrize("mode", MODES)
async def test_nobody_gets_the_answer_of_another_caller_by_their_key(site: Site, mode: str) -> None:
    site.agents().update_agent("memory", sdk.UpdateAgentRequest(visibility="public"))
    asked = {"message": "What do I owe?"}
    meta: Any = {"fairlead/idempotencyKey": "same"}
    replayed: list[list[bool]] = []
    for key in (OWNER, STRANGER):
        async with client(site, "memory", key, mode=mode) as server:
            told = [await server.call_tool("memory", asked, meta=meta) for _ in range(2)]
        assert all(each.meta is not None for each in told)
        envelopes = [each.meta["fairlead/envelope"]["meta"] for each in told]  # type: ignore[index]
        replayed.append(["idempotent" in each for each in envelopes])
    assert replayed == [[False, True], [False, True]]


async def test_a_failure_is_an_error_of_the_tool(site: Site) -> None:
    async with client(site, "broken") as server:
        result = await server.call_tool("broken", {"message": "x"})
        assert result.is_error
        assert "on strike" in text(result)
        assert (await server.call_tool("broken", {})).is_error
        with pytest.raises(MCPError):
            await server.call_tool("nobody", {"message": "x"})


async def test_the_same_key_is_answered_once(site: Site) -> None:
    async with client(site, "slow") as server:
        asked = {"message": "key", "idempotency_key": "once"}
        first = asyncio.ensure_future(server.call_tool("slow", asked))
        await asyncio.to_thread(site.seen, "begun-key")
        (site.folder / "begun-key").unlink()
        second = asyncio.ensure_future(server.call_tool("slow", asked))
        site.leave("go-key")
        assert text(await first) == text(await second) == "done key"
        assert not (site.folder / "begun-key").exists()


def test_who_goes_away_stops_the_agent(site: Site) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    params = {"name": "slow", "arguments": {"message": "gone"}}
    headers = {
        "Authorization": f"Bearer {OWNER}",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2025-06-18",
    }
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(
            f"{site.url}/agents/slow/mcp", json={**body, "params": params}, headers=headers, timeout=1.0
        )
    site.seen("begun-gone")
    site.seen("stopped-gone")


def test_who_is_not_let_in_is_told_what_is_needed(site: Site) -> None:
    url = f"{site.url}/agents/echo/mcp"
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    refused = httpx.post(url, json=body, timeout=PATIENCE)
    challenge = refused.headers["www-authenticate"]
    assert refused.status_code == 401
    assert challenge.startswith('Bearer realm="MCP", resource_metadata="')
    place = challenge.partition('resource_metadata="')[2].rstrip('"')
    assert httpx.get(place, timeout=PATIENCE).json()["resource"] == url
    wrong = httpx.post(url, json=body, headers={"Authorization": "Bearer oag_x"}, timeout=PATIENCE)
    assert (wrong.status_code, 'error="invalid_token"' in wrong.headers["www-authenticate"]) == (401, True)
    stranger = httpx.post(url, json=body, headers={"Authorization": f"Bearer {STRANGER}"}, timeout=PATIENCE)
    assert (stranger.status_code, stranger.json()["error"]["data"]["code"]) == (404, "agent_not_found")


def test_an_agent_is_open_to_mcp_until_its_owner_closes_it(site: Site) -> None:
    def status() -> int:
        return httpx.post(
            f"{site.url}/agents/echo/mcp",
            json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
            headers={"Authorization": f"Bearer {OWNER}", "Accept": "application/json, text/event-stream"},
            timeout=PATIENCE,
        ).status_code

    assert site.agents().get_agent("echo").data.mcp_enabled
    assert status() == 200
    site.agents().update_agent("echo", sdk.UpdateAgentRequest(mcpEnabled=False))
    assert status() == 401


def test_a_call_leaves_a_task_behind(site: Site) -> None:
    async def call() -> str:
        async with client(site, "echo") as server:
            result = await server.call_tool("echo", {"message": "kept"})
            assert result.meta is not None
            return str(result.meta["fairlead/envelope"]["meta"]["context_id"])

    id = asyncio.run(call())
    assert site.tasks().get_task("echo", id).data.result == "You said: kept"


async def test_words_that_no_database_keeps_break_nothing(site: Site) -> None:
    async with client(site, "echo") as server:
        odd = await server.call_tool("echo", {"message": "a\0b", "context_id": "odd"})
        assert "internal" not in text(odd).lower()
        refused = await server.call_tool("echo", {"message": "x", "context_id": "a\0b"})
        assert refused.is_error
        assert text(await server.call_tool("echo", {"message": "x"})) == "You said: x"
