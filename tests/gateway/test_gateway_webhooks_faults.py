"""Processes that are killed and databases that go away lose no delivery."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead import App
from fairlead.gateway import Gateway, changes, webhooks
from fairlead.gateway.changes import Delivery
from fairlead.gateway.deliveries import Deliverer
from fairlead.outgoing import Guard
from gateway.webhooks_under_test import build
from outgoing.receiver import PATIENCE, Receiver
from servers import Nats, Postgres
from warm import Warm
from warm_child import Child

Start = Callable[..., subprocess.Popen[bytes]]
HERE = Guard(allow_private=True)


@pytest.fixture
def app(store_url: str) -> Iterator[App]:
    made = build(store_url)
    yield made
    made.store.close()


@pytest.fixture
def start(store_url: str, warm_python: Warm) -> Iterator[Start]:
    """Start the app in a process of its own, and wait until it is there."""
    begun: list[subprocess.Popen[bytes]] = []

    def begin(role: str, lease: float = 30.0) -> subprocess.Popen[bytes]:
        program = str(Path(__file__).with_name("webhooks_under_test.py"))
        process = Child(warm_python, program, role, store_url, "--lease", str(lease), stdout=subprocess.PIPE)
        begun.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        return process

    yield begin
    for each in begun:
        killed(each)


def killed(process: subprocess.Popen[bytes]) -> None:
    """kill -9, and wait until it is gone."""
    process.kill()
    process.wait(PATIENCE)
    if process.stdout is not None:
        process.stdout.close()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as made:
        yield made


def told(receiver: Receiver) -> list[tuple[str, str]]:
    bodies = [json.loads(got.body) for got in receiver.got]
    return [(each["task_id"], each["status"]) for each in bodies]


async def test_a_process_killed_between_the_change_and_its_delivery_loses_nothing(
    app: App, start: Start, receiver: Receiver
) -> None:
    tasks = [await app.tasks.submit("add", {"a": 1, "b": 2}) for _ in range(5)]
    for task in tasks:
        await webhooks.add(Gateway(app, guard=HERE), task, receiver.url)
    worker = await asyncio.to_thread(start, "work")
    for task in tasks:
        await app.tasks.wait(task.id, PATIENCE)
    killed(worker)
    assert receiver.got == []
    await asyncio.to_thread(start, "deliver")
    await receiver.count(10)
    wanted = [(task.id, status) for task in tasks for status in ("running", "completed")]
    assert sorted(told(receiver)) == sorted(wanted)


async def test_a_process_killed_in_the_middle_of_an_attempt_is_followed_by_another(
    app: App, start: Start, receiver: Receiver
) -> None:
    receiver.go.clear()
    task = await app.tasks.submit("add", {"a": 1, "b": 2})
    hook = await webhooks.add(Gateway(app, guard=HERE), task, receiver.url)
    await app.tasks.cancel(task.id)
    first = await asyncio.to_thread(start, "deliver", 1.0)
    await receiver.count(1)
    killed(first)
    receiver.go.set()
    await asyncio.to_thread(start, "deliver")
    await receiver.count(2)
    assert receiver.got[0].body == receiver.got[1].body
    row = await settled(app, hook.id)
    assert (row["status"], row["attempt_num"]) == ("succeeded", 1)


async def test_processes_killed_again_and_again_under_load_lose_nothing(
    app: App, start: Start, receiver: Receiver
) -> None:
    running = [await asyncio.to_thread(start, "both", 2.0) for _ in range(2)]
    gateway = Gateway(app, guard=HERE)
    wanted: set[tuple[str, str]] = set()
    for number in range(4):
        for _ in range(8):
            task = await app.tasks.submit("add", {"a": 1, "b": 2}, delay=0.2, max_attempts=100)
            hook = await webhooks.add(gateway, task, receiver.url)
            wanted.add((task.id, "completed"))
            # On a busy machine it may have begun before.
            wanted |= {(task.id, "running")} if hook.state == "queued" else set()
        await receiver.count(number * 8 + 3)
        killed(running.pop(0))
        running.append(await asyncio.to_thread(start, "both", 2.0))
    async with asyncio.timeout(PATIENCE * 2):
        while set(told(receiver)) < wanted:
            await receiver.count(len(receiver.got) + 1)
    assert set(told(receiver)) == wanted


async def test_a_database_that_goes_away_during_an_attempt_hears_of_it_when_it_is_back(
    own_postgres: Postgres, receiver: Receiver
) -> None:
    app = build(own_postgres.url())
    receiver.go.clear()
    task = await app.tasks.submit("add", {"a": 1, "b": 2})
    hook = await webhooks.add(Gateway(app, guard=HERE), task, receiver.url)
    await app.tasks.cancel(task.id)
    async with Deliverer(app, HERE):
        await receiver.count(1)
        await asyncio.to_thread(own_postgres.stop)
        receiver.go.set()
        await asyncio.to_thread(own_postgres.start)
        row = await settled(app, hook.id)
    assert (row["status"], row["attempt_num"]) == ("succeeded", 1)
    assert len(receiver.got) == 1
    app.store.close()


async def settled(app: App, webhook: str) -> dict[str, Any]:
    """A webhook's only delivery, once nobody has it in hand."""
    async with asyncio.timeout(PATIENCE):
        with app.store.listening(changes.DUE) as bell:
            while True:
                rows = await app.store.read(
                    lambda tx: tx.all(changes.SQL.deliveries_of, webhook=webhook, size=9)
                )
                told = Delivery(*rows[0]).to_dict()
                if "completed_at" in told:
                    return told
                await bell.rung(1.0)


async def test_changes_are_heard_of_over_nats_at_once(
    postgres_url: str, nats: Nats, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRLEAD_BUS_URL", nats.url)
    app = build(postgres_url)
    gateway = Gateway(app, guard=HERE)
    async with Deliverer(app, HERE, look=3600.0), app.tasks.worker():
        for number in range(1, 4):
            task = await app.tasks.submit("ask")
            await webhooks.add(gateway, task, receiver.url)
            await app.tasks.wait(task.id, PATIENCE)
            await app.tasks.cancel(task.id)
            async with asyncio.timeout(PATIENCE):
                while (task.id, "canceled") not in told(receiver):
                    await receiver.count(len(receiver.got) + 1)
            assert len({id for id, _ in told(receiver)}) == number
    await app.tasks.bus.close()
    app.store.close()
