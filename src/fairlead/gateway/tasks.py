"""Tasks over HTTP: work that an agent is given, watched, answered and cancelled from anywhere.

A task here is a task of the engine. What only the gateway knows of it stands in its metadata, under `gateway`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from fairlead._json import encode
from fairlead.failures import Failure, Kind
from fairlead.failures.gateway import Conflict, InvalidBody, InvalidParam, sentinel
from fairlead.gateway import messages, turns
from fairlead.gateway.agents import GatewayAgent, instant
from fairlead.gateway.call import LARGE, Answer, Call, Frames, Route
from fairlead.gateway.entries import Entry
from fairlead.gateway.invoke import context_of, files_of, key_of, metadata_of, text_of
from fairlead.gateway.messages import Channel
from fairlead.gateway.turns import Turn
from fairlead.store import Tx
from fairlead.tasks import ledger
from fairlead.tasks.bus import truncated
from fairlead.tasks.records import KeyUsed, Task
from fairlead.tasks.states import State
from fairlead.tasks.tasks import Tasks

if TYPE_CHECKING:
    from fairlead.gateway.gateway import Gateway

STATES: Final = ("active", "open", "closed", "all")
#: Milliseconds: seven days.
LONGEST_DEADLINE: Final = 604_800_000
#: Characters of the reason for a cancel.
LONGEST_REASON: Final = 1024
#: Keys of the gateway's callers are apart from those of other surfaces.
_KEY: Final = "gateway:"


async def submit(
    gateway: Gateway, turn: Turn, *, deadline: float | None = None, key: str | None = None
) -> Task:
    """Give an agent a turn as a task. `deadline` is in seconds.

    Raises:
        Failure: the agent is not there; the key was used for something else.
    """
    agent, caller = turn.agent, turn.caller
    also: Callable[[Tx, Task], None] = gateway.entries.entering(agent.id, caller.owner)
    if not agent.online(gateway.app.wall()):
        if key is None:
            raise sentinel("AgentOffline")
        also = _refused  # a task that the key gave before is given all the same
    about: dict[str, Any] = {
        "agent": agent.id,
        "message": turn.message,
        "message_id": turn.message_id,
        "metadata": dict(turn.metadata),
        "attachments": [dict(each) for each in turn.attachments],
    }
    if turn.continued:
        about["context_id"] = turn.context_id
    request = None
    if key is not None:
        # Addresses of files differ each time they are made, and with them what the agent is told.
        files = [each["file_id"] for each in turn.attachments]
        request = encode(
            {**about, "message_id": key, "deadline": deadline, "attachments": files}, sort_keys=True
        )
    engine, action, input = turns.work(gateway, turn)
    try:
        return await engine.submit(
            action,
            input,
            key=None if key is None else f"{_KEY}{key}",
            request=request,
            deadline=deadline,
            metadata={"gateway": about},
            user=caller.user,
            auth=caller.auth,
            surface="http",
            also=also,
        )
    except KeyUsed as failure:
        raise sentinel("Duplicate") from failure


def _refused(tx: Tx, task: Task) -> None:
    """Undo what is entered for an agent that is not there."""
    raise sentinel("AgentOffline")


async def entry_of(call: Call) -> Entry:
    """The task that a call names. A caller's own stays theirs, though its agent is private now, or gone.

    Raises:
        AgentNotFound: there is no such agent for this caller, or no such task with it.
        Forbidden: the task is somebody else's.
    """
    gateway, caller = call.gateway, call.caller
    agent, id = call.id("agentId"), call.id("taskId")
    await gateway.recorder.settled(id)
    found = await gateway.entries.any(id)
    if found is not None and (found.agent, found.owner) == (agent, caller.owner) and caller.reaches(agent):
        return found
    # Whoever may not know of the agent is not told whether there is such a task.
    await gateway.agents.usable(agent, caller)
    return await gateway.entries.find(id, agent, caller)


async def task_of(call: Call) -> Task:
    """The same, as the engine knows it."""
    return (await entry_of(call)).task


def engine_of(gateway: Gateway, task: Task) -> Tasks:
    """The engine that has a task, whatever queue it is in."""
    own = gateway.tasks
    return own if task.queue == own.queue else Tasks(gateway.app, own.store, task.queue, own.bus)


def snapshot(entry: Entry) -> dict[str, Any]:
    """A task as `getTask` tells it."""
    task = entry.task
    told: dict[str, Any] = {
        "task_id": task.id,
        "agent_id": entry.agent,
        "caller_id": entry.owner,
        "status": task.state.value,
        "metadata": _metadata(task),
        "created_at": instant(task.created),
    }
    for name, moment in (
        ("started_at", task.started),
        ("completed_at", task.ended),
        ("deadline_at", task.deadline),
    ):
        if moment is not None:
            told[name] = instant(moment)
    if task.state is State.completed:
        told["result"] = task.data
    elif task.state is State.failed:
        told["error"] = messages.words_of(task)
    return told


def summary(entry: Entry) -> dict[str, Any]:
    """A task as a row of a list."""
    task = entry.task
    told: dict[str, Any] = {
        "task_id": task.id,
        "agent_id": entry.agent,
        "caller_id": entry.owner,
        "state": "closed" if task.state.final else "active",
        "metadata": _metadata(task),
    }
    if task.state.final:
        told["close_reason"] = task.state.value
    if task.deadline is not None:
        told["deadline_at"] = instant(task.deadline)
    return told


async def frames(gateway: Gateway, entry: Entry, since: int) -> AsyncIterator[bytes]:
    """A task's messages after an offset as a stream, and what comes, until it has ended."""
    task = entry.task
    channel = Channel.of(task, entry.agent, entry.owner)
    # What the user said has no place in the engine's log.
    after = max(0, since - 1)
    told = task.oldest > after
    if told:
        yield messages.truncated(truncated(since, task.oldest + 1, task.created), since)
    if since < 1:
        yield messages.sse(channel.first())
    if entry.record is not None:
        if since < 2:
            yield messages.sse(_last(channel, task))
        yield messages.end()
        return
    over = task.state.final
    try:
        async with aclosing(gateway.tasks.bus.tail(task, after, True)) as events:  # type: ignore[type-var]
            async for event in events:
                if event.type == "truncated":
                    if not told:
                        yield messages.truncated(event, since)
                elif (over := event.type == "terminal") and not task.state.final:
                    # How it ended stands in the task itself.
                    task = await gateway.app.store.read(lambda tx: ledger.find(tx, entry.task.id)) or task
                told = True
                message = channel.message_of(event, task)
                if message is not None:
                    yield messages.sse(message)
        reason = "task_terminal" if over else "channel_closed"
    except Failure:
        # The store is away. Readers come back later and go on from where they are.
        reason = "stream_closed"
    yield messages.end(reason)


