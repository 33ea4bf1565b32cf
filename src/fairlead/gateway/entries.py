"""The tasks that callers have: which, whose, with whom, and since when. The engine knows how far each one is.

An invoke leaves an entry, too. It is there whole, since no worker ever had it, and is read as a task that has ended.
"""

from __future__ import annotations

import base64
from collections.abc import Collection
from typing import Any, Final, NamedTuple

from fairlead._json import dumps, loads
from fairlead.failures.gateway import AgentNotFound, Forbidden, InvalidParam
from fairlead.gateway.call import Caller
from fairlead.store import Store, Tx
from fairlead.store.statements import statements
from fairlead.tasks import ledger, options
from fairlead.tasks.ids import task_id
from fairlead.tasks.records import Event, Task
from fairlead.tasks.states import State
from fairlead.tasks.worker import RETENTION

SQL = statements(__file__, "tasks.sql")
#: Before the id of what an invoke leaves.
MARK: Final = "ch-"
#: Entries that one request looks at, at most, to fill a page.
_SCANNED: Final = 5000
#: Old entries that are put in order at once.
_SWEPT: Final = 256
#: Seconds after which all that ended by then can be seen.
_SETTLED: Final = 10.0
#: When the last task ended of which it was said here, and its id.
Swept = tuple[float, str]
START: Final[Swept] = (0.0, "")


class Entry(NamedTuple):
    """A task of a caller with an agent."""

    agent: str
    owner: str
    task: Task
    #: What an invoke left; None for a task of the engine.
    record: dict[str, Any] | None = None


class Wanted(NamedTuple):
    """Which tasks are asked for: those in some states, that changed since a moment, of one context or of any."""

    states: Collection[State]
    after: float = 0.0
    context: str = ""

    def fits(self, task: Task, context: str) -> bool:
        """Whether a task that belongs to this context is one of them."""
        changed = task.ended or task.started or task.created
        return task.state in self.states and changed >= self.after and self.context in ("", context)


