"""The parts of a core schema, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def nodes(core: Any) -> Iterator[dict[str, Any]]:
    """Every mapping in a core schema, in no order: shapes, and what they are made of."""
    waiting = [core]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list | tuple):
            waiting += each
        elif isinstance(each, dict):
            yield each
            waiting += each.values()
