"""Measures what one durable task costs its database and its bus, for the model in `scale.py`; writes `scale.json`.

Needs the development dependencies: it starts a PostgreSQL and a NATS server of its own, as the tests do.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic
from typing import Any

ROOT = Path(__file__).parents[1]
RESULT = Path(__file__).with_name("scale.json")
TASKS = 2000
PIECES = 2000
LISTENERS = 20


def main() -> None:
    sys.path.insert(0, str(ROOT / "tests"))
    from servers import Nats, Postgres  # type: ignore[import-not-found]

    database, bus = Postgres(disk=True), Nats(disk=True)
    try:
        database.start()
        bus.start()
        found = asyncio.run(_tasks(database)) | _wakes(database) | _commits(database)
        os.environ["FAIRLEAD_BUS_URL"] = bus.url
        found |= asyncio.run(_nats(database, bus))
    finally:
        database.remove()
        bus.remove()
    RESULT.write_text(json.dumps({name: round(value, 1) for name, value in found.items()}, indent=2) + "\n")
    print(RESULT.read_text(), end="")


def _app(url: str) -> Any:
    from fairlead import App

    app = App("scale", store=url)

    @app.action
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @app.action
    async def speak(pieces: int) -> AsyncIterator[dict[str, int]]:
        """Say many things."""
        for number in range(pieces):
            yield {"said": number}

    return app


async def _tasks(server: Any) -> dict[str, float]:
    """What a task costs the database: submitted one by one, run by one worker, and forgotten."""
    import psycopg

    from fairlead.tasks import ledger

    app = _app(server.url())
    with psycopg.connect(server.url(), autocommit=True) as look:
        async with app:
            await _warm(app)
            with psycopg.connect(server.url(), autocommit=True) as ear:
                ear.execute("LISTEN fairlead")
                begun = _facts(look, server)
                ids = [(await app.tasks.submit("add", {"a": 1, "b": 2})).id for _ in range(TASKS)]
                submitted = _facts(look, server)
                async with app.tasks.worker(concurrency=32):
                    for each in ids:
                        await app.tasks.wait(each)
                ran = _facts(look, server)
                told = list(ear.notifies(timeout=1))
            connection = _pss(server) / max(1, len(_children(server.process.pid)))
            since = monotonic()
            while await app.store.write(lambda tx: ledger.prune(tx, 1e12, 1e12)):
                pass
            pruning = monotonic() - since
            pruned = _facts(look, server)
    return {
        "submit_wal_bytes": (submitted["wal"] - begun["wal"]) / TASKS,
        "run_wal_bytes": (ran["wal"] - submitted["wal"]) / TASKS,
        "prune_wal_bytes": (pruned["wal"] - ran["wal"]) / TASKS,
        "stored_bytes": (ran["size"] - begun["size"]) / TASKS,
        "submit_database_us": (submitted["cpu"] - begun["cpu"]) / TASKS * 1e6,
        "run_database_us": (ran["cpu"] - submitted["cpu"]) / TASKS * 1e6,
        "prune_database_us": (pruned["cpu"] - ran["cpu"]) / TASKS * 1e6,
        "pruned_a_second": TASKS / pruning,
        "run_commits": (ran["commits"] - submitted["commits"]) / TASKS,
        "wakes": len(told) / TASKS,
        "connection_bytes": connection,
    }


async def _nats(server: Any, bus: Any) -> dict[str, float]:
    """What a task costs the bus: a permit, and deltas on the event stream."""
    import nats as library

    server.run("CREATE DATABASE bus")
    app = _app(server.url("bus"))
    async with app:
        await _warm(app)
        client = await library.connect(bus.url)
        js = client.jetstream()
        before = (await js.stream_info("FAIRLEAD_EVENTS")).state
        async with app.tasks.worker():
            task = await app.tasks.submit("speak", {"pieces": PIECES})
            await app.tasks.wait(task.id)
        after = (await js.stream_info("FAIRLEAD_EVENTS")).state
        since = monotonic()
        for _ in range(TASKS // 100):
            await asyncio.gather(*(js.publish("fairlead.work.scale", b"") for _ in range(100)))
        permits = TASKS / (monotonic() - since)
        await client.close()
    return {
        "delta_stream_bytes": (after.bytes - before.bytes) / PIECES,
        "permits_a_second": permits,
    }


def _wakes(server: Any) -> dict[str, float]:
    """The database's processor time to bring one NOTIFY to one that listens."""
    import psycopg

    with psycopg.connect(server.url(), autocommit=True) as sender:
        alone = _notified(server, sender)
        ears = [psycopg.connect(server.url(), autocommit=True) for _ in range(LISTENERS)]
        for ear in ears:
            ear.execute("LISTEN fairlead")
        together = _notified(server, sender)
        for ear in ears:
            ear.close()
    return {"wake_us": max(0.0, (together - alone) / LISTENERS * 1e6)}


def _notified(server: Any, sender: Any, count: int = 1500) -> float:
    before = _cpu(server.process.pid)
    for number in range(count):
        sender.execute("SELECT pg_notify('fairlead', %s)", (f"{number:090}",))
    return (_cpu(server.process.pid) - before) / count


def _commits(server: Any) -> dict[str, float]:
    """Commits a second of 16 connections, with a NOTIFY in each, which they take turns for, and without."""
    import psycopg

    server.run("CREATE TABLE noted (number INTEGER)")
    found = {}
    for name, telling in (("plain_commits_a_second", False), ("told_commits_a_second", True)):

        def commit(_: int, telling: bool = telling) -> None:
            with psycopg.connect(server.url()) as connection:
                for number in range(100):
                    connection.execute("INSERT INTO noted VALUES (%s)", (number,))
                    if telling:
                        connection.execute("SELECT pg_notify('fairlead', 'scale')")
                    connection.commit()

        since = monotonic()
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(commit, range(16)))
        found[name] = 1600 / (monotonic() - since)
    return found


async def _warm(app: Any) -> None:
    async with app.tasks.worker():
        await app.tasks.wait((await app.tasks.submit("add", {"a": 1, "b": 2})).id)


def _facts(look: Any, server: Any) -> dict[str, float]:
    # Other connections tell their commits about once a second; this one asks what the log and the tables have now.
    wal = look.execute("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn").fetchone()[0]
    sizes = "SELECT pg_total_relation_size('tasks') + pg_total_relation_size('task_events')"
    commits = "SELECT pg_stat_get_db_xact_commit(oid) FROM pg_database WHERE datname = current_database()"
    return {
        "wal": float(wal),
        "size": float(look.execute(sizes).fetchone()[0]),
        "commits": float(look.execute(commits).fetchone()[0]),
        "cpu": _cpu(server.process.pid),
    }


def _children(root: int) -> list[int]:
    return [pid for pid, fields in _processes().items() if int(fields[1]) == root]


def _cpu(root: int) -> float:
    """Seconds of processor time of a server and its processes."""
    ticks = sum(
        int(fields[11]) + int(fields[12])
        for pid, fields in _processes().items()
        if pid == root or int(fields[1]) == root
    )
    return ticks / os.sysconf("SC_CLK_TCK")


def _processes() -> dict[int, list[str]]:
    found = {}
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                found[int(each.name)] = (each / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
    return found


def _pss(server: Any) -> float:
    """Bytes of memory of the server's processes, with shared parts counted once."""
    total = 0
    for pid in _children(server.process.pid):
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:  # it has ended
            continue
        total += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
    return total * 1024.0


if __name__ == "__main__":
    main()
