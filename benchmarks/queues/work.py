"""The work that all queues are given: two numbers to add. And how a start is timed across processes."""

import time

INPUT = {"a": 1, "b": 2}
INPUT_TEXT = '{"a":1,"b":2}'
RESULT_TEXT = "3"
#: How many tasks a worker runs at once, in every queue that can say so.
TOGETHER = 32
#: Seconds of rest before a task is submitted to a worker that should be idle.
REST = 0.03


def now() -> float:
    """The clock that all processes of a machine share."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


class Stopwatch:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._start = time.perf_counter()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._start


def cpu() -> float:
    """Seconds of processor time that this process has used."""
    return time.process_time()
