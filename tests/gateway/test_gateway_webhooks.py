"""Webhooks: every change of a task's status is told, signed, until somebody takes it; and to nobody on the inside."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import itertools
import json
import os
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest

from fairlead import App
from fairlead.gateway import Gateway, changes, webhooks
from fairlead.gateway.a2a_push import NOW
from fairlead.gateway.agents import instant
from fairlead.gateway.changes import DELAYS, Webhook
from fairlead.gateway.deliveries import Deliverer
from fairlead.outgoing import Guard
from fairlead.runtime.clock import Clock
from fairlead.store import Tx
from fairlead.store.statements import Statement
from fairlead.surfaces.talking import gateway_of
from fairlead.tasks import Task, ledger
from fairlead.tasks.states import State
from gateway.webhooks_under_test import KEY, OTHER_KEY, add_keys, build
from outgoing.receiver import PATIENCE, Receiver, reply

SECRET = "a secret of our own"
START = 1_800_000_000.0


class Time:
    """The clock on the wall, which tests move."""

    now = START

    def __call__(self) -> float:
        return self.now


class Site:
    """An app, its gateway, and those who use it."""

    def __init__(self, url: str, stack: AsyncExitStack) -> None:
        self.time = Time()
        self.app: App = build(url, Clock(self.time))
        add_keys(self.app)
        self.guard = Guard(allow_private=True)
        self.gateway = Gateway(self.app, guard=self.guard)
        self._stack = stack

    def client(self, key: str = KEY) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(app=self.gateway)
        return httpx.AsyncClient(
            transport=transport, base_url="http://gateway", headers={"Authorization": f"Bearer {key}"}
        )

    async def deliverer(self, guard: Guard | None = None, **options: Any) -> Deliverer:
        """One that does nothing by itself."""
        made = Deliverer(self.app, guard or self.guard, **options)
        self._stack.push_async_callback(made.stop)
        return made

    async def task(self, action: str = "add", **input: Any) -> Task:
        task: Task = await self.app.tasks.submit(
            action, input or ({"a": 1, "b": 2} if action == "add" else {})
        )
        return task

    async def run(self, *tasks: Task) -> None:
        """Have tasks run until they end or pause."""
        async with self.app.tasks.worker():
            for each in tasks:
                await self.app.tasks.wait(each.id, PATIENCE)

    async def rows(self, webhook: str) -> list[dict[str, Any]]:
        """A webhook's deliveries, the newest first."""
        found = await self.app.store.read(
            lambda tx: tx.all(changes.SQL.deliveries_of, webhook=webhook, size=200)
        )
        return [changes.Delivery(*row).to_dict() for row in found]


