"""The run at an agent's side: replies within the budget and kept in the journal, its tools, and who hears of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fairlead import _json
from fairlead.agents.loop.specs import spec_of
from fairlead.agents.models.model import Reply, ToolCall, ToolSpec
from fairlead.pipelines import conversations
from fairlead.pipelines.cells import Place
from fairlead.pipelines.conversations import Leave
from fairlead.pipelines.dispatching import Ask, Dispatcher
from fairlead.pipelines.schemas import schema_of
from fairlead.pipelines.spelling import read_reply, spelled_reply
from fairlead.pipelines.types import Record, resolve


class AgentDesk:
    """What one agent asks of its run. `operator` says how to ask the operator, where that goes through ports."""

    def __init__(self, place: Place, operator: Callable[[], Ask | None]) -> None:
        self._place = place
        self._operator = operator
        self._tools: dict[str, Any] = dict(place.process.settings.get("tools", ()))
        self._servers: tuple[Any, ...] = ()
        self._connected = False
        self._dispatcher = self._dispatching()

    async def begin(self) -> None:
        """A message comes; before the first one, the servers of tools are connected. Raises Failure."""
        journal = self._place.host.journal
        if not self._connected and not (journal is not None and journal.pages.replaying):
            self._connected = True
            await self._connect()
        self._dispatcher = self._dispatching()

    async def close(self) -> None:
        """Leave the servers of tools."""
        for server in self._servers:
            await server.close()

    # The model

    async def reply(self, asked: str, ask: conversations.Ask) -> Reply:
        """A model's reply, which the budget allows and the journal keeps. Raises Failure."""
        place, left = self._place, None
        if place.budget is not None:
            place.budget.ask()
            left = place.budget.tokens_left
        reply = await self._once(asked, ask, Leave(left, self._specs()))
        usage = reply.usage
        await place.tell(
            "usage", input=usage.input, output=usage.output, cache_read=usage.cache_read,
            cache_create=usage.cache_write, cost=usage.cost,
        )  # fmt: skip
        if reply.reasoning:
            await place.tell("thinking", text=reply.reasoning)
        if place.budget is not None:
            place.budget.spend(usage.tokens, usage.cost)
        return reply

    async def _once(self, asked: str, ask: conversations.Ask, leave: Leave) -> Reply:
        journal = self._place.host.journal
        if journal is None:
            return await ask(leave)

        async def work(_: str) -> dict[str, Any]:
            return spelled_reply(await ask(leave))

        return read_reply(await journal.answered(f"{self._place.name}@model", asked, work))

    def _specs(self) -> tuple[ToolSpec, ...]:
        own = [
            ToolSpec(
                name,
                str(tool.settings.get("description", f"{tool.name} : {tool.signature()}")),
                _parameters(tool),
            )
            for name, tool in self._tools.items()
        ]
        for server in self._servers:
            own += map(spec_of, server.actions)
        return tuple(own)

    # Tools

    async def tool(self, call: ToolCall) -> str:
        """What a tool gives, as text for the model. Raises Failure when the run cannot go on."""
        if self._place.budget is not None:
            self._place.budget.ask()
        given: Any = call.arguments.encode()
        tool = self._tools.get(call.name)
        if tool is not None and not isinstance(resolve(tool.inputs[0].type), Record):
            given = _unwrapped(given)
        response = await self._responded({"id": call.id, "name": call.name, "input": given})
        await self._place.tell("tool", name=call.name, input=call.arguments, response=response)
        content: str = response["content"]
        return content

    async def _responded(self, request: dict[str, Any]) -> dict[str, Any]:
        journal, given = self._place.host.journal, request["input"]
        if journal is None:
            return await self._dispatcher.respond(request)
        asked = [request["name"], given.decode(errors="replace") if isinstance(given, bytes) else given]
        told: dict[str, Any] = await journal.once(
            f"{self._place.name}@{request['name']}",
            asked,
            lambda step: self._dispatcher.within(journal.inside(step)).respond(request),
        )
        return {**told, "id": request["id"]}

    def _dispatching(self) -> Dispatcher:
        place = self._place
        host = replace(place.host, journal=None, budget=place.budget, limits=None, watch=None)
        return Dispatcher(self._tools, host, agent=place.name, servers=self._servers, ask=self._operator())

    async def _connect(self) -> None:
        for index, given in enumerate(self._place.process.settings.get("mcp", ())):
            from fairlead.tools.mcp import McpServer

            command = [given["command"], *given.get("args", ())] if "command" in given else ()
            name = given.get("name", f"mcp{index + 1}")
            server = McpServer(name, command, url=given.get("url"), prefix=given.get("prefix", ""))
            self._servers = (*self._servers, server)
            await server.connect()

    # Who hears of it

    async def tell(self, kind: str, **facts: Any) -> None:
        """Tell of something on the telemetry port and to whoever listens."""
        await self._place.tell(kind, **facts)


def _parameters(tool: Any) -> dict[str, Any]:
    """The schema of a tool for a model: an object, in which a value that is none stands as `value`."""
    type = tool.inputs[0].type
    if isinstance(resolve(type), Record):
        return schema_of(type)
    return {"type": "object", "properties": {"value": schema_of(type)}, "required": ["value"]}


def _unwrapped(arguments: bytes) -> Any:
    try:
        value = _json.loads(arguments or b"{}")
    except ValueError:
        return arguments
    return value["value"] if isinstance(value, dict) and set(value) == {"value"} else value
