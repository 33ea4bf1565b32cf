"""A client for the official conformance suite, made of `McpServer`: it calls every tool that the server has.

python mcp_conformance_client.py URL        where the suite's own server is
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from typing import Any

import httpx2  # noqa: F401, for all who are started warm
import mcp.client.streamable_http  # noqa: F401

from fairlead import App
from fairlead.tools.mcp import Elicitation, McpServer


async def agree(asked: Elicitation) -> Mapping[str, Any]:
    """Take what is offered, and the first of what there is to choose from."""
    fields = (asked.schema or {}).get("properties", {})
    return {name: example(field) for name, field in fields.items() if "default" not in field}


def example(schema: Any) -> Any:
    """A value that fits."""
    if not isinstance(schema, dict):
        return None
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "object":
        return {name: example(each) for name, each in schema.get("properties", {}).items()}
    return {"string": "text", "integer": 3, "number": 2.5, "boolean": True, "array": []}.get(str(kind))


async def call_everything(url: str) -> None:
    given = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    server = McpServer("suite", url=url, trust=True, prefix="", elicit=agree, timeout=20)
    try:
        actions = await server.connect()
        app = App("client", actions=actions)
        calls = given.get("toolCalls")
        if calls is None:
            inputs = [
                (action.metadata["mcp"]["tool"], example(action.input.json_schema)) for action in actions
            ]
            for _, input in inputs:
                if "schema" in input:  # one scenario wants to see what we made of another tool's schema
                    input["schema"] = actions[0].input.json_schema
        else:
            inputs = [(call["name"], call.get("arguments", {})) for call in calls]
        names = {action.metadata["mcp"]["tool"]: action for action in actions}
        for tool, input in inputs:
            if tool in names:
                result = await app.invoke(names[tool], input, confirm=True)
                print(tool, input, result.to_dict().get("error") or result.data, file=sys.stderr)
    finally:
        await server.close()


def main(arguments: list[str]) -> None:
    asyncio.run(call_everything(arguments[-1]))


if __name__ == "__main__":
    main(sys.argv[1:])
