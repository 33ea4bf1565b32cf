"""What invokes leave behind: a short task each, written after the answer, many at once.

The answer does not wait for the disk. A later turn with the same context does, if it comes that soon, and goes on
with what was said.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fairlead._json import dumps, encode, loads
from fairlead.agents.conversations import read, redacted, restore, spell
from fairlead.agents.models.model import Message
from fairlead.failures import Failure, Kind
from fairlead.failures.gateway import (
    AgentNotFound,
    AgentReplyError,
    Conflict,
    Forbidden,
    InvalidParam,
    ServiceTimeout,
)
from fairlead.gateway import turns
from fairlead.gateway.call import Caller
from fairlead.gateway.channels_kept import AGAIN, memory_of
from fairlead.gateway.entries import MARK, SQL
from fairlead.gateway.messages import BUSY
from fairlead.gateway.metrics import outcome_of
from fairlead.gateway.turns import Ended, Said, Turn
from fairlead.runtime.hooks import report
from fairlead.runtime.identity import caller_of
from fairlead.store import Tx
from fairlead.store.store import writable

if TYPE_CHECKING:
    from fairlead.gateway.gateway import Gateway

#: Records that wait to be written, at most; whoever comes then waits for room before the agent is asked.
MOST: Final = 10_000
#: Seconds in which records gather, and until a store that was away is tried again.
_GATHERING: Final = 0.05
_AGAIN: Final = 0.5
#: Seconds that a context is looked for which another process may be about to write.
_PATIENCE: Final = 1.0
#: Seconds that anybody waits for the store to take what is to be recorded.
_STORE_PATIENCE: Final = 10.0


#: Owners as every database can keep them. There are few.
_owner: Final = lru_cache(writable)

#: A record as it is entered: the task's id, the agent's, the owner, when it was begun, that it is not open, and
#: all that is told of it.
_Row = tuple[str, str, str, float, int, str]


class Context(NamedTuple):
    """What is known of a context that a turn goes on with."""

    #: With whom it is, and whether it is the caller's.
    agent: str
    mine: bool
    #: What has to be entered before it can be gone on with.
    record: str | None = None
    #: Of a conversation: whether it was ended, and under which id its agent remembers it, if not its own.
    closed: bool = False
    memory: str = ""


class Record:
    """One turn, from the question to its end."""

    ended = 0.0
    last: Ended | None = None
    #: What was said, and what the agent keeps besides, of a turn that no conversation keeps.
    said: list[Message] | None = None
    state: dict[str, Any] | None = None

    def __init__(self, turn: Turn, id: str, begun: float) -> None:
        self.turn = turn
        self.id = id
        self.begun = begun

    def keep(self, said: list[Message], state: dict[str, Any]) -> None:
        self.said, self.state = said, state


class Recorder:
    """Writes records behind the answers of one gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._app = gateway.app
        self._metrics = gateway.metrics
        #: Rows as they are entered, by their tasks' ids: plain values, of which the collector of garbage lets go.
        self._waiting: dict[str, _Row] = {}
        self._writer: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        #: Set whenever a batch has been written.
        self._wrote = asyncio.Event()

    def begin(self, turn: Turn) -> Record:
        """A record of a turn that is about to be taken."""
        id = turn.record_id or (turns.new_context() if turn.continued else turn.context_id)
        return Record(turn, id, self._app.wall())

    def add(self, record: Record, last: Ended | None) -> None:
        """Write a record soon. None for `last` says that nobody waited for the end."""
        record.last, record.ended = last, self._app.wall()
        self._metrics.turn(record.turn.agent.id, outcome_of(last))
        row = self._row(record)
        if row is None:
            return
        self._waiting[record.id] = row
        if self._writer is None:
            self._writer = asyncio.ensure_future(self._write())

    @property
    def full(self) -> bool:
        """Whether too many records are still to be written."""
        return len(self._waiting) >= MOST

    async def room(self) -> None:
        """Wait while it is full."""
        while self.full:
            await self._written()

    async def flush(self) -> None:
        """Wait until all that was added before is on disk."""
        if self._waiting:
            last = next(reversed(self._waiting))
            await self.settled(last)

    async def settled(self, id: str) -> None:
        """Wait until a record is on disk, if it is one that waits here. A store that is away is not waited for."""
        if id in self._waiting:
            with suppress(TimeoutError):
                async with asyncio.timeout(_STORE_PATIENCE):
                    while id in self._waiting:
                        await self._written()

    async def opened(self, turn: Turn) -> Turn:
        """See to it that the context of a turn can be gone on with; gives the turn as it goes on.

        Raises:
            AgentNotFound: there is no such context.
            Forbidden: it is somebody else's.
            InvalidParam: it is one with another agent.
            Conflict: it is a conversation that was ended.
        """
        id = turn.context_id
        await self.settled(id)
        caller = turn.caller
        own = "" if id.startswith(MARK) else _own(turn)
        found = await self._app.store.read(lambda tx: _context(tx, id, caller, own))
        if found is None and not own:
            found = await self._awaited(id, caller)
        if found is None:
            return turn._replace(memory=own)
        if not found.mine:
            raise Forbidden("conversation is not owned by caller")
        if found.agent != turn.agent.id:
            raise InvalidParam("context_id is of a conversation with another agent.", field="context_id")
        if found.closed:
            raise Conflict("channel closed")
        if (record := found.record) is not None:
            await self._app.store.write(lambda tx: _restored(tx, turn, loads(record), self._app.wall()))
        return turn._replace(memory=found.memory) if found.memory else turn

    async def _awaited(self, id: str, caller: Caller) -> Context:
        """A context that may be about to be written by another process."""
        pause = _GATHERING
        while pause < _PATIENCE:
            await asyncio.sleep(pause)
            pause *= 2
            found: Context | None = await self._app.store.read(lambda tx: _context(tx, id, caller))
            if found is not None:
                return found
        raise AgentNotFound("conversation not found")

    async def _written(self) -> None:
        self._hurry.set()
        await self._wrote.wait()

    async def _write(self) -> None:
        try:
            while self._waiting:
                if not self._hurry.is_set():
                    await asyncio.wait(
                        (hurry := asyncio.ensure_future(self._hurry.wait()),), timeout=_GATHERING
                    )
                    hurry.cancel()
                self._hurry.clear()
                batch = dict(self._waiting)
                try:
                    await self._enter(list(batch.values()))
                except Exception:
                    # What can never be written must not keep others from it.
                    report("Invokes could not be recorded.", self._app.redactor)
                for id, row in batch.items():
                    if self._waiting.get(id) is row:
                        del self._waiting[id]
                self._wrote.set()
                self._wrote = asyncio.Event()
        finally:
            self._writer = None

    async def _enter(self, rows: list[_Row]) -> None:
        """Write records; one that the store refuses is left out, and the others are not."""
        while True:
            try:
                await self._app.store.write(lambda tx: tx.enter(SQL.record, rows))
                return
            except Failure as failure:
                if failure.kind is not Kind.unavailable:
                    break
                report(f"Invokes wait to be recorded: {failure.message}", self._app.redactor)
                await asyncio.sleep(_AGAIN)
        if len(rows) == 1:
            report("An invoke could not be recorded: the store refuses it.", self._app.redactor)
            return
        half = len(rows) // 2
        await self._enter(rows[:half])
        await self._enter(rows[half:])

    def _row(self, record: Record) -> _Row | None:
        turn = record.turn
        try:
            told = _told(record, self._app.redactor)
            spelled = encode(told)
            # (To look with `in`, Python first makes an error of a text's not being a number.)
            if spelled.find(b"\\u0000") >= 0:
                spelled = encode(_writable(told))
            return record.id, turn.agent.id, _owner(turn.caller.owner), record.begun, 0, spelled.decode()
        except Exception:
            report("An invoke could not be recorded.", self._app.redactor)
            return None


