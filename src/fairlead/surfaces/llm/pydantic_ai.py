"""Actions as tools of pydantic-ai. It needs pydantic-ai, which who asks for them has."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fairlead.surfaces.llm.tool import Tool

try:
    from pydantic_ai import Tool as AgentTool
except ModuleNotFoundError as exc:
    raise ModuleNotFoundError(
        "Tools of pydantic-ai need the package pydantic-ai-slim. Install it with: pip install pydantic-ai-slim"
    ) from exc

#: Runs a call; gives its envelope.
Run = Callable[[Tool, Any], Awaitable[dict[str, Any]]]


def pydantic_ai_tools(tools: list[Tool], run: Run) -> list[Any]:
    """A failed call is an ordinary result that says so: how often a model may try again is the agent's to decide."""
    return [_tool(tool, run) for tool in tools]


def _tool(tool: Tool, run: Run) -> Any:
    async def call(**arguments: Any) -> dict[str, Any]:
        return await run(tool, arguments)

    return AgentTool.from_schema(call, tool.name, tool.description, tool.parameters)