@pytest.fixture
async def site(store_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    monkeypatch.setenv("FAIRLEAD_SECRET_KEY", base64.b64encode(bytes(range(32))).decode())
    async with AsyncExitStack() as stack:
        made = Site(store_url, stack)
        yield made
    made.app.store.close()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as made:
        yield made


async def created(site: Site, client: httpx.AsyncClient) -> str:
    """A task that an agent has, over HTTP."""
    answer = await client.post("/api/v1/agents/echo/tasks", json={"message": "hi"})
    assert answer.status_code == 202, answer.text
    id: str = answer.json()["data"]["task_id"]
    return id


def path(task: str, rest: str = "") -> str:
    return f"/api/v1/agents/echo/tasks/{task}/webhooks{rest}"


def bodies(receiver: Receiver) -> list[dict[str, Any]]:
    # Another test may look for its own server at a port that is this one's by now.
    return [json.loads(got.body) for got in receiver.got if got.method == "POST"]


async def test_registering_answers_201_with_what_may_be_known(site: Site) -> None:
    async with site.client() as client:
        task = await created(site, client)
        given = {"url": "https://example.com/hook", "token": "t0ken", "secret": SECRET}
        answer = await client.post(path(task), json=given)
        listed = await client.get(path(task))
    assert answer.status_code == 201
    data = answer.json()["data"]
    assert answer.json()["success"] is True
    assert set(data) == {"webhook_id", "task_id", "url", "has_secret", "created_at"}
    assert (data["task_id"], data["url"], data["has_secret"]) == (task, given["url"], True)
    assert data["created_at"] == "2027-01-15T08:00:00.000Z"
    assert listed.json()["data"] == {"webhooks": [data]}
    for text in (answer.text, listed.text):
        assert SECRET not in text
        assert "t0ken" not in text


async def test_the_same_address_again_is_the_same_webhook_and_an_empty_secret_keeps_the_old(
    site: Site, receiver: Receiver
) -> None:
    async with site.client() as client:
        task = await created(site, client)
        first = await client.post(path(task), json={"url": receiver.url, "secret": SECRET, "token": "one"})
        again = await client.post(path(task), json={"url": receiver.url, "secret": "", "token": "two"})
        site.time.now += 1
        other = await client.post(path(task), json={"url": f"{receiver.url}/other"})
        listed = await client.get(path(task))
    assert again.status_code == 201
    assert again.json()["data"] == first.json()["data"]
    assert other.json()["data"]["has_secret"] is False
    assert [each["url"] for each in listed.json()["data"]["webhooks"]] == [
        receiver.url,
        f"{receiver.url}/other",
    ]
    await site.run(await site.app.tasks.get(task))
    await (await site.deliverer()).round()
    signed = [got for got in receiver.got if got.path == "/"]
    assert all(got.headers["authorization"] == "Bearer two" for got in signed)
    assert all("x-beeos-signature" in got.headers for got in signed)
    assert not any("authorization" in got.headers for got in receiver.got if got.path == "/other")


async def test_tokens_and_secrets_are_sealed_where_they_are_kept(site: Site) -> None:
    task = await site.task()
    await webhooks.add(site.gateway, task, "https://example.com/", token="t0ken", secret=SECRET)
    everything = Statement.of("SELECT token, secret FROM task_webhooks")
    ((token, secret),) = await site.app.store.read(lambda tx: tx.all(everything))
    assert token.startswith("sealed1.")
    assert secret.startswith("sealed1.")
    assert SECRET not in secret


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ({}, "missing_param", "url"),
        ({"url": ""}, "invalid_body", "url"),
        ({"url": 7}, "invalid_body", "url"),
        ({"url": "/relative"}, "invalid_param", "url"),
        ({"url": "ftp://example.com/"}, "invalid_param", "url"),
        ({"url": "https://user:word@example.com/"}, "invalid_param", "url"),
        ({"url": "https://example.com/", "secret": "short"}, "invalid_body", "secret"),
        ({"url": "https://example.com/", "secret": "x" * 257}, "invalid_body", "secret"),
        ({"url": "https://example.com/", "secret": 5}, "invalid_body", "secret"),
        ({"url": "https://example.com/", "token": "a\r\nX-B: c"}, "invalid_body", "token"),
        ({"url": "https://example.com/", "token": ["t"]}, "invalid_body", "token"),
    ],
)
async def test_what_cannot_be_registered_is_refused(
    site: Site, body: dict[str, Any], code: str, param: str
) -> None:
    async with site.client() as client:
        task = await created(site, client)
        answer = await client.post(path(task), json=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, code, param)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://localhost:9/",
        "http://[::ffff:10.0.0.1]/",
        "http://2130706433/",
        "http://169.254.169.254/latest/meta-data/",
    ],
)
async def test_addresses_on_the_inside_are_refused_when_they_are_registered(site: Site, url: str) -> None:
    site.gateway.guard = Guard()
    async with site.client() as client:
        task = await created(site, client)
        answer = await client.post(path(task), json={"url": url})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, "invalid_param", "url")
    assert "(SSRF protection)" in error["message"]


async def test_webhooks_of_others_are_not_to_be_seen(site: Site) -> None:
    async with site.client() as client, site.client(OTHER_KEY) as other:
        task = await created(site, client)
        hook = (await client.post(path(task), json={"url": "https://example.com/"})).json()["data"]
        one = path(task, f"/{hook['webhook_id']}")
        for method, where in (
            ("POST", path(task)),
            ("GET", path(task)),
            ("DELETE", one),
            ("GET", f"{one}/deliveries"),
            ("POST", f"{one}/deliveries/x/redeliver"),
        ):
            answer = await other.request(method, where, json={"url": "https://example.com/"})
            assert answer.status_code == 404, where
        # An agent that others may use has tasks that are not theirs.
        await client.patch("/api/v1/agents/echo", json={"visibility": "public"})
        assert (await other.get(path(task))).status_code == 403
        foreign = await created(site, client)
        assert (await client.get(path(foreign, f"/{hook['webhook_id']}/deliveries"))).status_code == 404
        for where in (path("nothing"), path(task, "/nothing/deliveries")):
            answer = await client.get(where)
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "agent_not_found")
        assert (await client.delete(path(task, "/nothing"))).status_code == 404
        assert (await client.post(f"{one}/deliveries/nothing/redeliver")).status_code == 404


