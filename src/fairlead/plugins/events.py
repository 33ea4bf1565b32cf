"""`Deliveries`: telling a plugin what becomes of its tasks, one word at a time for each of them.

What is told comes from the tasks' logs, and how far the plugin knows is kept in the store: a host that was killed
goes on from there. A word whose telling was not written down any more is told again; a plugin that fails at one has
heard it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import aclosing, suppress
from typing import Any, Final, Protocol

from fairlead._json import loads
from fairlead.failures import Failure, Kind
from fairlead.failures.runtime import BudgetExceeded
from fairlead.plugins import answers, sessions
from fairlead.plugins.sessions import SQL, PluginRun, PluginSession
from fairlead.runtime import App
from fairlead.store.statements import Statement
from fairlead.store.store import Tx
from fairlead.tasks.records import Event, Task
from fairlead.tasks.states import State

STARTED, ACTIVITY, PROGRESS, CLARIFICATION, COMPLETED, FAILED, CANCELLED, OUTPUT, DRAFT = range(9)
#: What a completed chat is summed up as.
COMPLETED_WORDS: Final = "Chat completed"
#: Seconds that whoever tells a plugin of a run keeps that to himself without a sign of life.
LEASE: Final = 30.0
#: Seconds until what could not be told, because the store was away, is told.
_AGAIN: Final = 2.0
#: Kinds of activity that are passed on as they are; a call of a tool is told as such.
_TOLD: Final = frozenset({"info", "progress", "warning", "success", "error", "writing"})
_LOG: Final = logging.getLogger("fairlead.plugins")

#: What is told: the number of an event, and its payload.
Word = tuple[int, dict[str, Any]]


class Deliver(Protocol):
    """The way into the plugin."""

    def __call__(self, task: str, event: int, payload: str, *, agent: str | None) -> Awaitable[None]: ...


class Dispatching:
    """A dispatch that has not returned to the plugin, which hears nothing of its task before."""

    session: str | None = None
    task: str | None = None


class Deliveries:
    """Tells one plugin of its tasks."""

    def __init__(self, app: App, plugin: str, deliver: Deliver) -> None:
        self.holder = f"{socket.gethostname()}-{os.getpid()}-{os.urandom(4).hex()}"
        self._app = app
        self._plugin = plugin
        self._deliver = deliver
        self._dispatching: set[Dispatching] = set()
        self._following: dict[str, asyncio.Task[None]] = {}
        #: Chats that were gone on with while they were being followed.
        self._again: set[str] = set()
        self._telling: set[asyncio.Future[None]] = set()
        self._watching: asyncio.Task[None] | None = None
        self._closed = False

    def start(self) -> None:
        """Look for what the plugin does not know yet, now and whenever another host lets go of it."""
        if self._watching is None:
            self._watching = asyncio.ensure_future(self._watch())

    def dispatching(self) -> Dispatching:
        """Say nothing of what is entered for this, until it has returned."""
        begun = Dispatching()
        self._dispatching.add(begun)
        return begun

    def returned(self, begun: Dispatching) -> None:
        """The plugin knows of its task; tell it what becomes of that."""
        self._dispatching.discard(begun)
        if begun.session is not None:
            self.follow(begun.session)

    def follow(self, session: str) -> None:
        """Tell the plugin of a chat from now on."""
        if self._closed or session in self._following:
            self._again.add(session)
            return
        self._following[session] = following = asyncio.ensure_future(self._follow(session))
        following.add_done_callback(lambda done: self._ended(session, done))

    async def drained(self) -> None:
        """Tell no more; what is being told now is told to its end."""
        self._closed = True
        tasks = [*self._following.values(), *([] if self._watching is None else [self._watching])]
        self._watching = None
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*self._telling, return_exceptions=True)

    def _ended(self, session: str, done: asyncio.Task[None]) -> None:
        self._following.pop(session, None)
        if not done.cancelled() and done.exception() is not None:
            _LOG.warning("Events of a task of plugin %s wait: %s", self._plugin, done.exception())
            done.get_loop().call_later(_AGAIN, self.follow, session)
        elif session in self._again and not self._closed:
            self.follow(session)

    async def _watch(self) -> None:
        store = self._app.store
        with store.listening(sessions.plugin_topic(self._plugin)) as bell:
            while True:
                now, wait = self._app.wall(), None
                for run in await store.read(lambda tx: sessions.open_runs(tx, self._plugin)):
                    if run.holder is None or run.holder == self.holder or (run.until or 0.0) < now:
                        if run.session not in self._following and not self._awaited(run):
                            self.follow(run.session)
                    else:
                        left = (run.until or now) - now + 0.1
                        wait = left if wait is None else min(wait, left)
                await bell.rung(wait)

    def _awaited(self, run: PluginRun) -> bool:
        return any(each.task == run.task for each in self._dispatching)

    async def _follow(self, session: str) -> None:
        store = self._app.store
        while True:
            self._again.discard(session)
            run = await store.read(lambda tx: sessions.next_run(tx, session))
            if run is None and session not in self._again:
                return
            if run is not None and (self._awaited(run) or not await self._followed(run)):
                return

    async def _followed(self, run: PluginRun) -> bool:
        """Tell of one run to its end; False where another host does."""
        store, wall = self._app.store, self._app.wall
        about = {"task": run.task, "holder": self.holder}
        taken = await store.write(lambda tx: tx.one(SQL.take, **about, until=wall() + LEASE, now=wall()))
        if taken is None:
            return False
        renewing = asyncio.ensure_future(self._renewed(run.task))
        try:
            await self._told_all(run, int(taken[0]))
            await store.write(lambda tx: self._noted(tx, SQL.finish, about))
        except asyncio.CancelledError:
            await asyncio.shield(store.write(lambda tx: self._release(tx, run.task)))
            raise
        finally:
            renewing.cancel()
        return True

    def _release(self, tx: Tx, task: str) -> None:
        tx.run(SQL.release, task=task, holder=self.holder)
        tx.tell(sessions.plugin_topic(self._plugin))

    async def _renewed(self, task: str) -> None:
        while True:
            await asyncio.sleep(LEASE / 3)
            until = self._app.wall() + LEASE
            with suppress(Failure):
                await self._app.store.write(
                    lambda tx, until=until: tx.run(SQL.renew, task=task, holder=self.holder, until=until)
                )

    async def _told_all(self, run: PluginRun, told: int) -> None:
        session = await self._app.store.read(lambda tx: sessions.session_of(tx, run.session))
        if session is None:
            return
        if told < 0:
            await self._tell(run, [(STARTED, {"status": "running", "title": session.title})], 0)
            told = 0
        try:
            task = await self._app.tasks.get(run.task)
        except Failure as failure:
            if failure.kind is Kind.not_found:
                return
            raise
        async with aclosing(self._app.tasks.bus.tail(task, told, True)) as log:
            async for event in log:
                words = list(translated(event, session))
                if event.type == "terminal":
                    words = [await self._ending(run, session)]
                if words:
                    await self._tell(run, words, event.offset)

    async def _ending(self, run: PluginRun, session: PluginSession) -> Word:
        def look(tx: Tx) -> list[dict[str, Any]]:
            return shared_in(tx, run.task)

        task = await self._app.tasks.get(run.task)
        return ending(task, session, await self._app.store.read(look))

    async def _tell(self, run: PluginRun, words: list[Word], offset: int) -> None:
        telling = asyncio.ensure_future(self._tell_and_note(run, words, offset))
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)
        await asyncio.shield(telling)

    async def _tell_and_note(self, run: PluginRun, words: list[Word], offset: int) -> None:
        for number, payload in words:
            try:
                await self._deliver(run.session, number, answers.spelled(payload), agent=run.agent)
            except Failure as failure:
                _LOG.warning("Plugin %s failed at an event of a task: %s", self._plugin, failure.message)
        about = {"task": run.task, "holder": self.holder, "told": offset}
        await self._app.store.write(lambda tx: self._noted(tx, SQL.tell, about))

    def _noted(self, tx: Tx, statement: Statement, about: Mapping[str, Any]) -> None:
        tx.run(statement, **about)
        tx.tell(sessions.plugin_topic(self._plugin))


def translated(event: Event, session: PluginSession) -> Iterator[Word]:
    """What an entry of a task's log is to its plugin; most are nothing."""
    data, title = event.data, session.title
    if event.type == "activity":
        yield from _activity(event, title)
    elif event.type == "progress":
        yield PROGRESS, _progress(data, title)
    elif event.type == "clarification":
        yield CLARIFICATION, question(data)
    elif event.type == "output":
        yield OUTPUT, {"text": data.get("text", ""), "title": title}
    elif event.type == "draft":
        draft = data.get("draft")
        yield DRAFT, {"title": title, **({"draft": draft} if isinstance(draft, dict) else {})}


