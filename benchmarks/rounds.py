"""Contenders as processes, timed in turns: each round gives each of them one batch, so all share the noise.

It knows nothing of what is measured.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from environments import BENCHMARKS, CORE, Environment


@dataclass(frozen=True)
class Pace:
    """How long a measurement takes; `quick` is for trying things out."""

    rounds: int = 41
    batch_seconds: float = 0.02
    processes: int = 21
    streams: int = 7
    bursts: int = 5
    quick: bool = False


QUICK = Pace(rounds=7, batch_seconds=0.01, processes=7, streams=3, bursts=3, quick=True)


@dataclass(frozen=True)
class Contender:
    """Who takes part: a name to show, and the module and function that `worker.py` loads."""

    name: str
    module: str
    maker: str = "make_call"
    environment: Environment = CORE
    package: str = ""

    @property
    def is_call(self) -> bool:
        """Whether the maker takes the shared function, so that what it checks can be found out."""
        return self.maker.endswith("call")


@dataclass
class Timing:
    """Seconds for one unit, round by round."""

    rounds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    @property
    def spread(self) -> float:
        """Half the distance between the quartiles, as a part of the median."""
        low, _, high = statistics.quantiles(self.rounds, n=4)
        return (high - low) / 2 / self.median

    def cost(self, base: "Timing") -> float:
        """How many times as long as `base` it takes. Compared round by round, as noise comes and goes."""
        return statistics.median(own / other for own, other in zip(self.rounds, base.rounds, strict=True))


class WorkerError(Exception):
    """A contender could not be started or stopped answering."""


class Worker:
    """The running process of a contender."""

    def __init__(self, contender: Contender) -> None:
        self.contender = contender
        command = [str(contender.environment.python), "worker.py", contender.module, contender.maker]
        # A file and not a pipe: a library that logs much would fill a pipe and wait for ever.
        self._words = tempfile.TemporaryFile("w+")  # noqa: SIM115  # it lives as long as the process
        self._process = subprocess.Popen(
            command,
            cwd=BENCHMARKS,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
            text=True,
        )
        self._answer()

    def time(self, count: int) -> float:
        return float(self._ask({"do": "time", "count": count}))

    def memory(self) -> int:
        return int(self._ask({"do": "memory"}))

    def facts(self) -> dict[str, bool]:
        found: dict[str, bool] = self._ask({"do": "facts"})
        return found

    def batch_size(self, seconds: float) -> int:
        """How many units fill `seconds`, found while warming up."""
        count = 16
        while (taken := self.time(count)) < seconds / 4:
            count *= 2
        return max(1, round(count * seconds / taken))

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._words.close()

    def _ask(self, order: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if line:
            return json.loads(line)
        self._process.wait()
        self._words.seek(0)
        words = self._words.read().strip().splitlines()
        self.close()
        raise WorkerError(words[-1] if words else "the process ended")


@dataclass
class Failures:
    """What could not be measured, and why."""

    reasons: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, reason: object) -> None:
        self.reasons[name] = str(reason)
        print(f"  not measured: {name}: {reason}", file=sys.stderr)


@contextmanager
def workers(contenders: Sequence[Contender], failures: Failures) -> Iterator[list[Worker]]:
    """The contenders that can be started, each in its process."""
    started: list[Worker] = []
    try:
        for contender in contenders:
            try:
                contender.environment.ensure()
                started.append(Worker(contender))
            except Exception as reason:
                failures.add(contender.name, reason)
        yield started
    finally:
        for worker in started:
            worker.close()


def contest(running: Sequence[Worker], pace: Pace) -> dict[str, Timing]:
    """Time all of them, in turns. Seconds per unit, by the contenders' names."""
    sizes = [worker.batch_size(pace.batch_seconds) for worker in running]
    timings = [Timing() for _ in running]
    for _ in range(pace.rounds):
        for worker, size, timing in zip(running, sizes, timings, strict=True):
            timing.rounds.append(worker.time(size) / size)
    return {worker.contender.name: timing for worker, timing in zip(running, timings, strict=True)}
