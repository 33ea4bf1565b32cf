"""The store: tables of your own beside those of the tasks, a wake for those who wait, and a backup."""

import asyncio
import tempfile
from pathlib import Path

from fairlead.store import Statement, Tx, open_store
from fairlead.store.upkeep import backup, status

MAKE = Statement.of("CREATE TABLE IF NOT EXISTS notes (id TEXT PRIMARY KEY, words TEXT NOT NULL)")
ADD = Statement.of("INSERT INTO notes (id, words) VALUES (:id, :words) ON CONFLICT (id) DO NOTHING")
ALL = Statement.of("SELECT id, words FROM notes ORDER BY id")


def note(tx: Tx) -> int:
    """One transaction. It may be run again, so it touches nothing but the database."""
    added = tx.run(ADD, id="n1", words="Buy rope.")
    tx.tell("notes")
    return added


async def main(folder: str) -> None:
    with open_store("notebook", data=folder) as store:
        await store.write(lambda tx: tx.run(MAKE))
        with store.listening("notes") as bell:
            assert await store.write(note) == 1
            assert await bell.rung(timeout=5)
        assert await store.read(lambda tx: tx.all(ALL)) == [("n1", "Buy rope.")]

        file = Path(folder) / "monday.db"
        await asyncio.to_thread(backup, store, file)
        print(status(store).kind, file.name)


with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(folder))
