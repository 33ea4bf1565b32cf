"""Loops as one would write them by hand, one statement for each move: what a queue can be measured by.

A task is a row: it is inserted, set to running by whoever claims it, and set to done. Every move is on disk before
the next is begun. `Waiting` parts sleep until they are woken as the database can wake, and claim what is there.
"""

import asyncio
import socket
import sqlite3
import threading
from typing import Any

from queues.work import INPUT_TEXT, REST, RESULT_TEXT, Stopwatch, now

Row = tuple[Any, ...]

CLAIM = """\
UPDATE q SET state = 'running' WHERE id = (SELECT id FROM q WHERE state = 'queued' ORDER BY id LIMIT 1 {lock})
RETURNING id, input"""


class Loop:
    """What the loops have in common."""

    def __init__(self) -> None:
        self._starts: list[float] = []

    async def submit(self, count: int) -> float:
        watch = Stopwatch()
        for _ in range(count):
            await self.insert(INPUT_TEXT)
        return watch.seconds

    async def drain(self, count: int) -> float:
        watch = Stopwatch()
        for _ in range(count):
            row = await self.claim()
            await self.finish(row)
        return watch.seconds

    async def disturb(self, count: int) -> None:
        """Submit to a worker that is idle each time."""
        for _ in range(count):
            await asyncio.sleep(REST)
            await self.insert(repr(now()), wake=True)

    async def starts(self) -> list[float]:
        """Seconds from submit to start of what the worker here has started since it was last asked."""
        starts, self._starts = self._starts, []
        return starts

    def started(self, row: Row) -> None:
        self._starts.append(now() - float(row[1]))

    async def insert(self, text: str, wake: bool = False) -> None:
        raise NotImplementedError

    async def claim(self) -> Row:
        raise NotImplementedError

    async def finish(self, row: Row) -> None:
        raise NotImplementedError


class Sqlite(Loop):
    """A SQLite file with a write-ahead log, synchronous; a datagram wakes."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path
        self._bell = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)

    async def open(self) -> None:
        self._connection = self._connect()
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS q (id INTEGER PRIMARY KEY, input TEXT, state TEXT, result TEXT)"
        )
        self._connection.execute("CREATE INDEX IF NOT EXISTS queued ON q (id) WHERE state = 'queued'")

    async def insert(self, text: str, wake: bool = False) -> None:
        self._connection.execute("INSERT INTO q (input, state) VALUES (?, 'queued')", (text,))
        if wake:
            self._bell.sendto(b"!", f"{self._path}.bell")

    async def claim(self) -> Row:
        return self._claim(self._connection)

    async def finish(self, row: Row) -> None:
        self._finish(self._connection, row)

    async def work(self) -> None:
        """Wait for work in the background."""
        self._bell.bind(f"{self._path}.bell")
        threading.Thread(target=self._wait, daemon=True).start()

    def _wait(self) -> None:
        connection = self._connect()
        while self._bell.recv(1):
            row = self._claim(connection)
            self.started(row)
            self._finish(connection, row)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None, timeout=30)
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    def _claim(self, connection: sqlite3.Connection) -> Row:
        row: Row = connection.execute(CLAIM.format(lock="")).fetchone()
        return row

    def _finish(self, connection: sqlite3.Connection, row: Row) -> None:
        connection.execute("UPDATE q SET state = 'done', result = ? WHERE id = ?", (RESULT_TEXT, row[0]))


class Postgres(Loop):
    """PostgreSQL with SKIP LOCKED; NOTIFY wakes."""

    INSERT = "INSERT INTO q (input, state) VALUES (%s, 'queued')"
    TOLD = f"WITH new AS ({INSERT}) SELECT pg_notify('q', '')"
    CLAIM = CLAIM.format(lock="FOR UPDATE SKIP LOCKED")
    FINISH = "UPDATE q SET state = 'done', result = %s WHERE id = %s"

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url

    async def open(self) -> None:
        self._connection = self._connect()
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS q (id BIGSERIAL PRIMARY KEY, input TEXT, state TEXT, result TEXT)"
        )
        self._connection.execute("CREATE INDEX IF NOT EXISTS queued ON q (id) WHERE state = 'queued'")

    async def insert(self, text: str, wake: bool = False) -> None:
        self._connection.execute(self.TOLD if wake else self.INSERT, (text,))

    async def claim(self) -> Row:
        row: Row = self._connection.execute(self.CLAIM).fetchone()
        return row

    async def finish(self, row: Row) -> None:
        self._connection.execute(self.FINISH, (RESULT_TEXT, row[0]))

    async def work(self) -> None:
        """Wait for work in the background."""
        listening = self._connect()
        listening.execute("LISTEN q")
        threading.Thread(target=self._wait, args=(listening,), daemon=True).start()

    def _wait(self, listening: Any) -> None:
        connection = self._connect()
        for _ in listening.notifies():
            row = connection.execute(self.CLAIM).fetchone()
            self.started(row)
            connection.execute(self.FINISH, (RESULT_TEXT, row[0]))

    def _connect(self) -> Any:
        import psycopg

        return psycopg.connect(self._url, autocommit=True)


class Nats(Loop):
    """JetStream carries ids on a work queue, and PostgreSQL has a row that every move is written to."""

    START = "UPDATE q SET state = 'running' WHERE id = %s RETURNING id, input"

    def __init__(self, database: str, url: str) -> None:
        super().__init__()
        self._rows = Postgres(database)
        self._url = url

    async def open(self) -> None:
        import nats
        from nats.js.api import RetentionPolicy

        await self._rows.open()
        self._execute = self._rows._connection.execute
        self._client = await nats.connect(self._url)
        self._stream = self._client.jetstream()
        await self._stream.add_stream(name="BARE", subjects=["bare"], retention=RetentionPolicy.WORK_QUEUE)
        self._messages = await self._stream.pull_subscribe("bare", durable="bare")

    async def insert(self, text: str, wake: bool = False) -> None:
        row = self._execute(f"{Postgres.INSERT} RETURNING id", (text,)).fetchone()
        await self._stream.publish("bare", str(row[0]).encode())

    async def claim(self) -> Row:
        (message,) = await self._messages.fetch(1, timeout=30)
        id, text = self._execute(self.START, (int(message.data),)).fetchone()
        return id, text, message

    async def finish(self, row: Row) -> None:
        self._execute(Postgres.FINISH, (RESULT_TEXT, row[0]))
        await row[2].ack()

    async def work(self) -> None:
        """Wait for work in the background."""
        self._waiting = asyncio.ensure_future(self._wait())

    async def _wait(self) -> None:
        while True:
            row = await self.claim()
            self.started(row)
            await self.finish(row)
