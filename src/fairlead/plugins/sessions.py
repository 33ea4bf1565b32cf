"""The chats that plugins begin, in the store: whose each is, which task runs it now, how far the plugin knows of it.

A chat's id is what plugins call the task's id. Each time it is gone on with, a new task of the engine runs it.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from fairlead._json import dumps, loads
from fairlead.store.statements import statements
from fairlead.store.store import Store, Tx
from fairlead.tasks import ledger
from fairlead.tasks.records import Task
from fairlead.tasks.states import State

SQL: Final = statements(__file__, "tasks.sql")


class PluginSession(NamedTuple):
    """A chat that a plugin has begun."""

    id: str
    plugin: str
    agent: str
    key: str | None
    title: str
    spelled_tools: str
    spelled_draft: str | None
    created: float

    @property
    def tools(self) -> list[str]:
        """The tools that were pinned to it."""
        found: list[str] = loads(self.spelled_tools)
        return found

    @property
    def draft(self) -> Any:
        """What the plugin last showed of it, if that is JSON."""
        try:
            return None if self.spelled_draft is None else loads(self.spelled_draft)
        except ValueError:
            return None


class PluginRun(NamedTuple):
    """One run of a chat, and what its plugin was told of it."""

    task: str
    session: str
    agent: str
    told: int
    holder: str | None
    until: float | None
    stop: int
    message: str | None


def topic(session: str) -> str:
    """What a run listens to, to hear that its plugin wants it to stop."""
    return f"plugin-session:{session}"


def plugin_topic(plugin: str) -> str:
    """What those listen to who tell a plugin of its tasks."""
    return f"plugin-runs:{plugin}"


def session_of(tx: Tx, id: str) -> PluginSession | None:
    row = tx.one(SQL.session, id=id)
    return None if row is None else PluginSession(*row)


def named_session(tx: Tx, plugin: str, agent: str, key: str) -> PluginSession | None:
    """The newest chat that a plugin calls so, with this agent."""
    row = tx.one(SQL.latest_session, plugin=plugin, agent=agent, key=key)
    return None if row is None else PluginSession(*row)


def last_run(tx: Tx, session: str) -> PluginRun | None:
    row = tx.one(SQL.last_run, session=session)
    return None if row is None else PluginRun(*row)


def run_of(tx: Tx, task: str) -> PluginRun | None:
    row = tx.one(SQL.run, task=task)
    return None if row is None else PluginRun(*row)


def next_run(tx: Tx, session: str) -> PluginRun | None:
    """The first run of a chat of whose end the plugin does not know."""
    row = tx.one(SQL.next_run, session=session)
    return None if row is None else PluginRun(*row)


def open_runs(tx: Tx, plugin: str) -> list[PluginRun]:
    return [PluginRun(*row) for row in tx.all(SQL.open_runs, plugin=plugin)]


def current(tx: Tx, session: str) -> tuple[PluginRun, Task] | None:
    """The newest run of a chat and its task; None where the engine has forgotten it."""
    run = last_run(tx, session)
    task = None if run is None else ledger.find(tx, run.task)
    return None if run is None or task is None else (run, task)


def active(tx: Tx) -> list[tuple[str, str, str]]:
    """Session, agent and plugin of every run that has not ended."""
    return [(session, agent, plugin) for session, agent, plugin in tx.all(SQL.active)]


def entered(
    tx: Tx, session: PluginSession, task: Task, holder: str, until: float, tools: list[str], now: float
) -> None:
    """Write down that a task runs a chat."""
    about = session._asdict()
    del about["spelled_tools"], about["spelled_draft"]
    tx.run(SQL.put_session, **about, tools=dumps(tools))
    tx.run(
        SQL.put_run,
        task=task.id,
        session=session.id,
        plugin=session.plugin,
        agent=session.agent,
        holder=holder,
        until=until,
        created=now,
    )
    tx.run(SQL.forget_runs)
    tx.run(SQL.forget_sessions)


async def waiting(store: Store, plugin: str) -> bool:
    """Whether there are runs of whose end a plugin does not know yet."""
    return bool(await store.read(lambda tx: open_runs(tx, plugin)))


async def forget(store: Store, plugin: str, now: float) -> int:
    """Forget the chats of a plugin that is taken away, and end what still runs; gives how many ran."""

    def work(tx: Tx) -> int:
        ended = sum(
            ledger.cut(tx, run.task, State.canceled, "The plugin was taken away.", now)
            for run in open_runs(tx, plugin)
        )
        tx.run(SQL.drop_runs, plugin=plugin)
        tx.run(SQL.drop_sessions, plugin=plugin)
        return ended

    return await store.write(work)
