"""A conversation with a model that uses an app's actions. The model here is a stand-in that follows a script."""

import asyncio
import json
from typing import Any

from fairlead import Action, App

app = App("pantry", description="Know what is in the pantry.")
stock = {"rice": 3, "salt": 1}


@app.action
async def count(item: str) -> int:
    """Say how many of an item there are."""
    return stock.get(item, 0)


@app.action(side_effects="destructive")
async def throw_away(item: str, reason: str = "stale") -> str:
    """Throw an item away."""
    del stock[item]
    return f"{item} is gone: {reason}."


async def ask_a_person(action: Action[..., Any], given: Any) -> bool:
    """Show someone what the model wants to do, and wait for the answer."""
    return action.name == "throw_away" and given["item"] == "salt"


async def main() -> None:
    tools = app.tools("openai", include_destructive=True, confirm=ask_a_person)
    messages: list[Any] = [
        {"role": "user", "content": "Is there rice? Get rid of the salt, and of the rice."}
    ]

    # A real one: client.chat.completions.create(model=..., messages=messages, tools=tools.definitions)
    reply = {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            called("call_1", "count", '{"item": "rice",}'),
            called("call_2", "throw_away", '{"item": "salt", "reason": null}'),
            called("call_3", "throw_away", '{"item": "rice", "reason": null}'),
        ],
    }
    messages += [reply, *await tools.answer(reply)]

    counted, thrown, kept = (json.loads(message["content"]) for message in messages[-3:])
    assert counted["result"] == 3
    assert counted["warnings"] == ["arguments: read as JSON in spite of a comma too many"]
    assert thrown == {"ok": True, "result": "salt is gone: stale.", "tool": "throw_away"}
    assert kept["kind"] == "user_denied"
    assert stock == {"rice": 3}


def called(id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


if __name__ == "__main__":
    asyncio.run(main())
