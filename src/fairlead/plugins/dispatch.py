"""`Dispatches`: the tasks that one plugin gives to agents, on the durable tasks of the app.

A task always runs as the agent that is bound to the call. What a plugin may start is bounded: so many in a minute, so
many at once.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, TypeVar

from fairlead import _json
from fairlead.actions import Action
from fairlead.failures import Failure, Kind
from fairlead.failures.host import (
    BuiltInAgentNotExposable,
    InvalidRequest,
    InvalidTaskId,
    MissingAgentContext,
    NotFound,
    RateLimitExceeded,
    TaskLimitReached,
)
from fairlead.plugins import answers, dispatched, identity, sessions, slots, status
from fairlead.plugins.asked import claims_of
from fairlead.plugins.events import LEASE, Deliver, Deliveries, Dispatching
from fairlead.plugins.inference import Instructions, Warn, override_words, unbound_words
from fairlead.plugins.runner import Frame
from fairlead.plugins.sessions import SQL, PluginSession
from fairlead.runtime import App
from fairlead.runtime.context import shown
from fairlead.store.rates import window
from fairlead.store.store import Tx, writable
from fairlead.tasks import ledger
from fairlead.tasks.records import Task
from fairlead.tasks.states import State
from fairlead.tasks.worker import Worker

T = TypeVar("T")

#: Tasks in a minute, for one plugin and one agent.
RATE: Final = 10
PER: Final = 60.0
#: Tasks that have not ended: of all plugins together, and of one agent.
MOST_ACTIVE: Final = 20
MOST_OF_AGENT: Final = 5
DEFAULT_TITLE: Final = "Chat"
_TRIES: Final = 3
_LONGEST_TITLE: Final = 200
_LONGEST_KEY: Final = 200
_MOST_NAMES: Final = 1000
_BUILT_IN: Final = ("fairlead.tools.", "fairlead.agents.")
#: Whose tools are other people's, although it is here that they are called.
_FOREIGN: Final = ("fairlead.tools.mcp.", "fairlead.tools.openapi.")
_LOOP_TOOLS: Final = ("todo", "complete", "clarify")
#: Built-in tools that anybody may bring to an agent, besides those that only read.
_HARMLESS: Final = frozenset({"share_artifact", *_LOOP_TOOLS})
#: Built-in tools that an app need not have itself: they read what is given or was said to this plugin, and no more.
_SPARE: Final = ("render_chart", "search_memory")
#: The names in a loop's own tools are always there, so that pinning them adds nothing.
Tools = Mapping[str, Action[..., Any]]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a plugin asks for."""

    prompt: str
    id: str
    agent: str
    title: str
    key: str | None
    tools: tuple[str, ...]
    folder_bookmark: str | None = None


