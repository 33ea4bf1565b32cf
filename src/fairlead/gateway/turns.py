"""One turn of an agent, whoever runs it: what it is asked, what it says meanwhile, and how it ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Mapping
from contextlib import aclosing
from types import MappingProxyType, coroutine
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from fairlead._json import dumps, loads
from fairlead.actions import Action
from fairlead.agents.running import HISTORY, TRANSCRIPT
from fairlead.failures import PIVOT, Failure, Kind
from fairlead.failures import action as action_wire
from fairlead.failures.failure import lookup
from fairlead.failures.gateway import (
    AgentNotFound,
    AgentReplyError,
    AgentServiceUnavailable,
    Forbidden,
    GatewayFailure,
    InternalError,
    InvalidBody,
    RateLimited,
    sentinel,
)
from fairlead.failures.redaction import Redactor
from fairlead.gateway.agents import GatewayAgent
from fairlead.gateway.call import Caller
from fairlead.runtime.clock import random_id
from fairlead.runtime.hooks import report
from fairlead.runtime.result import Result
from fairlead.surfaces.http.disconnect import carried_on
from fairlead.surfaces.talking import CONVERSATION

if TYPE_CHECKING:
    from fairlead.agents.models.model import Message
    from fairlead.agents.running import Keeper
    from fairlead.gateway.gateway import Gateway
    from fairlead.tasks import Tasks

T = TypeVar("T")

#: Kinds of failures that are ours, and none of a caller's business.
_OUR_OWN: Final = frozenset({Kind.unavailable, Kind.misconfigured, Kind.internal, Kind.unserializable})
#: Keys of a message's metadata that only the gateway may set.
RESERVED: Final = frozenset({"protocol", "caller_owner_id", "target_agent_id", "delivery_principal"})


class Turn(NamedTuple):
    """What an agent is asked."""

    agent: GatewayAgent
    caller: Caller
    message: str
    #: The channel that it belongs to.
    context_id: str
    #: Whether the channel was there before, and what was said in it counts.
    continued: bool = False
    message_id: str = ""
    metadata: Mapping[str, str] = MappingProxyType({})
    attachments: tuple[Mapping[str, Any], ...] = ()
    #: Seconds.
    timeout: float | None = None
    #: What was said before, where the caller keeps it, and the state that goes with it.
    history: tuple[Message, ...] = ()
    state: Mapping[str, Any] = MappingProxyType({})
    #: The id of the task that it leaves behind, where it is not one of the gateway's choice.
    record_id: str = ""
    #: What is kept with that task for whoever tells of it again; its usage is, too, then.
    about: Mapping[str, Any] = MappingProxyType({})
    #: Under which id its agent keeps what is said, where that is not the channel's: the caller
    #: chose its name, or cleared it.
    memory: str = ""


class Said(NamedTuple):
    """A piece of what an agent says: some of its answer, or some of its thoughts."""

    text: str = ""
    thought: str = ""
    #: What it does: a tool called, a result, a question; as the runtime's `activity` events have it.
    activity: Mapping[str, Any] | None = None


class Ended(NamedTuple):
    """How a turn ended. A failure of the agent's own is a text of its own."""

    text: str = ""
    failure: Failure | None = None
    #: What it asks, when it cannot go on without an answer.
    question: Mapping[str, Any] | None = None
    #: What was told beside the result; a `Result` redacts it for whoever asks, and few do.
    told: Result | Mapping[str, Any] | None = None

    @property
    def is_error(self) -> bool:
        return self.failure is not None

    @property
    def usage(self) -> Mapping[str, Any] | None:
        """Tokens that models read and wrote for it, where that is known."""
        told = self.told.told_meta if isinstance(self.told, Result) else self.told
        # A redact function of the app's may have made anything of it.
        agent = None if told is None else told.get("agent")
        return agent.get("usage") if isinstance(agent, Mapping) else None


def new_context() -> str:
    """A new channel's id."""
    return f"ch-{new_id()}"


#: When the millisecond of the last id began and ended, and how the ids of that one begin.
_since, _until, _beginning = 0.0, 0.0, ""


