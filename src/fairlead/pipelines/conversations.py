"""What an agent is: its conversation, and the loop that asks a model, uses tools and corrects what is said.

It lives in the agent's own process, or in the app's where the model cannot leave that. It knows nothing of channels,
budgets or journals: those are with the run, which is asked for all that others see too. A reply that is not of the
type is asked for again; those tries are not part of what the agent remembers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from fairlead import _json
from fairlead.agents.loop.extraction import correction, extract
from fairlead.agents.models.model import Message, Model, Reply, Request, Settings, ToolCall, ToolSpec
from fairlead.failures.runtime import (
    ApiError,
    MaxTokens,
    MaxToolCalls,
    OutputExtractionFailed,
    OutputValidationFailed,
)
from fairlead.pipelines.journals import digest, question
from fairlead.pipelines.policies import MODEL_RETRIES, retried
from fairlead.pipelines.schemas import schema_of
from fairlead.pipelines.shapes import Shape
from fairlead.pipelines.spelling import read_message, read_type, spelled_message, spelled_type
from fairlead.pipelines.types import STRING, Type, resolve, shown
from fairlead.pipelines.validating import checker
from fairlead.schema import Schema

_STOPS: Final = ("stop", "tool_calls")
#: The settings of an agent that its conversation heeds.
SETTINGS: Final = (
    "amnesiac", "backoff", "max_retries", "max_tokens", "max_tool_calls", "retry", "temperature",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Brief:
    """What an agent is told of itself."""

    name: str
    type: Type
    system: str
    settings: Mapping[str, Any]
    #: Whether the run keeps what was answered, and so wants to know each question.
    kept: bool

    def spelled(self) -> dict[str, Any]:
        """The brief as JSON."""
        return {
            "name": self.name,
            "type": spelled_type(self.type),
            "system": self.system,
            "settings": dict(self.settings),
            "kept": self.kept,
        }


def read_brief(told: Mapping[str, Any]) -> Brief:
    """The brief that was spelled so."""
    return Brief(**{**told, "type": read_type(told["type"])})


@dataclass(slots=True)
class State:
    """What an agent knows after a turn or a command: whoever has it can go on."""

    memory: list[dict[str, Any]] = field(default_factory=list)
    temperature: float | None = None

    def note(self, told: Mapping[str, Any]) -> None:
        """Follow what the agent has told of a turn or a command."""
        if "memory" in told:
            self.memory = told["memory"]
        self.memory += told.get("added", ())
        self.temperature = told.get("temperature", self.temperature)


class Leave(NamedTuple):
    """The run's yes to a question: how many tokens the answer may have, and what the model may call."""

    tokens: int | None
    tools: tuple[ToolSpec, ...]


Ask = Callable[[Leave], Awaitable[Reply]]


class Desk(Protocol):
    """The run, as an agent sees it."""

    async def reply(self, asked: str, ask: Ask) -> Reply:
        """A model's reply: one that is known, or by asking. `asked` is the digest of the question. Raises Failure."""
        ...

    async def tool(self, call: ToolCall) -> str:
        """What a tool gives, as text for the model. Raises Failure when the run cannot go on."""
        ...

    async def tell(self, kind: str, **facts: Any) -> None:
        """Tell whoever listens."""
        ...


