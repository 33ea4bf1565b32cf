"""PGQueuer, on PostgreSQL through asyncpg, which it documents first."""

import json

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.models import Job
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

from queues.work import INPUT_TEXT, TOGETHER, Stopwatch


async def add(job: Job) -> None:
    given = json.loads(job.payload or b"")
    given["a"] + given["b"]


class Pgqueuer:
    def __init__(self, url: str) -> None:
        self._url = url

    async def open(self) -> None:
        self._pool = await asyncpg.create_pool(self._url, min_size=2, max_size=10)
        self._queries = Queries.from_asyncpg_pool(self._pool)
        await self._queries.install()

    async def submit(self, count: int) -> float:
        watch = Stopwatch()
        for _ in range(count):
            await self._queries.enqueue("add", INPUT_TEXT.encode())
        return watch.seconds

    async def drain(self, count: int) -> float:
        queuer = PgQueuer.from_asyncpg_pool(self._pool)
        queuer.entrypoint("add")(add)
        watch = Stopwatch()
        await queuer.qm.run(batch_size=TOGETHER, mode=QueueExecutionMode.drain)
        return watch.seconds
