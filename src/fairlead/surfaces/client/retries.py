"""When a client sends a call again: where the failure says that may help, and it cannot act twice."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any, Final

from fairlead.actions import Retry
from fairlead.actions import policy as checks
from fairlead.failures import Failure
from fairlead.failures import action as wire

OWNER: Final = "Client"
#: Two more attempts, the pauses doubling up to ten seconds, each somewhere below that.
USUAL: Final = Retry(retries=2, delay=0.2, backoff="exponential", max_delay=10.0, jitter=True)


class Attempts:
    """The attempts of one call, within its deadline."""

    def __init__(self, policy: Retry, deadline: float | None) -> None:
        self._policy = policy
        self._clock = asyncio.get_running_loop().time
        self._end = None if deadline is None else self._clock() + deadline
        self._made = 0

    @property
    def left(self) -> float | None:
        """Seconds until the deadline; never none at all, which would be no deadline."""
        return None if self._end is None else max(self._end - self._clock(), 0.001)

    async def again(self, failure: Failure | None) -> bool:
        """Whether to send the call again; it is time to when this returns."""
        self._made += 1
        if failure is None or self._made > self._policy.retries or not wire.retryable(failure):
            return False
        asked = failure.retry_after or 0.0
        # Whoever asks for a longer wait than the longest pause is not worth holding the caller for.
        if not asked <= self._policy.max_delay:
            return False
        pause = max(self._policy.pause(self._made, random.random()), asked)  # noqa: S311  # spreads load
        if self.left is not None and self.left <= pause:
            return False
        await asyncio.sleep(pause)
        return True


def policy_of(given: bool | int | Mapping[str, Any] | Retry | None, default: Retry) -> Retry:
    """`True` and a number keep the default's pauses, a dict changes some of them, a `Retry` says all."""
    if given is None:
        return default
    if given is False or isinstance(given, Retry):
        return checks.retry(OWNER, given)
    usual = default if default.retries else USUAL
    if given is True:
        return usual
    if isinstance(given, Mapping):
        return checks.retry(OWNER, {**usual._asdict(), **given})
    return checks.retry(OWNER, usual._replace(retries=checks.retry(OWNER, given).retries))
