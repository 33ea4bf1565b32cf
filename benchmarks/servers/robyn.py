"""Robyn, on its own server, with validation written by hand."""

from robyn import Request, Response, Robyn

from servers.bare import CHECK, DUMP, VALIDATE
from task import create_task

site = Robyn(__file__)
HEADERS = {"Content-Type": "application/json"}


@site.post("/invoke")
async def invoke(request: Request) -> Response:
    try:
        task = VALIDATE(request.body)
    except ValueError:
        return Response(status_code=422, headers=HEADERS, description='{"ok":false}')
    made = DUMP(CHECK(await create_task(**task)))
    return Response(status_code=200, headers=HEADERS, description=made)


def run(port: int) -> None:
    site.start(host="127.0.0.1", port=port)
