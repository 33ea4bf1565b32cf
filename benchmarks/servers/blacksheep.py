"""BlackSheep: models bound by the framework, and a route whose validation is written by hand."""

from blacksheep import Application, Content, FromJSON, Request, Response, json

from contenders.reference import NewTaskModel, TaskModel
from servers.bare import CHECK, DUMP, VALIDATE
from task import create_task

site = Application()


@site.router.post("/invoke")
async def invoke(data: FromJSON[NewTaskModel]) -> Response:
    task = data.value
    made = await create_task(task.title, task.priority, task.done)
    return json(TaskModel.model_validate(made).model_dump(mode="json"))


@site.router.post("/by-hand")
async def by_hand(request: Request) -> Response:
    try:
        task = VALIDATE(await request.read() or b"")
    except ValueError:
        return Response(422, content=Content(b"application/json", b'{"ok":false}'))
    return Response(200, content=Content(b"application/json", DUMP(CHECK(await create_task(**task)))))
