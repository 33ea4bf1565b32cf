"""How often and how long a process tries: the category of a failure says whether trying again can help."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

from fairlead.failures import Failure
from fairlead.failures import runtime as wire
from fairlead.failures.runtime import ProcessError

if TYPE_CHECKING:
    from fairlead.pipelines.cells import Place

#: The first pause before a transient failure is tried again; each one after is twice as long.
BACKOFF: Final = 0.1
#: The longest pause.
_LONGEST: Final = 30.0
#: How often a model is asked again, where nothing else is said: asking changes nothing.
MODEL_RETRIES: Final = 2


async def timed(place: Place, work: Callable[[], Awaitable[Any]]) -> Any:
    """Do the work for one message within the time that it has. Raises Failure."""
    seconds = place.process.settings.get("timeout")
    place.host.counted(place.name)
    place.cell.busy += 1
    with nullcontext() if place.budget is None else place.budget.work():
        try:
            async with asyncio.timeout(seconds or None) as limit:
                return await work()
        except TimeoutError as error:
            if not limit.expired():
                raise
            message = f"{place.name!r} took longer than {seconds:g} seconds."
            details = {"source": place.name, "timeout": seconds}
            raise ProcessError(message, details=details, cause=error) from error
        finally:
            place.cell.busy -= 1


async def retried(
    settings: Mapping[str, Any],
    tell: Callable[..., Awaitable[None]],
    work: Callable[[], Awaitable[Any]],
    retries: int = 0,
) -> Any:
    """Do the work, and again after failures that pass by themselves, as often as settings say. Raises Failure."""
    most, pause, tried = settings.get("retry", retries), settings.get("backoff", BACKOFF), 0
    while True:
        try:
            return await work()
        except Failure as failure:
            if not wire.retryable(failure) or tried >= most:
                if tried:
                    failure.details.setdefault("attempts", tried + 1)
                raise
            wait = min(_LONGEST, max(pause * 2**tried, failure.retry_after or 0.0))
            tried += 1
            await tell("retry", attempt=tried, error=wire.render(failure))
        await asyncio.sleep(wait)


async def attempted(place: Place, work: Callable[[], Awaitable[Any]]) -> Any:
    """Do the work for one message: each try within its time, and again as settings say. Raises Failure."""
    return await retried(place.process.settings, place.tell, lambda: timed(place, work))
