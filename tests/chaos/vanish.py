"""A machine that vanishes, without a word to the database: what it held there is free again soon.

unshare --net --mount python tests/chaos/vanish.py
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

import psycopg

from chaos.fleet_in_chaos import build
from chaos.members import Fleet
from servers import until

_OF = "SELECT count(*) FROM pg_stat_activity WHERE client_addr = %s::inet"


def main() -> int:
    folder = Path(tempfile.mkdtemp(prefix="fairlead-chaos-"))
    fleet = Fleet(folder, with_nats=False)
    worker = fleet.members["worker0"]
    try:
        build(fleet.url, folder, "test").store.close()
        worker.begin()
        with psycopg.connect(fleet.postgres.url("chaos"), autocommit=True) as connection:

            def connections() -> int:
                row = connection.execute(_OF, [fleet.network.places["worker0"].address]).fetchone()
                assert row is not None
                return int(row[0])

            # One that listens, and some that work.
            until(
                lambda: "Worker" in worker.log.read_text() and connections() >= 3, "the worker is not there"
            )
            print(f"{connections()} connections")
            fleet.network.cut("worker0", "database")
            worker.kill()
            # A silent line is given up after 30 seconds: 15 of silence, and three questions, 5 seconds each.
            until(lambda: connections() == 0, f"the database still has {connections()} connections", 45)
    finally:
        fleet.remove()
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
