"""DBOS, on PostgreSQL: a task is a workflow on a queue. Its start is not timed, and it polls as often as it can."""

import time

import psycopg
from dbos import DBOS, DBOSClient, DBOSConfig

from queues.work import INPUT, TOGETHER, Stopwatch

QUEUE = "bench"
#: Seconds between two looks; a second by default.
POLL = 0.01


@DBOS.workflow(name="add")
def add(a: int, b: int) -> int:
    return a + b


class Dbos:
    def __init__(self, url: str) -> None:
        self._url = url
        self._config: DBOSConfig = {
            "name": "bench",
            "system_database_url": url,
            "run_admin_server": False,
            "log_level": "ERROR",
        }

    async def open(self) -> None:
        self._launch()
        await DBOS.register_queue_async(QUEUE, worker_concurrency=TOGETHER, polling_interval_sec=POLL)
        DBOS.destroy()
        self._client = DBOSClient(system_database_url=self._url)
        self._connection = psycopg.connect(self._url, autocommit=True)

    async def submit(self, count: int) -> float:
        watch = Stopwatch()
        for _ in range(count):
            self._client.enqueue({"workflow_name": "add", "queue_name": QUEUE}, **INPUT)
        return watch.seconds

    async def drain(self, count: int) -> float:
        self._launch()
        watch = Stopwatch()
        self._wait()
        seconds = watch.seconds
        DBOS.destroy()
        return seconds

    def _launch(self) -> None:
        DBOS(config=self._config)
        DBOS.launch()

    def _wait(self) -> None:
        while self._left():
            time.sleep(0.005)

    def _left(self) -> int:
        statement = "SELECT count(*) FROM dbos.workflow_status WHERE status <> 'SUCCESS'"
        row = self._connection.execute(statement).fetchone()
        return 0 if row is None else int(row[0])
