"""The published SDK, unchanged, uses our webhooks: group 6 of its conformance script."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import beeos_sdk
import pytest
import uvicorn

from fairlead import App
from fairlead.outgoing import Guard
from gateway.webhooks_under_test import KEY, add_keys, build
from outgoing.receiver import PATIENCE, Receiver, reply

SECRET = "a secret of our own"


@pytest.fixture
async def app(store_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[App]:
    monkeypatch.setenv("FAIRLEAD_SECRET_KEY", base64.b64encode(bytes(range(32))).decode())
    made = build(store_url)
    add_keys(made)
    yield made
    made.store.close()


@pytest.fixture
async def tasks(app: App) -> AsyncIterator[beeos_sdk.TasksApi]:
    """The SDK, on a server of ours."""
    at = socket.create_server(("127.0.0.1", 0))
    site = app.http(gateway={"guard": Guard(allow_private=True)})
    server = uvicorn.Server(uvicorn.Config(site, log_level="error", lifespan="on"))
    serving = asyncio.ensure_future(server.serve([at]))
    host = f"http://127.0.0.1:{at.getsockname()[1]}"
    configuration = beeos_sdk.Configuration(host=host, access_token=KEY, retries=False)
    with beeos_sdk.ApiClient(configuration) as client:
        yield beeos_sdk.TasksApi(client)
    server.should_exit = True
    await asyncio.wait_for(serving, PATIENCE)
    at.close()


async def do(call: Callable[..., Any], *given: Any, **options: Any) -> Any:
    return await asyncio.to_thread(call, *given, **options)


async def test_register_list_receive_deliveries_redeliver_and_delete(
    app: App, tasks: beeos_sdk.TasksApi
) -> None:
    async with Receiver() as receiver:
        made = await do(tasks.create_task, "echo", beeos_sdk.CreateTaskRequest(message="hi"))
        task = made.data.task_id
        asked = beeos_sdk.RegisterTaskWebhookRequest(url=f"{receiver.url}/hook", token="t0ken", secret=SECRET)
        registered = await do(tasks.register_task_webhook_with_http_info, "echo", task, asked)
        assert registered.status_code == 201
        hook = registered.data.data
        assert (hook.task_id, hook.url, hook.has_secret) == (task, f"{receiver.url}/hook", True)
        listed = await do(tasks.list_task_webhooks, "echo", task)
        assert [each.webhook_id for each in listed.data.webhooks] == [hook.webhook_id]

        receiver.answer = lambda got: reply(500 if json.loads(got.body)["final"] else 204)
        async with app.tasks.worker():
            await receiver.count(2)
        first, last = receiver.got
        assert [json.loads(got.body)["status"] for got in (first, last)] == ["running", "completed"]
        assert json.loads(last.body)["final"] is True
        assert last.headers["authorization"] == "Bearer t0ken"
        stamp, _, version = last.headers["x-beeos-signature"].partition(",v1=")
        signed = stamp.removeprefix("t=").encode() + b"." + last.body
        assert version == hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()

        rows = await deliveries(tasks, task, hook.webhook_id, "failed")
        assert [(row.status, row.attempt_num) for row in rows] == [("failed", 1), ("succeeded", 1)]
        assert (rows[0].last_response_status, rows[0].last_error) == (500, "http_status: 500")

        receiver.answer = lambda got: reply(200)
        where = ("echo", task, hook.webhook_id)
        again = await do(tasks.redeliver_webhook_with_http_info, *where, rows[0].delivery_id)
        assert again.status_code == 202
        await receiver.count(3)
        assert receiver.got[2].body == last.body
        with pytest.raises(beeos_sdk.exceptions.ConflictException) as refused:
            await do(tasks.redeliver_webhook, *where, rows[1].delivery_id)
        assert refused.value.data is not None
        assert refused.value.data.error.code == "conflict"

        gone = await do(tasks.delete_task_webhook_with_http_info, *where)
        assert gone.status_code == 204
        assert (await do(tasks.list_task_webhooks, "echo", task)).data.webhooks == []
        with pytest.raises(beeos_sdk.exceptions.NotFoundException):
            await do(tasks.list_webhook_deliveries, *where)


async def deliveries(tasks: beeos_sdk.TasksApi, task: str, hook: str, status: str) -> list[Any]:
    """A webhook's deliveries, once the newest has come so far."""
    async with asyncio.timeout(PATIENCE):
        while True:
            answer = await do(tasks.list_webhook_deliveries, "echo", task, hook, limit=10)
            found: list[Any] = answer.data.deliveries
            if found and found[0].status == status:
                return found
            await asyncio.sleep(0.01)
