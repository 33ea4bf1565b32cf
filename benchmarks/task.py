"""The one action every contender offers: three validated fields in, a typed task out.

It knows pydantic, because every contender reads pydantic's annotations, and no contender.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from pydantic import Field
from typing_extensions import TypedDict

Call = Callable[[dict[str, Any]], Awaitable[Any]]
Batch = Callable[[int], Awaitable[None]]

VALID: dict[str, Any] = {"title": "Write the report", "priority": 2, "done": False}
WRONG_TYPE = {**VALID, "priority": "high"}
TOO_SHORT = {**VALID, "title": ""}

#: Shows in a result if, and only if, the function has run.
MARK = 4242

Title = Annotated[str, "What is to be done.", Field(min_length=1)]
Priority = Annotated[int, "How urgent it is."]
Done = Annotated[bool, "Whether it is done already."]


class NewTask(TypedDict):
    title: Title
    priority: Priority
    done: Done


class Task(TypedDict):
    id: int
    title: str
    done: bool


async def create_task(title: Title, priority: Priority, done: Done) -> Annotated[Task, "The new task."]:
    """Create a task."""
    return {"id": MARK, "title": title, "done": done}


async def create_wrong_task(title: Title, priority: Priority, done: Done) -> Annotated[Task, "The new task."]:
    """Break the output's contract: the id is no number."""
    return {"id": f"number {MARK}", "title": title, "done": done}  # type: ignore[typeddict-item]


def repeat(call: Call, arguments: dict[str, Any] = VALID, check: Callable[[Any], Any] = id) -> Batch:
    """A batch of the same call, one after another; `check` may refuse the last one's result."""

    async def batch(count: int) -> None:
        result = None
        for _ in range(count):
            result = await call(arguments)
        check(result)

    return batch
