"""Turns of agents that run elsewhere, seen from those who ask: each is a task in the agent's own queue.

Whoever runs the agent takes it from there, over HTTP. What he says and how it ends is in the task's log.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from fairlead.actions import Action
from fairlead.failures import Failure
from fairlead.failures.gateway import AgentReplyError, AgentServiceUnavailable, sentinel
from fairlead.gateway import messages, turns
from fairlead.gateway.registration import ATTEMPTS, LOST, queue_of
from fairlead.gateway.turns import Ended, Said, Turn
from fairlead.store import Tx
from fairlead.tasks import ledger
from fairlead.tasks.options import LONGEST
from fairlead.tasks.records import Event, Task
from fairlead.tasks.retrying import TaskRetry
from fairlead.tasks.states import State
from fairlead.tasks.tasks import Tasks

if TYPE_CHECKING:
    from fairlead.gateway.gateway import Gateway

#: What stands in a task's metadata for the one who runs the agent.
ABOUT: Final = "remote"
_PARKED: Final = 2


def remote_turn(message: str) -> str:
    """Ask an agent that runs elsewhere."""
    raise AssertionError("whoever runs the agent takes its turns himself")


TURN: Final = Action(remote_turn, side_effects="write")


class RemoteTasks(Tasks):
    """The engine for one turn of an agent that runs elsewhere: its tasks are taken as the agent's mode says."""

    def __init__(self, gateway: Gateway, turn: Turn) -> None:
        own = gateway.tasks
        super().__init__(gateway.app, own.store, queue_of(turn.agent.id), own.bus)
        self._turn = turn

    async def submit(self, action: str | Action[..., Any], input: Any = None, **options: Any) -> Task:
        turn, mode = self._turn, self._turn.agent.mode or "push"
        about: dict[str, Any] = {
            "message_id": turn.message_id,
            "context_id": turn.memory or turn.context_id,
            "metadata": dict(turn.metadata),
            "attachments": [dict(each) for each in turn.attachments],
        }
        if turn.history:
            about["history"] = [{"role": each.role, "content": each.content} for each in turn.history]
        options["metadata"] = {**(options.get("metadata") or {}), ABOUT: about}
        options["retry"] = TaskRetry(0, lost=LOST)
        options["max_attempts"] = int(turn.agent.about.get("attempts", ATTEMPTS[mode]))
        if mode != "push":
            options |= {"slot": self.queue, "slots": 1}
        if mode == "busy_reject":
            options["also"] = self._unless_busy(options.get("also"))
        return await super().submit(action, input, **options)

    def _unless_busy(self, also: Any) -> Any:
        def entered(tx: Tx, task: Task) -> None:
            if also is not None:
                also(tx, task)
            now = ledger.find(tx, task.id)
            if now is not None and now.ready == _PARKED:
                ledger.cut(tx, task.id, State.rejected, messages.BUSY, self._wall())

        return entered


def work(gateway: Gateway, turn: Turn) -> tuple[Tasks, Action[..., Any], dict[str, Any]]:
    """What `turns.work` gives for an agent that runs elsewhere."""
    return RemoteTasks(gateway, turn), TURN, {"message": turn.message}


async def run(gateway: Gateway, turn: Turn) -> AsyncIterator[Said | Ended]:
    """What `turns.run` does for an agent that runs elsewhere. Leaving early ends the turn."""
    caller, app = turn.caller, gateway.app
    engine, action, input = work(gateway, turn)
    submitting = asyncio.ensure_future(
        engine.submit(
            action,
            input,
            deadline=None if turn.timeout is None else min(turn.timeout, LONGEST),
            user=caller.user,
            auth=caller.auth,
            surface="http",
        )
    )
    left_behind = State.canceled, "The caller went away."
    try:
        task = await asyncio.shield(submitting)
    except asyncio.CancelledError:
        # It may be accepted all the same.
        submitting.add_done_callback(lambda done: _leave(engine, done, left_behind))
        raise
    end = None if turn.timeout is None else app.clock.monotonic() + turn.timeout
    said, over = False, False
    try:
        async with aclosing(engine.bus.tail(task, 0, True)) as events:  # type: ignore[type-var]
            while True:
                left = None if end is None else end - app.clock.monotonic()
                try:
                    async with asyncio.timeout(left):
                        event = await anext(events, None)
                except TimeoutError:
                    left_behind = State.timeout, "The deadline has passed."
                    yield Ended(failure=sentinel("Timeout"))
                    return
                over = event is None or event.type == "terminal"
                if over:
                    task = await engine.get(task.id)
                    yield _ended(task, said)
                    return
                assert event is not None
                if event.type == "clarification":
                    yield Ended(str(event.data.get("question", "")), question=event.data)
                    return
                told = _said(event)
                if told is not None:
                    said = True
                    yield told
    finally:
        if not over:
            _leave(engine, submitting, left_behind)


def _leave(engine: Tasks, submitted: asyncio.Future[Task], ending: tuple[State, str]) -> None:
    """End a turn that nobody waits for. Not awaited: it may be that nobody is there any more to wait."""
    if not submitted.cancelled() and submitted.exception() is None:
        id, now = submitted.result().id, engine.app.clock.time()
        engine.store.submit(lambda tx: ledger.cut(tx, id, *ending, now), True)


def _said(event: Event) -> Said | None:
    data = event.data
    if event.type == "delta":
        return Said(messages.text_of(data.get("data", "")))
    if event.type == "activity":
        inner: Mapping[str, Any] = data.get("data") or {}
        thought = str(inner.get("text", "")) if data.get("kind") == "thinking" else ""
        return Said(thought=thought, activity={"type": "activity", "time": event.time, **data})
    return None


def _ended(task: Task, said: bool) -> Ended:
    """How a turn ended for those who asked. `said` is whether anything came before."""
    if task.state is State.completed:
        return turns.ended(task.data, None)
    words = messages.words_of(task)
    return Ended(failure=_failure(task, words, said))


def _failure(task: Task, words: str, said: bool) -> Failure:
    if task.state is State.timeout:
        return sentinel("Timeout")
    if task.state is State.rejected and not said:
        return sentinel("TaskRejected")
    if words.startswith(messages.LOST):
        return AgentServiceUnavailable("agent was lost", details={"reason": messages.LOST}, retryable=False)
    return AgentReplyError(words)
