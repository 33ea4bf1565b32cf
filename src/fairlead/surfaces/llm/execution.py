"""`Execution`: a tool's arguments through the runtime, to the envelope that a model is told.

Nothing escapes but the cancellation of the awaiting task: broken arguments, refusals and failures are all envelopes.
It knows no provider's shapes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from inspect import isawaitable
from typing import Any, Final, TypedDict, TypeVar

from fairlead.actions import Action, DefinitionError
from fairlead.failures import Failure, Kind, from_exception
from fairlead.failures import tool as wire
from fairlead.failures.action import OutputSerializationError
from fairlead.runtime import App, Result, Runtime, Signal
from fairlead.surfaces.llm.budget import fitted
from fairlead.surfaces.llm.tool import Tool
from fairlead.surfaces.refusal import UNWRITABLE
from fairlead.tools.arguments import arguments_of
from fairlead.tools.hiding import for_models
from fairlead.tools.time_limits import seconds_for

T = TypeVar("T")
#: Asks a person about a call that needs it: yes, no, or a confirmation token.
Confirm = Callable[[Action[..., Any], Any], bool | str | Awaitable[bool | str]]
Envelope = dict[str, Any]

_UNCONFIRMED: Final = (
    "This tool runs only after a person has agreed, and nobody could be asked. "
    "Tell the user what you want to do."
)
_DECLINED: Final = "The person who was asked did not agree to this call."
_UNKNOWN: Final = "There is no tool of this name. Use one that you were given."


class CallOptions(TypedDict, total=False):
    """What the host may say of a call; identity is its word, never the model's."""

    user: Any
    auth: Any
    invocation_id: str | None
    env: str | None
    services: Mapping[str, Any] | None
    metadata: Mapping[str, Any] | None
    signal: Signal | None
    timeout: float | None
    confirm: bool | str | None
    idempotency_key: str | None


class Execution:
    """Runs calls for one caller, whom the host program vouches for."""

    def __init__(
        self,
        app: Runtime,
        surface: str,
        identity: CallOptions,
        confirm: Confirm | None,
        most: int,
        seconds: float,
    ) -> None:
        self._app = app
        self._surface = surface
        self._identity = identity
        self._confirm = confirm
        self._most = most
        self._seconds = seconds

    async def envelope(self, tool: Tool, arguments: Any, options: CallOptions) -> Envelope:
        """Run a call; its tool envelope, within the budget."""
        try:
            given = arguments_of(arguments)
            input = tool.decode({} if given.value is None else given.value)
            result = await self.invoked(tool, input, options)
        except RecursionError:
            failure = Failure(Kind.malformed, "The arguments are nested too deeply.", expected="fewer levels")
        except Exception as exc:
            failure = from_exception(exc)
        else:
            if result.failure is None:
                data = for_models(tool.action, result.data)
                told = wire.success(data, tool=tool.name, warnings=[*given.notes, *result.warnings])
                try:
                    return fitted(told, self._most)
                except TypeError:
                    failure = OutputSerializationError(UNWRITABLE)
            else:
                failure = result.failure
        return fitted(wire.render(_for_models(failure), tool.name, self._app.redactor), self._most)

    async def invoked(self, tool: Tool, input: Any, options: CallOptions) -> Result:
        """Run an action, asking a person where it needs that and there is somebody to ask."""
        limit = seconds_for(tool.action, self._seconds)
        settings: dict[str, Any] = {"surface": self._surface, "timeout": limit, **self._identity, **options}
        result = await self._app.invoke(tool.action, input, **settings)
        if self._confirm is None or settings.get("confirm") is not None or not _needs_confirmation(result):
            return result
        answer = self._confirm(tool.action, input)
        agreed = await answer if isawaitable(answer) else answer
        if agreed is True and tool.action.requires_confirmation == "token":
            agreed = _token(result)
        if agreed is not True and not isinstance(agreed, str):
            raise Failure(Kind.refused_by_user, _DECLINED)
        return await self._app.invoke(tool.action, input, **{**settings, "confirm": agreed})

    def wait(self, work: Coroutine[Any, Any, T], instead: str) -> T:
        """Run something to its end, for code without an event loop, on the loop that such code shares.

        Raises:
            DefinitionError: there is a loop here, and it would stand still.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            work.close()
            raise DefinitionError(f"This would block the running event loop: use `await {instead}` there.")
        if not isinstance(self._app, App):
            return asyncio.run(work)
        waiting = asyncio.run_coroutine_threadsafe(work, self._app.background_loop())
        try:
            return waiting.result()
        except KeyboardInterrupt:
            waiting.cancel()
            raise


def unknown() -> Envelope:
    """For a call of a tool that there is not. Near misses are not told: the model has its list to look at."""
    return wire.render(wire.ToolNotFound(_UNKNOWN))


def _needs_confirmation(result: Result) -> bool:
    return result.failure is not None and result.failure.kind is Kind.needs_confirmation


def _token(result: Result) -> str:
    details = {} if result.failure is None else result.failure.details
    return str(details.get("confirmation", {}).get("code", ""))


def _for_models(failure: Failure) -> Failure:
    """A failure as a model may see it: the token by which a person would confirm is not the model's to know."""
    if failure.kind is not Kind.needs_confirmation:
        return failure
    return Failure(Kind.needs_confirmation, _UNCONFIRMED)
