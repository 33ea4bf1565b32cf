"""The smallest app for the command line's start-up time: one action of plain types, and nothing else to load."""

from typing import TypedDict

from fairlead import App

app = App("bench")


class Task(TypedDict):
    id: int
    title: str
    done: bool


@app.action
async def create_task(title: str, priority: int, done: bool = False) -> Task:
    """Create a task."""
    return {"id": 1, "title": title, "done": done}