async def test_every_change_is_told_in_order_and_the_last_one_is_final(
    site: Site, receiver: Receiver
) -> None:
    task = await site.task("ask")
    hook = await webhooks.add(site.gateway, task, receiver.url, token="t0ken")
    deliverer = await site.deliverer()
    assert await deliverer.round() == 0
    await site.run(task)
    site.time.now += 1
    await site.app.tasks.answer(task.id, "tea")
    await site.run(task)
    await deliverer.round()
    site.time.now += 1
    await site.app.tasks.answer(task.id, "yes")
    await site.run(task)
    await deliverer.round()
    told = bodies(receiver)
    assert [each["status"] for each in told] == [
        "running",
        "input_required",
        "running",
        "auth_required",
        "running",
        "completed",
    ]
    assert [each["final"] for each in told] == [False] * 5 + [True]
    assert [each["timestamp"] for each in told] == [int(START + s) * 1000 for s in (0, 0, 1, 1, 2, 2)]
    assert all(each["type"] == "task_status" and each["task_id"] == task.id for each in told)
    assert all(
        set(each) == {"type", "task_id", "context_id", "status", "final", "timestamp"} for each in told
    )
    for got in receiver.got:
        assert got.method == "POST"
        assert got.headers["content-type"] == "application/json"
        assert got.headers["x-beeos-webhook-format"] == "openapi"
        assert got.headers["x-beeos-event"] == "task.state"
        assert got.headers["x-beeos-task-id"] == task.id
        assert got.headers["authorization"] == "Bearer t0ken"
        assert "x-beeos-signature" not in got.headers
    rows = await site.rows(hook.id)
    assert {row["status"] for row in rows} == {"succeeded"}
    assert {(row["attempt_num"], row["last_response_status"]) for row in rows} == {(1, 200)}
    assert await deliverer.round() == 0


@pytest.mark.parametrize("how", ["canceled", "timeout", "failed"])
async def test_other_ends_are_told_too(site: Site, receiver: Receiver, how: str) -> None:
    task = await site.app.tasks.submit("add", {"a": 1, "b": 2}, deadline=100)
    await webhooks.add(site.gateway, task, receiver.url)
    if how == "canceled":
        await site.app.tasks.cancel(task.id)
    elif how == "timeout":
        site.time.now += 101
        async with site.app.tasks.worker():
            await site.app.tasks.wait(task.id, PATIENCE)
    else:
        await site.app.store.write(
            lambda tx: ledger.cut(tx, task.id, State.rejected, "agent_busy", site.time())
        )
        how = "rejected"
    await (await site.deliverer()).round()
    assert [(each["status"], each["final"]) for each in bodies(receiver)][-1] == (how, True)


async def test_a_signature_is_made_over_the_moment_and_the_body_anew_for_each_attempt(
    site: Site, receiver: Receiver
) -> None:
    receiver.answer = lambda got: reply(500)
    task = await site.task()
    await site.app.tasks.cancel(task.id)
    await webhooks.add(site.gateway, task, receiver.url, secret=SECRET)
    deliverer = await site.deliverer()
    await deliverer.round()
    site.time.now += DELAYS[0]
    await deliverer.round()
    first, second = receiver.got
    assert first.body == second.body
    for got, moment in ((first, START), (second, START + 60)):
        stamp, _, version = got.headers["x-beeos-signature"].partition(",")
        assert stamp == f"t={int(moment)}"
        mine = hmac.new(SECRET.encode(), f"{int(moment)}.".encode() + got.body, hashlib.sha256).hexdigest()
        assert version == f"v1={mine}"


async def ended_with_hook(site: Site, url: str, **options: Any) -> Webhook:
    """A webhook with one thing to tell."""
    task = await site.task()
    await site.app.tasks.cancel(task.id)
    return await webhooks.add(site.gateway, task, url, **options)


async def test_a_task_that_has_ended_is_told_of_once(site: Site, receiver: Receiver) -> None:
    task = await site.task()
    await site.run(task)
    await webhooks.add(site.gateway, task, receiver.url)
    await webhooks.add(site.gateway, task, receiver.url)
    await (await site.deliverer()).round()
    assert [(each["status"], each["final"]) for each in bodies(receiver)] == [("completed", True)]


@pytest.mark.parametrize("status", [500, 503, 400, 404, 410, 429, 302])
async def test_what_is_not_taken_is_tried_after_1_5_and_30_minutes_2_and_12_hours_and_then_given_up(
    site: Site, receiver: Receiver, status: int
) -> None:
    receiver.answer = lambda got: reply(status, location=f"{receiver.url}/elsewhere")
    hook = await ended_with_hook(site, receiver.url)
    deliverer = await site.deliverer()
    for number, delay in enumerate(DELAYS, 1):
        assert await deliverer.round() == 1
        (row,) = await site.rows(hook.id)
        assert (row["status"], row["attempt_num"], row["last_response_status"]) == ("failed", number, status)
        assert row["last_error"] == f"http_status: {status}"
        assert row["next_attempt_at"] == instant(site.time.now + delay)
        assert "completed_at" not in row
        site.time.now += delay - 0.001
        assert await deliverer.round() == 0
        site.time.now += 0.001
    assert await deliverer.round() == 1
    (row,) = await site.rows(hook.id)
    assert (row["status"], row["attempt_num"]) == ("dead_letter", 6)
    assert row["completed_at"] == row["last_attempted_at"] == instant(site.time.now)
    site.time.now += 1e6
    assert await deliverer.round() == 0
    assert [got.path for got in receiver.got] == ["/"] * 6
    assert len({got.body for got in receiver.got}) == 1


