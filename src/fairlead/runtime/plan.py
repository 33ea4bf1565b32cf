"""What can be known about calling an action before the first call: prepared once, read on every call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import cache, partial
from inspect import isawaitable
from typing import Any, NamedTuple

from fairlead.actions import Action, Deprecation
from fairlead.failures import Failure, Kind
from fairlead.runtime.context import Context, Unasked
from fairlead.runtime.identity import plain_request_of, request_of, whole
from fairlead.runtime.limits import Gate, succeeded
from fairlead.runtime.permissions import PermissionChecker
from fairlead.runtime.workers import Workers
from fairlead.schema import Invalid, NotJsonable, Schema, schema_of
from fairlead.schema.jsonable import located


class Call(NamedTuple):
    """What a middleware sees. `context.input` is the validated input."""

    action: Action[..., Any]
    input: Any
    context: Context


@cache
def untyped() -> Schema:
    return schema_of(Any)


Next = Callable[[], Awaitable[Any]]
#: Wraps each attempt: `async def middleware(call, next): ... return await next()`.
Middleware = Callable[[Call, Next], Awaitable[Any]]
Body = Callable[[Any, Context], Awaitable[Any]]


class Plan:
    """One action, ready to be called."""

    __slots__ = (
        "action",
        "bare",
        "body",
        "check",
        "checker",
        "chunk",
        "confirmed",
        "deprecated",
        "drop_blanks",
        "gate",
        "hooked",
        "input",
        "keyed",
        "label",
        "limited",
        "name",
        "output",
        "rate",
        "recalls",
        "repair",
        "request_of",
        "streams",
        "surfaces",
        "threaded",
        "validate",
        "wrapped",
    )

    def __init__(
        self,
        action: Action[..., Any],
        middleware: Sequence[Middleware],
        checker: PermissionChecker | None,
        workers: Workers,
        preflight: str,
        surfaces: Mapping[str, Unasked],
    ) -> None:
        binding = action.binding
        self.action = action
        self.name = action.name
        #: Versions of one action are different things to do.
        self.label = f"{action.name}@{action.version}"
        #: Where it may be called from; and for a call that has no context, what one is made of.
        self.surfaces = surfaces
        self.input: Schema = action.input
        self.streams = binding.style in ("async_stream", "sync_stream")
        # What a stream yields has been checked piece by piece when it ends.
        self.output: Schema = untyped() if self.streams or action.output is None else action.output
        #: A ValueError or RecursionError that it raises says that the output is not what was declared.
        self.check = self.output.validate_output if self.output.plain else partial(dumped, self.output)
        self.chunk: Schema = binding.chunk or untyped()
        self.checker = checker
        #: What a caller of a deprecated action is told.
        self.deprecated = None if action.deprecation is None else _deprecated(action.deprecation)
        self.repair = (action.preflight or preflight) == "repair"
        self.validate = action.input.validate
        plain = action.input.plain
        self.request_of = plain_request_of if plain else partial(request_of, action.input)
        self.drop_blanks = action.input.drop_blanks if self.repair else None
        self.keyed = action.side_effects != "read"
        self.confirmed = action.requires_confirmation
        #: Whether what was sent is asked for again, when it has been validated.
        self.recalls = bool(action.retry.retries or (not plain and (self.keyed or self.confirmed)))
        #: How many calls, in how many seconds, and whether for each caller. (A named tuple takes long to take apart.)
        rate = action.rate_limit
        self.rate = None if rate is None else (rate.limit, rate.per, rate.by == "caller")
        self.gate = Gate(action.name, action.concurrency) if action.concurrency.max else None
        self.threaded = binding.style in ("sync", "sync_stream")
        #: Whether every call can be interrupted: by a time limit, or because it runs on a thread.
        self.limited = bool(self.threaded or action.timeout or action.deadline)
        self.wrapped = bool(middleware)
        self.hooked = False
        #: Whether nothing stands between a valid call and its function, and nobody wants the call's context.
        self.bare = not (
            self.limited
            or self.streams
            or self.wrapped
            or binding.wants_context
            or checker is not None
            or self.gate
            or self.confirmed
            or self.rate
            or action.deprecation
            or action.retry.retries
        )
        self.body = _wrapped(_body(self, workers), middleware, action)

    def anew(self, value: Any, sent: Any) -> Any:
        """The input for another attempt, as it was before the body of the last one could change it.

        Where a default is made anew each time, such as an id, the attempts share the one that they have.
        """
        try:
            one, other = self._read(sent), self._read(sent)
            return one if whole(one) == whole(other) else value
        except Exception:  # it was used up, or changed so that it is not valid any more
            return value

    def sees_through(self, context: Context) -> bool:
        """Whether a stopped call's thread is waited for behind middleware, which alone knows the call's result."""
        return self.wrapped and self.threaded and self.keyed and context.idempotency_key is not None

    def _read(self, sent: Any) -> Any:
        try:
            return self.validate(sent)
        except (ValueError, RecursionError) as error:
            return self.input.mend(sent, error, repair=self.repair)[0]


def _deprecated(how: Deprecation) -> dict[str, Any]:
    return {"replacement": how.replacement, "since": how.since, "message": how.message}


def _body(plan: Plan, workers: Workers) -> Body:
    call = plan.action.binding.call
    if plan.action.binding.style == "async":
        return call
    if plan.action.binding.style == "async_stream":
        return lambda value, context: _async_stream(plan, call, value, context)
    run = _sync_stream if plan.streams else _sync_call
    return lambda value, context: _threaded(plan, workers, context, lambda: run(plan, call, value, context))


def _sync_call(plan: Plan, call: Callable[[Any, Any], Any], value: Any, context: Context) -> Any:
    return call(value, context)


async def _threaded(plan: Plan, workers: Workers, context: Context, function: Callable[[], Any]) -> Any:
    """Wait for a worker thread. A cancel is passed on to its token; whether it has stopped, its future tells."""
    signal = context.signal

    def begin() -> Any:
        signal.check()  # it may have waited for a thread until after its caller was answered
        return function()

    context._thread = thread = workers.submit(begin)
    try:
        outcome = await asyncio.wrap_future(thread)
    except asyncio.CancelledError:
        # A middleware's own time limit is for the middleware; only who stops the whole call has set the token.
        if not signal.cancelled or not plan.sees_through(context):
            signal.cancel()
            raise
        return await _seen_through(thread)
    return await outcome if isawaitable(outcome) else outcome


async def _seen_through(thread: Future[Any]) -> Any:
    """What the thread of a stopped call gives after all, so that middleware makes of it what it makes of any."""
    # Stopped once more, as at the end of a program, nobody waits.
    await asyncio.wait((asyncio.wrap_future(thread),))
    if not succeeded(thread) or isawaitable(thread.result()):
        raise asyncio.CancelledError
    return thread.result()


async def _async_stream(plan: Plan, call: Callable[[Any, Any], Any], value: Any, context: Context) -> Any:
    channel = context._channel
    items: list[Any] | None = [] if channel is None or context.idempotency_key is not None else None
    chunks = call(value, context)
    try:
        async for chunk in chunks:
            data = dumped(plan.chunk, chunk)
            context.chunks += 1
            if items is not None:
                items.append(data)
            if channel is not None:
                await channel.put({"type": "chunk", "data": data})
    finally:
        await chunks.aclose()
    return _gathered(items, context)


def _sync_stream(plan: Plan, call: Callable[[Any, Any], Any], value: Any, context: Context) -> Any:
    channel = context._channel
    items: list[Any] | None = [] if channel is None or context.idempotency_key is not None else None
    chunks = call(value, context)
    try:
        for chunk in chunks:
            context.signal.check()
            data = dumped(plan.chunk, chunk)
            context.chunks += 1
            if items is not None:
                items.append(data)
            if channel is not None:
                channel.put_blocking({"type": "chunk", "data": data})
    finally:
        chunks.close()
    return _gathered(items, context)


def _gathered(items: list[Any] | None, context: Context) -> list[Any] | None:
    """What a generator gave in the end: who heard each item gets none again, and who heard none, that there is none."""
    return [] if items is None and not context.chunks else items


def _wrapped(body: Body, middleware: Sequence[Middleware], action: Action[..., Any]) -> Body:
    """The onion: the first middleware is outermost."""
    for layer in reversed(middleware):
        body = _layer(layer, body, action)
    return body


def _layer(layer: Middleware, inner: Body, action: Action[..., Any]) -> Body:
    def run(value: Any, context: Context) -> Awaitable[Any]:
        called = False

        def following() -> Awaitable[Any]:
            nonlocal called
            if called:
                raise Failure(Kind.internal, "Middleware called next() more than once.")
            called = True
            return inner(value, context)

        return layer(Call(action, value, context), following)

    return run


def dumped(schema: Schema, value: Any) -> Any:
    """An action's output, checked against its schema and made JSON."""
    validate = schema.validate_output
    try:
        checked = validate(value)
    except (ValueError, RecursionError) as exc:
        raise invalid_output(schema, exc) from exc
    if schema.plain:
        return checked
    try:
        return schema.dump(checked)
    except Exception as exc:  # whatever a serializer of the developer's types raises
        # Ours stands behind words about the function that it was raised in.
        cause = exc.__cause__ if isinstance(exc.__cause__, NotJsonable) else exc
        why = located(cause, checked) if isinstance(cause, NotJsonable) else cause
        raise Failure(
            Kind.unserializable, f"Action returned a value that is not JSON: {why}", cause=exc
        ) from exc


def invalid_output(schema: Schema, error: Exception) -> Failure:
    issues = schema.issues(error)
    if issues and all(issue.code == "unserializable" for issue in issues):
        message = f"Action returned a value that is not JSON: {Invalid(issues)}"
        return Failure(Kind.unserializable, message, issues=tuple(issues), cause=error)
    return Failure(Kind.invalid_output, "Action returned invalid output.", issues=tuple(issues), cause=error)
