"""Several processes that serve, as uvicorn supervises them; asked twice to stop, they stop at once."""

from __future__ import annotations

import signal
import time

from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

_STOP = (signal.SIGINT, signal.SIGTERM)


class Workers(Multiprocess):
    """uvicorn's supervisor listens to the first signal only, and keeps the address open after it."""

    @property
    def failed(self) -> bool:
        """Whether a worker could not start."""
        return any(process.exitcode == STARTUP_FAILURE for process in self.processes)

    def handle_signals(self) -> None:
        asked = [number for number in self.signal_queue if number in _STOP]
        super().handle_signals()
        # A second request must not be taken for the first: it is left for whoever waits for the workers.
        self.signal_queue += asked[1:]

    def terminate_all(self) -> None:
        for each in self.sockets:
            each.close()
        super().terminate_all()

    def join_all(self) -> None:
        while any(process.process.is_alive() for process in self.processes):
            if any(number in _STOP for number in self.signal_queue):
                for process in self.processes:
                    process.process.kill()
            time.sleep(0.02)
        super().join_all()