class Dispatches:
    """What `dispatch` and the slots about tasks do for one plugin."""

    def __init__(
        self,
        app: App,
        plugin: str,
        *,
        warn: Warn,
        deliver: Deliver,
        instructions: Instructions = lambda agent: "",
        tools: Callable[[], Tools] = dict,
        most_active: int = MOST_ACTIVE,
    ) -> None:
        self._app = app
        self._plugin = plugin
        self._warn = warn
        self._instructions = instructions
        self._tools = tools
        self._most_active = most_active
        self._events = Deliveries(app, plugin, deliver)
        self._worker: Worker | None = None

    def call(self, slot: int, args: tuple[str | None, ...], frame: Frame) -> Awaitable[str | None]:
        """The answer of one of the slots."""
        if slot == slots.DISPATCH:
            return self.dispatch(args[0], frame)
        if slot == slots.LIST_ACTIVE_TASKS:
            return self.active()
        if slot == slots.TASK_STATUS:
            return self.status(args[0])
        if slot == slots.SEND_DRAFT:
            return self.draft(args[0], args[1])
        if slot == slots.DISPATCH_INTERRUPT:
            return self.interrupt(args[0], args[1])
        assert slot == slots.DISPATCH_CANCEL
        return self.cancel(args[0])

    async def start(self) -> None:
        """Go on with telling the plugin of tasks that an earlier host began."""
        self._events.start()

    async def drained(self) -> None:
        """Tell no more, and run no more here; others go on with it."""
        await self._events.drained()
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.stop()

    # Starting a task.

    async def dispatch(self, request: str | None, frame: Frame) -> str:
        """Give the bound agent something to do, and come back at once."""
        plan = self.planned(request, frame)
        agent = identity.agent_of(self._app, plan.agent)
        if agent is None:
            raise MissingAgentContext("The agent that this call is bound to is not there any more.")
        await self._counted(plan.agent)
        begun = self._events.dispatching()
        try:
            session = await _apart(self._submitted(plan, agent.name, begun))
            await _apart(self._manned())
        finally:
            asyncio.get_running_loop().call_soon(self._events.returned, begun, context=Context())
        return answers.spelled({"id": session.id, "status": "running"})

    def planned(self, request: str | None, frame: Frame) -> Plan:
        """What is asked for.

        Raises:
            InvalidRequest: there is no prompt.
            BuiltInAgentNotExposable: no agent of the app is bound to the call.
        """
        try:
            body = _json.loads(request or "")
        except (ValueError, RecursionError):
            body = None
        prompt = body.get("prompt") if isinstance(body, dict) else None
        if not isinstance(prompt, str):
            raise InvalidRequest("Missing required field: prompt")
        if not prompt.strip():
            raise InvalidRequest("Prompt is empty")
        id = identity.parsed(body.get("id")) or identity.fresh()
        agent = frame.agent
        claims = claims_of(body)
        if claims:
            self._warn("dispatch", "agent_override", override_words("dispatch", claims))
        if agent is None:
            self._warn("dispatch", "no_agent_context", unbound_words("dispatch"))
        if agent is None or identity.is_default(agent):
            raise BuiltInAgentNotExposable(
                f"plugin/planDispatch: the built-in agent {identity.DEFAULT_AGENT} takes no tasks of plugins. "
                "Dispatch from a call that an agent made."
            )
        title, key, bookmark = (_words(body.get(name)) for name in ("title", "session_id", "folder_bookmark"))
        return Plan(
            prompt,
            id,
            agent,
            self._app.redactor.text((title or DEFAULT_TITLE)[:_LONGEST_TITLE]),
            None if key is None else _short(key),
            tuple(self._pinned(body.get("tools"))),
            bookmark if bookmark is not None and _is_base64(bookmark) else None,
        )

    def _pinned(self, given: Any) -> list[str]:
        allowed = {*self._tools(), *_LOOP_TOOLS, *built_ins(self._app)}
        return pinned_names(
            given,
            allowed,
            lambda name: self._warn(
                "dispatch",
                f"tool_scope|{name}",
                f"Plugin {self._plugin!r} requested tool {name!r} on dispatch, but it is not in the allowed set.",
            ),
        )

    async def _counted(self, agent: str) -> None:
        now, key = self._app.wall(), f"plugin-dispatch:{self._plugin}:{agent}"
        wait = await self._app.store.write(lambda tx: window(tx, key, RATE, PER, now))
        if wait > 0:
            raise RateLimitExceeded(
                f"More than {RATE} dispatches in {PER:g} seconds for this plugin and agent.", retry_after=wait
            )

    async def _submitted(self, plan: Plan, name: str, begun: Dispatching) -> PluginSession:
        """Enter the task. Somebody who was quicker, here or elsewhere, has the chat: then another is begun."""
        for _ in range(_TRIES):
            try:
                return await self._entered(plan, name, begun)
            except Failure as failure:
                if failure.kind is not Kind.conflict:
                    raise
        return await self._entered(replace(plan, id=identity.fresh(), key=None), name, begun)

    async def _entered(self, plan: Plan, name: str, begun: Dispatching) -> PluginSession:
        now = self._app.wall()
        found: tuple[PluginSession, bool] = await self._app.store.read(
            lambda tx: self._session(tx, plan, now)
        )
        session, fresh = found
        tools = list(dict.fromkeys([*session.tools, *plan.tools]))
        about = {"plugin": self._plugin, "agent": plan.agent, "session": session.id}
        if plan.folder_bookmark is not None:
            about["folder_bookmark"] = plan.folder_bookmark

        def enter(tx: Tx, task: Task) -> None:
            last = None if fresh else sessions.current(tx, session.id)
            if last is not None and not last[1].state.final:
                raise Failure(Kind.conflict, "Another task runs this chat by now.")
            running = sessions.active(tx)
            if len(running) >= self._most_active:
                raise TaskLimitReached(
                    f"Plugins have {len(running)} tasks running, which is the most there may be."
                )
            if sum(agent == plan.agent for _, agent, _ in running) >= MOST_OF_AGENT:
                raise TaskLimitReached(
                    f"This agent has {MOST_OF_AGENT} tasks running, which is the most there may be."
                )
            sessions.entered(tx, session, task, self._events.holder, now + LEASE, tools, now)
            begun.session, begun.task = session.id, task.id
            # Whoever asked may be gone by now.
            tx.tell(sessions.plugin_topic(self._plugin))

        await self._app.tasks.submit(
            dispatched.NAME,
            {
                "plugin": self._plugin,
                "agent": plan.agent,
                "session": session.id,
                "prompt": plan.prompt,
                "tools": tools,
                "instructions": self._instructions(plan.agent),
            },
            id=session.id if fresh else None,
            title=session.title,
            metadata={"plugin": about},
            auth={"type": "plugin", "plugin": self._plugin, "agent": name},
            also=enter,
        )
        return session

    def _session(self, tx: Tx, plan: Plan, now: float) -> tuple[PluginSession, bool]:
        """The chat that a task goes on with, or a new one; whether it is new."""
        if plan.key is not None:
            kept = sessions.named_session(tx, self._plugin, plan.agent, plan.key)
            running = None if kept is None else sessions.current(tx, kept.id)
            if kept is not None and (running is None or running[1].state.final):
                title = kept.title if plan.title == DEFAULT_TITLE else plan.title
                return kept._replace(title=title), False
        id = plan.id
        while sessions.session_of(tx, id) is not None or ledger.find(tx, id.lower()) is not None:
            id = identity.fresh()
        return PluginSession(id, self._plugin, plan.agent, plan.key, plan.title, "[]", None, now), True

    async def _manned(self) -> None:
        """Have somebody run the task: where no worker is, this process is one."""
        with suppress(Failure):  # the task is on disk, and somebody will come
            if self._worker is None and not await self._app.tasks.workers():
                self._worker = self._app.tasks.worker(concurrency=MOST_OF_AGENT)
                self._worker.start()

    # Looking at tasks, and meddling with them.

    async def status(self, task: str | None) -> str:
        """How far a task is."""
        id = identity.parsed((task or "").strip())
        if id is None:
            raise InvalidTaskId
        now = self._app.wall()

        def look(tx: Tx) -> dict[str, Any] | None:
            found = self._own(tx, id)
            if found is None or status.is_gone(found[1], now):
                return None
            return status.told(tx, *found)

        told = await self._app.store.read(look)
        if told is None:
            raise NotFound("There is no task of this id that this plugin has dispatched.")
        return answers.spelled(told)

    async def active(self) -> str:
        """The tasks of this plugin that have not ended."""

        def look(tx: Tx) -> list[dict[str, Any]]:
            ids = [session for session, _, plugin in sessions.active(tx) if plugin == self._plugin]
            found = (self._own(tx, id) for id in dict.fromkeys(ids))
            return [status.told(tx, *each) for each in found if each is not None and not each[1].state.final]

        return answers.spelled({"tasks": await self._app.store.read(look)})

    async def cancel(self, task: str | None) -> None:
        """End a task."""
        found = await self._mine("dispatch_cancel", task)
        if found is not None and not found[1].state.final:
            await self._app.tasks.cancel(found[1].id, "Cancelled by the plugin.")

    async def draft(self, task: str | None, draft: str | None) -> None:
        """Show what there is so far of a task that has not ended."""
        found = await self._mine("send_draft", task)
        if found is None or draft is None:
            return
        session, running = found
        # As what an action tells of its task: it is kept, and those who watch are shown it.
        told = shown(_object(draft), self._app.redactor)
        said = ("draft", self._app.wall(), {"draft": told})

        def work(tx: Tx) -> None:
            if ledger.say(tx, running.id, said):
                tx.run(SQL.set_draft, id=session.id, draft=_json.dumps(told))

        await self._app.store.write(work)

    async def interrupt(self, task: str | None, message: str | None) -> None:
        """Stop a task softly. What the plugin says to that is the next thing its agent hears."""
        found = await self._mine("dispatch_interrupt", task)
        if found is None or found[1].state.final:
            return
        session, running = found
        said = writable((message or "").strip())
        now = self._app.wall()

        def work(tx: Tx) -> None:
            now_state = ledger.find(tx, running.id)
            if now_state is None or now_state.state.final:
                return
            if now_state.state is State.input_required and said:
                # It waits for just this: an answer. Leave to use a tool is no plugin's to give.
                ledger.resume(tx, running.id, said, now)
                return
            tx.run(SQL.stop, task=running.id, message=said or None)
            if now_state.state.paused:
                ledger.resume(tx, running.id, "", now)
            tx.tell(sessions.topic(session.id))

        await self._app.store.write(work)

    async def _mine(self, op: str, task: str | None) -> tuple[PluginSession, Task] | None:
        id = identity.parsed((task or "").strip())
        if id is None:
            self._warn(op, "invalid", f"{op} was given something that is no task's id. Nothing was done.")
            return None
        found: tuple[PluginSession, Task] | None = await self._app.store.read(lambda tx: self._own(tx, id))
        if found is None:
            self._warn(op, "unowned", f"{op} was given a task that this plugin has not dispatched.")
        return found

    def _own(self, tx: Tx, id: str) -> tuple[PluginSession, Task] | None:
        session = sessions.session_of(tx, id)
        if session is None or session.plugin != self._plugin:
            return None
        found = sessions.current(tx, id)
        return None if found is None else (session, found[1])


