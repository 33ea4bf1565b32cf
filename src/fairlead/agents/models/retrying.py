"""The one owner of retries of requests to models: the providers' own libraries do none.

It is told by a `Fault` whether the same request may succeed; what went wrong is the fault's own matter.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from fairlead.failures import Failure

T = TypeVar("T")


class Fault(Exception):
    """A request that failed: the failure to tell, and whether the same request may succeed later.

    Nobody outside sees it. The failure in it has no cause and no context, because those hold the request.
    """

    def __init__(self, failure: Failure, *, again: bool = False, wait: float | None = None) -> None:
        super().__init__()
        self.failure = failure
        self.again = again
        #: Seconds, as the provider wishes.
        self.wait = wait


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a request is tried, and for how long in all. Between two tries it waits longer each time."""

    #: Tries in all; 1 is none again.
    attempts: int = 4
    #: Seconds of waiting in all. A provider that wishes more is not asked again.
    budget: float = 60.0
    first: float = 0.5
    longest: float = 20.0
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random

    async def run(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """What the first attempt that succeeds gives.

        Raises:
            Failure: that of the last attempt.
        """
        waited = 0.0
        tried = 0
        while True:
            tried += 1
            try:
                return await attempt()
            except Fault as caught:
                fault = caught
            wait = self._wait(tried, fault.wait)
            if not fault.again or tried >= self.attempts or waited + wait > self.budget:
                break
            waited += wait
            await self.pause(wait)
        # Raised where no exception is being handled, so that it carries none.
        if tried > 1:
            fault.failure.details["attempts"] = tried
        raise fault.failure

    def _wait(self, tried: int, wished: float | None) -> float:
        longest = min(self.first * 2.0 ** (tried - 1), self.longest)
        jittered = longest * (0.5 + self.chance() / 2)
        return jittered if wished is None else wished + jittered * 0.1
