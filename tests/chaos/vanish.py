"""A machine that vanishes, without a word to the database: what it held there is free again soon.

python tests/chaos/vanish.py
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

import psycopg

import warm_python
from chaos.fleet_in_chaos import build
from chaos.members import Fleet
from chaos.network import be_apart
from servers import until
from warm_child import Copies

_OF = (
    "SELECT state, wait_event, now() - state_change, query FROM pg_stat_activity WHERE client_addr = %s::inet"
)


def main() -> int:
    be_apart()
    copies = Copies(warm_python.main)
    folder = Path(tempfile.mkdtemp(prefix="fairlead-chaos-"))
    fleet = Fleet(copies, folder, with_nats=False)
    worker = fleet.members["worker0"]
    try:
        build(fleet.url, folder, "test").store.close()
        worker.begin()
        with psycopg.connect(fleet.postgres.url("chaos"), autocommit=True) as connection:

            def connections() -> list[tuple[object, ...]]:
                return connection.execute(_OF, [fleet.network.places["worker0"].address]).fetchall()

            # One that listens, and some that work.
            until(
                lambda: "Worker" in worker.log.read_text() and len(connections()) >= 3,
                "the worker is not there",
            )
            print(f"{len(connections())} connections")
            fleet.network.cut("worker0", "database")
            worker.kill()
            # The fleet's lines are given up after a few seconds; what the server was not told of, after two hours.
            try:
                until(lambda: not connections(), "the database still has connections", 45)
            finally:
                print(*connections(), sep="\n")
    finally:
        fleet.remove()
        copies.close()
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
