"""Many calls in one request: run side by side within a bound, answered in the order they were written."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from fairlead.actions.policy import near_miss
from fairlead.failures import Failure, Issue
from fairlead.failures.action import ValidationError
from fairlead.surfaces.http.call import type_of
from fairlead.surfaces.refusal import LONGEST

_MEMBER = "calls"


def read_batch(body: Any, most: int) -> list[Any]:
    """The calls of a batch, each still to be read.

    Raises:
        ValidationError: the body is not a batch, or has more calls than are taken at once.
    """
    if type(body) is not dict:
        raise _invalid(Issue((), "invalid_type", "A batch must be an object.", "object", type_of(body)))
    issues = [_unknown(key) for key in body if key != _MEMBER][:10]
    calls = body.get(_MEMBER)
    if type(calls) is not list:
        message = 'A batch has its calls in a list: {"calls": [...]}.'
        issues.append(Issue((_MEMBER,), "invalid_type", message, "array", type_of(calls)))
    elif len(calls) > most:
        message = f"There are {len(calls)} calls, and at most {most} are taken at once. Send them in parts."
        issues.append(Issue((_MEMBER,), "too_long", message))
    if issues:
        raise _invalid(*issues)
    assert type(calls) is list
    return calls


async def run_batch(calls: list[Any], run: Callable[[Any], Awaitable[bytes]], width: int) -> list[bytes]:
    """Run the calls, so many at once; gives their answers in order."""
    answers: list[bytes] = [b""] * len(calls)
    waiting = iter(enumerate(calls))

    async def worker() -> None:
        for index, call in waiting:
            answers[index] = await run(call)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(width, len(calls))):
            group.create_task(worker())
    return answers


def _unknown(key: str) -> Issue:
    name = key[:LONGEST]
    hint = near_miss(name, (_MEMBER,))
    return Issue((name,), "unknown_key", f"A batch has no such member.{hint} Its one member is calls.")


def _invalid(*issues: Issue) -> Failure:
    return ValidationError("The request's body is not a batch of calls.", issues=issues)