async def test_a_receiver_that_gets_well_has_it_then(site: Site, receiver: Receiver) -> None:
    answers = [500, 204]
    receiver.answer = lambda got: reply(answers.pop(0))
    hook = await ended_with_hook(site, receiver.url)
    deliverer = await site.deliverer()
    await deliverer.round()
    site.time.now += 60
    await deliverer.round()
    (row,) = await site.rows(hook.id)
    assert (row["status"], row["attempt_num"], row["last_response_status"]) == ("succeeded", 2, 204)
    assert "last_error" not in row


async def test_a_receiver_that_does_not_answer_in_time_is_a_failure_of_transport(
    site: Site, receiver: Receiver
) -> None:
    receiver.go.clear()
    hook = await ended_with_hook(site, receiver.url)
    await (await site.deliverer(timeout=0.2)).round()
    (row,) = await site.rows(hook.id)
    assert (row["status"], row["last_response_status"]) == ("failed", 0)
    assert row["last_error"].startswith("transport: ")


async def test_a_name_that_leads_inside_when_it_is_called_is_not_called(
    site: Site, receiver: Receiver
) -> None:
    answers = [["93.184.216.34"], ["127.0.0.1"]]

    async def resolve(name: str, port: int) -> list[str]:
        return answers.pop(0) if len(answers) > 1 else answers[0]

    site.gateway.guard = Guard(resolve=resolve)
    hook = await ended_with_hook(site, f"http://rebinding.example:{receiver.port}/")
    await (await site.deliverer(site.gateway.guard)).round()
    (row,) = await site.rows(hook.id)
    assert row["status"] == "failed"
    assert row["last_error"].startswith("transport: ")
    assert row["last_error"].endswith("(SSRF protection)")
    assert receiver.got == []


async def test_a_worker_delivers_to_where_the_app_s_server_may(site: Site, receiver: Receiver) -> None:
    site.app.http(gateway={"guard": Guard(allow_private=True)})
    worker = gateway_of(site.app)
    hook = await ended_with_hook(site, receiver.url)
    worker.start(serving=False)
    try:
        await receiver.count(1)
    finally:
        await worker.stop()
    assert [each["status"] for each in await site.rows(hook.id)] == ["succeeded"]


async def test_a_name_that_has_no_address_yet_may_be_registered(site: Site, receiver: Receiver) -> None:
    answers: list[list[str]] = [[], ["127.0.0.1"]]

    async def resolve(name: str, port: int) -> list[str]:
        return answers.pop(0) if len(answers) > 1 else answers[0]

    site.gateway.guard = Guard(allow=["new.test"], resolve=resolve)
    await ended_with_hook(site, f"http://new.test:{receiver.port}/")
    await (await site.deliverer(site.gateway.guard)).round()
    assert len(receiver.got) == 1


