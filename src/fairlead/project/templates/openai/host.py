"""The host: a model that may use the actions.

OPENAI_API_KEY=... python host.py "What did I note about tea?"
"""

import asyncio
import sys
from typing import Any, Protocol

from app import app

MODEL = "gpt-5-mini"
MOST_TURNS = 8


class Model(Protocol):
    """Takes a conversation and the tools, and gives the model's next message."""

    async def __call__(self, messages: list[Any], tools: list[Any]) -> dict[str, Any]: ...


async def openai_model(messages: list[Any], tools: list[Any]) -> dict[str, Any]:
    from openai import AsyncOpenAI

    reply = await AsyncOpenAI().chat.completions.create(model=MODEL, messages=messages, tools=tools)
    return reply.choices[0].message.model_dump(exclude_none=True)


async def ask(question: str, model: Model = openai_model) -> str:
    """Let the model answer, with as many calls of actions as it wants."""
    # The host vouches for the person who asks; the model cannot.
    tools = app.tools("openai", user={"id": "me"}, auth={"permissions": ["notes:*"]})
    messages: list[Any] = [{"role": "user", "content": question}]
    for _ in range(MOST_TURNS):
        message = await model(messages, tools.definitions)
        messages.append(message)
        if not message.get("tool_calls"):
            return str(message.get("content"))
        messages += await tools.answer(message)
    return "The model did not come to an end."


if __name__ == "__main__":
    print(asyncio.run(ask(" ".join(sys.argv[1:]) or "What did I note?")))
