"""`agent`: a model that answers each message with one of the declared type, using tools on the way.

Here is the agent's side of the run: its ports, and what they bring to the agent and take from it. The agent itself, a
conversation, is in a process of its own, or here where its model cannot leave the app's process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from fairlead import _json
from fairlead.agents.models.model import Model
from fairlead.agents.operator import Approval, Verdict
from fairlead.failures import Failure
from fairlead.failures.runtime import ConfigError
from fairlead.pipelines.apart import Apart, portable
from fairlead.pipelines.cells import Place
from fairlead.pipelines.conversations import SETTINGS, Brief, Conversation, State
from fairlead.pipelines.desks import AgentDesk
from fairlead.pipelines.dispatching import Ask
from fairlead.pipelines.models import model_for
from fairlead.pipelines.policies import timed
from fairlead.pipelines.schemas import schema_of
from fairlead.pipelines.types import STRING, Type, resolve

#: Seconds for an operator behind a port to answer.
_PATIENCE: Final = 300.0


class Agent(Protocol):
    """An agent, wherever it lives."""

    async def turn(self, value: Any) -> Any:
        """Answer a message with a value of the type. Raises Failure."""
        ...

    async def heed(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """Follow a command, and tell what to say to it and what is other than before. Raises Failure."""
        ...

    async def close(self) -> None:
        """The agent has ended."""
        ...


class Talker:
    """One agent in a run."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._settings = settings = place.process.settings
        type = place.process.outputs[0].type
        self._brief = Brief(
            place.name,
            type,
            _system(settings, place.name, type),
            {key: settings[key] for key in SETTINGS if key in settings},
            kept=place.host.journal is not None,
        )
        self._desk = AgentDesk(place, self._operator)
        self._agent: Agent | None = None
        self._resumed = asyncio.Event()
        self._resumed.set()
        self._stopped = False
        self._over = False
        self._heeding = asyncio.Lock()
        self._asked: dict[str, asyncio.Future[Verdict]] = {}

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
        try:
            await self._answer()
            # A command that came before the end is followed.
            async with self._heeding:
                self._over = True
        finally:
            self._over = True
            try:
                await place.network.leave(self._leave())
            finally:
                place.close()

    async def _leave(self) -> None:
        try:
            if self._agent is not None:
                await self._agent.close()
        finally:
            await self._desk.close()

    async def _answer(self) -> None:
        place, inlet = self._place, self._place.inlets["input"]
        most, taken = self._settings.get("max_messages"), 0
        while not self._stopped and (batch := await inlet.get()) is not None:
            for value in batch:
                if not self._resumed.is_set():
                    # Where nobody is left who could resume it, it goes on: what was sent to it is answered.
                    await place.network.until(self._resumed)
                if self._stopped:
                    return
                await place.send("output", await timed(place, partial(self._turn, value)))
                taken += 1
                if most is not None and taken >= most:
                    return

    async def _turn(self, value: Any) -> Any:
        with _blaming(self._place.name):
            agent = self._here_or_apart()
            await self._desk.begin()
            return await agent.turn(value)

    def _here_or_apart(self) -> Agent:
        """The agent, who begins with the first message or command. Raises Failure when there is no such model."""
        if self._agent is None:
            place, state = self._place, State(temperature=self._settings.get("temperature"))
            journal = place.host.journal
            if journal is not None and journal.pages.replaying:
                self._agent = Conversation(self._brief, _nobody, self._desk, state)
            elif (named := portable(self._settings, place.host)) is not None:
                self._agent = Apart(named, place.host, self._brief, self._desk, state)
            else:
                model = model_for(self._settings, place.host, place.name)
                self._agent = Conversation(self._brief, lambda: model, self._desk, state)
        return self._agent

    # On the side

    async def _heed(self) -> None:
        inlet = self._place.inlets["ctrl_in"]
        while (batch := await inlet.get()) is not None:
            for command in batch:
                if isinstance(command, dict):
                    await self._command(command)
        # Nobody is left who could have it go on.
        self._resumed.set()

    async def _command(self, command: dict[str, Any]) -> None:
        async with self._heeding:
            if self._over:
                return
            with _blaming(self._place.name):
                told = await self._here_or_apart().heed(command)
        if told.get("stopped"):
            self._stopped = True
            self._place.inlets["input"].close()
        if self._stopped or told.get("paused") is False:
            self._resumed.set()
        elif "paused" in told:
            self._resumed.clear()
        for answer in told["out"]:
            await self._place.send("ctrl_out", answer)

    def _operator(self) -> Ask | None:
        """How to ask the operator, where that goes through the ports."""
        there = self._place.outlets.get("operator_out") and not self._place.inlets["operator_in"].closed
        return self._through_ports if there else None

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


@contextmanager
def _blaming(agent: str) -> Iterator[None]:
    """A failure says whose it is: models and servers of tools do not know for whom they work."""
    try:
        yield
    except Failure as failure:
        failure.details.setdefault("source", agent)
        raise


def _nobody() -> Model:
    raise AssertionError("a replay asks no model")


def prompt_text(path: str, agent: str) -> str:
    """What an agent is told by a file. Raises ConfigError."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        message = f"The prompt {path!r} cannot be read: {why}."
        raise ConfigError(message, details={"source": agent, "file": path}, cause=error) from error


def _system(settings: dict[str, Any], name: str, type: Type) -> str:
    parts = [str(settings["prompt"])] if settings.get("prompt") else []
    for path in settings.get("prompts", ()):
        stem = Path(path).stem
        parts.append(f"<{stem}>\n{prompt_text(path, name)}\n</{stem}>")
    if settings.get("runtime_context"):
        parts.append(f"You are the agent {name!r} in a pipeline.")
    if resolve(type) != STRING:
        parts.append(f"Answer with JSON of this schema and nothing else: {_json.dumps(schema_of(type))}")
    return "\n\n".join(parts)
