"""Actions as LangChain tools. It needs langchain-core, which who asks for them has."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from fairlead.failures.tool import dumps
from fairlead.surfaces.llm.tool import Tool

try:
    from langchain_core.tools import StructuredTool, ToolException
except ModuleNotFoundError as exc:
    raise ModuleNotFoundError(
        "LangChain tools need the package langchain-core. Install it with: pip install langchain-core"
    ) from exc

#: Runs a call; gives its envelope.
Run = Callable[[Tool, Any], Awaitable[dict[str, Any]]]
#: Runs something to its end where there is no event loop.
Wait = Callable[[Coroutine[Any, Any, str]], str]


def langchain_tools(tools: list[Tool], run: Run, wait: Wait) -> list[Any]:
    """A failed call is a tool message with the status `error`: LangChain makes one of the exception."""
    return [_tool(tool, run, wait) for tool in tools]


class _ActionTool(StructuredTool):
    """Its arguments are the action's alone: LangChain's own would take the place of some that have their names."""

    def _run(self, /, **arguments: Any) -> Any:  # type: ignore[override]
        assert self.func is not None
        return self.func(**arguments)

    async def _arun(self, /, **arguments: Any) -> Any:  # type: ignore[override]
        assert self.coroutine is not None
        return await self.coroutine(**arguments)


def _tool(tool: Tool, run: Run, wait: Wait) -> StructuredTool:
    async def call(**arguments: Any) -> str:
        envelope = await run(tool, arguments)
        if not envelope["ok"]:
            raise ToolException(dumps(envelope))
        return dumps(envelope)

    return _ActionTool(
        name=tool.name,
        description=tool.description,
        args_schema=tool.parameters,
        coroutine=call,
        func=lambda **arguments: wait(call(**arguments)),
        handle_tool_error=True,
    )
