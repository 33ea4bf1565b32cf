"""openai-agents: a function tool, invoked as its runner does it: arguments as JSON text, a new context."""

import json
from typing import Any

from agents import function_tool
from agents.tool_context import ToolContext

from task import Call, Task


def make_call(function: Any) -> Call:
    # Without an error function a refusal is raised and not turned into text for the model.
    tool = function_tool(function, failure_error_function=None, output_type=Task)
    name = tool.name

    async def call(arguments: dict[str, Any]) -> Any:
        text = json.dumps(arguments)
        context = ToolContext(None, tool_name=name, tool_call_id="1", tool_arguments=text)
        return await tool.on_invoke_tool(context, text)

    return call
