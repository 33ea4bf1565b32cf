"""`Runtime`: the one path every call takes, from whichever surface, to an envelope.

    find -> validate -> confirm -> permit -> replay? -> limit -> attempts( middleware( function ) ) -> check output

Nothing escapes: whatever a checker, a validator, a hook or an action raises ends as a failure in the result.
Only the cancellation of the awaiting task itself is passed on, after the call has been ended in order.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from threading import get_ident
from types import MappingProxyType
from typing import Any, Final, NamedTuple, cast

from fairlead._json import encode
from fairlead.actions import (
    IN_PROCESS,
    Action,
    Catalogue,
    DefinitionError,
    Exposure,
    Retry,
)
from fairlead.actions import policy as checks
from fairlead.failures import Failure, Kind, from_exception
from fairlead.failures import action as wire
from fairlead.runtime import telemetry
from fairlead.runtime.clock import Clock, random_id
from fairlead.runtime.confirmation import Confirmations
from fairlead.runtime.context import Context, Record, Services, spelled
from fairlead.runtime.events import Channel
from fairlead.runtime.hooks import Hook, Hooks, Invocation, report, tell
from fairlead.runtime.idempotency import FRESH, Claim, IdempotencyStore, MemoryIdempotency
from fairlead.runtime.identity import claim_key
from fairlead.runtime.limits import Gate, Limits, MemoryRates, RateStore, Straggler, Waiter, limits_of
from fairlead.runtime.permissions import PermissionChecker, declared_permissions, permitted
from fairlead.runtime.plan import Middleware, Plan, dumped
from fairlead.runtime.redaction import redactor_of
from fairlead.runtime.refusals import conflicting, invalid_input, too_often, unknown, unsupported
from fairlead.runtime.result import Result
from fairlead.runtime.services import Lifespan
from fairlead.runtime.settling import finish, quietly, seen_through
from fairlead.runtime.signal import Signal
from fairlead.runtime.stream import Stream
from fairlead.runtime.supervision import contained, current_task, heard, interruptible, within
from fairlead.runtime.workers import Workers
from fairlead.schema import Invalid

NOTHING: Final[Any] = MappingProxyType({})
_MODULES: Final = sys.modules
#: Failures of the first call that say nothing about its twins: they try for themselves.
_OWN = frozenset({Kind.cancelled, Kind.timeout})


class Checked(NamedTuple):
    """A call that would be let through: what was asked, as it was given and in one spelling, and by whom."""

    action: Action[..., Any]
    input: Any
    request: bytes
    caller: str
    warnings: list[str]


class Runtime:
    """Runs actions. `App` is a runtime with a name and surfaces."""

    def __init__(
        self,
        actions: Iterable[Action[..., Any]] = (),
        *,
        services: Mapping[str, Any] | None = None,
        permission_checker: PermissionChecker | None = None,
        middleware: Sequence[Middleware] = (),
        hooks: Mapping[str, Hook | list[Hook]] | None = None,
        redact: Mapping[str, Any] | Callable[[Any], Any] | None = None,
        idempotency: IdempotencyStore | None = None,
        rates: RateStore | None = None,
        env: str = "development",
        preflight: str = "repair",
        grace: float = 0.5,
        confirmation_ttl: float = 300.0,
        confirmation_secret: bytes | None = None,
        clock: Clock | None = None,
        new_id: Callable[[], str] = random_id,
    ) -> None:
        self._plans: dict[str | Action[..., Any], Plan] = {}
        self.catalogue = Catalogue(added=self._forget_plan)
        self.clock = Clock() if clock is None else clock
        self._monotonic = self.clock.monotonic
        self.wall = self.clock.time
        self.new_id = new_id
        self.env = env
        self.redactor = redactor_of(redact)
        #: How long a stopped body may take to clean up before the caller is answered without it.
        self.grace = checks.seconds("Runtime", "grace", grace) or 0.5
        self.workers = Workers()
        self._preflight = checks.one_of("Runtime", "preflight", preflight, checks.PREFLIGHTS)
        self._middleware = tuple(checks.function("Runtime", "middleware", each) for each in middleware)
        if permission_checker is not None:
            checks.function("Runtime", "permission_checker", permission_checker)
        self._checker = permission_checker
        self._hooks = Hooks(hooks)
        self._idempotency: IdempotencyStore = (
            MemoryIdempotency(monotonic=self.clock.monotonic) if idempotency is None else idempotency
        )
        #: Whether records can be kept as they are: nothing is spelled out until it is asked for again.
        self._in_memory = type(self._idempotency) is MemoryIdempotency
        self._rates: RateStore = MemoryRates(self.clock.monotonic) if rates is None else rates
        self._confirmations = Confirmations(self.clock, confirmation_ttl, confirmation_secret)
        self._lifespan = Lifespan(services or {})
        self._telemetry: telemetry.Telemetry | None = None
        for action in actions:
            self.catalogue.add(action)

    def _forget_plan(self, changed: Action[..., Any]) -> None:
        self._plans.pop(changed.name, None)
        self._plans.pop(f"{changed.name}@{changed.version}", None)

    @property
    def actions(self) -> list[Action[..., Any]]:
        """All actions, in the order they were added."""
        return list(self.catalogue)

    def get(self, name: str) -> Action[..., Any] | None:
        """The action of this name (or `name@version`), if there is one."""
        return self.catalogue.find(name)

    def list_actions(
        self, surface: str = IN_PROCESS, exposure: Exposure | None = None
    ) -> list[Action[..., Any]]:
        """The actions that a surface shows."""
        return (exposure or Exposure()).select(self.catalogue, surface)

    def add_hook(self, name: str, hook: Hook) -> None:
        """Have a hook told of calls from now on: `on_invocation_start` or `on_invocation_end`."""
        self._hooks.add(name, hook)

    async def start(self) -> None:
        """Start the services. Calls do so by themselves when it has not been done."""
        await self._lifespan.start()

    async def stop(self) -> None:
        """Stop the services, in reverse order."""
        await self._lifespan.stop()

    def stream(self, action: str | Action[..., Any], input: Any = NOTHING, **options: Any) -> Stream:
        """Call an action and hear what it says as it runs: `async for event in runtime.stream(...)`.

        The last event is the result. Leaving the loop cancels the call.
        """
        return Stream(lambda channel: self.invoke(action, input, **options, _channel=channel), self.clock)

    async def check(
        self,
        action: str | Action[..., Any],
        input: Any = NOTHING,
        *,
        surface: str = IN_PROCESS,
        user: Any = None,
        auth: Any = None,
        confirm: bool | str | None = None,
    ) -> Checked:
        """Go through all that a call has to pass before its first effect, and stop there. A token is used up.

        Raises:
            Failure: the call would be refused.
        """
        plan = self._plan(action)
        if plan is None:
            raise unknown(action, self.catalogue)
        context = Context(self, plan.action, self._monotonic())
        context.surface, context.user, context.auth = surface, user, auth
        if surface != IN_PROCESS and surface not in plan.surfaces:
            raise unsupported(plan.action.name, surface)
        given = {} if input is NOTHING else input
        if plan.drop_blanks is not None:
            given, context.warnings = plan.drop_blanks(given)
        try:
            context.input = plan.validate(given)
        except (ValueError, RecursionError) as error:
            context.input = self._mended(plan, context, given, error)
        request = plan.request_of(context.input)
        token = None
        if plan.action.requires_confirmation:
            token = self._confirmations.check(context, confirm, request)
        await self._lifespan.start()
        if plan.checker is not None:
            await permitted(plan.checker(plan.action, context.input, context))
        if token is not None:
            self._confirmations.spend(token)
        return Checked(plan.action, given, request, context.caller, context.warnings)

    async def invoke(
        self,
        action: str | Action[..., Any],
        input: Any = NOTHING,
        *,
        surface: str = IN_PROCESS,
        invocation_id: str | None = None,
        user: Any = None,
        auth: Any = None,
        env: str | None = None,
        services: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        signal: Signal | None = None,
        timeout: float | None = None,
        deadline: float | None = None,
        retry: bool | int | Mapping[str, Any] | Retry | None = None,
        confirm: bool | str | None = None,
        idempotency_key: str | None = None,
        _channel: Channel | None = None,
    ) -> Result:
        """Call an action; the result tells how it ended. Time limits are in seconds."""
        # What is called here is taken from its object first: called on the object, it would be sought as a method.
        monotonic = self._monotonic
        started = monotonic()
        task = current_task()
        cancels = task.cancelling()
        try:
            plan = self._plans.get(action) or self._plan(action)
        except DefinitionError as exc:
            wrong = Failure(Kind.misconfigured, str(exc), cause=exc)
            return await self._refuse(action, wrong, surface, invocation_id, user, auth, started)
        except Exception:
            plan = None  # not hashable, so no name either
        if plan is None:
            wrong = unknown(action, self.catalogue)
            return await self._refuse(action, wrong, surface, invocation_id, user, auth, started)
        context = Context(self, plan.action, started)
        # Most calls give few of these.
        if surface != IN_PROCESS:
            context.surface = surface
        if invocation_id is not None:
            context._id = invocation_id
        if user is not None:
            context.user = user
        if auth is not None:
            context.auth = auth
        if env is not None:
            context._env = env
        if services is not None:
            context._services = Services(services)
        if metadata is not None:
            context.metadata = metadata
        if idempotency_key is not None:
            context.idempotency_key = idempotency_key
        if _channel is not None:
            context._channel = _channel
        if plan.threaded:
            context._loop, context._loop_thread = asyncio.get_running_loop(), get_ident()
        data: Any = None
        failure: Failure | None = None
        invocation = Invocation(context, input) if self._hooks.any else None
        span = self._span(context) if "opentelemetry.sdk" in _MODULES else None
        try:
            if invocation is not None:
                pending = tell(self._hooks.start, invocation)
                if pending is not None:
                    await pending
            if surface != IN_PROCESS and surface not in plan.surfaces:
                raise unsupported(plan.action.name, surface)
            if input is NOTHING:
                input = {}
            if plan.drop_blanks is not None:
                input, context.warnings = plan.drop_blanks(input)
            validate = plan.validate
            try:
                context.input = validate(input)
            except (ValueError, RecursionError) as error:
                context.input = self._mended(plan, context, input, error)
            del input  # a call may wait for long, and has in hand what this became
            limits = None
            if (
                plan.limited
                or signal is not None
                or timeout is not None
                or deadline is not None
                or retry is not None
            ):
                limits = limits_of(plan.action, started, signal, timeout, deadline, retry)
            if (
                plan.open
                and limits is None
                and not self._lifespan.waiting
                and (idempotency_key is None or not plan.keyed)
            ):
                body = plan.body
                data = dumped(plan.output, await body(context.input, context))
            else:
                data = await self._carry(plan, context, limits, confirm)
            if task.cancelling() > cancels:
                raise asyncio.CancelledError  # the body swallowed it, and what it gave is no success
        except Failure as exc:
            failure = exc
        except asyncio.CancelledError as exc:
            failure = Failure(Kind.cancelled, "Action was cancelled.", cause=exc)
            if task.cancelling() > cancels:
                # The awaiting task itself is being cancelled: end the call in order, then let it go.
                await self._end(context, None, failure, invocation, span)
                raise
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as exc:
            report(f"Action {plan.action.name!r} failed.")
            failure = from_exception(exc)
        if failure is not None or span is not None:
            return await self._end(context, data, failure, invocation, span)
        context._closed = True
        result = Result(context, data, None, monotonic() - started)
        if invocation is not None:
            invocation.result = result
            pending = tell(self._hooks.end, invocation)
            if pending is not None:
                await pending
        return result

    def _plan(self, action: str | Action[..., Any]) -> Plan | None:
        found = self.catalogue.find(action) if isinstance(action, str) else action
        if not isinstance(found, Action):
            return None
        plan = self._plans.get(found)
        if plan is None:
            checker = self._checker
            if checker is None and found.permissions:
                checker = declared_permissions
            plan = Plan(found, self._middleware, checker, self.workers, self._preflight)
        self._plans[found] = self._plans[action] = plan
        return plan

    async def _refuse(
        self,
        asked: object,
        failure: Failure,
        surface: str,
        invocation_id: str | None,
        user: Any,
        auth: Any,
        started: float,
    ) -> Result:
        """End a call for which there is no action."""
        none = cast("Action[..., Any]", None)
        context = Context(self, none, started)
        context.surface, context._id, context.user, context.auth = surface, invocation_id, user, auth
        name = self.redactor.text(asked[:100]) if isinstance(asked, str) else type(asked).__name__
        return await self._end(context, None, failure, Invocation(context, None), None, name)

    async def _end(
        self,
        context: Context,
        data: Any,
        failure: Failure | None,
        invocation: Invocation | None,
        span: telemetry.Started | None,
        name: str | None = None,
    ) -> Result:
        context._closed = True
        if failure is not None:
            failure, data = self._redacted(failure), None
        result = Result(context, data, failure, self._monotonic() - context.started, name)
        if invocation is not None and self._hooks.end:
            invocation.result = result
            pending = tell(self._hooks.end, invocation)
            if pending is not None:
                await pending
        if span is not None and self._telemetry is not None:
            self._telemetry.end(span, context, result)
        return result

    def _redacted(self, failure: Failure) -> Failure:
        try:
            return self.redactor.failure(failure)
        except Exception:
            report("A failure was made wrongly and cannot be told.")
            return Failure(Kind.internal)

    def _span(self, context: Context) -> telemetry.Started:
        self._telemetry = self._telemetry or telemetry.Telemetry()
        return self._telemetry.begin(context)

    def _mended(self, plan: Plan, context: Context, input: Any, error: Exception) -> Any:
        try:
            value, warnings = plan.input.mend(input, error, repair=plan.repair)
        except Invalid as invalid:
            raise invalid_input(invalid) from None
        context.warnings = context.warnings + warnings
        return value

    async def _carry(
        self, plan: Plan, context: Context, limits: Limits | None, confirm: bool | str | None
    ) -> Any:
        """All that may stand between a valid call and its function, in one piece because each step costs."""
        action = plan.action
        if limits is not None and limits.signal is not None and limits.signal.cancelled:
            raise Failure(Kind.cancelled, "Action was cancelled before execution.")
        token = None
        if action.requires_confirmation:
            token = self._confirmations.check(context, confirm, plan.request_of(context.input))
        if self._lifespan.waiting:
            await within(context, self._lifespan.start(), limits)
        checker = plan.checker
        if checker is not None:
            answer = checker(action, context.input, context)
            if answer is not True:
                await within(context, permitted(answer), limits)
        key = caller = None
        if context.idempotency_key is not None and plan.keyed:
            request_of, caller = plan.request_of, context.caller
            key = claim_key(plan.label, caller, context.idempotency_key)
            claim = self._idempotency.claim(key, request_of(context.input))
            if claim is not FRESH:
                record = await self._kept(plan, context, limits, key, claim)
                if record is not None:
                    return context.replay(record)
        kept = shared = None
        gate, inside = plan.gate, False
        try:
            if plan.deprecated is not None:
                context.logger.warn("Action is deprecated.", plan.deprecated)
            if action.rate_limit is not None:
                limit, per, by = action.rate_limit
                meter = f"{action.name}\n{caller or context.caller}" if by == "caller" else action.name
                wait = self._rates.take(meter, limit, per)
                if wait != 0.0:
                    await within(context, too_often(action.name, action.rate_limit, wait), limits)
            if gate is not None:
                waiter = gate.enter()
                if waiter is not None:
                    await self._queued(gate, waiter, context, limits or Limits(action))
                inside = True
            if token is not None:
                self._confirmations.spend(token)
            if limits is not None:
                produced = await self._attempts(plan, context, limits)
            else:
                body = plan.body
                try:
                    produced = await body(context.input, context)
                except Exception as exc:
                    if not action.retry.retries:
                        raise
                    limits = Limits(action, context.started)
                    await self._pause(context, limits, exc)
                    produced = await self._attempts(plan, context, limits)
            data = dumped(plan.output, produced)
            if key is not None:
                kept = self._recorded(context, data)
            return data
        except Exception as exc:
            if key is not None:
                shared = self._shared(exc)
            raise
        finally:
            straggler = None if limits is None else limits.straggler
            if gate is not None and inside:
                gate.leave() if straggler is None else gate.leave_after(straggler)
            if key is not None:
                if straggler is not None:
                    self._settle_later(plan, context, key, straggler)
                else:
                    pending = self._settle(key, kept, shared)
                    if pending is not None:
                        # Seen through even if this task is cancelled: the effect has happened.
                        await asyncio.shield(seen_through(pending))

    def _recorded(self, context: Context, data: Any) -> Record | bytes | None:
        try:
            return context.record(data) if self._in_memory else spelled(context.record(data))
        except Exception:
            # The effect has happened: the caller must hear of it, even if it could not be kept.
            report("A result could not be kept for its idempotency key.")
            return None

    def _shared(self, error: Exception) -> bytes | None:
        """A failure as twins in flight hear it; not one that concerns the first call alone."""
        failure = self._redacted(from_exception(error))
        return None if failure.kind in _OWN else encode({"error": wire.render(failure)})

    async def _kept(
        self, plan: Plan, context: Context, limits: Limits | None, key: str, claim: Claim | Awaitable[Claim]
    ) -> Record | bytes | None:
        """What the first call with the same key gave; None if this is the first."""
        while True:
            if not isinstance(claim, Claim):
                claim = await self._claimed(key, claim)
            if claim.state == "fresh":
                return None
            if claim.state == "conflict":
                raise conflicting(plan.action.name)
            told = claim.record
            if claim.state == "in_flight":
                waiting = asyncio.ensure_future(self._idempotency.wait(key))
                told = await (waiting if limits is None else interruptible(context, waiting, limits))
            if told is not None:
                return told
            claim = self._idempotency.claim(key, plan.request_of(context.input))

    async def _claimed(self, key: str, claim: Awaitable[Claim]) -> Claim:
        """Hear what a store elsewhere says. Who is cancelled meanwhile gives a claim back that comes too late."""
        asking = asyncio.ensure_future(claim)

        def give_back(asked: asyncio.Future[Claim]) -> None:
            if not asked.cancelled() and asked.exception() is None and asked.result().state == "fresh":
                pending = self._settle(key, None, None)
                if pending is not None:
                    finish(pending)

        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            asking.add_done_callback(give_back)
            raise

    def _settle(self, key: str, kept: Record | bytes | None, shared: bytes | None) -> Awaitable[None] | None:
        try:
            # Our own store in memory keeps what it is given, so it is given the record itself.
            pending = self._idempotency.settle(key, kept, shared)  # type: ignore[arg-type]
        except Exception:
            # The effect has happened: the caller must hear of it, even if it could not be kept.
            report("The idempotency store failed to keep a result.")
            return None
        return None if pending is None else quietly(pending)

    def _settle_later(self, plan: Plan, context: Context, key: str, straggler: Straggler) -> None:
        """While the body still runs the key stays held, so that no twin starts beside it; a late success is kept."""

        def stopped(work: Straggler) -> None:
            kept = None
            # Behind middleware, what a thread gives is not yet the call's result.
            if not self._middleware and not work.cancelled() and work.exception() is None:
                with suppress(Failure):
                    kept = self._recorded(context, dumped(plan.output, work.result()))
            pending = self._settle(key, kept, None)
            if pending is not None:
                finish(pending)

        straggler.add_done_callback(stopped)

    async def _queued(self, gate: Gate, waiter: Waiter, context: Context, limits: Limits) -> None:
        try:
            await interruptible(context, waiter, limits.waiting(context.action.concurrency.wait))
        except BaseException:
            gate.give_up(waiter)
            raise

    async def _attempts(self, plan: Plan, context: Context, limits: Limits) -> Any:
        while True:
            try:
                return await self._attempt(plan, context, limits)
            except Exception as exc:
                await self._pause(context, limits, exc)

    async def _pause(self, context: Context, limits: Limits, error: Exception) -> None:
        """Wait before the next attempt, or raise the error if there is none."""
        failure = from_exception(error)
        pause = limits.retry.pause(context.attempt, random.random())  # noqa: S311  # spreads retries, hides nothing
        pause = max(pause, failure.retry_after or 0.0)
        # Whoever asks for a longer wait than this action's pauses is not worth holding its caller for.
        if (
            not pause <= limits.retry.max_delay
            or not wire.retryable(failure)
            or not limits.may_retry(context.attempt, pause, self.clock.monotonic())
        ):
            raise error
        context._signal = None
        context.logger.warn(
            "Retrying action after retryable failure.",
            {"attempt": context.attempt, "code": failure.code, "delayMs": round(pause * 1000)},
        )
        if pause:
            await interruptible(context, asyncio.ensure_future(asyncio.sleep(pause)), limits.waiting(None))
        context.attempt += 1

    async def _attempt(self, plan: Plan, context: Context, limits: Limits) -> Any:
        body = plan.body(context.input, context)
        if limits.unlimited and not plan.threaded:
            return await body
        task = asyncio.ensure_future(contained(body))
        try:
            return await interruptible(context, task, limits)
        finally:
            limits.straggler = self._straggler(context, task)

    def _straggler(self, context: Context, task: asyncio.Future[Any]) -> Straggler | None:
        """What still runs although it was told to stop: the body's task, or its thread."""
        thread = context._thread
        if thread is not None and not thread.done():
            self.workers.lend()
            thread.add_done_callback(lambda _: self.workers.reclaim())
            return thread
        if task.done():
            return None
        task.add_done_callback(heard)
        return task