class Entries:
    """The entries in one store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def entering(self, agent: str, owner: str) -> ledger.Written:
        """What is written with a new task."""
        return ledger.Written(SQL.enter, SQL.enter_packed, agent=agent, owner=owner, open=1, record=None)

    async def any(self, id: str) -> Entry | None:
        """A task, whoever has it with whomever."""
        found: Entry | None = await self._store.read(lambda tx: _entry(tx, tx.one(SQL.entry, task=id)))
        return found

    async def find(self, id: str, agent: str, caller: Caller) -> Entry:
        """A task that the caller has with this agent.

        Raises:
            AgentNotFound: there is none with this agent.
            Forbidden: it is somebody else's.
        """
        found = await self._store.read(lambda tx: _entry(tx, tx.one(SQL.entry, task=id)))
        if found is None or found.agent != agent:
            raise AgentNotFound("Task not found.")
        if found.owner != caller.owner:
            raise Forbidden("task is not owned by caller")
        return found

    async def answered(self, task: Task, key: str) -> Event | None:
        """The answer that a task was given under a key.

        Raises:
            Failure: it can be no key.
        """
        name = options.name("key", key)
        return await self._store.read(lambda tx: ledger.answered(tx, task.id, name or ""))

    async def page(
        self,
        caller: Caller,
        state: str,
        size: int,
        since: str | None,
        agent: str | None = None,
        agents: Collection[str] | None = None,
    ) -> tuple[list[Entry], str | None]:
        """Tasks of a caller, the newest first, and where the next page begins.

        Args:
            state: `active` or `open`, `closed`, or `all`.
            agent: Only those with this agent.
            agents: Only those with one of these.
        """
        only_open = state in ("active", "open")
        asked: dict[str, Any] = {"owner": caller.owner, "size": size + 1}
        statement = SQL.listed_open if only_open else SQL.listed
        if agent is not None:
            statement = SQL.listed_agent_open if only_open else SQL.listed_agent
            asked["agent"] = agent
        before, before_id = _read_cursor(since)

        def work(tx: Tx) -> tuple[list[Entry], list[str], tuple[float, str] | None]:
            found: list[Entry] = []
            over: list[str] = []
            at, scanned = (before, before_id), 0
            while True:
                rows = tx.all(statement, before=at[0], before_id=at[1], **asked)
                for row in rows:
                    if len(found) == size:
                        return found, over, at
                    at = row[3], row[0]
                    entry = _entry(tx, row)
                    final = entry is None or entry.task.state.final
                    if final and row[4]:
                        over.append(row[0])
                    if entry is None or (agents is not None and entry.agent not in agents):
                        continue
                    if state == "all" or final != only_open:
                        found.append(entry)
                scanned += len(rows)
                if len(rows) <= size:
                    return found, over, None
                if scanned >= _SCANNED:
                    return found, over, at

        found, over, more = await self._store.read(work)
        if over:
            self._store.submit(lambda tx: tx.many(SQL.close, [{"task": id} for id in over]), True)
        return found, None if more is None else _cursor(*more)

    async def count(self, caller: Caller, agent: str, wanted: Wanted | None = None) -> int:
        """How many tasks a caller has with an agent: all, or those that are wanted."""
        asked: dict[str, Any] = {"owner": caller.owner, "agent": agent}
        statement = SQL.counted_agent
        if wanted is not None:
            statement = SQL.counted_agent_wanted
            asked |= {"states": dumps(wanted.states), "after": wanted.after, "context": wanted.context}
        row = await self._store.read(lambda tx: tx.one(statement, **asked))
        assert row is not None
        return int(row[0])


def sweep(tx: Tx, now: float, since: Swept = START) -> tuple[Swept, bool]:
    """Say of some that have ended that they have, and forget some that ended long ago.

    Gives how far it came, and whether there may be more to do.
    """
    # One that ended just now may be on its way to the disk still, behind others.
    ended = tx.all(SQL.ended, since=since[0], after=since[1], until=now - _SETTLED, size=_SWEPT)
    if ended:
        tx.run(SQL.close_all, ids=dumps([id for _, id in ended]))
    before = task_id(now - RETENTION)
    records = tx.run(SQL.forget_records, before=f"{MARK}{before}", size=_SWEPT)
    tasks = tx.run(SQL.forget_tasks, before=before, size=_SWEPT)
    came = (ended[-1][0], ended[-1][1]) if ended else since
    return came, _SWEPT in (len(ended), records, tasks)


def _entry(tx: Tx, row: tuple[Any, ...] | None) -> Entry | None:
    if row is None:
        return None
    id, agent, owner, created, _, spelled = row
    if spelled is not None:
        record = loads(spelled)
        return Entry(agent, owner, _invoked(id, agent, owner, created, record), record)
    task = ledger.find(tx, id)
    return None if task is None else Entry(agent, owner, task)


def _invoked(id: str, agent: str, owner: str, created: float, record: dict[str, Any]) -> Task:
    """What an invoke left, as a task that has ended: one move, its end."""
    about = {name: record[name] for name in ("message", "message_id", "context_id")}
    about["agent"] = agent
    about |= {"metadata": record.get("metadata", {}), "attachments": record.get("attachments", [])}
    done = record["state"] == "completed"
    result = dumps({"ok": True, "data": record["text"]}) if done else None
    return Task.of(
        (
            id, "", agent, "", record["state"], None, 0, 0, None, None, 0, 1, 1, "{}", None, created, created,
            record["ended"], owner, "{}", None, dumps({"gateway": about}), None, None, None, None, None, "[]",
            None, result, None if done else record["text"], 1, 0, None, 0,
        )
    )  # fmt: skip


def _cursor(created: float, id: str) -> str:
    return base64.urlsafe_b64encode(f"{created!r} {id}".encode()).decode().rstrip("=")


def _read_cursor(given: str | None) -> tuple[float, str]:
    if not given:
        return 1e18, "~"
    try:
        spelled = base64.urlsafe_b64decode(given + "=" * (-len(given) % 4)).decode()
        created, _, id = spelled.partition(" ")
        return _finite(created), id
    except ValueError:
        raise InvalidParam("since must be the next_since of the page before.", field="since") from None


def _finite(spelled: str) -> float:
    number = float(spelled)
    if not abs(number) < 1e18:
        raise ValueError(spelled)
    return number