def _last(channel: Channel, task: Task) -> messages.Message:
    words = messages.words_of(task)
    return messages.terminal(channel, 2, task.ended or task.created, task.state, task.data, words)


def _metadata(task: Task) -> dict[str, str]:
    found: dict[str, str] = task.metadata.get("gateway", {}).get("metadata", {})
    return found


def _optional(call: Call) -> dict[str, Any]:
    """A body that may be left out."""
    return call.json() if call.request.body.strip() else {}


def _deadline(body: dict[str, Any]) -> float | None:
    given = body.get("deadline_ms")
    if given is None or (type(given) is int and given == 0):
        return None
    if type(given) is not int or not 0 < given <= LONGEST_DEADLINE:
        words = f"deadline_ms must be a whole number from 0 to {LONGEST_DEADLINE} (7 days)."
        raise InvalidParam(words, field="deadline_ms")
    return given / 1000


async def create_task(call: Call) -> Answer:
    gateway = call.gateway
    id, caller = call.id("agentId"), call.caller
    agent = gateway.agents.usable_now(id, caller) or await gateway.agents.usable(id, caller)
    body = call.json()
    key = key_of(body)
    given = context_of(body)
    message, metadata = text_of(body, "message"), metadata_of(body)
    files = () if body.get("attachments") is None else await files_of(call, body)
    message_id = key or gateway.app.new_id()
    turn = Turn(agent, caller, message, given or "", given is not None, message_id, metadata, files)
    turns.check(turn)
    deadline = _deadline(body)
    if given is not None:
        turn = await gateway.recorder.opened(turn)
    task = await submit(gateway, turn, deadline=deadline, key=key)
    told = {"task_id": task.id, "agent_id": agent.id, "status": str(task.state)}
    told["created_at"] = instant(task.created)
    return Answer(told, 202, made=task.id)


async def get_task(call: Call) -> Answer:
    return Answer(snapshot(await entry_of(call)))


async def list_agent_tasks(call: Call) -> Answer:
    agent = await call.gateway.agents.usable(call.id("agentId"), call.caller)
    return await _listed(call, agent)


async def list_user_tasks(call: Call) -> Answer:
    return await _listed(call, None)


async def _listed(call: Call, agent: GatewayAgent | None) -> Answer:
    gateway, query = call.gateway, call.request.query
    state = call.choice("state", "active", STATES)
    limit = call.number("limit", 50, 1, 100)
    only = agent.id if agent is not None else query.get("agent_id") or None
    allowed = call.caller.agents
    instance = None if agent is not None else query.get("instance_id")
    if instance:
        on_it = await gateway.agents.on(instance)
        allowed = on_it if allowed is None else allowed & on_it
    for name in ("agent_id", "instance_id"):
        if len(query.get(name, "")) > 128:
            raise InvalidParam(f"{name} has at most 128 characters.", field=name)
    await gateway.recorder.flush()
    page = await gateway.entries.page(call.caller, state, limit, query.get("since"), only, allowed)
    told: dict[str, Any] = {"tasks": [summary(entry) for entry in page[0]]}
    if page[1] is not None:
        told["next_since"] = page[1]
    return Answer(told)


