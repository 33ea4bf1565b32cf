"""Telling the app what happens: before and after each call. A hook watches; it cannot break or change a call."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import Any
from weakref import WeakKeyDictionary

from fairlead.actions import Action, DefinitionError
from fairlead.actions.policy import known_keys
from fairlead.failures.redaction import Redactor
from fairlead.runtime.context import Context
from fairlead.runtime.result import Result
from fairlead.schema.secrecy import declared_secrets, masked


class Invocation:
    """What a hook is told: the call, and at its end the result."""

    # Whoever makes one fills it in: without an `__init__`, that takes half as long.
    __slots__ = ("_context", "_input", "result")

    _context: Context
    _input: Any
    result: Result | None

    @property
    def action(self) -> Action[..., Any] | None:
        """None when no action has the name that was asked for."""
        return self._context.action

    @property
    def surface(self) -> str:
        return self._context.surface

    @property
    def invocation_id(self) -> str:
        return self._context.invocation_id

    @property
    def input(self) -> Any:
        """The input as it came, redacted."""
        redactor, action = self._context._runtime.redactor, self.action
        told = redactor.value(self._input)
        secrets = frozenset() if action is None else _declared(action)
        return masked(told, secrets, redactor.placeholder) if secrets else told


#: Found when somebody first looks, which most hooks do not.
_DECLARED: WeakKeyDictionary[Action[..., Any], frozenset[str]] = WeakKeyDictionary()


def _declared(action: Action[..., Any]) -> frozenset[str]:
    known = _DECLARED.get(action)
    if known is None:
        known = _DECLARED[action] = declared_secrets(action.input.json_schema)
    return known


_SWALLOWED = (Exception, SystemExit, asyncio.CancelledError)

Hook = Callable[[Invocation], Awaitable[None] | None]
NAMES = ("on_invocation_start", "on_invocation_end")


class Hooks:
    """The app's hooks, by moment."""

    __slots__ = ("any", "end", "start")

    def __init__(self, given: Mapping[str, Hook | list[Hook]] | None) -> None:
        hooks = dict(given or {})
        known_keys("hooks", hooks, NAMES)
        self.start = _listed(hooks.get("on_invocation_start", []))
        self.end = _listed(hooks.get("on_invocation_end", []))
        self.any = bool(self.start or self.end)

    def add(self, name: str, hook: Hook) -> None:
        """One more, from now on."""
        known_keys("hooks", (name,), NAMES)
        if name == "on_invocation_start":
            self.start += _listed(hook)
        else:
            self.end += _listed(hook)
        self.any = True


def _listed(given: Hook | list[Hook]) -> tuple[Hook, ...]:
    hooks = tuple(given) if isinstance(given, list | tuple) else (given,)
    for hook in hooks:
        if not callable(hook):
            raise DefinitionError(f"A hook must be a function, not {hook!r}.")
    return hooks


def tell(hooks: tuple[Hook, ...], invocation: Invocation) -> Awaitable[None] | None:
    """Call the hooks; gives what the async ones still have to do, if there are any."""
    pending: list[Awaitable[None]] | None = None
    for hook in hooks:
        try:
            answer = hook(invocation)
        except _SWALLOWED:
            _report_unless_cancelled(invocation)
            continue
        if answer is not None and isawaitable(answer):
            pending = [*(pending or ()), answer]
    return None if pending is None else _finish(pending, invocation)


async def _finish(pending: list[Awaitable[None]], invocation: Invocation) -> None:
    for answer in pending:
        try:
            await answer
        except _SWALLOWED:
            _report_unless_cancelled(invocation)


def _report_unless_cancelled(invocation: Invocation) -> None:
    """A hook cannot end a call; only the cancellation of the task it runs in is passed on."""
    task = asyncio.current_task()
    if isinstance(sys.exception(), asyncio.CancelledError) and task is not None and task.cancelling():
        raise
    report("A hook failed; the call goes on.", invocation._context._runtime.redactor)


def report(message: str, redactor: Redactor) -> None:
    """Log the exception being handled, where the developer looks for it, without the secrets in its words."""
    import logging
    from traceback import format_exc

    logger = logging.getLogger("fairlead")
    if logger.isEnabledFor(logging.WARNING):
        record = logger.makeRecord(
            logger.name, logging.WARNING, __file__, 0, redactor.text(message), (), None
        )
        # Formatters add this text as they would add the exception's own.
        record.exc_text = redactor.text(format_exc().rstrip())
        logger.handle(record)
