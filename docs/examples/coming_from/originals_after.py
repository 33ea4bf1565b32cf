"""What clients of the originals get from the same action: each its own envelope."""

import asyncio

from starlette.testclient import TestClient

from fairlead import App, Failure, Kind, s
from fairlead.failures import gateway, runtime, tool

app = App("board", description="Keep tasks.")
tasks = {"t1": "Mend the net"}


@app.action(
    input=s.object({"taskId": s.string().min(1)}), side_effects="destructive", requires_confirmation=True
)
async def delete_task(input: dict[str, str]) -> str:
    """Delete a task by id."""
    if input["taskId"] not in tasks:
        raise Failure(Kind.not_found, "There is no such task.", field="taskId")
    return tasks.pop(input["taskId"])


async def main() -> None:
    # Ageniti: the JSON runner takes the same payload and gives the same envelope, and so does HTTP under /ageniti.
    runner = app.json_runner()
    payload = {"action": "delete_task", "input": {"taskId": "t1"}}
    refused = await runner.invoke(payload)
    assert refused["error"]["code"] == "CONFIRMATION_REQUIRED"
    with TestClient(app.http(include_destructive=True)) as client:
        call = {"input": {"taskId": "t1"}, "confirm": True}
        done = client.post("/ageniti/actions/delete_task/invoke", json=call).json()
    assert (done["ok"], done["data"]) == (True, "Mend the net")

    # Osaurus: the tool envelope, for models.
    failed = (await app.invoke("delete_task", {"taskId": "t1"}, confirm=True)).failure
    assert failed is not None
    told = tool.render(failed, tool="delete_task")
    assert (told["ok"], told["kind"], told["field"]) == (False, "not_found", "taskId")

    # BeeOS: the gateway's codes. plumbing: the runtime's, with a category.
    assert gateway.render(failed)["error"]["code"] == "agent_not_found"
    assert runtime.render(failed)["category"] == "not_found"


if __name__ == "__main__":
    asyncio.run(main())