async def test_names_that_no_name_server_answers_for_hold_up_nothing_but_themselves(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered, look = threading.Event(), socket.getaddrinfo
    loop, full, threads = asyncio.get_running_loop(), asyncio.Event(), itertools.count(1)
    # As many as wait for everything that has no threads of its own.
    most = min(32, (os.cpu_count() or 1) + 4)

    def slow(name: Any, *about: Any, **more: Any) -> Any:
        if not str(name).endswith(".slow.test"):
            return look(name, *about, **more)
        if next(threads) == most:
            loop.call_soon_threadsafe(full.set)
        answered.wait(PATIENCE)
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    async with site.client() as client:
        place = path(await created(site, client))
        asked = [
            asyncio.ensure_future(client.post(place, json={"url": f"http://{number}.slow.test/"}))
            for number in range(40)
        ]
        try:
            # A secret is sealed on a thread.
            async with asyncio.timeout(PATIENCE / 2):
                await full.wait()
                url = "http://93.184.216.34/"
                answer = await client.post(place, json={"url": url, "secret": SECRET})
            assert answer.status_code == 201
            assert not answered.is_set()
        finally:
            answered.set()
            await asyncio.gather(*asked)


async def test_deliveries_are_listed_the_newest_first_without_what_was_sent(
    site: Site, receiver: Receiver
) -> None:
    async with site.client() as client:
        task = await created(site, client)
        given = {"url": receiver.url, "secret": SECRET, "token": "t0ken"}
        hook = (await client.post(path(task), json=given)).json()["data"]["webhook_id"]
        await site.run(await site.app.tasks.get(task))
        where = path(task, f"/{hook}/deliveries")
        await (await site.deliverer()).follow()
        waiting = (await client.get(where)).json()["data"]["deliveries"]
        assert [(row["status"], row["attempt_num"]) for row in waiting] == [("pending", 0), ("pending", 0)]
        assert [row["last_response_status"] for row in waiting] == [0, 0]
        await (await site.deliverer()).round()
        answer = await client.get(where)
        rows = answer.json()["data"]["deliveries"]
        assert [row["delivery_id"] for row in rows] == [row["delivery_id"] for row in waiting]
        assert set(rows[0]) == {
            "delivery_id",
            "webhook_id",
            "task_id",
            "renderer",
            "status",
            "attempt_num",
            "last_response_status",
            "next_attempt_at",
            "last_attempted_at",
            "created_at",
            "completed_at",
        }
        assert (rows[0]["webhook_id"], rows[0]["task_id"], rows[0]["renderer"]) == (hook, task, "openapi")
        assert SECRET not in answer.text
        assert "t0ken" not in answer.text
        assert bodies(receiver)[-1]["status"] == "completed"
        for limit, size in (("1", 1), ("0", 1), ("-5", 1), ("200", 2), ("100000", 2)):
            found = await client.get(where, params={"limit": limit})
            assert len(found.json()["data"]["deliveries"]) == size
        bad = await client.get(where, params={"limit": "many"})
        assert (bad.status_code, bad.json()["error"]["code"]) == (400, "invalid_param")


async def test_only_what_failed_is_delivered_again_as_a_delivery_of_its_own(
    site: Site, receiver: Receiver
) -> None:
    answers = [500]
    receiver.answer = lambda got: reply(answers[0])
    async with site.client() as client:
        task = await created(site, client)
        hook = (await client.post(path(task), json={"url": receiver.url})).json()["data"]["webhook_id"]
        await client.post(f"/api/v1/agents/echo/tasks/{task}/cancel")
        deliverer = await site.deliverer()
        await deliverer.follow()
        (row,) = await site.rows(hook)
        where = path(task, f"/{hook}/deliveries/{row['delivery_id']}/redeliver")
        early = await client.post(where)
        assert (early.status_code, early.json()["error"]["code"]) == (409, "conflict")
        await deliverer.round()
        answers[0] = 200
        answer = await client.post(where)
        assert answer.status_code == 202
        new = answer.json()["data"]
        assert new["delivery_id"] != row["delivery_id"]
        assert (new["status"], new["attempt_num"], new["webhook_id"]) == ("pending", 0, hook)
        assert await deliverer.round() == 1
        assert receiver.got[0].body == receiver.got[1].body
        rows = {each["delivery_id"]: each["status"] for each in await site.rows(hook)}
        assert rows == {row["delivery_id"]: "failed", new["delivery_id"]: "succeeded"}
        late = await client.post(where.replace(row["delivery_id"], new["delivery_id"]))
        assert late.status_code == 409
        # Each call is one more; what was given up can be rescued, too.
        site.time.now += sum(DELAYS)
        answers[0] = 500
        while (await site.rows(hook))[-1]["status"] != "dead_letter":
            await deliverer.round()
            site.time.now += DELAYS[-1]
        assert (await client.post(where)).status_code == 202
        assert (await client.post(where)).status_code == 202
        assert len(await site.rows(hook)) == 4


async def test_what_is_delivered_again_is_one_delivery_though_the_store_does_its_writes_again(
    site: Site, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a lost connection, when nobody knows whether the first was committed."""
    receiver.answer = lambda got: reply(500)
    async with site.client() as client:
        task = await created(site, client)
        hook = (await client.post(path(task), json={"url": receiver.url})).json()["data"]["webhook_id"]
        await client.post(f"/api/v1/agents/echo/tasks/{task}/cancel")
        await (await site.deliverer()).round()
        (row,) = await site.rows(hook)
        write = site.app.store.write

        async def twice(work: Any) -> Any:
            await write(work)
            return await write(work)

        monkeypatch.setattr(site.app.store, "write", twice)
        answer = await client.post(path(task, f"/{hook}/deliveries/{row['delivery_id']}/redeliver"))
    assert answer.status_code == 202
    told = answer.json()["data"]["delivery_id"]
    assert [each["delivery_id"] for each in await site.rows(hook)] == [told, row["delivery_id"]]


async def test_after_a_deletion_nothing_is_sent(site: Site, receiver: Receiver) -> None:
    async with site.client() as client:
        task = await created(site, client)
        hook = (await client.post(path(task), json={"url": receiver.url})).json()["data"]["webhook_id"]
        await site.run(await site.app.tasks.get(task))
        deliverer = await site.deliverer()
        assert await deliverer.follow() == 2
        answer = await client.delete(path(task, f"/{hook}"))
        assert (answer.status_code, answer.content) == (204, b"")
        assert await deliverer.round() == 0
        assert (await client.get(path(task))).json()["data"] == {"webhooks": []}
        assert (await client.delete(path(task, f"/{hook}"))).status_code == 404
    assert receiver.got == []


async def test_a_deletion_does_not_cut_off_what_is_under_way(site: Site, receiver: Receiver) -> None:
    receiver.go.clear()
    hook = await ended_with_hook(site, receiver.url)
    round = asyncio.ensure_future((await site.deliverer()).round())
    await receiver.count(1)
    await site.app.store.write(lambda tx: changes.remove(tx, hook.id))
    receiver.go.set()
    assert await round == 1
    assert await site.rows(hook.id) == []


async def test_no_more_than_five_deliveries_of_one_change_are_made_at_once_in_all_processes(
    site: Site, receiver: Receiver
) -> None:
    receiver.go.clear()
    task = await site.task()
    for number in range(12):
        await webhooks.add(site.gateway, task, f"{receiver.url}/{number}")
    await site.app.tasks.cancel(task.id)
    others = [await site.deliverer() for _ in range(3)]
    for each in others:
        each.start()
    await receiver.count(5)
    await asyncio.gather(*(each.follow() for each in others))
    assert (len(receiver.got), receiver.busy) == (5, 5)
    receiver.go.set()
    await receiver.count(12)
    assert receiver.most == 5
    assert len({got.path for got in receiver.got}) == 12


async def test_a_change_that_a_crowd_is_told_of_does_not_hold_up_the_others(site: Site) -> None:
    """More than are looked at at once, each at a host of its own."""
    task = await site.task()
    same = {"task": task.id, "renderer": "openapi", "number": 7, "payload": "{}", "now": START}
    rows = [
        {**same, "id": f"d{each:04}", "webhook": f"w{each}", "host": f"h{each}.test"} for each in range(2010)
    ]

    def crowd(tx: Tx) -> None:
        tx.many(changes.SQL.add_delivery, rows)
        for each in rows[: changes.ABREAST]:
            hook = {"id": each["webhook"], "url": f"http://{each['host']}/", "token": None, "secret": None}
            changes.register(tx, {**hook, "renderer": "openapi"}, task, START)

    await site.app.store.write(crowd)
    site.time.now += 1
    hook = await ended_with_hook(site, "http://other.test/")
    taken = [
        await site.app.store.write(lambda tx: changes.take(tx, "a", 64, site.time(), 30.0)) for _ in range(2)
    ]
    assert [each.delivery.task for each in taken[0]] == [task.id] * changes.ABREAST
    assert [each.webhook.id for each in taken[1]] == [hook.id]


async def test_a_host_that_is_slow_does_not_hold_up_the_others(site: Site, receiver: Receiver) -> None:
    receiver.go.clear()
    for _ in range(changes.EACH + 3):
        await ended_with_hook(site, receiver.url)
    deliverer = await site.deliverer()
    async with Receiver(host="127.0.0.2") as quick:
        await ended_with_hook(site, quick.url)
        deliverer.start()
        await quick.count(1)
        await receiver.count(changes.EACH)
        assert receiver.busy == changes.EACH
        receiver.go.set()
        await receiver.count(changes.EACH + 3)


async def test_an_owner_s_slow_receivers_leave_places_for_the_others(site: Site, receiver: Receiver) -> None:
    receiver.go.clear()
    deliverer = await site.deliverer(concurrency=8)

    async def ended(owner: str, url: str) -> None:
        entering = site.gateway.entries.entering("echo", owner)
        task = await site.app.tasks.submit("add", {"a": 1, "b": 2}, also=entering)
        await webhooks.add(site.gateway, task, url)
        await site.app.tasks.cancel(task.id)
        await deliverer.follow()
        site.time.now += 1

    async with Receiver(host="127.0.0.2") as quick:
        for _ in range(10):
            await ended("local", receiver.url)
        await ended("other", quick.url)
        deliverer.start()
        await quick.count(1)
        await receiver.count(6)
        assert receiver.busy == 6
        receiver.go.set()
        await receiver.count(10)


async def test_an_invoke_that_left_a_task_can_be_told_of(site: Site, receiver: Receiver) -> None:
    async with site.client() as client:
        answer = await client.post("/api/v1/agents/echo/invoke", json={"message": "hi"})
        task = answer.json()["data"]["context_id"]
        answer = await client.post(path(task), json={"url": receiver.url})
        assert answer.status_code == 201, answer.text
    await (await site.deliverer()).round()
    assert [(each["task_id"], each["status"]) for each in bodies(receiver)] == [(task, "completed")]


async def test_what_a_task_says_meanwhile_is_no_change(site: Site, receiver: Receiver) -> None:
    """A run that is tried again stays running."""
    task = await site.task("flaky")
    hook = await webhooks.add(site.gateway, task, receiver.url)
    deliverer = await site.deliverer()
    async with site.app.tasks.worker():
        await seen_through(site, task, 2)
    assert await deliverer.round() == 2
    assert [each["status"] for each in bodies(receiver)] == ["running", "completed"]
    assert len(await site.rows(hook.id)) == 2


async def test_a_notification_has_the_question_that_was_asked_however_late_it_is_made(
    site: Site, receiver: Receiver
) -> None:
    task = await site.task("ask")
    await webhooks.add(site.gateway, task, receiver.url, renderer=NOW)
    async with site.app.tasks.worker(), asyncio.timeout(PATIENCE):
        async for event in site.app.tasks.events(task.id):
            if event.type == "clarification":
                await site.app.tasks.answer(task.id, "yes")
    await (await site.deliverer()).round()
    told = [each["task"]["status"] for each in bodies(receiver)]
    asked = {each["state"]: each["message"]["parts"][0]["text"] for each in told if "message" in each}
    assert asked["TASK_STATE_INPUT_REQUIRED"] == "Which?"
    assert asked["TASK_STATE_AUTH_REQUIRED"] == "May I?"


class Between:
    """A transaction in the midst of which others do something."""

    def __init__(self, tx: Tx, do: Callable[[], object]) -> None:
        self._tx, self._do = tx, do

    def all(self, statement: Statement, **values: Any) -> Any:
        if statement is changes.SQL.status_events:
            self._do()
        return self._tx.all(statement, **values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)


async def test_a_notification_has_the_answer_of_a_task_that_ends_while_it_is_followed(
    site: Site, receiver: Receiver, store_url: str
) -> None:
    task = await site.task()
    hook = await webhooks.add(site.gateway, task, receiver.url, renderer=NOW)
    other = build(store_url, Clock(site.time))

    def end(tx: Tx) -> None:
        taken = ledger.take_one(tx, task.id, "other", site.time(), 30.0)
        assert taken is not None
        assert ledger.finish(
            tx,
            ledger.Held(task.id, taken.run, "other"),
            State.completed,
            '{"ok":true,"data":"Done."}',
            None,
            (),
            START,
        )

    def follow(tx: Tx) -> int:
        done: Any = Between(tx, lambda: other.store.write_now(end))
        return changes.follow(done, hook.id, site.time())

    if store_url.startswith("sqlite"):  # there, nobody else writes meanwhile
        other.store.write_now(end)
        await site.app.store.write(lambda tx: changes.follow(tx, hook.id, site.time()))
    else:
        await site.app.store.write(follow)
    other.store.close()
    await (await site.deliverer()).round()
    last = bodies(receiver)[-1]["task"]
    assert last["status"]["state"] == "TASK_STATE_COMPLETED"
    assert last["artifacts"][0]["parts"][0]["text"] == "Done."


async def seen_through(site: Site, task: Task, attempts: int) -> None:
    """Wait for a task that needs so many attempts, whose pauses are over when the clock says so."""
    async with asyncio.timeout(PATIENCE):
        async for event in site.app.tasks.events(task.id):
            if event.type == "log":
                site.time.now += 600
                await site.app.store.write(lambda tx: tx.tell(ledger.work_topic(site.app.tasks.queue)))
    assert (await site.app.tasks.get(task.id)).attempt == attempts


async def test_ids_that_no_database_can_hold_are_unknown(site: Site) -> None:
    async with site.client() as client:
        task = await created(site, client)
        for where in (path(task, "/%00/deliveries"), path("%00"), path(task, "/%ED%A0%80/deliveries")):
            assert (await client.get(where)).status_code in (400, 404), where


async def test_several_deliverers_share_the_work_and_nothing_is_sent_twice(
    site: Site, receiver: Receiver
) -> None:
    tasks = [await site.task() for _ in range(20)]
    for task in tasks:
        await webhooks.add(site.gateway, task, receiver.url)
    others = [await site.deliverer(concurrency=3) for _ in range(3)]
    for each in others:
        each.start()
    await site.run(*tasks)
    await receiver.count(40)
    for each in others:
        await each.stop()
    sent = [(each["task_id"], each["status"]) for each in bodies(receiver)]
    assert sorted(sent) == sorted((task.id, status) for task in tasks for status in ("running", "completed"))
    order = {task.id: [status for id, status in sent if id == task.id] for task in tasks}
    assert all(found == ["running", "completed"] for found in order.values())


async def test_a_later_change_waits_for_an_earlier_one_but_not_for_its_retries(
    site: Site, receiver: Receiver
) -> None:
    task = await site.task()
    await webhooks.add(site.gateway, task, receiver.url)
    await site.run(task)
    receiver.answer = lambda got: reply(500 if json.loads(got.body)["status"] == "running" else 200)
    await (await site.deliverer()).round()
    assert [each["status"] for each in bodies(receiver)] == ["running", "completed"]
    site.time.now += 60
    receiver.answer = lambda got: reply(200)
    await (await site.deliverer()).round()
    assert [each["status"] for each in bodies(receiver)][2:] == ["running"]


async def test_what_a_dead_process_had_in_hand_is_taken_over_and_counts_once(
    site: Site, receiver: Receiver
) -> None:
    hook = await ended_with_hook(site, receiver.url)
    dead = await site.app.store.write(lambda tx: changes.take(tx, "dead", 10, site.time(), 30.0))
    assert len(dead) == 1
    deliverer = await site.deliverer()
    assert await deliverer.round() == 0
    site.time.now += 30.001
    assert await deliverer.round() == 1
    (row,) = await site.rows(hook.id)
    assert (row["status"], row["attempt_num"]) == ("succeeded", 1)
    # It wakes up too late to be heard.
    await site.app.store.write(
        lambda tx: changes.settle(tx, dead[0].delivery, "dead", 0, "transport: late", site.time())
    )
    assert (await site.rows(hook.id))[0]["status"] == "succeeded"


async def test_one_that_stops_gives_back_what_it_could_not_finish(site: Site, receiver: Receiver) -> None:
    receiver.go.clear()
    hook = await ended_with_hook(site, receiver.url)
    deliverer = await site.deliverer()
    deliverer.start()
    await receiver.count(1)
    await deliverer.stop(patience=0)
    (row,) = await site.rows(hook.id)
    assert (row["status"], row["attempt_num"]) == ("pending", 0)
    receiver.go.set()
    assert await (await site.deliverer()).round() == 1


async def test_one_that_stops_waits_for_what_is_under_way(site: Site, receiver: Receiver) -> None:
    receiver.go.clear()
    hook = await ended_with_hook(site, receiver.url)
    deliverer = await site.deliverer()
    deliverer.start()
    await receiver.count(1)
    stopping = asyncio.ensure_future(deliverer.stop())
    receiver.go.set()
    await stopping
    assert (await site.rows(hook.id))[0]["status"] == "succeeded"


async def test_a_change_is_delivered_when_it_happens_and_not_at_the_next_look(
    site: Site, receiver: Receiver
) -> None:
    deliverer = await site.deliverer(look=3600.0)
    deliverer.start()
    for number in range(1, 4):
        task = await site.task()
        await webhooks.add(site.gateway, task, receiver.url)
        await site.run(task)
        await receiver.count(number * 2)


async def test_starting_and_stopping_twice_is_the_same_as_once(site: Site, receiver: Receiver) -> None:
    deliverer = await site.deliverer()
    deliverer.start()
    deliverer.start()
    await ended_with_hook(site, receiver.url)
    await receiver.count(1)
    await deliverer.stop()
    await deliverer.stop()


async def test_webhooks_of_tasks_that_are_no_more_are_forgotten(site: Site, receiver: Receiver) -> None:
    hook = await ended_with_hook(site, receiver.url)
    kept = await ended_with_hook(site, receiver.url)
    await (await site.deliverer()).round()
    gone = Statement.of("DELETE FROM tasks WHERE id = :id")
    await site.app.store.write(lambda tx: tx.run(gone, id=hook.task))
    await (await site.deliverer()).forget()
    assert await site.rows(hook.id) == []
    assert len(await site.rows(kept.id)) == 1


async def test_a_secret_that_cannot_be_opened_is_a_failed_attempt_that_says_nothing(
    site: Site, receiver: Receiver
) -> None:
    hook = await ended_with_hook(site, receiver.url, secret=SECRET)
    spoiled = Statement.of("UPDATE task_webhooks SET secret = :secret")
    await site.app.store.write(lambda tx: tx.run(spoiled, secret="sealed1.0123456789abcdef.AAAA"))
    await (await site.deliverer()).round()
    (row,) = await site.rows(hook.id)
    assert row["status"] == "failed"
    assert receiver.got == []
