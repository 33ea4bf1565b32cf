"""Every failure code explained to a person: what it means, whose turn it is, and what to do next.

The catalogue says what happened; the advice follows from the kind, and so covers codes that apps add.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fairlead.failures import PIVOT, Entry, Kind, catalogue, families


class Advice(NamedTuple):
    """Who can mend it, and how."""

    turn: str
    steps: tuple[str, ...]


CALLER = "the caller"
DEVELOPER = "the action's developer"
OPERATOR = "whoever runs the app"
OUTSIDE = "the service outside"

_CHECK_OUTPUT = (
    "Compare what the function returns with its return annotation; the issues name the places that differ.",
    "Loosen the annotation, or mend the value. The caller cannot do anything about it.",
)
_TRY_LATER = "Try again later; the same call may succeed."

ADVICE: dict[Kind, Advice] = {
    Kind.malformed: Advice(
        CALLER,
        (
            "What was sent cannot be read. Check the JSON: a missing quote, a trailing comma, a wrong encoding.",
        ),
    ),
    Kind.invalid_input: Advice(
        CALLER,
        (
            "Look at the issues: each names a field, what is wrong with it and what would work.",
            "The Schema tab shows everything that the action takes.",
        ),
    ),
    Kind.invalid_output: Advice(DEVELOPER, _CHECK_OUTPUT),
    Kind.unserializable: Advice(
        DEVELOPER,
        (
            "Return what JSON can hold: dicts, lists, text, numbers, dates, models and dataclasses.",
            "Turn open files, connections, cycles and numbers such as NaN into something else first.",
        ),
    ),
    Kind.unauthenticated: Advice(
        CALLER,
        (
            "Say who is calling: send the credentials that the server expects, and check that they are not expired.",
        ),
    ),
    Kind.forbidden: Advice(
        CALLER,
        (
            "The caller is known and may not do this. The action's permissions are listed under its title.",
            "In this console, choose 'Acting as' to try the call with other permissions.",
        ),
    ),
    Kind.outside_scope: Advice(
        CALLER,
        ("The path, host or statement lies outside what the action may touch. Choose one inside.",),
    ),
    Kind.needs_confirmation: Advice(
        CALLER,
        (
            "Repeat the call with confirm, or with the token that the failure carries.",
            "A token is bound to one caller and one input, works once, and expires.",
        ),
    ),
    Kind.refused_by_user: Advice(CALLER, ("A person said no. Ask them before you try again.",)),
    Kind.unknown_action: Advice(
        CALLER,
        (
            "Check the name; the message suggests one that is close.",
            "An action may exist and not be shown here: look at its visibility and its supported surfaces.",
        ),
    ),
    Kind.not_found: Advice(
        CALLER, ("Check the name or the number. List what there is, and choose from it.",)
    ),
    Kind.unsupported: Advice(
        CALLER,
        ("Use a surface that the action supports; its Surfaces tab lists them.",),
    ),
    Kind.conflict: Advice(
        CALLER,
        (
            "Something has changed since you looked, or is held by another call. Read the present state, then decide.",
            "If it is about an idempotency key: the key was used with another input. Use a new one.",
        ),
    ),
    Kind.too_large: Advice(CALLER, ("Send less at once: split the input, or send a reference to it.",)),
    Kind.rate_limited: Advice(CALLER, ("Wait as long as the failure says, then send the same again.",)),
    Kind.busy: Advice(
        CALLER,
        (
            "As many calls as are allowed are running. Wait for one to end, then send the same again.",
            "A developer may raise `concurrency`, or give it a queue.",
        ),
    ),
    Kind.timeout: Advice(
        DEVELOPER,
        (
            "Look at the logs for the place where the time went.",
            "Give the call more time (Options, Time limit), raise the action's `timeout`, or do less in one call.",
            "The same call may succeed if tried again. For a write, send an idempotency key with it.",
        ),
    ),
    Kind.cancelled: Advice(
        CALLER, ("The caller stopped it, or went away. Run it again if you still want it.",)
    ),
    Kind.upstream: Advice(
        OUTSIDE,
        (_TRY_LATER, "If it goes on, look at the logs for what the service answered."),
    ),
    Kind.unavailable: Advice(
        OUTSIDE,
        (
            "The service could not be reached. Check that it runs, and the address and the network.",
            _TRY_LATER,
        ),
    ),
    Kind.exhausted: Advice(
        OPERATOR,
        ("A budget was used up: tokens, steps or money. Raise the budget, or ask for less.",),
    ),
    Kind.misconfigured: Advice(
        OPERATOR,
        (
            "A setting, a service or a definition is missing or wrong; the message names it.",
            "Mend it and reload. The caller cannot do anything about it.",
        ),
    ),
    Kind.internal: Advice(
        DEVELOPER,
        (
            "The function raised an exception that nobody foresaw. The terminal shows its traceback.",
            "If callers can do something about it, raise a `Failure` of a fitting kind there instead.",
        ),
    ),
}


def explained() -> list[dict[str, Any]]:
    """Every registered code with its explanation; the app's own codes too."""
    return [_explained(entry) for entry in catalogue()]


def _explained(entry: Entry) -> dict[str, Any]:
    advice = ADVICE[entry.kind]
    return {
        "code": entry.code,
        "family": entry.family,
        "kind": entry.kind.value,
        "message": entry.message,
        "httpStatus": entry.http_status,
        "exitCode": entry.exit_code,
        "retryable": entry.retryable,
        "elsewhere": {name: PIVOT[entry.kind].on(name) for name in families() if name != entry.family},
        "turn": advice.turn,
        "steps": list(advice.steps),
    }
