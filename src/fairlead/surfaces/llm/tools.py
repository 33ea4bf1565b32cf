"""`Tools`: an app's actions as a model provider's tools, and the way back for the model's calls.

    tools = app.tools("openai")
    reply = client.chat.completions.create(model=..., messages=messages, tools=tools.definitions)
    messages += await tools.answer(reply)

Definitions are made once, when the tools are. A call goes through the runtime like any other, and whatever comes of it,
a refusal too, is told to the model in the tool envelope. It talks to no provider itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import Any, Unpack

from fairlead.actions import Action, DefinitionError, Exposure
from fairlead.actions import policy as checks
from fairlead.actions.exposure import Filter
from fairlead.actions.manifest import describe_attribution, describe_policy
from fairlead.failures import Failure, from_exception
from fairlead.failures import tool as wire
from fairlead.runtime import App, Runtime
from fairlead.runtime.runtime import NOTHING
from fairlead.surfaces.llm.budget import LEAST
from fairlead.surfaces.llm.calls import Call, asked
from fairlead.surfaces.llm.execution import CallOptions, Confirm, Execution, unknown
from fairlead.surfaces.llm.formats import FORMATS, Item
from fairlead.surfaces.llm.tokens import measured
from fairlead.surfaces.llm.tool import Tool, prepared
from fairlead.surfaces.refusal import refusal
from fairlead.tools.hiding import for_models
from fairlead.tools.time_limits import SECONDS


class Tools:
    """An app's actions for one provider's models."""

    def __init__(
        self,
        app: Runtime,
        format: str = "openai",
        *,
        strict: bool = True,
        surface: str = "ai-sdk",
        include_private: bool = False,
        include_local: bool | None = None,
        include_destructive: bool | None = None,
        filter: Filter | None = None,
        only: Iterable[str] | None = None,
        return_envelope: bool = False,
        user: Any = None,
        auth: Any = None,
        confirm: Confirm | None = None,
        key_by_call: bool = False,
        max_result: int = wire.CAPS["any"],
        tool_seconds: float = SECONDS,
        trim: int | None = None,
    ) -> None:
        self.format = checks.one_of("Tools", "format", format, FORMATS)
        self._shapes = FORMATS[self.format]
        self._app = app
        self._surface = surface
        self._return_envelope = return_envelope
        self._key_by_call = key_by_call
        self._trim = None if trim is None else _at_least("trim", trim, 1)
        most = _at_least("max_result", max_result, LEAST)
        identity: CallOptions = {"user": user, "auth": auth}
        self._execution = Execution(app, surface, identity, confirm, most, tool_seconds)
        exposure = Exposure(include_private, include_local, include_destructive, filter)
        self._actions = (
            app.list_actions(surface, exposure) if only is None else _chosen(only, app, exposure, surface)
        )
        offered = prepared(self._actions, self.format, strict=strict, trim=self._trim)
        self._tools = {tool.name: tool for tool in offered}
        self.attribution = describe_attribution(app.attribution) if isinstance(app, App) else None
        #: What the app says of each tool beyond what providers take: public metadata, attribution and policy.
        self.metadata = {
            name: describe_policy(tool.action, self.attribution) for name, tool in self._tools.items()
        }
        #: What is given to the provider's API as its tools.
        self.definitions: Any = self._defined()

    @property
    def names(self) -> list[str]:
        """The tools' names, in the app's order."""
        return list(self._tools)

    def __repr__(self) -> str:
        return f"Tools({self.format!r}, {len(self._tools)} tools)"

    async def execute(self, call: Any, **options: Unpack[CallOptions]) -> Any:
        """Run a provider's tool call, and give its result in that provider's words. Failures are results too.

        A list of calls, or a model's whole message, gives a list of results, in the order of the calls, which
        run at the same time.

        Raises:
            DefinitionError: what was given is nothing of this provider's.
        """
        checks.known_keys("Tools.execute", options, CallOptions.__annotations__)
        found = asked(self.format, call)
        if found.alone:
            return await self._executed(found.calls[0], options)
        return list(await asyncio.gather(*(self._executed(each, options) for each in found.calls)))

    def execute_sync(self, call: Any, **options: Unpack[CallOptions]) -> Any:
        """`execute` for code without an event loop. Raises DefinitionError inside one."""
        return self._execution.wait(self.execute(call, **options), "tools.execute(...)")

    async def answer(self, message: Any, **options: Unpack[CallOptions]) -> list[Item]:
        """Run a message's calls, and give what is to be added to the conversation; nothing if it has none."""
        results = await self.execute(message, **options)
        return self._shapes.answer(results if isinstance(results, list) else [results])

    def answer_sync(self, message: Any, **options: Unpack[CallOptions]) -> list[Item]:
        """`answer` for code without an event loop. Raises DefinitionError inside one."""
        return self._execution.wait(self.answer(message, **options), "tools.answer(...)")

    def arguments(self, name: str, input: Any) -> Any:
        """An action's input as a model would send it to this tool, for examples in a prompt."""
        if name not in self._tools:
            raise DefinitionError(f"No tool is named {name!r}.{checks.near_miss(name, self._tools)}")
        return self._tools[name].encode(input)

    def report(self) -> dict[str, Any]:
        """How large the definitions are, in tokens: an estimate of one for every four bytes of JSON."""
        return measured(self.format, self._tools.values(), self._shapes.define)

    def langchain(self) -> list[Any]:
        """The actions as LangChain tools. Needs langchain-core."""
        from fairlead.surfaces.llm.langchain import langchain_tools

        return langchain_tools(
            self._plain(), self._run, partial(self._execution.wait, instead="tool.ainvoke(...)")
        )

    def pydantic_ai(self) -> list[Any]:
        """The actions as tools of pydantic-ai. Needs pydantic-ai."""
        from fairlead.surfaces.llm.pydantic_ai import pydantic_ai_tools

        return pydantic_ai_tools(self._plain(), self._run)

    def _plain(self) -> list[Tool]:
        """The tools with their schemas as declared, for libraries that know providers themselves."""
        return prepared(self._actions, "ai-sdk", trim=self._trim)

    async def _run(self, tool: Tool, arguments: Any) -> dict[str, Any]:
        return await self._execution.envelope(tool, arguments, {})

    async def _executed(self, call: Call, options: CallOptions) -> Item:
        tool = self._tools.get(call.name)
        if tool is None:
            return self._shapes.tell(call, unknown())
        if self._key_by_call and call.id:
            options = {"idempotency_key": call.id, **options}
        return self._shapes.tell(call, await self._execution.envelope(tool, call.arguments, options))

    def _defined(self) -> Any:
        defined = {name: self._shapes.define(tool) for name, tool in self._tools.items()}
        if self.format != "ai-sdk":
            return self._shapes.offer(list(defined.values()))
        for name, definition in defined.items():
            definition["metadata"] = self.metadata[name]
            definition["parameters"] = self._tools[name].action.input
            definition["execute"] = partial(self._execute_here, self._tools[name])
        return defined

    async def _execute_here(self, tool: Tool, input: Any = NOTHING, **options: Unpack[CallOptions]) -> Any:
        """A tool's own `execute`: the data, or the action envelope of a failure. Never raises."""
        try:
            result = await self._execution.invoked(tool, tool.decode(input), options)
        except Exception as exc:
            return self._refused(from_exception(exc), tool)
        if not result.ok or self._return_envelope:
            return result.to_dict()
        return for_models(tool.action, result.data)

    def _refused(self, failure: Failure, tool: Tool) -> dict[str, Any]:
        return refusal(failure, self._surface, self._app, tool.action.name)


def _chosen(only: Iterable[str], app: Runtime, exposure: Exposure, surface: str) -> list[Action[..., Any]]:
    """The actions of these names; `name@version` is one that has a newer version beside it."""
    chosen: dict[str, Action[..., Any]] = {}
    for name in checks.names("Tools", "only", only):
        action = app.get(name)
        if action is None or not exposure.allows(action, surface):
            hint = checks.near_miss(name, [each.name for each in app.list_actions(surface, exposure)])
            raise DefinitionError(f"Tools: no action named {name!r} is offered to models here.{hint}")
        if chosen.setdefault(action.name, action) is not action:
            raise DefinitionError(f"Tools: only names two versions of {action.name!r}; a tool has one.")
    return list(chosen.values())


def _at_least(field: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise DefinitionError(f"Tools: {field} is {value!r}; give a whole number of at least {least}.")
    return value