async def list_task_messages(call: Call) -> Answer:
    since = call.number("since", 0, 0, 2**53)
    limit = call.number("limit", 200, 1, 500)
    pieces = call.flag("include_deltas")
    entry = await entry_of(call)
    latest, seen, more = entry.task.latest + 1, since, False
    found: list[messages.Message] = []
    async with aclosing(_log(call.gateway, entry, since)) as log:  # type: ignore[type-var]
        async for message in log:
            if pieces or message["type"] not in messages.PIECES:
                if len(found) == limit:
                    more = True
                    break
                found.append(message)
            seen = message["offset"]
            latest = max(latest, seen)
    told = {"messages": found, "latest_offset": latest, "has_more": more}
    return Answer({**told, "next_since": str(seen)})


async def _log(gateway: Gateway, entry: Entry, since: int) -> AsyncIterator[messages.Message]:
    """All messages after an offset that there are now."""
    task = entry.task
    channel = Channel.of(task, entry.agent, entry.owner)
    if since < 1:
        yield channel.first()
    if entry.record is not None:
        if since < 2:
            yield _last(channel, task)
        return
    async with aclosing(gateway.tasks.bus.tail(task, max(0, since - 1), False)) as events:  # type: ignore[type-var]
        async for event in events:
            if event.type == "terminal" and not task.state.final:
                task = await gateway.app.store.read(lambda tx: ledger.find(tx, entry.task.id)) or task
            message = channel.message_of(event, task)
            if message is not None:
                yield message


async def stream_task_events(call: Call) -> Frames:
    since = call.number("since", -1, 0, 2**53)
    if since < 0:
        last = call.request.headers.get("last-event-id", "")
        since = int(last) if last.isascii() and last.isdigit() and len(last) < 17 else 0
    entry = await entry_of(call)
    stream = frames(call.gateway, entry, since)
    return Frames(call.gateway.streams.kept(stream, messages.end("stream_closed"), call.caller))


async def cancel_task(call: Call) -> Answer:
    reason = _optional(call).get("reason")
    if reason is not None and (not isinstance(reason, str) or len(reason) > LONGEST_REASON):
        raise InvalidBody(f"reason must be a text of at most {LONGEST_REASON} characters.", field="reason")
    entry = await entry_of(call)
    if not entry.task.state.final:
        task = await engine_of(call.gateway, entry.task).cancel(entry.task.id, reason or None)
        entry = entry._replace(task=task)
    return Answer(snapshot(entry))


async def continue_task(call: Call) -> Answer:
    body = _optional(call)
    grant = body.get("auth_grant")
    if grant is not None and type(grant) is not bool:
        raise InvalidBody("auth_grant must be true or false.", field="auth_grant")
    entry = await entry_of(call)
    task = entry.task
    if task.state.final:
        raise sentinel("TaskClosed")
    if not task.state.paused:
        raise Conflict("task is not waiting for input")
    if grant and task.state is not State.auth_required:
        raise Conflict("task is waiting for input, not for a grant")
    answer = _granted(task, body.get("input")) if grant else body.get("input")
    try:
        task = await engine_of(call.gateway, task).answer(task.id, answer, grant=bool(grant))
    except Failure as failure:
        if failure.kind is Kind.conflict:  # somebody else was first: with an answer, or with the task's end
            now = await entry_of(call)
            told = (
                sentinel("TaskClosed") if now.task.state.final else Conflict("task is not waiting for input")
            )
            raise told from failure
        raise
    return Answer(snapshot(entry._replace(task=task)))


def _granted(task: Task, input: Any) -> Any:
    """What a grant answers: what was given with it, or yes in the words of the question."""
    if input is not None:
        return input
    options = (task.question or {}).get("options")
    return options[0] if options else True


_TASKS: Final = "/api/v1/agents/{agentId}/tasks"
_TASK: Final = f"{_TASKS}/{{taskId}}"
ROUTES: Final = (
    Route("POST", _TASKS, create_task, "createTask", body=LARGE),
    Route("GET", _TASKS, list_agent_tasks, "listAgentTasks"),
    Route("GET", "/api/v1/tasks", list_user_tasks, "listUserTasks"),
    Route("GET", _TASK, get_task, "getTask"),
    Route("GET", f"{_TASK}/messages", list_task_messages, "listTaskMessages"),
    Route("GET", f"{_TASK}/events", stream_task_events, "streamTaskEvents"),
    Route("POST", f"{_TASK}/cancel", cancel_task, "cancelTask", body=LARGE),
    Route("POST", f"{_TASK}/continue", continue_task, "continueTask", body=LARGE),
)
