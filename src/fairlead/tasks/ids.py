"""The ids of tasks: UUIDs (version 7) that begin with their time, so that they grow as tasks come."""

from __future__ import annotations

from functools import lru_cache

from fairlead.failures import Failure, Kind
from fairlead.runtime.clock import random_id


def task_id(now: float) -> str:
    """A new id."""
    return _begin(int(now * 1000)) + random_id()[15:]


def task_ids(now: float, count: int) -> list[str]:
    """New ids of one moment, in order."""
    begin = _begin(int(now * 1000))
    return sorted([begin + random_id()[15:] for _ in range(count)])


def valid_id(id: str) -> str:
    """An id that was given, in the one spelling.

    Raises:
        Failure: it is no UUID.
    """
    import uuid

    try:
        return str(uuid.UUID(id))
    except (ValueError, AttributeError, TypeError):
        raise Failure(Kind.invalid_input, "A task's id must be a UUID.", field="id") from None


@lru_cache(maxsize=2)
def _begin(millisecond: int) -> str:
    digits = f"{millisecond:012x}"
    return f"{digits[:8]}-{digits[8:]}-7"
