"""What a durable task tells while an agent runs as one: questions, pauses, ends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fairlead import App
from fairlead.agents import Agent
from fairlead.agents.models.script import ScriptModel, call
from fairlead.failures.runtime import ApiError
from fairlead.tasks import Worker


@pytest.fixture
def app(tmp_path: Path) -> App:
    return App("shop", store=f"sqlite:///{tmp_path}/shop.db")


@pytest.fixture
async def worker(app: App) -> AsyncIterator[Worker]:
    started = app.tasks.worker()
    started.start()
    yield started
    await started.stop()
    app.store.close()


async def submitted(app: App, *turns: Any) -> str:
    model = ScriptModel(turns, follow="conversation")
    app.add(Agent("clerk", model=model, instructions="You are a clerk.").action)
    return str((await app.tasks.submit("clerk", {"prompt": "Go."})).id)


async def question(app: App, id: str) -> tuple[dict[str, Any], list[str]]:
    """What a task asks, and the types of all events up to that."""
    types: list[str] = []
    async for event in app.tasks.events(id):
        types.append(event.type)
        if event.type == "clarification":
            return dict(event.data), types
    raise AssertionError(f"The task ended without a question: {types}")


async def test_a_task_whose_model_fails_is_failed_with_its_message(app: App, worker: Worker) -> None:
    id = await submitted(app, ApiError("The model is away.", retryable=False))
    task = await app.tasks.wait(id)
    assert task.state == "failed"
    assert task.failure is not None
    assert "The model is away." in task.failure.message


async def test_a_free_question_has_no_options_in_its_event(app: App, worker: Worker) -> None:
    asked, _ = await question(app, await submitted(app, call("clarify", question="Which?"), "Red."))
    assert asked["question"] == "Which?"
    assert not asked.get("options")


async def test_a_question_is_told_once_and_the_task_does_not_end(app: App, worker: Worker) -> None:
    id = await submitted(app, call("clarify", question="Which?", options=["a", "b"]), "Red.")
    asked, before = await question(app, id)
    assert asked["options"] == ["a", "b"]
    assert "terminal" not in before
    assert (await app.tasks.get(id)).state not in ("completed", "failed", "cancelled")
    await app.tasks.answer(id, "a")
    assert (await app.tasks.wait(id)).data == "Red."
    types = [event.type async for event in app.tasks.events(id)]
    assert types.count("clarification") == 1
    assert [each for each in types if each == "terminal"] == types[-1:]
