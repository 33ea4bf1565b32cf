"""Pipelines as durable tasks: what each step gave is on disk before anything follows from it.

When a process dies, the task's next run sends the same messages in: steps that are known are not done again, and the
rest is done now. So each message goes through at least once, and an action is called with the same idempotency key
each time: with keys in the store, what it has done is done once. What steps gave is sealed with the store's key.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from fairlead import _json
from fairlead.failures import Failure, Kind
from fairlead.pipelines.host import Host
from fairlead.pipelines.journals import Journal, Memory
from fairlead.pipelines.live import MARK, known_as, watch_for
from fairlead.pipelines.program import Checked, Process
from fairlead.pipelines.running import Run
from fairlead.pipelines.schemas import schema_of
from fairlead.pipelines.talking import prompt_text
from fairlead.runtime import Context
from fairlead.runtime.identity import shortened
from fairlead.store.secrets import Secrets
from fairlead.store.statements import statements
from fairlead.store.store import Store, Tx
from fairlead.tasks import ledger
from fairlead.tasks.run import Run as TaskRun
from fairlead.tasks.tasks import Tasks

if TYPE_CHECKING:
    from fairlead.actions import Action
    from fairlead.runtime import App

SQL: Final = statements(__file__, "steps.sql")
#: Seconds after which a run on the command line is taken over when its process died.
_LEASE: Final = 3.0
#: How often a run may lose its process.
_ATTEMPTS: Final = 1000
#: The key of each store, which is asked for once.
_SECRETS: Final[WeakKeyDictionary[Store, Secrets]] = WeakKeyDictionary()


class Kept(Memory):
    """Steps in the store, of one task, sealed. One who has lost the task cannot add to them."""

    def __init__(self, task: TaskRun, store: Store, secrets: Secrets, steps: dict[str, Any]) -> None:
        super().__init__(steps)
        self.run = task.id
        self._task = task
        self._store = store
        self._secrets = secrets

    async def keep(self, step: str, place: str, result: Any) -> None:
        spelled = self._secrets.seal(_json.encode(result), _about(self._task.id, step))
        state = _json.dumps({"steps": len(self.steps) + 1, "latest": place})

        def work(tx: Tx) -> None:
            ledger.checkpoint(tx, self._task.held, state)
            tx.run(SQL.keep, task=self.run, step=step, result=spelled)

        try:
            await self._store.write(work)
        except ledger.Fenced:
            message = "This run of the pipeline was ended: another worker has its task, or it is over."
            raise Failure(Kind.cancelled, message) from None
        self.steps[step] = result


async def journal_of(app: App, ctx: Context) -> Journal | None:
    """The journal of a pipeline that is called as an action; None where the call is not part of a task."""
    task = ctx.task
    if not isinstance(task, TaskRun):
        return None
    within = ctx.idempotency_key
    if within is None and task.task.action != ctx.action.name:
        # A tool of somebody else's task: nobody can tell its calls apart.
        return None
    store: Store = app.store

    def read(tx: Tx) -> list[tuple[Any, ...]]:
        return tx.all(SQL.steps, task=task.id)

    if task.attempt == 1 and task.task.run <= 1:
        await store.write(lambda tx: tx.run(SQL.forget_ended))
    rows = await store.read(read)

    def opened() -> tuple[Secrets, dict[str, Any]]:
        secrets = _secrets_of(store)
        # Before anything is spent: without a key, nothing could be kept.
        secrets.seal(b"", task.id)
        return secrets, {
            step: _json.loads(secrets.open(sealed, _about(task.id, step))) for step, sealed in rows
        }

    secrets, steps = await asyncio.to_thread(opened)
    return Journal(Kept(task, store, secrets, steps), "" if within is None else f"{within}/")


def _secrets_of(store: Store) -> Secrets:
    known = _SECRETS.get(store)
    if known is None:
        known = _SECRETS[store] = Secrets(store)
    return known


def _about(task: str, step: str) -> str:
    """What a sealed step belongs to: it opens nowhere else."""
    return f"pipeline step:{task}:{step}"


def stream_action(app: App, main: Process, name: str, **settings: Any) -> Action[..., Any]:
    """A pipeline as an action for many messages: `{"messages": [...]}` gives all results, in order."""
    from fairlead.actions import Action

    async def run(ctx: Context, given: Any) -> Any:
        host = Host(app=app, user=ctx.user, auth=ctx.auth, journal=await journal_of(app, ctx), **settings)
        host.watch = watch_for(app, name)
        results: list[Any] = []
        async for value in _through(main, given["messages"], host):
            results.append(value)
            if ctx.task is not None:
                ctx.task.output(_json.dumps(value))
        return results

    run.__doc__ = f"Send messages through the pipeline {name}."
    wanted = {"type": "array", "items": schema_of(main.inputs[0].type)}
    shape = {
        "type": "object",
        "properties": {"messages": wanted, "program": {"type": "string"}},
        "required": ["messages"],
        "additionalProperties": False,
    }
    made: Action[..., Any] = Action(run, name=name, input=shape, side_effects="write", metadata={MARK: True})
    known_as(made, main)
    return made


def _digest(program: Checked) -> str:
    """What tells a program from others: its texts, and what its agents are besides."""
    digest = hashlib.sha256("\0".join(program.texts().values()).encode())
    agents = [
        [
            *(each.settings.get(name) for name in ("provider", "model")),
            [prompt_text(path, each.name) for path in each.settings.get("prompts", ())],
        ]
        for each in program.agents()
    ]
    if agents:  # without any, it is what 1.0.0 knew it by: what that began goes on
        digest.update(b"\0" + _json.encode(agents))
    return digest.hexdigest()


async def _through(main: Process, messages: list[Any], host: Host) -> AsyncIterator[Any]:
    async with Run(main, host) as run:

        async def feed() -> None:
            try:
                for value in messages:
                    await run.send(value)
            except Exception as error:
                # Whoever waits for results hears of it.
                run.network.fail(error)
            run.close_input()

        feeding = asyncio.ensure_future(feed())
        try:
            async for value in run:
                yield value
            await feeding
            await run.wait()
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)


async def run_durably(
    app: App, program: Checked, messages: list[Any], name: str, **settings: Any
) -> list[Any]:
    """Run a pipeline as the task of a name: the first time from its beginning, later from where it was.

    Raises:
        Failure: it failed; or the name belongs to a run of another program, or of other messages. A program is
            another one with other prompts, or other models for its agents, too.
    """
    assert program.main is not None
    action = stream_action(app, program.main, "plumb_run", **settings)
    if app.get(action.name) is None:
        app.catalogue.add(action)
    given = {"messages": messages, "program": await asyncio.to_thread(_digest, program)}
    # A queue of its own: no other worker has this program, and this one has no other.
    tasks = Tasks(app, app.store, f"{app.name}:{action.name}:{shortened(name)}", app.tasks.bus)
    task = await tasks.submit(action.name, given, key=name, max_attempts=_ATTEMPTS)
    async with tasks.worker(lease=_LEASE):
        done = await tasks.wait(task.id)
    if done.failure is not None:
        raise done.failure
    results: list[Any] = done.data
    return results
