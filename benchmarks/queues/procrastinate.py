"""Procrastinate, on PostgreSQL through psycopg."""

from procrastinate import App, PsycopgConnector

from queues.work import INPUT, TOGETHER, Stopwatch


async def add(a: int, b: int) -> int:
    return a + b


class Procrastinate:
    def __init__(self, url: str) -> None:
        self._app = App(connector=PsycopgConnector(conninfo=url))
        self._add = self._app.task(add, name="add")

    async def open(self) -> None:
        await self._app.open_async()
        await self._app.schema_manager.apply_schema_async()

    async def submit(self, count: int) -> float:
        watch = Stopwatch()
        for _ in range(count):
            await self._add.defer_async(**INPUT)
        return watch.seconds

    async def drain(self, count: int) -> float:
        watch = Stopwatch()
        # It ends when there is nothing left.
        await self._app.run_worker_async(wait=False, concurrency=TOGETHER, install_signal_handlers=False)
        return watch.seconds