def question(data: Mapping[str, Any]) -> dict[str, Any]:
    """A question as plugins are told of it; without options, it is answered in words."""
    told = {"question": data.get("question", ""), "allow_multiple": bool(data.get("allow_multiple"))}
    options = data.get("options")
    return {**told, "options": options} if options else told


def _activity(event: Event, title: str) -> Iterator[Word]:
    kind, inner = event.data.get("kind"), event.data.get("data") or {}
    said = inner.get("event") if kind == "tool_progress" and isinstance(inner, dict) else None
    if isinstance(said, dict) and said.get("type") == "progress":
        yield PROGRESS, _progress(said, title)
    elif kind == "tool_call":
        told = {"kind": "tool", "title": "Tool", "detail": event.data.get("title", "")}
        yield ACTIVITY, {**told, "timestamp": answers.moment(event.time)}
    elif kind in _TOLD:
        told = {"kind": kind, "title": event.data.get("title", "")}
        if event.data.get("detail"):
            told["detail"] = event.data["detail"]
        yield ACTIVITY, {**told, "timestamp": answers.moment(event.time)}


def _progress(data: Mapping[str, Any], title: str) -> dict[str, Any]:
    percent = data.get("percent")
    share = min(1.0, max(0.0, percent / 100)) if isinstance(percent, int | float) else 0.0
    step = data.get("message")
    return {"progress": share, "title": title, **({"current_step": step} if step else {})}


