"""Agents that are tools of agents: what they use is the outer run's, and each call is a conversation of its own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fairlead import App
from fairlead.agents import Agent, Limits, Policy
from fairlead.agents.models.model import Reply, Request, ToolCall, Usage
from fairlead.agents.models.script import ScriptModel, Turn, call

ANSWER = Turn(text="done", usage=Usage(input=450, output=450))


def agent(name: str, *script: Any, tools: Any = (), repeat: bool = False, **limits: Any) -> Agent:
    model = ScriptModel(list(script), repeat=repeat)
    return Agent(name, model=model, instructions="Do.", tools=tools, policy=Policy(limits=Limits(**limits)))


async def test_the_tokens_of_a_run_hold_for_all_agents_that_are_its_tools_at_the_same_time() -> None:
    app = App("shop")
    helper = agent("helper", ANSWER, repeat=True)
    boss = agent(
        "boss", [call("helper", prompt=str(each)) for each in range(20)], "ok", tools=[helper], tokens=1000
    )
    app.add(helper)
    app.add(boss)
    async with app:
        result = await app.invoke("boss", {"prompt": "go"})
    assert result.failure is not None
    assert result.failure.code == "budget_exceeded"
    assert "1000 tokens" in result.failure.message
    # A step that has begun is not taken back; none begins after the limit is reached.
    assert result.meta["agent"]["usage"] == {"input": 900, "output": 900, "cost": 0.0}


async def test_what_models_are_being_asked_counts_before_they_answer() -> None:
    class Slow(ScriptModel):
        times = 0

        async def reply(self, request: Request) -> Reply:
            self.times += 1
            await asyncio.sleep(0.05)
            return await super().reply(request)

    app, slow = App("shop"), Slow([ANSWER], repeat=True)
    helper = Agent("helper", model=slow, instructions="word " * 1000)
    boss = agent(
        "boss", [call("helper", prompt=str(each)) for each in range(20)], "ok", tools=[helper], tokens=3000
    )
    app.add(helper)
    app.add(boss)
    async with app:
        await app.invoke("boss", {"prompt": "go"})
    assert 1 <= slow.times <= 4


async def test_the_tool_calls_of_a_run_hold_for_the_agents_that_are_its_tools() -> None:
    app, made = App("shop"), list[int]()

    @app.action
    def peek(n: int) -> int:
        """Peek."""
        made.append(n)
        return n

    turns = [[call("peek", n=turn * 10 + each) for each in range(10)] for turn in range(5)]
    busy = agent("busy", *turns, "done", tools=["peek"])
    chief = agent("chief", call("busy", prompt="go"), "ok", tools=[busy], tool_calls=3)
    app.add(busy)
    app.add(chief)
    async with app:
        result = await app.invoke("chief", {"prompt": "go"})
    assert result.data == "ok"
    assert len(made) == 2  # and the call of the agent


async def test_a_limit_of_cost_needs_the_prices_of_the_agents_that_are_tools() -> None:
    class Unpriced(ScriptModel):
        @property
        def priced(self) -> bool:
            return False

    app = App("shop")
    helper = Agent("helper", model=Unpriced(["done"]), instructions="Do.")
    model = ScriptModel([call("helper", prompt="x"), "ok"])
    boss = Agent(
        "boss", model=model, instructions="Do.", tools=[helper], policy=Policy(limits=Limits(cost=1.0))
    )
    app.add(helper)
    app.add(boss)
    async with app:
        await app.invoke("boss", {"prompt": "go"})
    assert "price" in model.requests[-1].messages[-1].content


async def test_a_call_whose_id_was_there_before_is_another_conversation() -> None:
    app = App("shop")
    model = ScriptModel(["answer"], repeat=True)
    helper = Agent("helper", model=model, instructions="Do.")

    def asks(words: str) -> Turn:
        return Turn(calls=(ToolCall("helper", f'{{"prompt": "{words}"}}', "call_0"),))

    boss = agent("boss", asks("one"), asks("two"), "ok", asks("three"), "ok", tools=[helper])
    app.add(helper)
    app.add(boss)
    async with app:
        for _ in range(2):
            assert (await app.invoke("boss", {"prompt": "go", "conversation": "k"})).data == "ok"
        _, said = await app.conversations.get("k", "")
    heard = [[each.content for each in asked.messages if each.role == "user"] for asked in model.requests]
    assert heard == [["one"], ["two"], ["three"]]
    ids = [each.id for message in said for each in message.calls]
    assert len(set(ids)) == 3
    assert [each.call_id for each in said if each.role == "tool"] == ids


@pytest.mark.parametrize("length", [150, 195, 200])
async def test_a_conversation_with_a_long_id_can_use_agents(length: int) -> None:
    app = App("shop")
    helper = agent("helper", "done")
    boss = agent("boss", call("helper", prompt="x"), "ok", tools=[helper])
    app.add(helper)
    app.add(boss)
    async with app:
        await app.invoke("boss", {"prompt": "go", "conversation": "c" * length})
        _, said = await app.conversations.get("c" * length, "")
    assert '"ok":true' in next(each.content for each in said if each.role == "tool")


@pytest.mark.parametrize("then", ["an answer", call("add", a=1, b=2)])
async def test_what_a_model_itself_asks_an_agent_counts_like_what_a_tool_does(then: Any) -> None:
    app = App("shop")

    @app.action
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    async def asks_first(request: Request) -> Any:
        if request.messages[-1].role == "tool":
            return "an answer"
        await app.invoke("helper", {"prompt": "go"})
        return then

    app.add(agent("helper", ANSWER, repeat=True))
    app.add(Agent("boss", model=ScriptModel(asks_first), tools=[add]))
    async with app:
        results = [await app.invoke("boss", {"prompt": "go"}) for _ in range(2)]
    assert [result.data for result in results] == ["an answer"] * 2
    assert [result.meta["agent"]["usage"]["input"] for result in results] == [450, 450]


async def test_a_model_that_asks_its_own_agent_is_stopped() -> None:
    app = App("shop")

    async def asks_itself(request: Request) -> Any:
        result = await app.invoke("boss", {"prompt": "go"})
        return result.data if result.failure is None else result.failure.message

    app.add(Agent("boss", model=ScriptModel(asks_itself)))
    async with app:
        results = [await app.invoke("boss", {"prompt": "go"}) for _ in range(2)]
    assert all("8 deep" in result.data for result in results)
