"""Assertions about results that say what was there instead."""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, Callable
from typing import Any, NoReturn

from fairlead._json import dumps
from fairlead.failures import Failure
from fairlead.runtime import Result

Wanted = str | re.Pattern[str] | Callable[[dict[str, Any]], bool]


def expect_ok(result: Result) -> Any:
    """The data of a successful result; fails with the failure otherwise."""
    if result.failure is None:
        return result.data
    return _fail(result, f"expected success, got {result.failure.code}: {result.failure.message}")


def expect_error(result: Result, code: str | None = None) -> Failure:
    """The failure of a failed result, with this code if one is given."""
    if result.failure is None:
        _fail(result, f"expected {code or 'a failure'}, but the call succeeded")
    if code is not None and result.failure.code != code:
        _fail(result, f"expected {code}, got {result.failure.code}: {result.failure.message}")
    return result.failure


def expect_log(result: Result, wanted: Wanted) -> dict[str, Any]:
    """The first log entry whose message contains the text, matches the pattern, or satisfies the function."""
    for entry in result.logs:
        if _matches(entry, wanted):
            return entry
    return _fail(result, f"no log entry matches {wanted!r}")


async def collect_stream(stream: AsyncIterable[Any]) -> list[Any]:
    """Every event of a stream, the result last."""
    return [event async for event in stream]


def _matches(entry: dict[str, Any], wanted: Wanted) -> bool:
    if isinstance(wanted, str):
        return wanted in entry["message"]
    if isinstance(wanted, re.Pattern):
        return wanted.search(entry["message"]) is not None
    return wanted(entry)


def _fail(result: Result, reason: str) -> NoReturn:
    raise AssertionError(f"{reason}\n{dumps(result.to_dict(), indent=True)}")
