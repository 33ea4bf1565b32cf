"""Litestar, with models as parameter and return type."""

from litestar import Litestar, post

from contenders.reference import NewTaskModel, TaskModel
from task import create_task


@post("/invoke", status_code=200)
async def invoke(data: NewTaskModel) -> TaskModel:
    return TaskModel.model_validate(await create_task(data.title, data.priority, data.done))


site = Litestar([invoke], openapi_config=None)
