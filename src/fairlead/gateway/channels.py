"""Channels: conversations with agents, kept in the store, open to callers on every replica.

Each message that is sent becomes a task of the engine in the same transaction, so that no process takes one with it
when it dies. Turns of one conversation run one after the other, in the order of their messages. What a turn's task
writes is brought into the conversation's log by whoever reads it: a worker needs to know nothing of conversations.

A turn that asks something waits; the next message of the conversation is the answer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from fairlead._json import dumps, loads
from fairlead.failures import Failure
from fairlead.failures.gateway import AgentNotFound, Conflict, Forbidden, InvalidParam, sentinel
from fairlead.gateway import turns
from fairlead.gateway.agents import GatewayAgent, instant
from fairlead.gateway.call import Caller
from fairlead.gateway.channels_kept import (
    Changed,
    Channel,
    Once,
    Page,
    Repeated,
    Sent,
    forget,
    known,
    once,
    slot_of,
    turns_of,
)
from fairlead.gateway.channels_said import (
    SQL,
    Entry,
    Turn,
    append,
    forget_pieces,
    read_on,
    topic,
)
from fairlead.gateway.files import told
from fairlead.runtime.identity import caller_of
from fairlead.store import Store, Tx
from fairlead.store.store import writable
from fairlead.tasks import ledger
from fairlead.tasks.records import Event, Task
from fairlead.tasks.states import State

if TYPE_CHECKING:
    from fairlead.gateway.gateway import Gateway

#: Seconds that pieces are kept.
PIECES: Final = 86_400.0
#: Seconds between two rounds of forgetting, in one process.
_PRUNE: Final = 60.0
#: How often a message is sent anew because the conversation changed in the same moment.
_TRIES: Final = 5


class Channels:
    """The conversations of one gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._app = gateway.app
        self._store: Store = gateway.app.store
        self._wall = gateway.app.wall
        self._pruned = -_PRUNE

    async def begin(
        self, agent: str, caller: Caller, title: str | None, metadata: Mapping[str, str], key: str | None
    ) -> Channel:
        """Begin a conversation; with a key that was used before, the one that it began."""
        await self._prune()
        id, now = turns.new_context(), self._wall()
        asked = {"agent": agent, "title": title, "metadata": dict(metadata)}
        about = {"id": id, "agent": agent, "owner": caller.owner, "title": title, "now": now}

        def work(tx: Tx) -> Channel:
            if key is not None:
                once(tx, (f"begin:{caller.owner}", key, asked), {"id": id}, now)
            tx.run(SQL.begin, **about, metadata=dumps(dict(metadata)))
            return known(tx, id)

        try:
            return await self._store.write(work)
        except Repeated as before:
            old = before.answer["id"]
            return await self._store.read(lambda tx: known(tx, old))

    async def find(self, id: str, agent: str, caller: Caller) -> Channel:
        """A conversation of the caller's own with this agent, with all that its turns have said.

        Raises:
            AgentNotFound: there is none, or none any more.
            Forbidden: it is somebody else's.
            InvalidParam: it is one with another agent, or a task.
        """
        alive = self._wall() - self._gateway.retention

        def look(tx: Tx) -> tuple[Any, list[Any], Any]:
            row = tx.one(SQL.by_id, id=id)
            if row is None:
                return None, [], tx.one(SQL.is_task, id=id)
            return Channel.of(row), [Turn(*each) for each in tx.all(SQL.open_turns, channel=id)], None

        channel, open_turns, task = await self._store.read(look)
        if channel is None or (channel.touched < alive and not open_turns):
            if task is not None and task[0] == caller.owner:
                raise InvalidParam("conv_id refers to a non-conversation channel", field="conv_id")
            raise AgentNotFound("conversation not found")
        if channel.owner != caller.owner:
            raise Forbidden("conversation is not owned by caller")
        if channel.agent != agent:
            raise InvalidParam("conv_id is of a conversation with another agent", field="conv_id")
        found: Channel = channel
        return await self.caught_up(found) if open_turns else found

    async def page(
        self, agent: str, caller: Caller, state: str, limit: int, before: tuple[float, str]
    ) -> tuple[list[Channel], tuple[float, str] | None]:
        """Conversations of the caller with an agent, the newest first, and where the next page begins."""
        await self._prune()
        asked = {
            "owner": caller.owner,
            "agent": agent,
            "alive": self._wall() - self._gateway.retention,
            "before": before[0],
            "before_id": before[1],
            "open": int(state != "closed"),
            "shut": int(state in ("closed", "all")),
            "size": limit + 1,
        }
        rows = await self._store.read(lambda tx: tx.all(SQL.listed, **asked))
        found = [Channel.of(row) for row in rows[:limit]]
        more = (found[-1].created, found[-1].id) if len(rows) > limit else None
        return found, more

    async def rename(self, channel: Channel, title: str, key: str) -> Channel:
        """Give a conversation another title. Raises Conflict when it has ended, or the key was used otherwise."""

        def change(tx: Tx, now: float) -> int:
            return tx.run(SQL.rename, id=channel.id, title=title, now=now)

        await self._changed((f"rename:{channel.id}", key, title), change, "")
        return await self._fresh(channel)

    async def set_model(self, channel: Channel, model: str | None, key: str, operation: str) -> str:
        """Set the model of the turns to come; None is the agent's own. Gives the operation's id."""

        def change(tx: Tx, now: float) -> int:
            return tx.run(SQL.set_model, id=channel.id, model=model, now=now)

        return await self._changed((f"model:{channel.id}", key, model), change, operation)

    async def close(self, channel: Channel) -> None:
        """End a conversation and its turns; one that has ended stays as it is."""
        now = self._wall()

        def work(tx: Tx) -> None:
            if tx.run(SQL.close, id=channel.id, now=now):
                tx.tell(topic(channel.id))

        await self._store.write(work)
        # Nothing new begins in it from here on; what goes on is ended.
        await self.caught_up(channel)

    async def clear(self, channel: Channel, key: str, operation: str) -> tuple[int, str]:
        """Forget what was said, and end what goes on; gives the new generation, and the operation's id."""
        now = self._wall()

        def work(tx: Tx) -> int:
            row = tx.one(SQL.clear, id=channel.id, now=now)
            if row is None:
                raise Conflict("channel closed")
            answer = {"generation": row[0], "operation": operation}
            once(tx, (f"clear:{channel.id}", key, None), answer, now)
            tx.run(SQL.clear_log, id=channel.id)
            tx.tell(topic(channel.id))
            return int(row[0])

        try:
            generation = await self._store.write(work)
        except Repeated as before:
            return int(before.answer["generation"]), str(before.answer["operation"])
        await self.caught_up(channel)
        # The memory of the generation before, which may be another one than this caller saw.
        await self._forget_memory(replace(channel, generation=generation - 1).memory, channel.owner)
        return generation, operation

    async def send(
        self,
        channel: Channel,
        agent: GatewayAgent,
        caller: Caller,
        message: str,
        key: str | None,
        attachments: tuple[Mapping[str, Any], ...] = (),
        files: tuple[Mapping[str, Any], ...] = (),
    ) -> tuple[str, str]:
        """Take a message, to be answered soon; gives its id and its time. When this returns it is on disk.

        Args:
            attachments: Files that come with it, as the caller named them.
            files: The same, with addresses to download them from.

        Raises:
            Failure: the conversation has ended; the key was used for another message; the agent is not there.
        """
        await self._prune()
        sent = Sent(self._app.new_id(), writable(message), caller.owner, attachments, files, key)
        for _ in range(_TRIES):
            if channel.closed is not None:
                raise Conflict("channel closed")
            try:
                if not await self._answered(channel, sent):
                    await self._asked(channel, agent, caller, sent)
                return sent.id, instant(sent.time)
            except Repeated as before:
                return str(before.answer["message_id"]), str(before.answer["created_at"])
            except Changed:
                channel = await self._fresh(channel)
        raise Conflict("The conversation is being changed by others. Try again.")

    async def _answered(self, channel: Channel, sent: Sent) -> bool:
        """Give a message to the turn that waits for one; whether there is such a turn."""

        def work(tx: Tx) -> bool:
            row = tx.one(SQL.last_turn, channel=channel.id)
            task = None if row is None else ledger.find(tx, row[2])
            if row is None or task is None or not task.state.paused or row[6] != channel.generation:
                return False
            grant = task.state is State.auth_required
            sent.time = now = self._wall()
            if ledger.resume(tx, task.id, f"{sent.text}{told(sent.files)}", now, grant) is None:
                return False
            sent.enter(tx, channel)
            tx.run(SQL.answer_turn, channel=channel.id, number=row[1], following=sent.id)
            return True

        return await self._store.write(work)

    async def _asked(self, channel: Channel, agent: GatewayAgent, caller: Caller, sent: Sent) -> None:
        """Begin a turn with a message: both are written, or neither."""
        turn = turns.Turn(
            agent,
            caller,
            sent.text,
            channel.memory,
            continued=True,
            message_id=sent.id,
            metadata=channel.metadata,
            attachments=sent.files,
        )
        engine, action, input = turns.work(self._gateway, turn)
        about = {
            "agent": agent.id,
            "message": sent.text,
            "message_id": sent.id,
            "context_id": channel.memory,
            "channel": channel.id,
            "metadata": dict(channel.metadata),
            "attachments": [dict(each) for each in sent.files],
            "model": channel.model,
        }
        auth = caller.auth if channel.model is None else {**caller.auth, "model": channel.model}

        def also(tx: Tx, task: Task) -> None:
            sent.time = task.created
            number = sent.enter(tx, channel)
            if not agent.online(self._wall()):  # one that was sent before is known by now
                raise sentinel("AgentOffline")
            about = {"channel": channel.id, "number": number, "task": task.id, "message": sent.id}
            tx.run(SQL.begin_turn, **about, generation=channel.generation)

        await engine.submit(
            action,
            input,
            metadata={"gateway": about},
            user=caller.user,
            auth=auth,
            surface="http",
            slot=slot_of(channel.id),
            # One that fails is not tried later, when others have gone before it: whoever sent it is told.
            retry=0,
            also=also,
        )

    async def cancel(
        self, channel: Channel, target: str, reason: str | None, key: str | None, operation: str
    ) -> str:
        """End the turn of a message; one that has ended stays as it is. Gives the operation's id.

        Raises:
            AgentNotFound: there is no such message.
            Conflict: the conversation has ended.
        """
        words, message = reason or "canceled", target.removesuffix("-reply")

        def work(tx: Tx) -> str:
            now = self._wall()
            if key is not None:
                asked: Once = (f"cancel:{channel.id}", key, [target, reason])
                once(tx, asked, {"operation": operation}, now)
            if tx.one(SQL.message, channel=channel.id, id=target) is None:
                raise AgentNotFound("message not found")
            for turn in (Turn(*row) for row in tx.all(SQL.open_turns, channel=channel.id)):
                if message in (turn.message, turn.following) and ledger.cut(
                    tx, turn.task, State.canceled, words, now
                ):
                    payload = {"target_message_id": target, "reason": words}
                    told = {
                        "type": "chat_cancel",
                        "message_id": f"{message}-cancel",
                        "in_reply_to": message,
                        "publisher_id": f"user:{channel.owner}",
                        "payload": payload,
                        "created_at": instant(now),
                    }
                    append(tx, channel.id, [Entry(told, False, now)], now)
            return operation

        if channel.closed is not None:
            raise Conflict("channel closed")
        try:
            done = await self._store.write(work)
        except Repeated as before:
            return str(before.answer["operation"])
        await self.caught_up(channel)
        return done

    async def log(self, channel: Channel, since: int, limit: int, pieces: bool) -> Page:
        """Messages after an offset."""
        statement = SQL.log if pieces else SQL.log_whole

        def work(tx: Tx) -> Page:
            rows = tx.all(statement, channel=channel.id, since=since, size=limit + 1)
            told = [{**loads(spelled), "offset": number} for number, spelled in rows[:limit]]
            return Page(told, len(rows) > limit, known(tx, channel.id).latest)

        return await self._store.read(work)

    async def caught_up(self, channel: Channel) -> Channel:
        """Bring into the log what the tasks of its turns have written; gives the conversation as it is then."""
        while True:
            doomed, open_turns = await self._store.read(lambda tx: turns_of(tx, channel.id))
            for turn in doomed:
                await self._end(turn)
            for turn, task in open_turns:
                await self._caught_up(channel, turn, task)
            if not doomed:
                break
        return await self._fresh(channel)

    async def told_before(self, channel: Channel, number: int) -> None:
        """Bring into the log what turns before this one have written.

        They ended before it began; who follows them all hears of each on its own, and perhaps of the later one first.
        """
        _, open_turns = await self._store.read(lambda tx: turns_of(tx, channel.id))
        for turn, task in open_turns:
            if turn.number < number:
                await self._caught_up(channel, turn, task)

    async def _caught_up(self, channel: Channel, turn: Turn, task: Task | None) -> None:
        events = [] if task is None else await self._events(turn, task)
        if events or task is None:
            await self.written(channel, turn, events)

    async def written(self, channel: Channel, turn: Turn, events: list[Event]) -> None:
        """Bring events of a turn's task into the log."""
        about = (channel.id, channel.agent, channel.owner, turn.number)
        now = self._wall()
        await self._store.write(lambda tx: read_on(tx, *about, events, now))

    async def state(self, channel: Channel) -> tuple[Channel, list[tuple[Turn, Task | None]]]:
        """A conversation as it is now, and its turns that go on. Raises AgentNotFound when it was forgotten."""
        now, (doomed, going_on) = await self._store.read(
            lambda tx: (known(tx, channel.id), turns_of(tx, channel.id))
        )
        for turn in doomed:
            await self._end(turn)
        return now, going_on

    def tail(self, turn: Turn, task: Task, follow: bool) -> AsyncIterator[Event]:
        """What a turn's task writes, from where it was read to."""
        return self._gateway.tasks.bus.tail(task, turn.cursor, follow)

    async def _events(self, turn: Turn, task: Task) -> list[Event]:
        if task.latest <= turn.cursor:
            return []
        async with aclosing(self.tail(turn, task, False)) as events:  # type: ignore[type-var]
            return [event async for event in events]

    async def _end(self, turn: Turn) -> None:
        now = self._wall()
        await self._store.write(lambda tx: ledger.cut(tx, turn.task, State.canceled, "canceled", now))

    async def _changed(self, asked: Once, change: Callable[[Tx, float], int], operation: str) -> str:
        now = self._wall()

        def work(tx: Tx) -> str:
            once(tx, asked, {"operation": operation}, now)
            if not change(tx, now):
                raise Conflict("channel closed")
            return operation

        try:
            return await self._store.write(work)
        except Repeated as before:
            return str(before.answer["operation"])

    async def _fresh(self, channel: Channel) -> Channel:
        return await self._store.read(lambda tx: known(tx, channel.id))

    async def _prune(self) -> None:
        """Forget, now and then, what is older than it may be."""
        if self._app.clock.monotonic() - self._pruned < _PRUNE:
            return
        self._pruned = self._app.clock.monotonic()
        with suppress(Failure):  # whoever came has nothing to do with it
            await self.prune()

    async def prune(self) -> int:
        """Forget conversations that were not touched for long, and old pieces; gives how many conversations went."""
        now = self._wall()
        before = now - self._gateway.retention

        def old(tx: Tx) -> list[Channel]:
            for channel, upto in tx.all(SQL.old_pieces, before=now - PIECES):
                forget_pieces(tx, channel, upto)
            tx.run(SQL.forget_once, before=before)
            return [known(tx, row[0]) for row in tx.all(SQL.expired, before=before)]

        gone = 0
        for channel in await self._store.write(old):
            with suppress(AgentNotFound):  # another process was first
                gone += await self._forgotten(channel, before)
        return gone

    async def _forgotten(self, channel: Channel, before: float) -> bool:
        # A turn that nobody has looked at may have ended since.
        last = await self.caught_up(channel)
        if await self._store.write(partial(forget, last.id, before)):
            await self._forget_memory(last.memory, last.owner)
            return True
        if last.touched < before:
            # It waits for an answer that nobody gives: it is ended, and forgotten when that is long ago.
            await self.close(last)
        return False

    async def _forget_memory(self, id: str, owner: str) -> None:
        """Have the agent forget as well. One that runs elsewhere remembers nothing here."""
        with suppress(Failure):
            await self._app.conversations.delete(id, caller_of({"id": owner}, None))


_MADE: Final[WeakKeyDictionary[Gateway, Channels]] = WeakKeyDictionary()


def channels_of(gateway: Gateway) -> Channels:
    """The conversations of a gateway."""
    made = _MADE.get(gateway)
    if made is None:
        made = _MADE[gateway] = Channels(gateway)
    return made
