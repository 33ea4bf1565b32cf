"""google-adk: a function tool. It gets no tool context, which spares it the making of one."""

from typing import Any

from google.adk.tools import FunctionTool

from task import Call


def make_call(function: Any) -> Call:
    tool = FunctionTool(function)

    def call(arguments: dict[str, Any]) -> Any:
        return tool.run_async(args=arguments, tool_context=None)

    return call
