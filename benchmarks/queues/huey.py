"""Huey, on a SQLite file that is synchronous, with the consumer that `huey_consumer` runs."""

import time

from huey import SqliteHuey

from queues.work import INPUT, Stopwatch


def add(a: int, b: int) -> int:
    return a + b


class Huey:
    def __init__(self, path: str) -> None:
        self._huey = SqliteHuey("bench", filename=path, fsync=True, timeout=30)
        self._add = self._huey.task()(add)

    async def open(self) -> None:
        pass

    async def submit(self, count: int) -> float:
        watch = Stopwatch()
        for _ in range(count):
            self._add(**INPUT)
        return watch.seconds

    async def drain(self, count: int) -> float:
        before = self._huey.result_count()
        # One thread: more of them wait for the one writer that SQLite has, and take longer.
        consumer = self._huey.create_consumer(workers=1, worker_type="thread", periodic=False)
        watch = Stopwatch()
        consumer.start()
        self._wait(before + count)
        seconds = watch.seconds
        consumer.stop(graceful=True)
        return seconds

    def _wait(self, count: int) -> None:
        while self._huey.result_count() < count:
            time.sleep(0.005)
