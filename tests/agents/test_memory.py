"""`search_memory` finds what the same person said before, in other conversations."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead import App
from fairlead.agents import Agent
from fairlead.agents.memory import memory
from fairlead.agents.models.script import ScriptModel, call


@pytest.fixture
def app(tmp_path: Path) -> App:
    made = App("shop", store=f"sqlite:///{tmp_path}/shop.db")
    made.add(memory())
    return made


def clerk(app: App, *turns: object) -> ScriptModel:
    model = ScriptModel(turns)  # type: ignore[arg-type]
    app.add(Agent("clerk", model=model, instructions="You are a clerk.", tools=["search_memory"]))
    return model


async def test_an_agent_remembers_another_conversation_of_the_same_person(app: App) -> None:
    model = clerk(app, "Noted.", call("search_memory", query="blue door"), "It is blue.")
    ada = {"id": "ada"}
    await app.invoke("clerk", {"prompt": "The door is blue.", "conversation": "c1"}, user=ada)
    await app.invoke("clerk", {"prompt": "Which colour has the blue door?", "conversation": "c2"}, user=ada)
    found = model.requests[-1].messages[-1].content
    assert '"conversation":"c1"' in found
    assert "The door is blue." in found
    assert '"match_count":1' in found


async def test_what_this_conversation_says_crowds_out_no_other(app: App) -> None:
    ask = call("search_memory", query="whale", limit=1)
    model = clerk(app, "Noted.", *["A whale, a whale."] * 3, ask, "In Bergen.")
    await app.invoke("clerk", {"prompt": "I once saw a whale near Bergen, long ago.", "conversation": "c1"})
    for _ in range(3):
        await app.invoke("clerk", {"prompt": "Whale!", "conversation": "c2"})
    await app.invoke("clerk", {"prompt": "Where did I see the whale?", "conversation": "c2"})
    found = model.requests[-1].messages[-1].content
    assert "near Bergen" in found
    assert '"truncated":false' in found


async def test_what_others_said_is_not_remembered(app: App) -> None:
    clerk(app, "Noted.")
    await app.invoke("clerk", {"prompt": "The door is blue.", "conversation": "c1"}, user={"id": "ada"})
    result = await app.invoke("search_memory", {"query": "blue"}, user={"id": "bob"})
    assert result.data == {
        "kind": "search",
        "query": "blue",
        "entries": [],
        "match_count": 0,
        "truncated": False,
    }


async def test_long_texts_are_told_around_what_was_looked_for(app: App) -> None:
    clerk(app, "Noted.")
    await app.invoke("clerk", {"prompt": "x " * 2000 + "whale" + " y" * 2000, "conversation": "c1"})
    result = await app.invoke("search_memory", {"query": "whale"})
    (entry,) = result.data["entries"]
    assert "whale" in entry["text"]
    assert len(entry["text"]) < 600


async def test_more_finds_than_asked_for_are_said_to_be_there(app: App) -> None:
    clerk(app, *["Noted."] * 3)
    for number in range(3):
        await app.invoke("clerk", {"prompt": "A whale.", "conversation": f"c{number}"})
    result = await app.invoke("search_memory", {"query": "whale", "limit": 2})
    assert (result.data["match_count"], result.data["truncated"]) == (2, True)
