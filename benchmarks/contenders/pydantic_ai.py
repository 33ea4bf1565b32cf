"""pydantic-ai: the bare toolset, the tool's validator and then the call. No retries, no result message.

It does not check outputs, so there is a second call that does the same work as the others: pydantic checks
and dumps what the toolset returned.
"""

from typing import Any

from pydantic import TypeAdapter
from pydantic_ai import FunctionToolset, RunContext
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RunUsage

from task import Call, Task


def make_call(function: Any) -> Call:
    toolset = FunctionToolset([function])
    context = RunContext(deps=None, model=TestModel(), usage=RunUsage())
    name = function.__name__
    tools: dict[str, Any] = {}

    async def call(arguments: dict[str, Any]) -> Any:
        if not tools:
            tools.update(await toolset.get_tools(context))
        tool = tools[name]
        return await toolset.call_tool(name, tool.args_validator.validate_python(arguments), context, tool)

    return call


def make_checked_call(function: Any) -> Call:
    bare, output = make_call(function), TypeAdapter(Task)

    async def call(arguments: dict[str, Any]) -> Any:
        return output.dump_python(output.validate_python(await bare(arguments)), mode="json")

    return call
