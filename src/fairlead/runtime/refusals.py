"""The runtime's own refusals, in words that tell the caller what would work."""

from __future__ import annotations

from collections.abc import Awaitable

from fairlead.actions import Catalogue
from fairlead.actions.policy import near_miss
from fairlead.failures import Failure, Kind
from fairlead.failures.wire import INVALID_INPUT
from fairlead.schema import Invalid

_CAUSES = {
    "timeout": "Action timed out after {ms} ms.",
    "deadline": "The call's total deadline ran out; the last step had {ms} ms.",
    "wait": "No slot came free within {ms} ms.",
}


def timed_out(cause: str, limit: float) -> Failure:
    milliseconds = round(limit * 1000)
    kind = Kind.busy if cause == "wait" else Kind.timeout
    return Failure(
        kind, _CAUSES[cause].format(ms=milliseconds), details={"limit": cause, "milliseconds": milliseconds}
    )


def unknown(asked: object, catalogue: Catalogue) -> Failure:
    if not isinstance(asked, str):
        return Failure(Kind.unknown_action, f"A {type(asked).__name__} is not an action's name.")
    shown = [action.name for action in catalogue if action.visibility != "private"]
    return Failure(Kind.unknown_action, f"No action is named {asked[:100]!r}.{near_miss(asked, shown)}")


def unsupported(name: str, surface: str) -> Failure:
    return Failure(Kind.unsupported, f"Action {name!r} is not offered on the surface {surface!r}.")


async def too_often(name: str, limit: int, per: float, wait: float | Awaitable[float]) -> None:
    """Read a meter's answer that is not plainly 0: it may be still to come."""
    if not isinstance(wait, float):
        wait = await wait
    if wait > 0:
        raise Failure(
            Kind.rate_limited,
            f"Action {name!r} allows {limit} calls in {per:g} seconds. Try again in {wait:.1f} seconds.",
            retry_after=wait,
        )


def conflicting(name: str) -> Failure:
    return Failure(
        Kind.conflict,
        f"The idempotency key was used before for another request of {name!r}. "
        "Repeat that request unchanged, or use a new key.",
        field="idempotency_key",
    )


def invalid_input(invalid: Invalid) -> Failure:
    issues = tuple(invalid.issues)
    field = ".".join(str(part) for part in issues[0].path) if issues else None
    return Failure(
        Kind.invalid_input,
        INVALID_INPUT,
        issues=issues,
        field=field or None,
        expected=issues[0].expected if issues else None,
    )
