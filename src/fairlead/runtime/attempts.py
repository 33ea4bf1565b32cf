"""Trying a call, and trying it again where that may help: each attempt within its limits, a pause before the next.

It knows when an attempt is worth repeating. What a call holds while it is tried is the runtime's business.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

from fairlead.failures import action as wire
from fairlead.failures import from_exception
from fairlead.runtime.context import Context
from fairlead.runtime.limits import Limits, Straggler, done_after_all
from fairlead.runtime.plan import Plan
from fairlead.runtime.supervision import contained, heard, interruptible


async def attempts(plan: Plan, context: Context, limits: Limits, sent: Any) -> Any:
    """Try until it succeeds, or no further attempt is allowed."""
    while True:
        try:
            return await _attempt(plan, context, limits)
        except Exception as exc:
            await pause(context, limits, exc)
            context.input = plan.anew(context.input, sent)


async def pause(context: Context, limits: Limits, error: Exception) -> None:
    """Wait before the next attempt, or raise the error if there is none."""
    failure = from_exception(error)
    wait = limits.retry.pause(context.attempt, random.random())  # noqa: S311  # spreads retries, hides nothing
    wait = max(wait, failure.retry_after or 0.0)
    # Whoever asks for a longer wait than this action's pauses is not worth holding its caller for.
    if (
        not wait <= limits.retry.max_delay
        or not wire.retryable(failure)
        or (context.chunks and context._channel is not None)  # what was told cannot be taken back
        or not limits.may_retry(context.attempt, wait, context._runtime.clock.monotonic())
    ):
        raise error
    context._signal = context._thread = None
    context.logger.warn(
        "Retrying action after retryable failure.",
        {"attempt": context.attempt, "code": failure.code, "delayMs": round(wait * 1000)},
    )
    if wait:
        await interruptible(context, asyncio.ensure_future(asyncio.sleep(wait)), limits.waiting(None))
    context.attempt += 1
    context.chunks = 0


async def _attempt(plan: Plan, context: Context, limits: Limits) -> Any:
    body = plan.body(context.input, context)
    if limits.unlimited and not plan.threaded:
        return await body
    task = asyncio.ensure_future(contained(body))
    try:
        produced = await interruptible(context, task, limits)
    except BaseException:
        limits.straggler = _straggler(plan, context, task)
        if limits.straggler is None and plan.keyed and context.signal.cancelled:
            limits.straggler = done_after_all(task, context._thread)
        raise
    limits.straggler = _straggler(plan, context, task)
    return produced


def _straggler(plan: Plan, context: Context, task: asyncio.Future[Any]) -> Straggler | None:
    """What still runs although it was told to stop: the body's task, or its thread."""
    thread = context._thread
    if thread is not None and not thread.done():
        workers = context._runtime.workers
        workers.lend()
        thread.add_done_callback(lambda _: workers.reclaim())
        if task.done() or not plan.sees_through(context):
            return thread
    if task.done():
        return None
    task.add_done_callback(heard)
    return task
