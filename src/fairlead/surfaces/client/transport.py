"""What carries a client's calls: one call as a value, and what a transport does with it.

Retries, types and sugar are the client's; a transport sends one call once and says how that ended.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any, NamedTuple, Protocol, TypedDict

from fairlead.actions import Action, Retry
from fairlead.failures.action import TransportError
from fairlead.runtime import Event
from fairlead.runtime.runtime import NOTHING
from fairlead.surfaces.client.reply import Reply

__all__ = ["NOTHING", "Call", "InvokeOptions", "Transport", "Unreachable"]


class InvokeOptions(TypedDict, total=False):
    """What can be said about a call besides its input. Times are in seconds."""

    confirm: bool | str | None
    metadata: Mapping[str, Any] | None
    idempotency_key: str | None
    #: For one attempt.
    timeout: float | None
    #: For the whole call, with its retries and the pauses between them.
    deadline: float | None
    retry: bool | int | Mapping[str, Any] | Retry | None
    #: Who is calling: for calls in process only.
    user: Any
    auth: Any


class Call(NamedTuple):
    """One call. `input` is NOTHING where none was given: None is JSON's null, an input like any other."""

    action: str | Action[..., Any]
    input: Any = NOTHING
    confirm: bool | str | None = None
    metadata: Mapping[str, Any] | None = None
    idempotency_key: str | None = None
    timeout: float | None = None
    #: Seconds that are left of the whole call's.
    deadline: float | None = None
    user: Any = None
    auth: Any = None

    @property
    def name(self) -> str:
        return self.action if isinstance(self.action, str) else self.action.name

    @property
    def address(self) -> str:
        """The name by which another process finds the action: that of its version, where the call has the action."""
        return self.action if isinstance(self.action, str) else f"{self.action.name}@{self.action.version}"


class Transport(Protocol):
    """How calls get to their actions and replies come back."""

    #: What the client does about failures unless it is told: a remote peer's may pass, our own runtime has tried.
    retry: Retry

    async def invoke(self, call: Call) -> Reply[Any]:
        """Send the call once. Raises Failure when there is no reply."""
        ...

    def stream(self, call: Call) -> AsyncGenerator[Event, None]:
        """Send the call once and give its events, the result last. Closing it cancels the call."""
        ...

    async def aclose(self) -> None:
        """Let go of what is held open."""
        ...


class Unreachable(TransportError):
    """No connection was made: the call was not sent, and sending it again repeats nothing."""