async def recorded(gateway: Gateway, turn: Turn) -> AsyncIterator[Said | Ended]:
    """Have an agent take a turn, as `turns.run` does, and leave a task behind."""
    await gateway.recorder.room()
    record = gateway.recorder.begin(turn)
    last: Ended | None = None
    refused = False
    try:
        async with aclosing(turns.run(gateway, turn, kept=record.keep)) as said:  # type: ignore[type-var]
            async for each in said:
                if isinstance(each, Ended):
                    last = each
                yield each
    except Failure:
        refused = True  # no turn was taken
        raise
    finally:
        if not refused:
            gateway.recorder.add(record, last)


async def whole(gateway: Gateway, turn: Turn) -> Ended:
    """The same, for those who only wait for the end."""
    recorder = gateway.recorder
    if recorder.full:
        await recorder.room()
    record = recorder.begin(turn)
    try:
        last = await turns.whole(gateway, turn, record.keep)
    except Failure:
        raise  # no turn was taken
    except BaseException:
        recorder.add(record, None)
        raise
    recorder.add(record, last)
    return last


def _told(record: Record, redactor: Any) -> dict[str, Any]:
    """A turn as it is kept."""
    turn, last = record.turn, record.last
    state, words = _ended(last)
    told: dict[str, Any] = {
        "message": redactor.text(turn.message),
        "message_id": turn.message_id,
        "context_id": turn.context_id,
        "state": state,
        "text": redactor.text(words),
        "ended": record.ended,
    }
    if turn.metadata:
        told["metadata"] = dict(turn.metadata)
    if turn.about:
        told["about"] = dict(turn.about)
        told["usage"] = None if last is None else last.usage
    if turn.attachments:
        told["attachments"] = [dict(each) for each in turn.attachments]
    if not turn.continued and record.said is not None and not _plain(record, words):
        told["said"] = [spell(redacted(each, redactor)) for each in record.said]
        told["kept"] = {name: value for name, value in (record.state or {}).items() if value}
    return told


