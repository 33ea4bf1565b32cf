"""strands-agents: a decorated tool, its stream read to the end.

It takes no pydantic constraints in a signature, so the title's minimal length is left out.
"""

from typing import Annotated, Any

from strands import tool

from task import Call


def make_call(function: Any) -> Call:
    function.__annotations__["title"] = Annotated[str, "What is to be done."]
    decorated = tool(function)
    name = decorated.tool_name

    async def call(arguments: dict[str, Any]) -> Any:
        last = None
        async for event in decorated.stream({"toolUseId": "1", "name": name, "input": arguments}, {}):
            last = event
        return last

    return call
