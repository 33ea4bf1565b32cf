"""Our own tasks, on whatever database and bus the addresses name."""

import asyncio
import os

from fairlead import App
from fairlead.store import open_store
from fairlead.tasks import Task, Tasks, ledger
from fairlead.tasks.bus import open_bus
from queues.work import INPUT, REST, TOGETHER, Stopwatch, cpu, now

app = App("bench")
STARTS: list[float] = []


@app.action(side_effects="write")
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@app.action(side_effects="write")
async def start(sent: float) -> None:
    """Say how long it took until this was started."""
    STARTS.append(now() - sent)


class Fairlead:
    """A process that submits, works or watches, as it is told."""

    def __init__(self, url: str, bus: str = "") -> None:
        self._url = url
        self._bus = bus

    async def open(self) -> None:
        self._store = open_store("bench", url=self._url)
        bus = open_bus(self._store, app.clock, self._bus or None)
        self._tasks = Tasks(app, self._store, bus=bus)
        self._batches = Tasks(app, self._store, queue="batches", bus=bus)
        self._logs = Tasks(app, self._store, queue="logs", bus=bus)

    async def submit(self, count: int) -> float:
        watch = Stopwatch()
        for _ in range(count):
            await self._tasks.submit("add", INPUT)
        return watch.seconds

    async def submit_batch(self, count: int) -> float:
        """Submit all at once, to a queue that nobody works on."""
        watch = Stopwatch()
        await self._batches.submit_many("add", [INPUT] * count)
        return watch.seconds

    async def drain(self, count: int) -> float:
        done = asyncio.Event()
        left = count

        def heard(word: str, task: Task) -> None:
            nonlocal left
            left -= word == "ended"
            if not left:
                done.set()

        watch = Stopwatch()
        async with self._tasks.worker(concurrency=TOGETHER, heard=heard):
            await done.wait()
            return watch.seconds

    # A worker that is mostly idle.

    async def work(self) -> None:
        """Wait for work in the background."""
        self._worker = self._tasks.worker(concurrency=TOGETHER)
        self._worker.start()

    async def disturb(self, count: int) -> None:
        """Submit to a worker that is idle each time."""
        for _ in range(count):
            await asyncio.sleep(REST)
            await self._tasks.submit("start", {"sent": now()})

    async def starts(self) -> list[float]:
        """Seconds from submit to start of what the worker here has started since it was last asked."""
        starts = STARTS.copy()
        STARTS.clear()
        return starts

    async def cpu(self) -> float:
        return cpu()

    # Logs.

    async def write_log(self, count: int) -> str:
        """A task that has ended and has said so much, none of it as passing deltas; gives its id."""
        await self._logs.submit("add", INPUT)
        wall = app.clock.time()
        (task,) = await self._store.write(lambda tx: ledger.take(tx, "logs", "w", 1, wall, 3600))
        held = ledger.Held(task.id, task.run, "w")
        line = {"level": "info", "message": "One of very many lines.", "fields": {"number": 1}}
        # Its start and its end are the other two.
        left = count - 2
        while left:
            size = min(left, 1000)
            said = [("log", wall, line)] * size
            await self._store.write(lambda tx, said=said, left=left: ledger.append(tx, held, said, str(left)))
            left -= size
        await self._logs.cancel(task.id)
        return task.id

    async def read_log(self, id: str, count: int) -> float:
        """Seconds to read it all."""
        watch = Stopwatch()
        read = [event.offset async for event in self._logs.events(id)]
        assert len(read) == count, f"{len(read)} events came, not {count}"
        return watch.seconds

    async def submit_ids(self, count: int) -> list[str]:
        return await self._tasks.submit_many("add", [INPUT] * count)

    async def watch(self, ids: list[str]) -> float:
        """Tail the logs of tasks that are to be run; gives the bytes that this takes for each."""
        before = _resident()
        self._tails = [asyncio.ensure_future(self._tail(id)) for id in ids]
        # Until they all wait.
        await asyncio.sleep(1)
        return (_resident() - before) / len(ids)

    async def watched(self) -> bool:
        """Wait until all tails have come to their ends."""
        return all(await asyncio.gather(*self._tails))

    async def _tail(self, id: str) -> bool:
        types = [event.type async for event in self._tasks.events(id)]
        return types == ["started", "terminal"]

    # What a table costs that is full of finished tasks.

    async def claim(self, count: int) -> float:
        """Take so many, one by one, and leave them."""
        watch = Stopwatch()
        for _ in range(count):
            taken, _ = await self._store.write(ledger.taking("bench", "w", 1, app.clock.time(), 3600))
            assert len(taken) == 1, "there is nothing to take"
        return watch.seconds

    async def listed(self, state: str, count: int) -> float:
        """Read the first page so many times."""
        watch = Stopwatch()
        for _ in range(count):
            await self._tasks.list(state=state)
        return watch.seconds


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
