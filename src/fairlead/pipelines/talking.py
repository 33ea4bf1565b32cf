"""`agent`: a model that answers each message with one of the declared type, using tools on the way.

A reply that is not of the type is asked for again; those tries are not part of what the agent remembers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from fairlead import _json
from fairlead.agents.loop.extraction import correction, extract
from fairlead.agents.models.model import Message, Model, Reply, Request, Settings, ToolSpec
from fairlead.agents.operator import Approval, Verdict
from fairlead.failures.runtime import (
    ApiError,
    MaxTokens,
    MaxToolCalls,
    OutputExtractionFailed,
    OutputValidationFailed,
)
from fairlead.pipelines.apart import ModelApart, agent_model
from fairlead.pipelines.cells import Place
from fairlead.pipelines.dispatching import Dispatcher
from fairlead.pipelines.journals import question, read_reply, spelled_reply
from fairlead.pipelines.policies import MODEL_RETRIES, retried, timed
from fairlead.pipelines.schemas import schema_of
from fairlead.pipelines.shapes import Shape
from fairlead.pipelines.types import STRING, Record, Type, resolve, shown
from fairlead.pipelines.validating import checker
from fairlead.schema import Schema

#: Seconds for an operator behind a port to answer.
_PATIENCE: Final = 300.0
_STOPS: Final = ("stop", "tool_calls")


class Talker:
    """One agent in a run."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._settings = place.process.settings
        self._type = place.process.outputs[0].type
        self._schema = Schema(Shape(self._type))
        self._history: list[Message] = []
        self._temperature: float | None = self._settings.get("temperature")
        self._resumed = asyncio.Event()
        self._resumed.set()
        self._stopped = False
        self._turns = 0
        self._asked: dict[str, asyncio.Future[Verdict]] = {}
        self._model: Model | None = None
        self._servers: tuple[Any, ...] = ()
        self._system = _system(self._settings, place.name, self._type)

    def start(self) -> None:
        """Start the tasks that answer messages, heed commands and take the operator's replies."""
        network, inlets = self._place.network, self._place.inlets
        network.start(self._run(), self._place.name)
        if not inlets["ctrl_in"].closed:
            network.start(self._heed(), f"{self._place.name}@ctrl_in")
        if not inlets["operator_in"].closed:
            network.start(self._hear(), f"{self._place.name}@operator_in")

    async def _run(self) -> None:
        place = self._place
        most, taken = self._settings.get("max_messages"), 0
        try:
            inlet = place.inlets["input"]
            while not self._stopped and (batch := await inlet.get()) is not None:
                for value in batch:
                    await self._resumed.wait()
                    if self._stopped:
                        return
                    await place.send("output", await timed(place, partial(self._turn, value)))
                    taken += 1
                    if most is not None and taken >= most:
                        return
        finally:
            for server in self._servers:
                await server.close()
            if isinstance(self._model, ModelApart):
                await self._model.close()
            place.close()

    async def _began(self, pid: int) -> None:
        await self._place.tell("process", pid=pid)

    # One message

    async def _turn(self, value: Any) -> Any:
        journal = self._place.host.journal
        if self._model is None and not (journal is not None and journal.pages.replaying):
            place = self._place
            self._model = agent_model(self._settings, place.host, place.name, self._began)
            await self._connect()
        if self._settings.get("amnesiac"):
            self._history = []
        said = value if isinstance(value, str) else _json.dumps(value)
        kept = [Message("user", said)]
        passing: list[Message] = []
        retries, calls = 0, 0
        dispatcher = self._dispatcher()
        while True:
            reply = await self._ask_model([*self._history, *kept, *passing])
            if reply.calls:
                kept.append(reply.message())
                passing = []
                for call in reply.calls:
                    kept.append(await self._tool(dispatcher, call))
                calls += len(reply.calls)
                most = self._settings.get("max_tool_calls")
                if most is not None and calls > most:
                    message = f"{self._place.name!r} called tools {calls} times; {most} are allowed."
                    raise MaxToolCalls(message, details={"source": self._place.name, "limit": most})
                continue
            try:
                result = self._extracted(reply)
            except (OutputExtractionFailed, OutputValidationFailed) as failure:
                retries += 1
                if retries > self._settings.get("max_retries", 3):
                    failure.details.update(source=self._place.name, attempts=retries)
                    raise
                await self._place.tell("retry", attempt=retries, error=failure.code)
                passing = [reply.message(), Message("user", correction(failure, self._schema))]
                continue
            self._history += [*kept, reply.message()]
            await self._place.tell("output", messages=len(self._history))
            return result

    async def _ask_model(self, messages: list[Message]) -> Reply:
        place, most = self._place, self._settings.get("max_tokens", 8192)
        left = None if place.budget is None else place.budget.tokens_left
        settings = Settings(
            temperature=self._temperature, max_tokens=most if left is None else min(most, left)
        )
        system = [Message("system", self._system)] if self._system else []
        held = None if resolve(self._type) == STRING else schema_of(self._type)
        request = Request([*system, *messages], self._specs(), output=held, settings=settings)
        reply: Reply = await retried(place, lambda: self._reply(request), MODEL_RETRIES)
        return reply

    async def _reply(self, request: Request) -> Reply:
        place = self._place
        if place.budget is not None:
            place.budget.ask()
        reply = await self._asked_once(request)
        usage = reply.usage
        await place.tell(
            "usage", input=usage.input, output=usage.output, cache_read=usage.cache_read,
            cache_create=usage.cache_write, cost=usage.cost,
        )  # fmt: skip
        if reply.reasoning:
            await place.tell("thinking", text=reply.reasoning)
        if place.budget is not None:
            place.budget.spend(usage.tokens, usage.cost)
        if reply.stop == "length":
            message = f"The reply of {place.name!r} was cut off at the limit of tokens."
            raise MaxTokens(message, details={"source": place.name})
        if reply.stop not in _STOPS:
            message = f"The model of {place.name!r} stopped for a reason that is not known: {reply.stop}."
            raise ApiError(message, details={"source": place.name})
        return reply

    async def _asked_once(self, request: Request) -> Reply:
        model, journal = self._model, self._place.host.journal
        if journal is None:
            assert model is not None
            return await model.reply(request)

        async def ask(_: str) -> dict[str, Any]:
            assert model is not None
            return spelled_reply(await model.reply(request))

        return read_reply(await journal.once(f"{self._place.name}@model", question(request.messages), ask))

    def _extracted(self, reply: Reply) -> Any:
        value = extract(reply.text, self._schema)
        if not checker(self._type)(value):
            raise OutputValidationFailed(f"The reply is not {shown(self._type)}.")
        return value

    # Tools

    def _tools(self) -> dict[str, Any]:
        return dict(self._settings.get("tools", ()))

    async def _connect(self) -> None:
        made = []
        for index, given in enumerate(self._settings.get("mcp", ())):
            from fairlead.tools.mcp import McpServer

            command = [given["command"], *given.get("args", ())] if "command" in given else ()
            name = given.get("name", f"mcp{index + 1}")
            server = McpServer(name, command, url=given.get("url"), prefix=given.get("prefix", ""))
            made.append(server)
            self._servers = tuple(made)
            await server.connect()

    def _specs(self) -> tuple[ToolSpec, ...]:
        own = [
            ToolSpec(
                name,
                str(tool.settings.get("description", f"{tool.name} : {tool.signature()}")),
                _parameters(tool),
            )
            for name, tool in self._tools().items()
        ]
        for server in self._servers:
            own += [ToolSpec(each.name, each.description, each.input.json_schema) for each in server.actions]
        return tuple(own)

    def _dispatcher(self) -> Dispatcher:
        ask = (
            self._through_ports
            if self._place.outlets.get("operator_out") and not self._place.inlets["operator_in"].closed
            else None
        )
        self._turns += 1
        place = self._place
        journal = None if place.host.journal is None else place.host.journal.inside(place.name, self._turns)
        host = replace(place.host, journal=journal, budget=place.budget, limits=None, watch=None)
        return Dispatcher(self._tools(), host, agent=self._place.name, servers=self._servers, ask=ask)

    async def _tool(self, dispatcher: Dispatcher, call: Any) -> Message:
        if self._place.budget is not None:
            self._place.budget.ask()
        given: Any = call.arguments.encode()
        tool = self._tools().get(call.name)
        if tool is not None and not isinstance(resolve(tool.inputs[0].type), Record):
            given = _unwrapped(given)
        response = await self._responded(dispatcher, {"id": call.id, "name": call.name, "input": given})
        await self._place.tell(
            "tool", name=call.name, input=call.arguments[:2000], is_error=response["is_error"]
        )
        return Message("tool", response["content"], call_id=call.id, name=call.name)

    async def _responded(self, dispatcher: Dispatcher, request: dict[str, Any]) -> dict[str, Any]:
        journal, given = self._place.host.journal, request["input"]
        if journal is None:
            return await dispatcher.respond(request)
        asked = [request["name"], given.decode(errors="replace") if isinstance(given, bytes) else given]
        told: dict[str, Any] = await journal.once(
            f"{self._place.name}@{request['name']}", asked, lambda _: dispatcher.respond(request)
        )
        return {**told, "id": request["id"]}

    # On the side

    async def _heed(self) -> None:
        """Follow commands: set_temp, stop, pause, resume, get_memory, set_memory."""
        inlet = self._place.inlets["ctrl_in"]
        while (batch := await inlet.get()) is not None:
            for command in batch:
                if isinstance(command, dict):
                    await self._command(command)

    async def _command(self, command: dict[str, Any]) -> None:
        send: Callable[[str, Any], Any] = self._place.send
        if isinstance(command.get("set_temp"), int | float):
            self._temperature = float(command["set_temp"])
        if command.get("pause") is True:
            self._resumed.clear()
            await send("ctrl_out", {"ack": "pause"})
        if command.get("get_memory") is True:
            memory = [{"role": each.role, "content": each.content} for each in self._history]
            await send("ctrl_out", {"memory": memory})
        if isinstance(command.get("set_memory"), list):
            self._history = [
                Message(each["role"], str(each.get("content", "")))
                for each in command["set_memory"]
                if isinstance(each, dict) and each.get("role") in ("user", "assistant")
            ]
            await send("ctrl_out", {"ack": "set_memory"})
        if command.get("resume") is True:
            self._resumed.set()
            await send("ctrl_out", {"ack": "resume"})
        if command.get("stop") is True:
            self._stopped = True
            self._resumed.set()
            self._place.inlets["input"].close()

    async def _through_ports(self, ask: Approval) -> Verdict:
        waiting: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self._asked[ask.id] = waiting
        request = {"id": ask.id, "tool": ask.tool, "input": ask.input, "agent": ask.agent}
        await self._place.send("operator_out", request)
        try:
            async with asyncio.timeout(_PATIENCE):
                return await waiting
        except TimeoutError:
            return Verdict(False, "the operator did not answer in time")
        finally:
            del self._asked[ask.id]

    async def _hear(self) -> None:
        inlet = self._place.inlets["operator_in"]
        while (batch := await inlet.get()) is not None:
            for reply in batch:
                waiting = self._asked.get(reply["id"])
                if waiting is not None and not waiting.done():
                    waiting.set_result(Verdict(reply["approve"], reply.get("reason", "")))


def _system(settings: dict[str, Any], name: str, type: Type) -> str:
    parts = [str(settings["prompt"])] if settings.get("prompt") else []
    for path in settings.get("prompts", ()):
        file = Path(path)
        parts.append(f"<{file.stem}>\n{file.read_text(encoding='utf-8')}\n</{file.stem}>")
    if settings.get("runtime_context"):
        parts.append(f"You are the agent {name!r} in a pipeline.")
    if resolve(type) != STRING:
        parts.append(f"Answer with JSON of this schema and nothing else: {_json.dumps(schema_of(type))}")
    return "\n\n".join(parts)


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
