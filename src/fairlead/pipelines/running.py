"""A run of a program: messages go in, messages come out, and nothing is left behind when it ends."""

from __future__ import annotations

import asyncio
import builtins
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Final

from fairlead.failures import Failure
from fairlead.failures.runtime import PipelineError
from fairlead.pipelines import cells
from fairlead.pipelines.budgets import Budget
from fairlead.pipelines.fusing import PURE, WAYS, Cell, Opened, _Op, compiled, paths, targets
from fairlead.pipelines.host import Host
from fairlead.pipelines.network import Batch, Inlet, Network, Outlet
from fairlead.pipelines.program import Process
from fairlead.pipelines.validating import checker, refusal

#: Results that wait for somebody to fetch them.
_WAITING: Final = 1024

Write = Callable[[Batch], Awaitable[None] | None]


class Ended(Exception):
    """The pipeline has ended: there will be no more results."""


class Run:
    """One run. `async with Run(process) as run: await run.send(value); await run.recv()`."""

    def __init__(self, process: Process, host: Host | None = None, *, write: Write | None = None) -> None:
        self.process = process
        self.host = host or Host()
        self.network = Network()
        self._opened = Opened(process)
        if self.host.watch is not None:
            for cell in self._opened.cells:
                # What is watched counts its messages, and so has a channel of its own.
                cell.real = cell.real or cell.kind in PURE
        self._write = write
        self._results: deque[Any] = deque()
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._over = False
        self._closed = not process.inputs
        self._inlets: dict[tuple[int, str], Inlet] = {}
        self._outlets: dict[tuple[int, str], Outlet] = {}
        self._waiter: asyncio.Task[None] | None = None
        self._whole = self._budget(self.host.limits or {}, self.host.budget)
        self._budgets: list[Budget] = []
        for limits, outer in self._opened.budgets:
            around = self._whole if outer is None else self._budgets[outer]
            self._budgets.append(self._budget(limits, around))
        self._check = checker(process.inputs[0].type) if process.inputs else None
        self._input: Outlet | None = None

    def _budget(self, limits: Mapping[str, Any], outer: Budget | None) -> Budget:
        return Budget(limits, outer, self.process.name, fail=self.network.fail)

    def accounts(self) -> list[dict[str, Any]]:
        """What the run has spent: the whole of it first, then each block of `budget` in the order of the program."""
        return [each.account() for each in (self._whole, *self._budgets)]

    def nodes(self) -> dict[str, dict[str, Any]]:
        """What happened so far at each node of the picture: messages that came, that wait, and that are worked on."""
        told: dict[str, dict[str, Any]] = {}
        for cell in self._opened.cells:
            id = self._shown_as(cell)
            if id is None:
                continue
            node = told.setdefault(id, {"seen": 0, "waiting": 0, "busy": 0, "names": []})
            inlets = [each for (number, _), each in self._inlets.items() if number == builtins.id(cell)]
            sent = self._outlets.get((builtins.id(cell), "output"))
            node["seen"] += (
                sent.count if cell.kind == "source" and sent else sum(each.seen for each in inlets)
            )
            node["waiting"] += sum(each.count for each in inlets)
            node["busy"] += cell.busy
            node["names"].append(cell.name)
        return told

    def _shown_as(self, cell: Cell) -> str | None:
        graph = self.process.graph
        if cell.kind in ("source", "sink"):
            kind, first = ("input", "i0") if cell.kind == "source" else ("output", "o0")
            return first if graph is None else next((f"n{each.number}" for each in graph.of(kind)), None)
        if graph is None:
            return "n0"
        return None if cell.kind in ("input", "output") or cell.node is None else f"n{cell.node}"

    async def start(self) -> None:
        """Make the channels and start a task for each process."""
        if self.host.watch is not None:
            self.host.watch.run = self
        opened, network = self._opened, self.network
        real = [cell for cell in opened.cells if cell.real and cell.kind not in ("discard", "empty")]
        for cell in real:
            self._connect(cell)
        self._input = self._outlets.get((id(opened.source), "output"))
        if not self._closed:
            network.sources += 1
        elif self._input is not None:
            self._input.close()
        for inlet in network.inlets:
            if inlet.writers == 0:
                inlet.close()
        # Before any of them runs, so that none finds the network at rest.
        for cell in real:
            if cell.kind == "sink":
                network.start(self._sink(self._inlet(cell, "input")), "output")
            elif cell.kind in WAYS or cell.kind in PURE:
                network.start(
                    self._relay(self._inlet(cell, "input"), self._outlets[id(cell), "output"]), cell.name
                )
            elif cell.kind != "source":
                self._start(cell)
        self._whole.watch(partial(_seen, network.inlets))
        for number, budget in enumerate(self._budgets):
            budget.watch(partial(_seen, self._passed(number)))
        self._waiter = asyncio.get_running_loop().create_task(self._watch())

    def _passed(self, block: int) -> list[Inlet]:
        """Where messages come by that a block works on: its own channels, and those in the circles of its code."""
        inside = {block}
        for number, (_, outer) in enumerate(self._opened.budgets):
            if outer in inside:
                inside.add(number)
        found: set[int] = set()
        for cell in self._opened.cells:
            if cell.budget in inside:
                found.add(id(cell))
                if not cell.real:
                    next = [place for place, _ in targets(paths(cell, "output"))]
                    found |= {id(place) for place in next if place.kind in WAYS or place.kind in PURE}
        return [inlet for (cell, _), inlet in self._inlets.items() if cell in found]

    def _connect(self, cell: Cell) -> None:
        ports = set(cell.out)
        if cell.kind in WAYS or cell.kind in PURE or cell.kind == "source":
            ports.add("output")
        for port in ports:
            found = paths(cell, port)
            if cell.kind in PURE and cell.real:
                found = [_Op(cell, cell.kind == "filter", found)]
            places = targets(found)
            self._outlets[id(cell), port] = Outlet([self._inlet(*each) for each in places], compiled(found))

    def _inlet(self, cell: Cell, port: str) -> Inlet:
        key = (id(cell), port)
        if key not in self._inlets:
            self._inlets[key] = self.network.inlet(f"{cell.name}@{port}" if port != "input" else cell.name)
        return self._inlets[key]

    def _start(self, cell: Cell) -> None:
        outlets = {port: each for (number, port), each in self._outlets.items() if number == id(cell)}
        inlets = {port: each for (number, port), each in self._inlets.items() if number == id(cell)}
        # A port that nothing is sent to is closed from the beginning.
        for port in cells.ports_in(cell):
            if port not in inlets:
                inlets[port] = self._inlet(cell, port)
                inlets[port].close()
        budget = self._whole if cell.budget is None else self._budgets[cell.budget]
        cells.start(cells.Place(cell, self.network, self.host, inlets, outlets, budget))

    async def _watch(self) -> None:
        failure = None
        try:
            await self.network.wait()
        except Failure as raised:
            failure = raised
            raise
        finally:
            if self.host.watch is not None:
                self.host.watch.ended(failure)
            self.host.tell("spent", self.process.name, budgets=self.accounts())
            for budget in (self._whole, *self._budgets):
                budget.rest()
            self._over = True
            self._news.set()
            self._room.set()

    async def _relay(self, inlet: Inlet, outlet: Outlet) -> None:
        while (batch := await inlet.get()) is not None:
            await outlet.send(batch)
            await asyncio.sleep(0)  # a circle without anything that waits must not hold the loop
        outlet.close()

    async def _sink(self, inlet: Inlet) -> None:
        while (batch := await inlet.get()) is not None:
            self.host.counted("output", len(batch))
            if self._write is not None:
                pending = self._write(batch)
                if pending is not None:
                    await pending
                continue
            while len(self._results) >= _WAITING and not self._over:
                self._room.clear()
                await self._room.wait()
            self._results.extend(batch)
            self._news.set()

    # For callers

    async def send(self, value: Any) -> None:
        """Send one message in; waits where there is no room. Raises Failure when it is not of the type."""
        await self.send_batch([value])

    async def send_batch(self, values: Batch) -> None:
        """Send messages in. Raises Failure when one is not of the type; those before it are sent."""
        if self._closed or self._check is None:
            raise PipelineError("The input of the pipeline is closed.")
        index = self.refused(values)
        await self._forward(values[:index])
        if index is not None:
            raise refusal(self.process.inputs[0].type, values[index], "main")

    def refused(self, values: Batch) -> int | None:
        """Which of these messages is the first that is not of the type."""
        check = self._check
        if check is None:
            return None
        return next((index for index, value in enumerate(values) if not check(value)), None)

    async def _forward(self, batch: Batch) -> None:
        if self._over or self._input is None:
            await self._raise()
            return
        self.network.running += 1
        try:
            await self._input.send(batch)
        except Exception as error:
            # What cannot be computed on the way in ends the run, as it does anywhere.
            self.network.fail(error)
            raise
        finally:
            self.network.rest()
        if self._over:
            await self._raise()

    def close_input(self) -> None:
        """No more messages go in: the pipeline ends when all that is under way has come out."""
        if self._closed:
            return
        self._closed = True
        self.network.sources -= 1
        if self._input is not None:
            self._input.close()
        self.network.look()

    async def recv(self) -> Any:
        """The next result.

        Raises:
            Ended: there will be none.
            Failure: the run failed.
        """
        while not self._results:
            if self._over:
                await self._raise()
                raise Ended
            self._news.clear()
            await self._news.wait()
        value = self._results.popleft()
        self._room.set()
        return value

    async def _raise(self) -> None:
        if self._waiter is not None and self._waiter.done() and not self._waiter.cancelled():
            error = self._waiter.exception()
            if error is not None:
                raise error

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._all()

    async def _all(self) -> AsyncIterator[Any]:
        while True:
            try:
                value = await self.recv()
            except Ended:
                return
            yield value

    async def wait(self) -> None:
        """Until the run has ended. Raises Failure when it failed."""
        if self._waiter is not None:
            await asyncio.shield(self._waiter)

    async def shutdown(self) -> None:
        """End the run now."""
        self._over = True
        await self.network.cancel()
        if self._waiter is not None:
            self.network.finish()
            self._waiter.cancel()
            await asyncio.gather(self._waiter, return_exceptions=True)

    async def __aenter__(self) -> Run:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.host.watch is not None and isinstance(error, asyncio.CancelledError):
            self.host.watch.stop()
        await self.shutdown()


def _seen(inlets: list[Inlet]) -> int:
    return sum(each.seen for each in inlets)


async def call(process: Process, value: Any, host: Host | None = None) -> Any:
    """Send one message, take the first result, and end.

    Raises:
        Failure: the run failed, or ended without a result.
    """
    async with Run(process, host) as run:
        await run.send(value)
        run.close_input()
        try:
            return await run.recv()
        except Ended:
            # Trying again would ask every model of it once more.
            raise PipelineError(
                f"The pipeline {process.name!r} ended without a result.",
                details={"source": process.name},
                retryable=False,
            ) from None


async def run_all(process: Process, values: list[Any], host: Host | None = None) -> list[Any]:
    """Send messages, and give all results."""
    async with Run(process, host) as run:

        async def feed() -> None:
            try:
                for start in range(0, len(values), 512):
                    await run.send_batch(values[start : start + 512])
            except Exception as error:
                run.network.fail(error)
            run.close_input()

        feeding = asyncio.get_running_loop().create_task(feed())
        try:
            results = [each async for each in run]
            await feeding
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)
        await run.wait()
        return results
