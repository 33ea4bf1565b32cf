"""What a part of a graph may spend: tokens, money, calls and time. What is used up ends the run.

A block's time is the time in which at least one of its processes is at work: a pipeline that waits for its next
message spends none. Pure processes have no task that could say when it works; of them it is seen now and then whether
messages move, which costs the messages nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from fairlead.failures.runtime import BudgetExceeded

COUNTED: Final = ("tokens", "cost", "calls")
#: Seconds between two looks at whether messages move.
_BEAT: Final = 0.02
_UNITS: Final = {"tokens": "tokens", "cost": "US dollars", "calls": "calls", "time": "seconds"}


class Budget:
    """What the processes of a block may spend together; what they spend counts for the block around it too."""

    def __init__(
        self,
        limits: Mapping[str, Any],
        outer: Budget | None = None,
        name: str = "main",
        *,
        fail: Callable[[BaseException], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits = limits
        self.outer = outer
        self.name = name
        self.spent: dict[str, float] = dict.fromkeys(COUNTED, 0)
        self._fail = fail
        self._clock = clock
        self._worked = 0.0
        self._since: float | None = None
        self._workers = 0
        self._alarm: asyncio.TimerHandle | None = None
        self._looking: asyncio.TimerHandle | None = None

    def ask(self, calls: int = 1) -> None:
        """Before calls are made: note them. Raises BudgetExceeded when there is nothing left to make them with."""
        for each in self._all():
            each._ask(calls)
        for each in self._all():
            each.spent["calls"] += calls

    def _ask(self, calls: int) -> None:
        if self.spent["calls"] + calls > self.limits.get("calls", float("inf")):
            raise self._exceeded("calls", self.spent["calls"])
        for what in ("tokens", "cost"):
            if what in self.limits and self.spent[what] >= self.limits[what]:
                raise self._exceeded(what, self.spent[what])
        self._ask_time()

    def _ask_time(self) -> None:
        limit = self.limits.get("time")
        if limit is not None and self.time >= limit:
            raise self._exceeded("time", self.time)

    def spend(self, tokens: float = 0, cost: float = 0.0) -> None:
        """Note what was spent. Raises BudgetExceeded when it is more than there was."""
        for each in self._all():
            each.spent["tokens"] += tokens
            each.spent["cost"] += cost
        for each in self._all():
            for what in ("tokens", "cost"):
                if each.spent[what] > each.limits.get(what, float("inf")):
                    raise each._exceeded(what, each.spent[what])

    @contextmanager
    def work(self) -> Iterator[None]:
        """Time that counts. When it is used up meanwhile, the run ends. Raises BudgetExceeded when it already is."""
        self.begin()
        try:
            yield
        finally:
            self.end()

    def begin(self) -> None:
        """Work begins. Raises BudgetExceeded when no time is left for it."""
        for each in self._all():
            each._ask_time()
        for each in self._all():
            each._begin()

    def end(self) -> None:
        """Work that was begun ends."""
        for each in self._all():
            each._end()

    def _begin(self) -> None:
        self._workers += 1
        if self._workers > 1:
            return
        self._since = self._clock()
        limit = self.limits.get("time")
        if limit is not None:
            loop = asyncio.get_running_loop()
            self._alarm = loop.call_later(max(0.0, limit - self._worked), self._ring)

    def _end(self) -> None:
        self._workers -= 1
        if self._workers:
            return
        self._worked, self._since = self.time, None
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _ring(self) -> None:
        self._exceeded("time", self.time)

    def watch(self, moved: Callable[[], int]) -> None:
        """Count time in which messages move, too, by a count of them; until `rest`."""
        if "time" in self.limits:
            self._look_again(moved, moved(), self._clock(), before=False)

    def rest(self) -> None:
        """Nothing moves any more."""
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    def _look_again(self, moved: Callable[[], int], seen: int, at: float, *, before: bool) -> None:
        loop = asyncio.get_running_loop()
        self._looking = loop.call_later(_BEAT, self._look, moved, seen, at, before)

    def _look(self, moved: Callable[[], int], seen: int, at: float, before: bool) -> None:
        now, count = self._clock(), moved()
        if count != seen and self._since is None:
            # After a silence nobody knows when it ended.
            self._worked += now - at if before else min(now - at, _BEAT)
            if self._worked >= self.limits["time"]:
                self._ring()
                return
        self._look_again(moved, count, now, before=count != seen)

    def _exceeded(self, what: str, spent: float) -> BudgetExceeded:
        limit = self.limits[what]
        details = {"source": self.name, "budget": what, "limit": limit, "spent": round(spent, 6)}
        message = f"The budget of {limit:g} {_UNITS[what]} is used up."
        failure = BudgetExceeded(message, details=details)
        if self._fail is not None:
            # Also where a tool's failure would only be told to a model.
            self._fail(failure)
        return failure

    def _all(self) -> Iterator[Budget]:
        each: Budget | None = self
        while each is not None:
            yield each
            each = each.outer

    @property
    def time(self) -> float:
        """Seconds of work so far."""
        return self._worked + (0.0 if self._since is None else self._clock() - self._since)

    @property
    def tokens_left(self) -> int | None:
        """Tokens that are left here and around; None where they are not limited."""
        left = [
            each.limits["tokens"] - each.spent["tokens"] for each in self._all() if "tokens" in each.limits
        ]
        return max(1, int(min(left))) if left else None

    def account(self) -> dict[str, Any]:
        """What was spent, and of how much."""
        spent = {**self.spent, "cost": round(self.spent["cost"], 9), "time": round(self.time, 3)}
        return {"name": self.name, "limits": dict(self.limits), "spent": spent}
