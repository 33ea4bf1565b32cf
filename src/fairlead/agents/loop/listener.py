"""`Listener`: who hears what happens in a run. The loop tells it, and waits for nothing else from it."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from fairlead.agents.models.model import ToolCall, Usage


class Listener(Protocol):
    """Who hears what happens. `heard` tells whether anybody does: then replies are streamed."""

    @property
    def heard(self) -> bool: ...

    def delta(self, text: str) -> Awaitable[None]: ...

    def thought(self, text: str) -> Awaitable[None]: ...

    def called(self, call: ToolCall) -> Awaitable[None]: ...

    def answered(self, call: ToolCall, envelope: str, seconds: float) -> Awaitable[None]: ...

    def used(self, usage: Usage) -> Awaitable[None]: ...
