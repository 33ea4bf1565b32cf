"""What strict mode makes of shapes that it does not know, and how it is undone."""

import asyncio
import json
from typing import Any

from fairlead import App

app = App("shop")


@app.action
async def tag(id: int, tags: dict[str, int], note: Any = None, limit: int = 10) -> dict[str, Any]:
    """Tag something."""
    return {"id": id, "tags": tags, "note": note, "limit": limit}


tools = app.tools("openai")
(definition,) = tools.definitions
schema = definition["function"]["parameters"]
assert definition["function"]["strict"] is True
assert schema["required"] == ["id", "tags", "note", "limit"]
assert schema["properties"]["limit"] == {"type": ["integer", "null"], "description": "(default: 10)"}

# What a model sends for an input, as an example for a prompt.
sent = tools.arguments("tag", {"id": 1, "tags": {"red": 2}, "note": {"by": "Ada"}})
assert sent == {
    "id": 1,
    "tags": [{"key": "red", "value": 2}],
    "note": '{"by":"Ada"}',
    "limit": None,
}


async def main() -> None:
    call = {"id": "call_1", "function": {"name": "tag", "arguments": json.dumps(sent)}}
    told = json.loads((await tools.execute(call))["content"])
    assert told["result"] == {"id": 1, "tags": {"red": 2}, "note": {"by": "Ada"}, "limit": 10}


if __name__ == "__main__":
    asyncio.run(main())
