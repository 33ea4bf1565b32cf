"""Durable tasks: an invocation that survives whatever happens to the process that accepted it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead._lazy import on_demand

if TYPE_CHECKING:
    from fairlead.tasks.options import Rate
    from fairlead.tasks.records import Event, Task
    from fairlead.tasks.retrying import TaskRetry
    from fairlead.tasks.states import State
    from fairlead.tasks.tasks import Tasks
    from fairlead.tasks.worker import Worker

__all__ = ["Event", "Rate", "State", "Task", "TaskRetry", "Tasks", "Worker"]

__getattr__ = on_demand(
    __name__,
    {
        "Event": "records",
        "Rate": "options",
        "State": "states",
        "Task": "records",
        "TaskRetry": "retrying",
        "Tasks": "tasks",
        "Worker": "worker",
    },
)