def new_id() -> str:
    """A new id: a UUID (version 7). Ids grow as they come, so that old ones are found by them."""
    global _since, _until, _beginning
    if not _since <= (now := time.time()) < _until:
        moment = int(now * 1000)
        digits = f"{moment:012x}"
        _since, _until, _beginning = moment / 1000, (moment + 1) / 1000, f"{digits[:8]}-{digits[8:]}-7"
    # What follows the digit of the version is random in all of them.
    return _beginning + random_id()[15:]


def work(gateway: Gateway, turn: Turn) -> tuple[Tasks, str | Action[..., Any], dict[str, Any]]:
    """What a turn is as a task: the engine that takes it, the action, and its input."""
    action = turn.agent.action
    if action is None:
        from fairlead.gateway import remote

        return remote.work(gateway, turn)
    return gateway.tasks, action, _input(turn)


def whole(gateway: Gateway, turn: Turn, kept: Keeper | None = None) -> Awaitable[Ended]:
    """Have an agent take a turn, and wait for its end. `kept` is given what was said, if nothing else keeps it."""
    action = turn.agent.action
    return _heard_out(gateway, turn) if action is None else _called(gateway, turn, action, kept)


async def _heard_out(gateway: Gateway, turn: Turn) -> Ended:
    last: Ended | None = None
    async for each in run(gateway, turn, heard=False):
        last = each if isinstance(each, Ended) else last
    assert last is not None
    return last


@coroutine
def _called(
    gateway: Gateway, turn: Turn, action: Action[..., Any], kept: Keeper | None
) -> Generator[Any, Any, Ended]:
    caller = turn.caller
    input, metadata = _input(turn), _metadata(turn, kept)
    calling = gateway.app.invoke(action, input, user=caller.user, auth=caller.auth, metadata=metadata)
    try:
        # As `in_time` does, without a step in between. The call's own time limit costs more, and knows no more.
        waiting = calling.send(None)
    except StopIteration as done:
        result: Result = done.value
    else:
        try:
            result = yield from _rest(calling, waiting, turn.timeout).__await__()
        except TimeoutError:
            return Ended(failure=sentinel("Timeout"))
    return ended(result.data, result.failure, result)


async def run(
    gateway: Gateway, turn: Turn, *, heard: bool = True, kept: Keeper | None = None
) -> AsyncIterator[Said | Ended]:
    """Have an agent take a turn; what it says comes as it says it, and how it ended comes last.

    Leaving early ends the turn.
    """
    if not turn.agent.online(gateway.app.wall()):
        yield Ended(failure=sentinel("AgentOffline"))
        return
    if turn.agent.action is None:
        from fairlead.gateway import remote

        taken = remote.run(gateway, turn)
    else:
        taken = _local(gateway, turn, heard, kept)
    async with aclosing(taken) as said:  # type: ignore[type-var]
        async for each in said:
            yield each


def stopping() -> Failure:
    """What is told to those whose agent is ended because the server stops. It may have begun its work."""
    words = "The server is stopping, and has ended this call."
    return AgentServiceUnavailable(words, details={"reason": "server_stopping"}, retryable=False)


async def to_its_end(
    gateway: Gateway, caller: Caller, taken: AsyncIterator[Said | Ended]
) -> AsyncIterator[Said | Ended]:
    """A turn. Whatever happens is told as its end: who reads a stream has no other way to hear of it."""
    reading, refused = asyncio.current_task(), False
    assert reading is not None

    def refuse() -> None:
        nonlocal refused
        refused = reading.cancel()

    try:
        with gateway.streams.watched(caller, refuse):
            async with aclosing(taken) as said:  # type: ignore[type-var]
                async for each in said:
                    yield each
    except asyncio.CancelledError:
        if refused:
            reading.uncancel()
            yield Ended(
                failure=Forbidden("The key of this call is good no longer, and the call has been ended.")
            )
        elif gateway.draining:
            yield Ended(failure=stopping())
        else:
            raise
    except Failure as failure:
        yield Ended(failure=for_callers(failure, gateway.app.redactor))
    except Exception as exc:
        report("The gateway failed in a stream.", gateway.app.redactor)
        yield Ended(failure=InternalError(cause=exc))


def for_callers(failure: Failure, redactor: Redactor) -> Failure:
    """A failure in words for callers. What is wrong with our own parts they are not told, only that it is."""
    if isinstance(failure, GatewayFailure):
        return failure
    if failure.kind not in _OUR_OWN:
        return failure.for_callers()
    report(f"The gateway could not serve a request: {failure.message}", redactor)
    return lookup("gateway", PIVOT[failure.kind].gateway)(retry_after=failure.retry_after)


