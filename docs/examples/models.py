"""Models: names, a written conversation, and what runs without a network."""

import asyncio

from fairlead.agents.models import Delta, Message, Models, Reply, Request, Retries, ScriptModel, call

models = Models(
    "quick",
    aliases={"quick": "openai/gpt-5-mini", "private": "local", "house": "rack/llama-70b"},
    providers={"rack": {"base_url": "http://10.0.0.7:8000/v1", "api_key_env": "RACK_KEY"}},
    prices={"rack/*": {"input": 0.1, "output": 0.2}},
    retries=Retries(attempts=3, budget=30.0),
)
assert models.resolve("house").name == "rack/llama-70b"
assert models.resolve("").name == models.resolve("quick").name == "openai/gpt-5-mini"


async def scripted() -> None:
    model = ScriptModel([call("add", a=1, b=2), "The sum is 3."])
    request = Request([Message("user", "What is 1 and 2?")])

    first = await model.reply(request)
    assert first.calls[0].name == "add"

    async for event in model.stream(request):
        match event:
            case Delta(text=text):
                assert text in ("The ", "sum ", "is ", "3.")
            case Reply(text=text):
                assert text == "The sum is 3."


async def offline() -> None:
    local = Models("local")
    reply = await local.resolve().reply(Request([Message("user", "Say hello.")]))
    assert reply.text

    made = await local.embed(["A man is eating food.", "Someone is having a meal."])
    assert len(made.vectors[0]) == 384
    await local.close()


asyncio.run(scripted())
if models.weights().pick("chat") and models.weights().pick("embedding"):
    asyncio.run(offline())
