"""Functions that a server offers besides the app's actions, as prompts and resources.

Each becomes an action of its own that is in no catalogue: so its arguments are checked, its context is given, its
failures are told and its time is limited as those of any other, by the runtime.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

from fairlead.actions import Action, DefinitionError
from fairlead.failures import Failure, Kind
from fairlead.failures import action as wire
from fairlead.surfaces.mcp.calling import SURFACE
from fairlead.surfaces.mcp.exchange import Exchange, Metadata
from fairlead.surfaces.mcp.rpc import INTERNAL_ERROR, INVALID_PARAMS, RpcError

_INVALID = frozenset({Kind.invalid_input, Kind.malformed, Kind.too_large})


def as_action(
    function: Callable[..., Any], role: str, name: str, pack: Callable[[Any], Any], options: dict[str, Any]
) -> Action[..., Any]:
    """An action that gives what `pack` makes of what the function gives."""
    if not callable(function):
        raise DefinitionError(f"A {role} is a function, not {function!r}.")
    safe = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    return Action(_packing(function, pack), name=f"{role}_{safe}", **options)


async def run(exchange: Exchange, action: Action[..., Any], arguments: dict[str, Any]) -> Any:
    """What the function gives for these arguments. Raises RpcError, or Unanswered where the client must be asked."""
    await exchange.resume()
    user, auth, *_ = exchange.caller
    result = await exchange.server.app.invoke(
        action, arguments, surface=SURFACE, user=user, auth=auth, metadata=Metadata(exchange)
    )
    if result.failure is None:
        return result.data
    if exchange.wanted:
        raise Unanswered
    if exchange.missing is not None and exchange.peer.revision.stateless:
        raise exchange.incapable()
    raise failed(result.failure)


class Unanswered(Exception):
    """The client must be asked before the request can be answered."""


def failed(failure: Failure) -> RpcError:
    """A failure as a JSON-RPC error, with our own error in its data."""
    code = INVALID_PARAMS if failure.kind in _INVALID else INTERNAL_ERROR
    return RpcError(code, failure.message, {"error": wire.render(failure)})


def _packing(function: Callable[..., Any], pack: Callable[[Any], Any]) -> Callable[..., Any]:
    wrapper: Callable[..., Any]
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            return pack(await function(*args, **kwargs))

    else:

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return pack(function(*args, **kwargs))

    hints = {name: hint for name, hint in function.__annotations__.items() if name != "return"}
    wrapper.__annotations__ = hints
    return wrapper
