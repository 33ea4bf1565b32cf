"""The same actions as tools of two libraries. Their stand-in models need no network."""

import asyncio
import json

from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

from fairlead import App

app = App("sums")


@app.action
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def main() -> None:
    (tool,) = app.tools().langchain()
    assert json.loads(await tool.ainvoke({"a": 2, "b": 3}))["result"] == 5

    agent = Agent(TestModel(), tools=app.tools().pydantic_ai())
    result = await agent.run("What is the sum?")
    assert '"ok":true' in result.output


if __name__ == "__main__":
    asyncio.run(main())