async def _local(
    gateway: Gateway, turn: Turn, heard: bool, kept: Keeper | None
) -> AsyncIterator[Said | Ended]:
    action = turn.agent.action
    assert action is not None
    if not heard:
        yield await whole(gateway, turn, kept)
        return
    async with gateway.app.stream(
        action,
        _input(turn),
        user=turn.caller.user,
        auth=turn.caller.auth,
        metadata=_metadata(turn, kept),
        timeout=turn.timeout,
    ) as events:
        async for event in events:
            if event["type"] == "delta":
                yield Said(event["data"])
            elif event["type"] == "activity":
                thought = event["data"].get("text", "") if event["kind"] == "thinking" else ""
                yield Said(thought=thought, activity=event)
            elif event["type"] == "result":
                envelope = event["envelope"]
                failure = None if envelope["ok"] else action_wire.parse(envelope["error"])
                yield ended(envelope.get("data"), failure, envelope.get("meta"))


def check(turn: Turn) -> None:
    """Raises InvalidBody where an agent of the app takes more than words, and the message does not say it."""
    if turn.agent.action is not None and turn.agent.face[0] is None:
        _input(turn)


def _input(turn: Turn) -> dict[str, Any]:
    """What an agent of the app is given: the words where it wants them, or an object where it takes more than words."""
    member, keeps = turn.agent.face
    message = prompt = turn.message
    if turn.attachments:
        from fairlead.gateway import files

        prompt += files.told(turn.attachments)
    input = {member: prompt} if member is not None else _object(message)
    if keeps and turn.continued:
        input[CONVERSATION] = turn.memory or turn.context_id
    return input


def _object(message: str) -> dict[str, Any]:
    try:
        given = loads(message)
    except (ValueError, RecursionError):
        given = None
    if type(given) is not dict:
        raise InvalidBody("This agent takes a JSON object as its message.", field="message")
    return {name: value for name, value in given.items() if name != CONVERSATION}


def _metadata(turn: Turn, kept: Keeper | None) -> dict[Any, Any] | None:
    metadata: dict[Any, Any] | None = None if kept is None else {TRANSCRIPT: kept}
    if turn.history:
        metadata = {**(metadata or {}), HISTORY: (turn.history, turn.state)}
    return metadata


@coroutine
def in_time(work: Coroutine[Any, Any, T], seconds: float | None) -> Generator[Any, Any, T]:
    """Await work, so many seconds at most. What ends without waiting for anything costs no clock.

    Raises:
        TimeoutError: it took longer, and was stopped.
    """
    try:
        waiting = work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    result = yield from _rest(work, waiting, seconds).__await__()
    return result


async def _rest(work: Coroutine[Any, Any, T], waiting: Any, seconds: float | None) -> T:
    async with asyncio.timeout(seconds):
        result: T = await carried_on(work, waiting)
    return result


def ended(data: Any, failure: Failure | None, told: Result | Mapping[str, Any] | None = None) -> Ended:
    """How a call of an agent's action ended, as a turn. `told` is, or has, what was told beside the result."""
    if failure is None:
        return Ended(data if isinstance(data, str) else dumps(data), None, None, told)
    if failure.details.get("question") is not None:
        return Ended(failure.message, None, failure.details, told)
    telling = _TOLD.get(failure.kind)
    return Ended("", AgentReplyError(failure.message) if telling is None else telling(failure), None, told)


#: Failures that are the gateway's to tell; all others are the agent's own.
_TOLD: Final[Mapping[Kind, Callable[[Failure], Failure]]] = {
    Kind.timeout: lambda failure: sentinel("Timeout"),
    Kind.busy: lambda failure: sentinel("TaskRejected"),
    Kind.rate_limited: lambda failure: RateLimited(failure.message, retry_after=failure.retry_after),
    Kind.invalid_input: lambda failure: InvalidBody(failure.message),
    Kind.malformed: lambda failure: InvalidBody(failure.message),
    Kind.forbidden: lambda failure: Forbidden(failure.message),
    Kind.unauthenticated: lambda failure: Forbidden(failure.message),
    Kind.unknown_action: lambda failure: AgentNotFound(),
}
