"""FastAPI: models as parameter and return type, and its server-sent events."""

from collections.abc import AsyncIterable

from fastapi import FastAPI
from fastapi.sse import EventSourceResponse, ServerSentEvent

from contenders.reference import NewTaskModel, TaskModel
from servers import numbers as source
from servers.asked import Asked
from task import create_task

site = FastAPI()


@site.post("/invoke")
async def invoke(task: NewTaskModel) -> TaskModel:
    made = await create_task(task.title, task.priority, task.done)
    return TaskModel.model_validate(made)


@site.post("/stream", response_class=EventSourceResponse)
async def stream(asked: Asked) -> AsyncIterable[ServerSentEvent]:
    number = 0
    async for item in source.numbers(asked.upto, asked.wait):
        number += 1
        yield ServerSentEvent(data={"type": "chunk", "data": item}, event="chunk", id=str(number))
