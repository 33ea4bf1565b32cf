"""Failures: one kind of thing went wrong, told to each caller in that caller's own words.

Importing this loads the kinds, `Failure` and the action family; the four others load when first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairlead.failures import action
from fairlead.failures.failure import (
    Entry,
    Failure,
    Issue,
    Origin,
    StoreFailure,
    catalogue,
    families,
    from_exception,
    lookup,
)
from fairlead.failures.kinds import PIVOT, Kind, Words
from fairlead.failures.redaction import Redactor

if TYPE_CHECKING:
    from fairlead.failures import gateway, host, runtime, tool

__all__ = [
    "PIVOT",
    "Entry",
    "Failure",
    "Issue",
    "Kind",
    "Origin",
    "Redactor",
    "StoreFailure",
    "Words",
    "action",
    "catalogue",
    "families",
    "from_exception",
    "gateway",
    "host",
    "lookup",
    "runtime",
    "tool",
]


def __getattr__(name: str) -> Any:
    if name not in ("gateway", "host", "runtime", "tool"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return import_module(f"{__name__}.{name}")
