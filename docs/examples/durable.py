"""Durable tasks: submitted, watched, answered, cancelled, limited and retried."""

import asyncio

from orders import app

from fairlead import Failure
from fairlead.tasks import Rate, State, TaskRetry

tasks = app.tasks


async def submit_and_watch() -> None:
    task = await tasks.submit("import_orders", {"count": 3}, title="November")
    assert not task.state.final

    async for event in tasks.events(task.id):
        print(event.offset, event.type, event.data)

    done = await tasks.wait(task.id)
    assert done.state == State.completed
    assert done.data == {"imported": 3}


async def submit_twice() -> None:
    first = await tasks.submit("import_orders", {"count": 3}, key="november", user="ada")
    again = await tasks.submit("import_orders", {"count": 3}, key="november", user="ada")
    assert again.id == first.id

    try:
        await tasks.submit("import_orders", {"count": 4}, key="november", user="ada")
    except Failure as failure:
        refused = failure.code
    assert refused == "CONFLICT"


async def answer() -> None:
    task = await tasks.submit("refund_order", {"order": "A-1"})
    task = await tasks.wait(task.id)
    assert task.state == State.input_required
    assert task.question is not None
    assert task.question["options"] == ["yes", "no"]

    await tasks.answer(task.id, "yes")
    task = await tasks.wait(task.id)
    assert task.data == "Order A-1 is refunded."


async def cancel() -> None:
    parent = await tasks.submit("refund_order", {"order": "A-2"})
    child = await tasks.submit("refund_order", {"order": "A-3"}, parent=parent.id)

    await tasks.cancel(parent.id, "The shop is closed.")
    assert (await tasks.get(parent.id)).reason == "The shop is closed."
    assert (await tasks.get(child.id)).state == State.canceled


async def limit() -> None:
    await tasks.submit("import_orders", {"count": 1}, delay=3600, deadline=2 * 3600, priority=5)

    # At most two imports at once for this customer, in all processes together.
    await tasks.submit("import_orders", {"count": 1}, slot="customer:7", slots=2)

    # At most ten a minute for this plugin.
    await tasks.submit("import_orders", {"count": 1}, rate=Rate("plugin:mail", limit=10, per=60))

    await tasks.submit("import_orders", {"count": 1}, retry=TaskRetry(retries=5, delay=2.0))


async def submit_many() -> None:
    ids = await tasks.submit_many("import_orders", [{"count": 1}, {"count": 2}])
    assert len(ids) == 2


async def main() -> None:
    async with tasks.worker(concurrency=4):
        await submit_and_watch()
        await submit_twice()
        await answer()
        await cancel()
        await limit()
        await submit_many()


asyncio.run(main())
