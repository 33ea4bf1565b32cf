"""`Runtime`: the one path every call takes, from whichever surface, to an envelope.

    find -> validate -> confirm -> permit -> replay? -> limit -> attempts( middleware( function ) ) -> check output

Nothing escapes: whatever a checker, a validator, a hook or an action raises ends as a failure in the result.
Only the cancellation of the awaiting task itself is passed on, after the call has been ended in order.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from threading import get_ident
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Unpack, cast

from fairlead.actions import Action, Catalogue, DefinitionError, Exposure
from fairlead.actions import policy as checks
from fairlead.actions.surfaces import IN_PROCESS
from fairlead.failures import Failure, Kind, from_exception
from fairlead.failures.failure import failure_of
from fairlead.failures.redaction import Redactor
from fairlead.runtime import telemetry
from fairlead.runtime.attempts import attempts, pause
from fairlead.runtime.clock import Clock, random_id
from fairlead.runtime.confirmation import Confirmations
from fairlead.runtime.context import Context, Unasked, context_of
from fairlead.runtime.hooks import Hook, Hooks, Invocation, report, tell
from fairlead.runtime.idempotency import FRESH, IdempotencyStore
from fairlead.runtime.identity import LONGEST_KEY, caller_of, shortened
from fairlead.runtime.keys import Keys
from fairlead.runtime.limits import Gate, Limits, MemoryRates, RateStore, timeless
from fairlead.runtime.options import (
    KNOWN,
    LIMITS,
    UNHEARD,
    InvokeOptions,
    limits_given,
    pass_on,
    refuse_unknown,
)
from fairlead.runtime.permissions import PermissionChecker, declared_permissions, permitted
from fairlead.runtime.plan import Middleware, Plan, invalid_output
from fairlead.runtime.redaction import for_callers, redacted, redactor_of
from fairlead.runtime.refusals import invalid_input, too_often, unknown, unsupported
from fairlead.runtime.result import Result
from fairlead.runtime.services import Lifespan
from fairlead.runtime.settling import seen_through
from fairlead.runtime.stream import Stream
from fairlead.runtime.supervision import current_task, interruptible, within
from fairlead.runtime.workers import Workers
from fairlead.schema import Invalid

NOTHING: Final[Any] = MappingProxyType({})
_MODULES: Final = sys.modules
#: Plans that are kept of actions which are not in the catalogue.
_MOST_PASSING: Final = 1024


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
        middleware: Middleware | Sequence[Middleware] = (),
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
        #: Actions that have a plan and are not in the catalogue, the oldest first: such are made for one run.
        self._passing: deque[Action[..., Any]] = deque()
        self.catalogue = Catalogue(added=self._forget_plan)
        self.clock = Clock() if clock is None else clock
        self._monotonic = self.clock.monotonic
        self.wall = self.clock.time
        self.new_id = new_id
        self.env = env
        self.redactor = redactor_of(redact)
        #: Whether what cannot change may be redacted when somebody looks: a function of the developer's must see all.
        self.plainly_redacted = type(self.redactor) is Redactor
        #: How long a stopped body may take to clean up before the caller is answered without it.
        self.grace = checks.seconds("Runtime", "grace", grace) or 0.5
        self.workers = Workers()
        self.preflight = checks.one_of("Runtime", "preflight", preflight, checks.PREFLIGHTS)
        self._middleware: tuple[Middleware, ...] = checks.functions("Runtime", "middleware", middleware)
        if permission_checker is not None:
            checks.function("Runtime", "permission_checker", permission_checker)
        self._checker = permission_checker
        self._hooks = Hooks(hooks)
        self._keys = Keys(idempotency, self.redactor, self.clock)
        self._take = MemoryRates(self.clock.monotonic).take_at if rates is None else timeless(rates)
        self._confirmations = Confirmations(self.clock, confirmation_ttl, confirmation_secret, idempotency)
        self._lifespan = Lifespan(services or {})
        self._telemetry: telemetry.Telemetry | None = None
        for action in actions:
            self.catalogue.add(action)

    def _forget_plan(self, changed: Action[..., Any]) -> None:
        self._plans.pop(changed.name, None)
        self._plans.pop(label := f"{changed.name}@{changed.version}", None)
        if changed in self._plans and self.catalogue.find(label) is not changed:
            self._let_pass(changed)

    def _let_pass(self, action: Action[..., Any]) -> None:
        """Keep the plan of an action that is not in the catalogue until many others have come."""
        self._passing.append(action)
        if len(self._passing) > _MOST_PASSING:
            oldest = self._passing.popleft()
            plan = self._plans.get(oldest)
            if plan is None or self.catalogue.find(plan.label) is oldest:
                return
            if plan.gate is not None and plan.gate.busy:
                self._passing.append(oldest)  # whoever comes next has to see who is in there
            else:
                del self._plans[oldest]

    @property
    def actions(self) -> list[Action[..., Any]]:
        """All actions, in the order they were added; of each name the newest (`catalogue.versions()` has all)."""
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
        # The plans themselves stay: they know who is at their gates.
        for plan in list(self._plans.values()):
            plan.hooked, plan.bare = True, False

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
        context = context_of(self, plan.action, self._monotonic())
        context.surface, context.user, context.auth = surface, user, auth
        if surface not in plan.surfaces:
            raise unsupported(plan.action.name, surface)
        given = {} if input is NOTHING else input
        if plan.drop_blanks is not None:
            given, context.warnings = plan.drop_blanks(given)
        try:
            context.input, sent = plan.validate(given), given
        except (ValueError, RecursionError) as error:
            context.input, sent = self._mended(plan, context, given, error)
        request = plan.request_of(context.input, sent)
        token = None
        if plan.action.requires_confirmation:
            token = self._confirmations.check(context, confirm, request)
        if self._lifespan.waiting:
            await self._lifespan.start()
        if plan.checker is not None:
            await permitted(plan.checker(plan.action, context.input, context))
        if token is not None:
            await self._confirmations.spend(token)
        return Checked(plan.action, given, request, context.caller, context.warnings)

    def invoke(
        self,
        action: str | Action[..., Any],
        input: Any = NOTHING,
        *,
        surface: str = IN_PROCESS,
        user: Any = None,
        auth: Any = None,
        idempotency_key: str | None = None,
        **options: Unpack[InvokeOptions],
    ) -> Coroutine[Any, Any, Result]:
        """Call an action; the result tells how it ended. Time limits are in seconds."""
        if options and not KNOWN.issuperset(options):
            refuse_unknown(options)
        try:
            plan = self._plans.get(action) or self._plan(action)
        except DefinitionError as exc:
            wrong = Failure(Kind.misconfigured, str(exc), cause=exc)
            return self._refuse(action, wrong, surface, user, auth, options)
        except Exception:
            plan = None  # not hashable, so no name either
        if plan is None:
            return self._refuse(action, unknown(action, self.catalogue), surface, user, auth, options)
        if (
            plan.bare
            and (not options or UNHEARD.issuperset(options))
            and type(surface) is str
            and surface in plan.surfaces
            and (idempotency_key is None or not plan.keyed)
            and not self._lifespan.waiting
            and "opentelemetry.sdk" not in _MODULES
        ):
            return self._bare(plan, input, surface, user, auth, options.get("invocation_id"))
        return self._carry(plan, input, surface, user, auth, idempotency_key, options)

    async def _bare(self, plan: Plan, input: Any, surface: str, user: Any, auth: Any, id: Any) -> Result:
        """A call that nothing stands between, and whose context nobody asks for."""
        # What is called here is taken from its object first: called on the object, it would be sought as a method.
        monotonic, validate, body, check = self._monotonic, plan.validate, plan.body, plan.check
        started = monotonic()
        task = current_task()
        cancels = task.cancelling()
        context: Any = None
        try:
            if input is NOTHING:
                input = {}
            if plan.drop_blanks is not None:
                input, warnings = plan.drop_blanks(input)
                if warnings:
                    context = plan.surfaces[surface].context(id)
                    context.warnings = warnings
            try:
                value = validate(input)
            except (ValueError, RecursionError) as error:
                context = context or plan.surfaces[surface].context(id)
                value, _ = self._mended(plan, context, input, error)
            del input  # a call may wait for long, and has in hand what this became
            produced = await body(value, context)
            try:
                data = check(produced)
            except (ValueError, RecursionError) as error:
                raise invalid_output(plan.output, error) from error
            if task.cancelling() > cancels:
                raise asyncio.CancelledError  # the body swallowed it, and what it gave is no success
        except BaseException as exc:
            if isinstance(exc, asyncio.CancelledError) and task.cancelling() > cancels:
                raise
            failure = self._failure(plan, exc)
            context = context or plan.surfaces[surface].context(id)
            # Who calls decides what they are told of it.
            context.started, context.user, context.auth = started, user, auth
            return await self._end(context, None, failure, None, None)
        result = Result()
        result.ok = True
        result.data = data
        result.failure = result._name = None
        result._id = id
        result._call = context or plan.surfaces[surface]
        result.duration = monotonic() - started
        return result

    async def _carry(
        self,
        plan: Plan,
        input: Any,
        surface: str,
        user: Any,
        auth: Any,
        idempotency_key: str | None,
        options: InvokeOptions,
    ) -> Result:
        """A call with all that may stand between it and its function, in one piece because each step costs."""
        monotonic, validate, body, check = self._monotonic, plan.validate, plan.body, plan.check
        started = now = monotonic()
        task = current_task()
        cancels = task.cancelling()
        action = plan.action
        context = Context()
        context._runtime = self
        context.action = action
        context.started = started
        context._channel = None
        context._closed = False
        context._loop_thread = 0
        context._notes = None
        context.surface = surface
        context.user = user
        context.auth = auth
        context.idempotency_key = idempotency_key
        if options:
            pass_on(context, options)
        if plan.threaded:
            context._loop, context._loop_thread = asyncio.get_running_loop(), get_ident()
        invocation = None
        if plan.hooked:
            invocation = Invocation()
            invocation._context = context
            invocation._input = input
            invocation.result = None
        span = self._span(context) if "opentelemetry.sdk" in _MODULES else None
        limits = token = key = caller = record = gate = None
        try:
            try:
                if invocation is not None:
                    pending = tell(self._hooks.start, invocation)
                    if pending is not None:
                        await pending
                        now = monotonic()
                if surface not in plan.surfaces:
                    raise unsupported(action.name, surface)
                if input is NOTHING:
                    input = {}
                if plan.drop_blanks is not None:
                    input, context.warnings = plan.drop_blanks(input)
                try:
                    value = validate(input)
                except (ValueError, RecursionError) as error:
                    value, input = self._mended(plan, context, input, error)
                context.input = value
                sent = input if plan.recalls or "retry" in options else None
                del input  # a call may wait for long, and has in hand what this became
                if plan.limited or (options and not LIMITS.isdisjoint(options)):
                    limits = limits_given(action, started, options, always=plan.limited)
                    if limits is not None and limits.signal is not None and limits.signal.cancelled:
                        raise Failure(Kind.cancelled, "Action was cancelled before execution.")
                if plan.confirmed:
                    confirm = options.get("confirm")
                    token = self._confirmations.check(context, confirm, plan.request_of(value, sent))
                if self._lifespan.waiting:
                    await within(context, self._lifespan.start(), limits)
                    now = monotonic()
                checker = plan.checker
                if checker is not None:
                    answer = checker(action, value, context)
                    if answer is not True:
                        await within(context, permitted(answer), limits)
                        now = monotonic()
                if idempotency_key is not None and plan.keyed:
                    claim_of, request_of = self._keys.claim, plan.request_of
                    caller = context._caller = caller_of(user, auth)
                    if len(idempotency_key) > LONGEST_KEY:
                        idempotency_key = shortened(idempotency_key)
                    asked = f"{plan.label}\n{caller}\n{idempotency_key}"
                    request = request_of(value, sent)
                    claim = claim_of(asked, request)
                    if claim is not FRESH:
                        record = await self._keys.kept(context, limits, asked, request, claim)
                        now = monotonic()
                    if record is None:
                        key = asked  # from here on it is this call's to settle
                    else:
                        data = context.replay(record)
                        if plan.streams:
                            await context._tell_again(data)
                if record is None:
                    if plan.deprecated is not None:
                        context.logger.warn("Action is deprecated.", plan.deprecated)
                    rate = plan.rate
                    if rate is not None:
                        limit, per, each = rate
                        take, meter = self._take, plan.name
                        if each:
                            meter = f"{meter}\n{caller or context.caller}"
                        wait = take(meter, limit, per, now)
                        if wait != 0.0:
                            await within(context, too_often(plan.name, limit, per, wait), limits)
                    if plan.gate is not None:
                        try:
                            plan.gate.slots.pop()
                        except IndexError:
                            await self._queued(plan.gate, context, limits or Limits(action))
                        gate = plan.gate  # from here on there is a slot to give back
                    if token is not None:
                        await within(context, self._confirmations.spend(token), limits)
                    if limits is not None:
                        produced = await attempts(plan, context, limits, sent)
                    else:
                        try:
                            produced = await body(value, context)
                        except Exception as exc:
                            if not action.retry.retries:
                                raise
                            limits = Limits(action, started)
                            await pause(context, limits, exc)
                            context.input = plan.anew(value, sent)
                            produced = await attempts(plan, context, limits, sent)
                    try:
                        data = check(produced)
                    except (ValueError, RecursionError) as error:
                        raise invalid_output(plan.output, error) from error
            except BaseException as exc:
                if context._signal is not None and task.cancelling() > cancels:
                    context._signal.cancel()  # for what the body has left behind on a thread
                if gate is not None or key is not None:
                    await self._let_go(plan, context, limits, gate, key, exc)
                raise
            if limits is not None:
                kept = None if key is None else self._keys.recorded(context, data)
                await self._let_go(plan, context, limits, gate, key, None, kept)
                ended = monotonic()
            else:
                ended = monotonic()
                if gate is not None:
                    gate.slots.append(None)
                    if gate.waiters:
                        gate.hand_out()
                if key is not None:
                    settle = self._keys.settle
                    settling = settle(key, self._keys.recorded(context, data), None, ended)
                    if settling is not None:
                        await asyncio.shield(seen_through(settling))
                        ended = monotonic()
            if task.cancelling() > cancels:
                raise asyncio.CancelledError  # the body swallowed it, and what it gave is no success
        except BaseException as exc:
            failure = self._failure(plan, exc)
            if isinstance(exc, asyncio.CancelledError) and task.cancelling() > cancels:
                # The awaiting task itself is being cancelled: end the call in order, then let it go.
                await self._end(context, None, failure, invocation, span)
                raise
        else:
            if span is not None:
                return await self._end(context, data, None, invocation, span)
            context._closed = True
            result = Result()
            result.ok = True
            result.data = data
            result.failure = result._name = None
            result._call = context
            result.duration = ended - started
            if invocation is not None:
                invocation.result = result
                pending = tell(self._hooks.end, invocation)
                if pending is not None:
                    await pending
            return result
        return await self._end(context, None, failure, invocation, span)

    async def _let_go(
        self,
        plan: Plan,
        context: Context,
        limits: Limits | None,
        gate: Gate | None,
        key: str | None,
        error: BaseException | None,
        kept: Any = None,
    ) -> None:
        """Give the slot and the key back that a call holds. What still runs keeps them until it has stopped."""
        straggler = None if limits is None else limits.straggler
        if gate is not None:
            gate.leave() if straggler is None else gate.leave_after(straggler)
        if key is None:
            return
        if straggler is not None and not straggler.done():
            self._keys.settle_later(plan, context, key, straggler)
            return
        if straggler is not None and kept is None:
            kept = self._keys.late(plan, context, straggler)
        settle, shared = self._keys.settle, self._keys.shared(error) if isinstance(error, Exception) else None
        settling = settle(key, kept, shared, self._monotonic())
        if settling is not None:
            # Seen through even if this task is cancelled: the effect has happened.
            await asyncio.shield(seen_through(settling))

    def _plan(self, action: str | Action[..., Any]) -> Plan | None:
        found = self.catalogue.find(action) if isinstance(action, str) else action
        if not isinstance(found, Action):
            return None
        plan = self._plans.get(found)
        if plan is None:
            checker = self._checker
            if checker is None and found.permissions:
                checker = declared_permissions
            plan = Plan(
                found,
                self._middleware,
                checker,
                self.workers,
                self.preflight,
                {each: Unasked(self, found, each) for each in (IN_PROCESS, *found.supported_surfaces)},
            )
            plan.hooked = self._hooks.any
            plan.bare = plan.bare and not plan.hooked
            if self.catalogue.find(plan.label) is not found:
                self._let_pass(found)
        self._plans[found] = self._plans[action] = plan
        return plan

    async def _refuse(
        self, asked: object, failure: Failure, surface: str, user: Any, auth: Any, options: InvokeOptions
    ) -> Result:
        """End a call for which there is no action."""
        none = cast("Action[..., Any]", None)
        context = context_of(self, none, self._monotonic())
        context.surface, context.user, context.auth = surface, user, auth
        pass_on(context, options)
        name = self.redactor.text(asked[:100]) if isinstance(asked, str) else type(asked).__name__
        invocation = Invocation()
        invocation._context, invocation._input = context, None
        return await self._end(context, None, failure, invocation, None, name)

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
            if not context.by_operator:
                failure = for_callers(self.redactor, failure)
            failure, data = redacted(self.redactor, failure), None
        result = Result()
        result.ok = failure is None
        result.data = data
        result.failure = failure
        result._call, result._name = context, name
        result.duration = self._monotonic() - context.started
        if invocation is not None and self._hooks.end:
            invocation.result = result
            pending = tell(self._hooks.end, invocation)
            if pending is not None:
                await pending
        if span is not None and self._telemetry is not None:
            self._telemetry.end(span, context, result)
        return result

    def _span(self, context: Context) -> telemetry.Started:
        self._telemetry = self._telemetry or telemetry.Telemetry()
        return self._telemetry.begin(context)

    def _mended(self, plan: Plan, context: Context, input: Any, error: Exception) -> tuple[Any, Any]:
        try:
            mended = plan.input.mended(input, error, repair=plan.repair)
        except Invalid as invalid:
            raise invalid_input(invalid) from None
        context.warnings = context.warnings + mended.notes
        return mended.value, mended.sent

    async def _queued(self, gate: Gate, context: Context, limits: Limits) -> None:
        waiter = gate.queue()
        try:
            await interruptible(context, waiter, limits.waiting(context.action.concurrency.wait))
        except BaseException:
            gate.give_up(waiter)
            raise

    def _failure(self, plan: Plan, error: BaseException) -> Failure:
        """How a call ended that raised this, while it is being handled. What ends the program is passed on."""
        if (failure := failure_of(error)) is not None:
            return failure
        if isinstance(error, asyncio.CancelledError):
            return Failure(Kind.cancelled, "Action was cancelled.", cause=error)
        if isinstance(error, KeyboardInterrupt | GeneratorExit):
            raise error
        report(f"Action {plan.action.name!r} failed.", self.redactor)
        return from_exception(error)
