"""Fairlead: the shared task plain, with models and with every policy; streams, repairs and worker threads."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from itertools import count
from typing import Any

from contenders.reference import NewTaskModel, TaskModel
from fairlead import App, Context
from task import MARK, VALID, Batch, Call, Done, Priority, Task, Title, create_task, repeat


def make_call(function: Any) -> Call:
    app = App("bench")
    app.action(name="create_task")(function)
    return partial(app.invoke, "create_task")


def shown(result: Any) -> str:
    return repr(result.data)


def unwrapped(result: Any) -> Any:
    return result.unwrap()


def models() -> Batch:
    app = App("bench")

    @app.action
    async def create_task(task: NewTaskModel) -> TaskModel:
        """Create a task."""
        return TaskModel(id=MARK, title=task.title, done=task.done)

    return repeat(partial(app.invoke, "create_task"), check=unwrapped)


def policies() -> Batch:
    def allowed(action: Any, input: Any, context: Context) -> bool:
        return "tasks:write" in context.auth["permissions"]

    def heard(event: Any) -> None:
        pass

    app = App(
        "bench",
        permission_checker=allowed,
        hooks={"on_invocation_start": heard, "on_invocation_end": heard},
        redact={"keys": ["pin"]},
    )

    @app.action(
        side_effects="write",
        permissions=["tasks:write"],
        concurrency=8,
        rate_limit={"limit": 1_000_000_000, "per": 60},
        retry={"retries": 2},
    )
    async def create_task(title: Title, priority: Priority, done: Done, ctx: Context) -> Task:
        """Create a task."""
        ctx.logger.info("task created", priority=priority)
        return {"id": MARK, "title": title, "done": done}

    keys = count()
    user, auth = {"id": "u-1"}, {"permissions": ["tasks:write"]}

    def call(arguments: dict[str, Any]) -> Any:
        key = f"key-{next(keys)}"
        return app.invoke("create_task", arguments, user=user, auth=auth, idempotency_key=key)

    return repeat(call, check=unwrapped)


def no_policies() -> Batch:
    """The plain call, made by the same steps as the one with every policy: a key is made, and not given."""
    app = App("bench")
    app.action(name="create_task")(create_task)
    keys = count()

    def call(arguments: dict[str, Any]) -> Any:
        key = f"key-{next(keys)}"  # noqa: F841
        return app.invoke("create_task", arguments)

    return repeat(call, check=unwrapped)


def valid() -> Batch:
    return repeat(make_call(create_task), check=unwrapped)


def repaired() -> Batch:
    return repeat(make_call(create_task), {**VALID, "priority": "2"}, check=unwrapped)


def create_task_in_a_thread(title: Title, priority: Priority, done: Done) -> Task:
    """Create a task."""
    return {"id": MARK, "title": title, "done": done}


def thread() -> Batch:
    return repeat(make_call(create_task_in_a_thread), check=unwrapped)


def bare_thread() -> Batch:
    async def call(arguments: dict[str, Any]) -> Any:
        return await asyncio.to_thread(create_task_in_a_thread, **arguments)

    return repeat(call)


def bare_stream() -> Batch:
    async def numbers(upto: int) -> AsyncIterator[dict[str, Any]]:
        for number in range(upto):
            yield {"type": "chunk", "data": number}

    async def batch(upto: int) -> None:
        async for _ in numbers(upto):
            pass

    return batch


def chunk_stream() -> Batch:
    app = App("bench")

    @app.action
    async def numbers(upto: int) -> AsyncIterator[int]:
        """Count."""
        for number in range(upto):
            yield number

    return _read(app, "numbers")


def log_stream() -> Batch:
    app = App("bench")

    @app.action
    async def numbers(upto: int, ctx: Context) -> None:
        """Count aloud."""
        for number in range(upto):
            await ctx.logger.info(f"number {number}")

    return _read(app, "numbers")


def _read(app: App, name: str) -> Batch:
    async def batch(upto: int) -> None:
        events = 0
        async for _ in app.stream(name, {"upto": upto}):
            events += 1
        if events <= upto:
            raise RuntimeError(f"{events} events of {upto} and a result")

    return batch
