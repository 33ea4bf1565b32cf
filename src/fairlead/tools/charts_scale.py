"""Scales: from values to places, with round steps, and numbers as people write them. It draws nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Final

_ROUND: Final = (1.0, 2.0, 2.5, 5.0, 10.0)
#: From which size on a unit is used, what it stands for, and how it is written.
_UNITS: Final = ((1e12, 1e12, "T"), (1e9, 1e9, "B"), (1e6, 1e6, "M"), (1e4, 1e3, "k"))


@dataclass(frozen=True, slots=True)
class Scale:
    """Values from `low` to `high`, marked every `step`, on places from `start` to `end`."""

    low: float
    high: float
    step: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    @property
    def ticks(self) -> list[float]:
        count = round((self.high - self.low) / self.step)
        return [self.low + index * self.step for index in range(count + 1)]


def scale(values: Iterable[float], start: float, end: float, *, zero: bool = False, marks: int = 5) -> Scale:
    """A scale around the values with about `marks` round steps; `zero` includes it."""
    given = list(values)
    low, high = min(given), max(given)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    # Values that are all but the same get room around them, or there would be nothing to measure.
    if high - low <= max(abs(low), abs(high)) * 1e-9 or high - low < 1e-290:
        room = max(abs(high) * 0.1, 1e-9) if high else 1.0
        low, high = (low if zero and low == 0 else low - room), high + room
    step = _step((high - low) / marks)
    return Scale(floor(low / step) * step, ceil(high / step) * step, step, start, end)


def _step(rough: float) -> float:
    power = 10.0 ** floor(log10(rough))
    return next(each * power for each in _ROUND if each * power >= rough * 0.999)


def number(value: float, step: float = 0.0) -> str:
    """A number with as many digits as it needs beside others that are `step` apart."""
    if value == 0:
        return "0"
    if abs(value) >= 1e15 or abs(value) < 1e-6:
        return f"{value:.3g}"
    if step:
        for least, size, unit in _UNITS:
            if abs(value) >= least and step >= size / 1000:
                return _digits(value / size, step / size) + unit
        return _digits(value, step)
    return _trimmed(f"{value:,.2f}" if abs(value) >= 100 else f"{value:,.4g}")


def _digits(value: float, step: float) -> str:
    places = min(9, max(0, -floor(log10(step) + 1e-9) + (1 if f"{step:.2e}".startswith("2.5") else 0)))
    return _trimmed(f"{value:,.{places}f}")


def _trimmed(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text
