"""Tests of agents with a model that follows a script."""

import asyncio

import pytest

from fairlead import App
from fairlead.agents import Agent
from fairlead.failures.runtime import ApiError
from fairlead.testing import ScriptModel, Turn, call, collect_stream, expect_error, expect_ok


@pytest.fixture
def app() -> App:
    app = App("shop")

    @app.action
    async def price(article: str) -> int:
        """Say what an article costs."""
        return {"tea": 4, "salt": 1}[article]

    return app


def seller(app: App, *script: object) -> ScriptModel:
    model = ScriptModel(script)
    app.add(Agent("seller", model=model, instructions="You sell things.", tools=["price"]))
    return model


async def test_the_model_is_told_what_its_calls_gave(app: App) -> None:
    model = seller(app, call("price", article="tea"), "Tea is 4.")
    assert expect_ok(await app.invoke("seller", {"prompt": "Tea?"})) == "Tea is 4."
    assert model.requests[0].messages[-1].content == "Tea?"
    assert model.requests[1].messages[-1].content == '{"ok":true,"result":4,"tool":"price"}'


async def test_a_wrong_call_is_told_to_the_model_and_not_to_the_caller(app: App) -> None:
    model = seller(app, call("price"), "What would you like?")
    expect_ok(await app.invoke("seller", {"prompt": "How much?"}))
    assert '"kind":"invalid_args"' in model.requests[1].messages[-1].content


async def test_a_model_that_is_away_is_the_caller_s_failure(app: App) -> None:
    seller(app, ApiError("The model is away."))
    expect_error(await app.invoke("seller", {"prompt": "Tea?"}), "api_error")


async def test_a_call_waits_for_the_model(app: App) -> None:
    arrives = asyncio.Event()
    model = seller(app, Turn("Tea is 4.", after=arrives))
    events = asyncio.create_task(collect_stream(app.stream("seller", {"prompt": "Tea?"})))
    await model.asked(1)
    assert not events.done()
    arrives.set()
    assert [event["data"] for event in await events if event["type"] == "delta"] == ["Tea ", "is ", "4."]
