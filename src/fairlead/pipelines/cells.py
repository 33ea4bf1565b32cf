"""The processes that wait for something: barriers, sessions, actions, programs and agents. Each has a task."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from fairlead.failures import Failure
from fairlead.failures.runtime import ConfigError
from fairlead.pipelines.budgets import Budget
from fairlead.pipelines.discretion import outcome, redactor_of, shown
from fairlead.pipelines.fusing import Cell
from fairlead.pipelines.host import Host
from fairlead.pipelines.network import Inlet, Network, Outlet
from fairlead.pipelines.policies import attempted
from fairlead.pipelines.program import Process
from fairlead.pipelines.protocols import Session, Step
from fairlead.pipelines.validating import checker, refusal

#: So much of a tool's arguments is told.
_MOST: Final = 2000


@dataclass(eq=False, slots=True)
class Place:
    """A process in a run: its channels and its surroundings."""

    cell: Cell
    network: Network
    host: Host
    inlets: dict[str, Inlet]
    outlets: dict[str, Outlet]
    budget: Budget | None = None
    check: Callable[[Any], bool] | None = field(default=None)

    @property
    def name(self) -> str:
        """The name of the process, with those of the plumbs around it."""
        return self.cell.name

    @property
    def process(self) -> Process:
        """What it is."""
        assert self.cell.process is not None
        return self.cell.process

    async def send(self, port: str, value: Any) -> None:
        """Send a message out, if anybody is there to get it."""
        outlet = self.outlets.get(port)
        if outlet is not None:
            await outlet.send([value])

    async def tell(self, kind: str, **facts: Any) -> None:
        """Tell of something on the telemetry port and to whoever listens."""
        if self.host.watch is None and self.host.listener is None and "telemetry" not in self.outlets:
            return
        if kind == "tool":
            tool = dict(self.process.settings.get("tools", ())).get(facts["name"])
            facts["input"] = shown(facts["input"], tool, self.host.app)[:_MOST]
            facts |= outcome(facts.pop("response"), tool, self.host.app)
        facts = redactor_of(self.host.app).value(facts)
        self.host.tell(kind, self.name, **facts)
        await self.send("telemetry", {"telemetry": kind, "source": self.name, **facts})

    def close(self) -> None:
        """The process has ended."""
        for inlet in self.inlets.values():
            inlet.abandon()
        for outlet in self.outlets.values():
            outlet.close()

    def validated(self, value: Any, what: str = "output") -> Any:
        """The value, if it is of the type that the process promises. Raises Failure."""
        if self.check is None:
            self.check = checker(self.process.outputs[0].type)
        if not self.check(value):
            raise refusal(self.process.outputs[0].type, value, self.name, what)
        return value


def ports_in(cell: Cell) -> tuple[str, ...]:
    """The inputs that a process reads, whether or not something is sent there."""
    if cell.process is None:
        return ()
    return tuple(each.name for each in (*cell.process.inputs, *cell.process.side_inputs))


def start(place: Place) -> None:
    """Start the task of a process."""
    kind = place.cell.kind
    if kind == "session":
        _Sessions(place).start()
        return
    if kind == "agent":
        from fairlead.pipelines.talking import Talker

        Talker(place).start()
        return
    if kind == "exec":
        from fairlead.pipelines.programs import Program

        Program(place).start()
        return
    work = {"barrier": _barrier, "action": _action}.get(kind)
    if work is None:
        raise ConfigError(
            f"`{kind}` cannot run: {place.name!r} is no stream process.", details={"source": place.name}
        )
    place.network.start(_ending(place, work), place.name)


async def _ending(place: Place, work: Callable[[Place], Awaitable[None]]) -> None:
    try:
        await work(place)
    finally:
        place.close()


async def _barrier(place: Place) -> None:
    sides = [place.inlets[each.name] for each in place.process.inputs]
    waiting: list[deque[Any]] = [deque() for _ in sides]
    while True:
        for inlet, side in zip(sides, waiting, strict=True):
            while not side:
                batch = await inlet.get()
                if batch is None:
                    left = [len(each) + other.count for each, other in zip(waiting, sides, strict=True)]
                    if any(left):
                        await place.tell("leftover", messages=left)
                    return
                side.extend(batch)
        count = min(map(len, waiting))
        pairs = [[side.popleft() for side in waiting] for _ in range(count)]
        await place.outlets["output"].send(pairs) if "output" in place.outlets else None
        await asyncio.sleep(0)  # a circle without anything that waits must not hold the loop


class _Sessions:
    """A session: each step passes one message, when it is its turn."""

    def __init__(self, place: Place) -> None:
        self._place = place
        session: Session = place.cell.session
        self._turn: list[Step] = list(session.first)
        self._moved = asyncio.Event()
        self._left = 0
        self._dropped = 0
        self._steps = self._all(session)

    def _all(self, session: Session) -> dict[int, Step]:
        found: dict[int, Step] = {}
        todo = list(session.first)
        while todo:
            step = todo.pop()
            if step.number not in found:
                found[step.number] = step
                todo.extend(step.next)
        return found

    def start(self) -> None:
        for port, inlet in self._place.inlets.items():
            self._left += 1
            self._place.network.start(self._step(port, inlet), f"{self._place.name}@{port}")

    async def _step(self, port: str, inlet: Inlet) -> None:
        step = self._steps[int(port[1:])]
        other = f"{'p' if port[0] == 'i' else 'i'}{step.number}"
        network = self._place.network
        while (batch := await inlet.get()) is not None:
            for value in batch:
                while step not in self._turn:
                    if not self._turn:
                        break
                    self._moved.clear()
                    if not await network.until(self._moved):
                        # Whose turn it is says nothing any more: the session ends where it is.
                        self._turn = []
                if step not in self._turn:
                    self._dropped += 1
                    continue
                await self._place.send(other, value)
                self._turn = list(step.next)
                self._moved.set()
        self._left -= 1
        if self._left == 0:
            if self._dropped:
                self._place.host.tell("leftover", self._place.name, messages=[self._dropped])
            self._place.close()


async def _action(place: Place) -> None:
    inlet = place.inlets["input"]
    while (batch := await inlet.get()) is not None:
        for value in batch:
            result = await attempted(place, partial(call_action, place, value))
            await place.send("output", place.validated(result))


async def call_action(place: Place, value: Any) -> Any:
    """Call the app's action with a message. Raises Failure."""
    host, name = place.host, place.process.action
    if host.app is None or name is None:
        raise ConfigError(f"The action {name!r} needs an app.", details={"source": place.name})
    if place.budget is not None:
        place.budget.ask()
    journal = host.journal
    if journal is None:
        told = await _invoked(place, name, value, None)
    else:
        # An action that may be called twice gets the step's name as its key: it is done once, whoever asks again.
        told = await journal.once(
            place.name, [name, value], lambda step: _invoked(place, name, value, journal.key(step))
        )
    _spent(place, told.get("usage"))
    return told["data"]


async def _invoked(place: Place, name: str, value: Any, key: str | None) -> dict[str, Any]:
    host = place.host
    assert host.app is not None
    result = await host.app.invoke(name, value, user=host.user, auth=host.auth, idempotency_key=key)
    usage = result.meta.get("agent", {}).get("usage")
    if result.failure is not None:
        _spent(place, usage)
        failure: Failure = result.failure
        failure.details.setdefault("source", place.name)
        raise failure
    return {"data": result.data, **({"usage": usage} if usage else {})}


def _spent(place: Place, usage: dict[str, Any] | None) -> None:
    """Note what an agent behind an action has spent."""
    if usage and place.budget is not None:
        place.budget.spend(usage["input"] + usage["output"], usage["cost"])