def _plain(record: Record, words: str) -> bool:
    """Whether what was said is the question and the answer, and nothing else."""
    said, state = record.said, record.state
    if said is None or len(said) != 2 or (state and any(state.values())):
        return False
    asked, reply = said
    if reply.calls or reply.reasoning or reply.kept or reply.role != "assistant":
        return False
    return asked.content == record.turn.message and reply.content == words


def _ended(last: Ended | None) -> tuple[str, str]:
    if last is None:
        return "canceled", "The caller went away."
    failure = last.failure
    if failure is None:
        return "completed", last.text
    if isinstance(failure, ServiceTimeout):
        return "timeout", failure.message
    if isinstance(failure, Conflict) and not isinstance(failure, AgentReplyError):
        return "rejected", BUSY
    return "failed", failure.message


def _own(turn: Turn) -> str:
    """Where a context is kept whose name the caller chose. Others, and other agents, may have one of the same name."""
    whose = dumps([turn.caller.owner, turn.agent.id, turn.context_id])
    return f"own-{hashlib.sha256(whose.encode()).hexdigest()[:40]}"


def _context(tx: Tx, id: str, caller: Caller, own: str = "") -> Context | None:
    """A context by its id. None says that there is none, or that it is a name, which is kept under `own`."""
    if own and tx.one(SQL.conversation, id=own) is not None:
        return None
    if not own and (found := _conversation(tx, id, caller)) is not None:
        return found
    row = tx.one(SQL.conversation, id=id)
    mine = row is not None and row[1] == caller_of(caller.user, caller.auth)
    if row is not None and (mine or not own):
        return Context(row[0], mine)
    # What is somebody else's, and none of the gateway's, is nobody's business: the name is free.
    row = tx.one(SQL.entry, task=id)
    return None if row is None else Context(row[1], row[2] == caller.owner, row[5])


def _conversation(tx: Tx, id: str, caller: Caller) -> Context | None:
    """A conversation of the gateway's, by its id or by one that its agent remembered it under.

    It is looked at before that memory, which outlives its end.
    """
    channel, cleared, _ = id.partition(AGAIN)
    row = tx.one(SQL.channel, id=channel)
    if row is None:
        return None
    agent, owner, closed, generation = row
    memory = "" if cleared else memory_of(id, generation)
    return Context(agent, owner == caller.owner, None, closed is not None, memory)


def _writable(value: Any) -> Any:
    """The same with all texts as every database can keep them."""
    if isinstance(value, str):
        return writable(value)
    if isinstance(value, dict):
        return {writable(name): _writable(each) for name, each in value.items()}
    return [_writable(each) for each in value] if isinstance(value, list) else value


def _restored(tx: Tx, turn: Turn, record: dict[str, Any], now: float) -> None:
    """Enter what an invoke said as a conversation."""
    if record["context_id"] != turn.context_id:
        return
    if "said" in record:
        said = [read(each) for each in record["said"]]
    else:
        said = [Message("user", record["message"]), Message("assistant", record["text"])]
        said = said if record["state"] == "completed" else said[:1]
    owner = caller_of(turn.caller.user, turn.caller.auth)
    restore(tx, turn.context_id, turn.agent.id, owner, said, record.get("kept", {}), now)
