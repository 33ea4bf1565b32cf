"""Counts and durations of calls, in the text that Prometheus reads.

There is a series for each action that is shown and each code it ended with, and no other: no caller can add one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping

#: Upper bounds in seconds.
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
#: A developer's own codes are few; whatever makes more of them is counted together.
_MOST_CODES = 100
CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


class Series:
    """The calls of one action."""

    __slots__ = ("buckets", "failed", "in_flight", "ok", "seconds")

    def __init__(self) -> None:
        self.in_flight = 0
        self.ok = 0
        #: How often each code ended a call.
        self.failed: dict[str, int] = {}
        self.seconds = 0.0
        self.buckets = [0] * (len(BUCKETS) + 1)

    def ended(self, code: str | None, seconds: float) -> None:
        """Count a call that was in flight; without a code it went well."""
        self.in_flight -= 1
        self.seconds += seconds
        self.buckets[bisect_left(BUCKETS, seconds)] += 1
        if code is None:
            self.ok += 1
            return
        if code not in self.failed and len(self.failed) >= _MOST_CODES:
            code = "OTHER"
        self.failed[code] = self.failed.get(code, 0) + 1


class Metrics:
    """What `/metrics` tells."""

    def __init__(self) -> None:
        self._series: dict[str, Series] = {}

    def of(self, action: str) -> Series:
        """The series of an action."""
        found = self._series.get(action)
        if found is None:
            found = self._series[action] = Series()
        return found

    @property
    def in_flight(self) -> int:
        """Calls that are running now."""
        return sum(series.in_flight for series in self._series.values())

    def text(self, hidden: Collection[str] = ()) -> bytes:
        """All of it, without the actions of these names."""
        told = {name: series for name, series in self._series.items() if name not in hidden}
        return "".join(f"{line}\n" for line in _lines(told)).encode()


def _lines(told: Mapping[str, Series]) -> Iterator[str]:
    yield "# HELP fairlead_invocations_total Calls of actions that have ended, by the code they ended with."
    yield "# TYPE fairlead_invocations_total counter"
    for name, series in told.items():
        for code, count in {"OK": series.ok, **series.failed}.items():
            yield f'fairlead_invocations_total{{action="{name}",code="{_quoted(code)}"}} {count}'
    yield "# HELP fairlead_invocations_in_flight Calls of actions that are running."
    yield "# TYPE fairlead_invocations_in_flight gauge"
    for name, series in told.items():
        yield f'fairlead_invocations_in_flight{{action="{name}"}} {series.in_flight}'
    yield "# HELP fairlead_invocation_duration_seconds How long calls of actions took."
    yield "# TYPE fairlead_invocation_duration_seconds histogram"
    for name, series in told.items():
        yield from _histogram(name, series)


def _histogram(name: str, series: Series) -> Iterator[str]:
    metric = "fairlead_invocation_duration_seconds"
    total = 0
    for bound, count in zip((*BUCKETS, "+Inf"), series.buckets, strict=True):
        total += count
        yield f'{metric}_bucket{{action="{name}",le="{bound}"}} {total}'
    yield f'{metric}_sum{{action="{name}"}} {series.seconds:.6f}'
    yield f'{metric}_count{{action="{name}"}} {total}'


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
