"""A small app for the command line's start-up time: one action, with a constraint in pydantic's words."""

from typing import Annotated, TypedDict

from pydantic import Field

from fairlead import App

app = App("bench")


class Task(TypedDict):
    id: int
    title: str
    done: bool


@app.action
async def create_task(title: Annotated[str, Field(min_length=1)], priority: int, done: bool = False) -> Task:
    """Create a task."""
    return {"id": 1, "title": title, "done": done}
