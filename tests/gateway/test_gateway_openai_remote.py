"""Agents that run elsewhere, asked in the protocols of others: they are the same agents there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import httpx
import httpx2
import openai
import pytest
from a2a.client import ClientConfig, create_client
from a2a.types.a2a_pb2 import Message, Part, Role, SendMessageRequest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from fairlead.gateway import AgentWorker
from gateway.site_under_test import OWNER, PATIENCE, STRANGER, Site

AGENT = "far-off.1"
HEADERS = {"Authorization": f"Bearer {OWNER}"}


@pytest.fixture
async def far(site: Site) -> AsyncIterator[Site]:
    """A site with an agent that knows what was said in each of its contexts."""
    known: dict[str, list[str]] = {}

    async def answer(turn: Any) -> AsyncIterator[str]:
        said = known.setdefault(turn.context_id, [])
        said.append(turn.message)
        for each in said:
            yield f"[{each}]"

    skills = [{"id": "recall", "name": "Recall", "description": "Says it again.", "tags": ["memory"]}]
    async with AgentWorker(site.url, OWNER, AGENT, answer, description="Far.", skills=skills):
        yield site


async def test_it_completes_chats_and_responses(far: Site) -> None:
    async with openai.AsyncOpenAI(
        base_url=f"{far.url}/v1", api_key=OWNER, max_retries=0, timeout=PATIENCE
    ) as client:
        assert AGENT in [each.id for each in (await client.models.list()).data]
        messages: Any = [
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": "Yes."},
            {"role": "user", "content": "two"},
        ]
        made = await client.chat.completions.create(model=AGENT, messages=messages)
        said = made.choices[0].message.content
        assert said == "[What was said before:\n\nUser: one\n\nYou: Yes.\n\nWhat is said now:\n\ntwo]"
        stream = await client.chat.completions.create(
            model=AGENT, messages=[{"role": "user", "content": "x"}], stream=True
        )
        assert "".join([each.choices[0].delta.content or "" async for each in stream]) == "[x]"
        first = await client.responses.create(model=AGENT, input="a")
        second = await client.responses.create(model=AGENT, input="b", previous_response_id=first.id)
        third = await client.responses.create(model=AGENT, input="c", previous_response_id=second.id)
        assert third.output_text == "[a][b][c]"


async def test_callers_who_choose_the_same_name_share_nothing_with_it(far: Site) -> None:
    async def said(client: httpx.AsyncClient, message: str) -> Any:
        body = {"message": message, "context_id": "default"}
        return (await client.post(f"{far.url}/api/v1/agents/{AGENT}/invoke", json=body)).json()["data"]

    theirs = {"Authorization": f"Bearer {STRANGER}"}
    async with (
        httpx.AsyncClient(headers=HEADERS, timeout=PATIENCE) as owner,
        httpx.AsyncClient(headers=theirs, timeout=PATIENCE) as stranger,
    ):
        await owner.patch(f"{far.url}/api/v1/agents/{AGENT}", json={"visibility": "public"})
        assert (await said(owner, "secret"))["context_id"] == "default"
        assert (await said(stranger, "hers"))["text"] == "[hers]"
        assert (await said(owner, "more"))["text"] == "[secret][more]"


async def test_it_has_a_card_and_takes_tasks(far: Site) -> None:
    async with httpx.AsyncClient(headers=HEADERS, timeout=PATIENCE) as http:
        config = ClientConfig(httpx_client=http, streaming=True)
        agent = await create_client(f"{far.url}/a2a/{AGENT}", config)
        card = (await http.get(f"{far.url}/a2a/{AGENT}/.well-known/agent-card.json")).json()
        assert [each["id"] for each in card["skills"]] == ["recall"]
        said = Message(message_id=str(uuid4()), role=Role.ROLE_USER, parts=[Part(text="hello")])
        events = [each async for each in agent.send_message(SendMessageRequest(message=said))]
        whole = [each.artifact_update for each in events if each.artifact_update.last_chunk]
        assert whole[-1].artifact.parts[0].text == "[hello]"


async def test_it_is_a_tool(far: Site) -> None:
    async with httpx2.AsyncClient(headers=HEADERS, timeout=PATIENCE) as http:
        transport = streamable_http_client(f"{far.url}/agents/{AGENT}/mcp", http_client=http)
        async with Client(transport) as server:
            (tool,) = (await server.list_tools()).tools
            assert tool.name == "far_off_1"
            first: Any = await server.call_tool(tool.name, {"message": "a"})
            context = first.meta["fairlead/envelope"]["meta"]["context_id"]
            again: Any = await server.call_tool(tool.name, {"message": "b", "context_id": context})
            assert again.content[0].text == "[a][b]"


async def test_it_is_offline_when_nobody_runs_it(site: Site) -> None:
    async def answer(turn: Any) -> str:
        return "here"

    async with AgentWorker(site.url, OWNER, "gone", answer):
        pass
    async with openai.AsyncOpenAI(base_url=f"{site.url}/v1", api_key=OWNER, max_retries=0) as client:
        with pytest.raises((openai.InternalServerError, openai.NotFoundError)) as caught:
            await client.chat.completions.create(model="gone", messages=[{"role": "user", "content": "x"}])
        assert caught.value.code in ("agent_service_unavailable", "agent_not_found")