def ending(task: Task, session: PluginSession, artifacts: list[dict[str, Any]]) -> Word:
    """The one word about how a task ended."""
    if was_cancelled(task):
        return CANCELLED, {"title": session.title}
    done = task.state is State.completed
    told: dict[str, Any] = {
        "success": done,
        "summary": COMPLETED_WORDS if done else failure_words(task),
        "title": session.title,
        "session_id": session.id,
    }
    if isinstance(task.data, str) and task.data:
        told["output"] = task.data
    if artifacts:
        told["artifacts"] = artifacts
    return (COMPLETED if done else FAILED), told


def was_cancelled(task: Task) -> bool:
    """Whether a task was cut off: by somebody, or because it had used up what it may."""
    return task.state is State.canceled or isinstance(task.failure, BudgetExceeded)


def failure_words(task: Task) -> str:
    """Why a task failed."""
    failure = task.failure
    return task.reason or (failure.message if failure is not None else "The task failed.")


def shared_in(tx: Tx, task: str) -> list[dict[str, Any]]:
    """The artifacts that a task's tools have shared."""
    found = []
    for (spelled,) in tx.all(SQL.shared, task=task):
        data = loads(spelled)
        inner = data.get("data") or {}
        if data.get("kind") == "tool_result" and isinstance(inner.get("envelope"), str):
            artifact = answers.artifact_in(str(inner.get("name")), inner["envelope"])
            found += [] if artifact is None else [artifact]
    return found