class Conversation:
    """One agent in a run."""

    def __init__(self, brief: Brief, model: Callable[[], Model], desk: Desk, state: State) -> None:
        self._brief = brief
        self._settings = brief.settings
        self._model = model
        self._desk = desk
        self._schema = Schema(Shape(brief.type))
        self._check = checker(brief.type)
        self._held = None if resolve(brief.type) == STRING else schema_of(brief.type)
        self._history = [read_message(each) for each in state.memory]
        self._temperature = state.temperature
        self._added: list[Message] = []

    # One message

    async def turn(self, value: Any) -> Any:
        """Answer a message with a value of the type. Raises Failure."""
        if self._settings.get("amnesiac"):
            self._history = []
        said = value if isinstance(value, str) else _json.dumps(value)
        kept, passing = [Message("user", said)], list[Message]()
        retries = 0
        while True:
            reply = await self._asked([*self._history, *kept, *passing])
            if reply.calls:
                kept.append(reply.message())
                passing = []
                await self._use(reply.calls, kept)
                continue
            try:
                result = self._extracted(reply)
            except (OutputExtractionFailed, OutputValidationFailed) as failure:
                retries += 1
                if retries > self._settings.get("max_retries", 3):
                    failure.details.update(source=self._brief.name, attempts=retries)
                    raise
                await self._desk.tell("retry", attempt=retries, error=failure.code)
                passing = [reply.message(), Message("user", correction(failure, self._schema))]
                continue
            self._added = [*kept, reply.message()]
            self._history += self._added
            await self._desk.tell("output", messages=len(self._history))
            return result

    def news(self) -> dict[str, Any]:
        """What the latest turn made of the conversation, for whoever keeps the agent's state."""
        added = {"added": [spelled_message(each) for each in self._added]}
        return {"memory": [], **added} if self._settings.get("amnesiac") else added

    async def _asked(self, messages: list[Message]) -> Reply:
        system = [Message("system", self._brief.system)] if self._brief.system else []
        said = [*system, *messages]
        asked = digest(question(said)) if self._brief.kept else ""

        async def ask(leave: Leave) -> Reply:
            most = self._settings.get("max_tokens", 8192)
            settings = Settings(
                temperature=self._temperature,
                max_tokens=most if leave.tokens is None else min(most, leave.tokens),
            )
            return await self._model().reply(Request(said, leave.tools, output=self._held, settings=settings))

        async def once() -> Reply:
            return self._whole(await self._desk.reply(asked, ask))

        reply: Reply = await retried(self._settings, self._desk.tell, once, MODEL_RETRIES)
        return reply

    def _whole(self, reply: Reply) -> Reply:
        name = self._brief.name
        if reply.stop == "length":
            message = f"The reply of {name!r} was cut off at the limit of tokens."
            raise MaxTokens(message, details={"source": name})
        if reply.stop not in _STOPS:
            message = f"The model of {name!r} stopped for a reason that is not known: {reply.stop}."
            raise ApiError(message, details={"source": name})
        return reply

    async def _use(self, calls: tuple[ToolCall, ...], kept: list[Message]) -> None:
        for call in calls:
            kept.append(Message("tool", await self._desk.tool(call), call_id=call.id, name=call.name))
        most, used = self._settings.get("max_tool_calls"), sum(each.role == "tool" for each in kept)
        if most is not None and used > most:
            message = f"{self._brief.name!r} called tools {used} times; {most} are allowed."
            raise MaxToolCalls(message, details={"source": self._brief.name, "limit": most})

    def _extracted(self, reply: Reply) -> Any:
        value = extract(reply.text, self._schema)
        if not self._check(value):
            raise OutputValidationFailed(f"The reply is not {shown(self._brief.type)}.")
        return value

    # On the side

    async def heed(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """Follow a command: set_temp, stop, pause, resume, get_memory, set_memory.

        Gives what to say to it (`out`), what is other than before (`temperature`, `memory`), and whether the agent
        takes messages (`paused`, `stopped`).
        """
        out: list[dict[str, Any]] = []
        told: dict[str, Any] = {"out": out}
        if isinstance(command.get("set_temp"), int | float):
            told["temperature"] = self._temperature = float(command["set_temp"])
        if command.get("pause") is True:
            told["paused"] = True
            out.append({"ack": "pause"})
        if command.get("get_memory") is True:
            out.append({"memory": [{"role": each.role, "content": each.content} for each in self._history]})
        if isinstance(command.get("set_memory"), list):
            self._history = [
                Message(each["role"], str(each.get("content", "")))
                for each in command["set_memory"]
                if isinstance(each, dict) and each.get("role") in ("user", "assistant")
            ]
            told["memory"] = [spelled_message(each) for each in self._history]
            out.append({"ack": "set_memory"})
        if command.get("resume") is True:
            told["paused"] = False
            out.append({"ack": "resume"})
        if command.get("stop") is True:
            told["stopped"] = True
        return told

    async def close(self) -> None:
        """The agent has ended: nothing is left of it."""
