"""What a caller may give with one call, beside who is calling, from where, and the idempotency key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, TypedDict

from fairlead.actions import Action, Retry
from fairlead.actions.policy import near_miss
from fairlead.runtime.context import Context, Services
from fairlead.runtime.events import Channel
from fairlead.runtime.limits import Limits, limits_of
from fairlead.runtime.signal import Signal


class InvokeOptions(TypedDict, total=False):
    """Options of a call, all by name.

    `invocation_id` says how the call is known, `env`, `services` and `metadata` what its action finds in its context.
    `signal` cancels it; `timeout` ends an attempt and `deadline` the whole call, in seconds; `retry` stands for the
    action's own. `confirm` is True or the token of a confirmation.
    """

    invocation_id: str | None
    env: str | None
    services: Mapping[str, Any] | None
    metadata: Mapping[str, Any] | None
    signal: Signal | None
    timeout: float | None
    deadline: float | None
    retry: bool | int | Mapping[str, Any] | Retry | None
    confirm: bool | str | None
    #: Where a stream's events go.
    _channel: Channel | None


KNOWN = frozenset(InvokeOptions.__annotations__)
#: Options that bound a call.
LIMITS = frozenset({"signal", "timeout", "deadline", "retry"})
#: Options that make no difference to a call whose context nobody asks for and that needs no confirmation, but that its
#: result has the id.
UNHEARD = frozenset({"confirm", "invocation_id", "metadata", "_channel"})
#: What a context is told, and as what it keeps it.
_KEPT = {
    "invocation_id": "_id",
    "env": "_env",
    "metadata": "metadata",
    "_channel": "_channel",
}


def refuse_unknown(options: InvokeOptions) -> NoReturn:
    """Refuse, as a function does, what is no option: one at least is not."""
    name = min(options.keys() - KNOWN)
    raise TypeError(f"invoke() got an unexpected keyword argument {name!r}.{near_miss(name, sorted(KNOWN))}")


def pass_on(context: Context, options: InvokeOptions) -> None:
    """Let the context know what was given."""
    for name, value in options.items():
        if value is None:
            continue
        if name in _KEPT:
            setattr(context, _KEPT[name], value)
        elif name == "services":
            context._services = Services(options["services"] or {})


def limits_given(
    action: Action[..., Any], started: float, options: InvokeOptions, *, always: bool
) -> Limits | None:
    """The limits of a call; None if none were given and it has none of its own."""
    signal, retry = options.get("signal"), options.get("retry")
    timeout, deadline = options.get("timeout"), options.get("deadline")
    if not always and signal is None and retry is None and timeout is None and deadline is None:
        return None
    return limits_of(action, started, signal, timeout, deadline, retry)
