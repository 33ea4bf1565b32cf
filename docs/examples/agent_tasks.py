"""An agent as a durable task: it waits for a person without being run, and outlives its process."""

import asyncio

from library import app

from fairlead.agents import Agent
from fairlead.tasks import State
from fairlead.testing import ScriptModel, call

app.add(
    Agent(
        "keeper",
        model=ScriptModel(
            [call("discard_book", title="Emma"), "Emma is gone."], follow="conversation", record=False
        ),
        instructions="You keep the shelves tidy.",
        tools=["discard_book"],
    )
)


async def main() -> None:
    async with app.tasks.worker():
        task = await app.tasks.submit("keeper", {"prompt": "Emma fell apart."})
        task = await app.tasks.wait(task.id)
        assert task.state == State.auth_required
        assert task.question is not None
        assert task.question["question"] == "May keeper use discard_book?"

        await app.tasks.answer(task.id, "approve")
        task = await app.tasks.wait(task.id)
        assert task.data == "Emma is gone."


asyncio.run(main())
