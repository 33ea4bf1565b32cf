"""Calls to a runtime in this process, as if it were elsewhere: the same words, and nothing on a wire."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

from fairlead.actions import Action, Retry
from fairlead.failures import Failure
from fairlead.runtime import App, Event, Runtime
from fairlead.surfaces.client.reply import Reply
from fairlead.surfaces.client.transport import Call
from fairlead.surfaces.exposed import find
from fairlead.surfaces.refusal import refusal


class InProcess:
    """A transport that is a function call."""

    #: The runtime follows the action's own retry policy; a second one on top would multiply it.
    retry = Retry()

    def __init__(self, runtime: Runtime, surface: str) -> None:
        self.runtime = runtime
        self._surface = surface

    async def invoke(self, call: Call) -> Reply[Any]:
        try:
            action = self._find(call)
        except Failure as failure:
            return Reply(self._refusal(failure, call), failure)
        result = await self.runtime.invoke(action, call.input, **self._options(call))
        return Reply(result.to_dict(), result.failure)

    async def stream(self, call: Call) -> AsyncGenerator[Event, None]:
        try:
            action = self._find(call)
        except Failure as failure:
            yield {"type": "result", "envelope": self._refusal(failure, call)}
            return
        events = self.runtime.stream(action, call.input, **self._options(call))
        async with aclosing(events):
            async for event in events:
                yield event

    async def aclose(self) -> None:
        """The runtime is somebody else's."""

    def _find(self, call: Call) -> Action[..., Any]:
        """Who has the action itself may call it; by name there is what the surface shows."""
        if isinstance(call.action, Action):
            return call.action
        return find(cast("App", self.runtime), call.action, self._surface)

    def _options(self, call: Call) -> dict[str, Any]:
        return {
            "surface": self._surface,
            "confirm": call.confirm,
            "metadata": call.metadata,
            "idempotency_key": call.idempotency_key,
            "timeout": call.timeout,
            "deadline": call.deadline,
            "user": call.user,
            "auth": call.auth,
        }

    def _refusal(self, failure: Failure, call: Call) -> dict[str, Any]:
        return refusal(failure, self._surface, cast("App", self.runtime), call.name)
