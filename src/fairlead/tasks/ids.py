"""The ids of tasks: UUIDs (version 7) that begin with their time, so that they grow as tasks come."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from fairlead.failures import Failure, Kind
from fairlead.runtime.clock import random_id

_FIRST: Final = "00000000-0000-0000-0000-000000000000"
_LAST: Final = _FIRST.replace("0", "f")
_ID: Final = re.compile(_FIRST.replace("0", "[0-9a-f]"))


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


def ids_from(beginning: str) -> tuple[str, str] | None:
    """The first and the last id that begin with this; None where no id does.

    They are whole, and differ in digits alone: databases order other characters by the customs of a language.
    """
    first, last = (beginning + end[len(beginning) :] for end in (_FIRST, _LAST))
    return (first, last) if _ID.fullmatch(first) else None


@lru_cache(maxsize=2)
def _begin(millisecond: int) -> str:
    digits = f"{millisecond:012x}"
    return f"{digits[:8]}-{digits[8:]}-7"
