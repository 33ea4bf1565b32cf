"""Pydantic alone: input validated, output validated and dumped to JSON's types. No function is called.

Three ways of the same work: a TypeAdapter's methods, a model's methods, and the compiled parts bare.
"""

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BaseModel, Field, TypeAdapter

from task import MARK, VALID, Batch, NewTask, Task

OUTPUT = {"id": MARK, "title": VALID["title"], "done": VALID["done"]}


def adapter() -> Batch:
    given, result = TypeAdapter(NewTask), TypeAdapter(Task)

    def step() -> None:
        given.validate_python(VALID)
        result.dump_python(result.validate_python(OUTPUT), mode="json")

    return _batch(step)


class NewTaskModel(BaseModel):
    title: Annotated[str, Field(min_length=1)]
    priority: int
    done: bool


class TaskModel(BaseModel):
    id: int
    title: str
    done: bool


def model() -> Batch:
    def step() -> None:
        NewTaskModel.model_validate(VALID)
        TaskModel.model_validate(OUTPUT).model_dump(mode="json")

    return _batch(step)


def core() -> Batch:
    given, result = TypeAdapter(NewTask), TypeAdapter(Task)
    check_input, check_output = given.validator.validate_python, result.validator.validate_python
    dump = result.serializer.to_python

    def step() -> None:
        check_input(VALID)
        dump(check_output(OUTPUT), mode="json")

    return _batch(step)


def _batch(step: Callable[[], Any]) -> Batch:
    async def batch(count: int) -> None:
        for _ in range(count):
            step()

    return batch
