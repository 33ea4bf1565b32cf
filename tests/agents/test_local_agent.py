"""Agents on the small local model for real: llama.cpp in this process, with the weights that `make test` gets once.

The model is weak. What is looked at is the form of what it does, and that it is held to it; not its wisdom.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from fairlead import App
from fairlead.agents import Agent, Limits, Policy, Settings
from fairlead.agents.models import Delta, Model, Models, Reply, Request, Weights
from fairlead.agents.models.engine import Tuning, hold, release
from fairlead.testing import expect_ok

FOLDER = Path(os.environ.get("FAIRLEAD_MODELS") or Path(__file__).parents[2] / ".venv" / "models")
ALONE = {"FAIRLEAD_LOCAL_SERVER": "off", "FAIRLEAD_LOCAL_THREADS": "1"}
#: A sentence is enough, and ends before the limit of tokens does.
SHORT = Settings(temperature=0.0, max_tokens=200, stop=(".", "!", "\n"))
FORMED = Settings(temperature=0.0, max_tokens=100)

#: Loading the weights takes its time where others are at work, too.
pytestmark = pytest.mark.timeout(120)


class Person(BaseModel):
    name: str
    age: int = Field(ge=0, le=150)
    animal: Literal["cat", "dog"] | None = None


class CallsOnce(Model):
    """The same model, told to call a tool first and to speak then: a small one does not choose well."""

    def __init__(self, inner: Model) -> None:
        self.name = inner.name
        self.window = inner.window
        self._inner = inner

    async def reply(self, request: Request) -> Reply:
        return await self._inner.reply(self._told(request))

    async def stream(self, request: Request) -> AsyncIterator[Delta | Reply]:
        async for piece in self._inner.stream(self._told(request)):
            yield piece

    def _told(self, request: Request) -> Request:
        called = any(message.role == "tool" for message in request.messages)
        # A call ends where its form does; a text would be cut within it by what ends a sentence.
        settings = SHORT if called else FORMED
        return replace(request, tool_choice="none" if called else "required", settings=settings)


@pytest.fixture(autouse=True, scope="module")
def _weights_are_here() -> Iterator[None]:
    if not (FOLDER / "smollm2.gguf").exists():
        pytest.fail(f"smollm2 is not in {FOLDER}. Get it: fairlead models pull smollm2")
    # Held for all tests of this file, so that each does not load them again.
    held = hold(Weights(FOLDER).get("smollm2"), Tuning.of(ALONE))
    yield
    release(held)


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    models = Models("local", folder=FOLDER, environ=ALONE)
    made = App("shop", store=f"sqlite:///{tmp_path}/shop.db", models=models)
    async with made:
        yield made
    await models.close()


def add_clerk(app: App, settings: Settings = SHORT, **options: Any) -> None:
    app.add(Agent("clerk", instructions="You are kind.", settings=settings, loop_tools=False, **options))


async def test_an_agent_on_the_small_model_chats_and_goes_on(app: App) -> None:
    add_clerk(app)
    first = await app.invoke("clerk", {"prompt": "Say hello.", "conversation": "c1"})
    assert expect_ok(first).strip()
    assert first.meta["agent"]["usage"]["output"] > 0
    second = await app.invoke("clerk", {"prompt": "Say goodbye.", "conversation": "c1"})
    assert expect_ok(second).strip()
    assert second.meta["agent"]["usage"]["input"] > first.meta["agent"]["usage"]["input"]
    _, kept = await app.conversations.get("c1", "")
    assert [each.role for each in kept] == ["user", "assistant"] * 2


async def test_its_words_are_streamed_as_they_come(app: App) -> None:
    add_clerk(app, Settings(temperature=0.0, max_tokens=400, stop=("\n\n",)))
    events = [event async for event in app.stream("clerk", {"prompt": "Count from one to ten."})]
    pieces = [event["data"] for event in events if event["type"] == "delta"]
    assert len(pieces) > 3
    assert events[-1]["envelope"]["data"] == "".join(pieces)


async def test_a_cancelled_run_stops_the_model_and_keeps_what_was_said(app: App) -> None:
    add_clerk(app, Settings(temperature=0.0, max_tokens=4_000))
    heard = ""
    story = {"prompt": "Tell a very long story.", "conversation": "c1"}
    async with app.stream("clerk", story) as events:
        async for event in events:
            heard += event["data"] if event["type"] == "delta" else ""
            if heard.count(" ") > 2:
                break
    _, kept = await app.conversations.get("c1", "")
    assert kept[-1].role == "assistant"
    assert kept[-1].content.startswith(heard)
    # It has one place: the next answer comes only because the first was given up.
    again = Agent("brief", instructions="You are kind.", settings=SHORT, loop_tools=False)
    app.add(again)
    assert expect_ok(await app.invoke("brief", {"prompt": "Say hello."})).strip()


async def test_a_constrained_call_goes_through_the_loop_and_back(app: App) -> None:
    seen: list[tuple[int, int]] = []

    @app.action
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        seen.append((a, b))
        return a + b

    model = CallsOnce(app.models.resolve("local/smollm2"))
    add_clerk(app, model=model, tools=["add"], policy=Policy(limits=Limits(iterations=3)))
    events = [event async for event in app.stream("clerk", {"prompt": "What is 17 plus 25?"})]
    kinds = [event.get("kind") or event["type"] for event in events]
    assert kinds[: kinds.index("delta")].count("tool_result") == 1
    envelope = events[-1]["envelope"]
    assert envelope["ok"], envelope
    assert [each["name"] for each in envelope["meta"]["agent"]["toolCalls"]] == ["add"]
    assert seen == [(17, 25)]
    assert envelope["data"].strip()


async def test_an_output_type_is_what_comes_out(app: App) -> None:
    add_clerk(app, FORMED, output=Person)
    result = await app.invoke("clerk", {"prompt": "Tom is 3 years old."})
    person = Person.model_validate(expect_ok(result))
    assert person.name
    assert result.meta["agent"]["iterations"] == 1