def built_ins(app: App) -> list[str]:
    """The tools of our own that a plugin may pin to a task: none that changes anything."""
    has = [
        action.name
        for action in app.catalogue
        if _is_ours(action)
        and action.visibility == "public"
        and "agent" not in action.metadata
        and (action.side_effects == "read" or action.name in _HARMLESS)
    ]
    return [*has, *(name for name in _SPARE if app.get(name) is None)]


@cache
def spare(name: str) -> Action[..., Any] | None:
    """A built-in tool that the app does not have, and need not have."""
    from fairlead.agents.memory import memory
    from fairlead.tools.charts import charts

    return {each.name: each for each in (*charts(), memory())}.get(name)


def _is_ours(action: Action[..., Any]) -> bool:
    module = getattr(action.function, "__module__", "")
    return module.startswith(_BUILT_IN) and not module.startswith(_FOREIGN)


def pinned_names(given: Any, allowed: Collection[str], dropped: Callable[[str], object]) -> list[str]:
    """The names in a request's `tools` that may be pinned, trimmed, each once, in order; others are told of."""
    if not isinstance(given, list):
        return []
    # Nobody has so many tools, and whoever sends millions of names would hold up the loop.
    first = given[:_MOST_NAMES]
    names = dict.fromkeys(each.strip() for each in first if isinstance(each, str) and each.strip())
    for name in names:
        if name not in allowed:
            dropped(name)
    return [name for name in names if name in allowed]


def _words(given: Any) -> str | None:
    return writable(given.strip()) or None if isinstance(given, str) else None


def _short(key: str) -> str:
    """A name that is kept: one of any length takes little room."""
    return key if len(key) <= _LONGEST_KEY else f"#{hashlib.sha256(key.encode()).hexdigest()}"


def _is_base64(text: str) -> bool:
    import base64
    import binascii

    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _object(draft: str) -> Any:
    """A draft, if it is an object; else nothing of it is passed on."""
    try:
        found = _json.loads(draft)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


async def _apart(work: Coroutine[Any, Any, T]) -> T:
    """Do the work in a context of its own: whose call the plugin is in does not matter to it."""
    return await asyncio.get_running_loop().create_task(work, context=Context())
