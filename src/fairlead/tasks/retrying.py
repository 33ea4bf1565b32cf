"""`TaskRetry`: when a failed run of a task is tried again, and how that is kept with the task."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import inf
from typing import Any, Final, NamedTuple

from fairlead._json import dumps
from fairlead.actions import Action
from fairlead.failures import Failure, Kind

#: Failures that say that nothing has been done: every action can be tried again after them.
_HARMLESS: Final = (Kind.rate_limited, Kind.busy)
#: Those after which an action that may be called twice is tried again.
_PASSING: Final = (*_HARMLESS, Kind.unavailable, Kind.upstream, Kind.timeout)


class TaskRetry(NamedTuple):
    """When a failed run is tried again: how often, after what pause (doubled each time), after which kinds."""

    retries: int = 3
    delay: float = 1.0
    max_delay: float = 300.0
    #: None: those that pass by themselves, as far as the action may be called twice.
    kinds: Sequence[Kind | str] | None = None
    #: Why it failed, in the words of those who lost it, where its worker was lost too often.
    lost: str | None = None


_USUAL: Final = TaskRetry()


def spelled(action: Action[..., Any], given: TaskRetry | int | None) -> str:
    """What is kept with a task of it. Raises Failure for kinds and numbers that make no sense."""
    policy = _USUAL if given is None else given if isinstance(given, TaskRetry) else TaskRetry(given)
    try:
        if policy.kinds is not None:
            policy = policy._replace(kinds=tuple(policy.kinds))
        return _spelled(policy, action.side_effects == "read" or action.idempotency == "idempotent")
    except TypeError:  # what cannot be walked, or looked up
        words = "retry: give a TaskRetry or a whole number; its kinds are a list of words."
        raise Failure(Kind.invalid_input, words, field="retry") from None


@lru_cache
def _spelled(policy: TaskRetry, twice: bool) -> str:
    kinds = policy.kinds
    if kinds is None:
        kinds = _PASSING if twice else _HARMLESS
    try:
        names = [Kind(kind).value for kind in kinds]
    except ValueError:
        raise Failure(
            Kind.invalid_input, f"retry: unknown kind of failure. Known: {', '.join(Kind)}.", field="retry"
        ) from None
    numbers: dict[str, Any] = {
        "retries": policy.retries,
        "delay": policy.delay,
        "max_delay": policy.max_delay,
    }
    for name, number in numbers.items():
        if not isinstance(number, int if name == "retries" else int | float) or not 0 <= number < inf:
            what = "a whole number" if name == "retries" else "seconds"
            raise Failure(Kind.invalid_input, f"retry: {name} must be {what}, 0 or more.", field="retry")
    told = {**numbers, "kinds": names}
    return dumps(told if policy.lost is None else {**told, "lost": policy.lost})
