"""Conversations: what was said with an agent, kept in the store, and who may go on with it.

One run writes in a conversation at a time, in whatever process: it takes the conversation for a while, renews that
as long as it lives, and whoever comes meanwhile waits. What is said is kept redacted.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from fairlead._json import dumps, loads
from fairlead.agents.models.model import Message, ToolCall
from fairlead.failures import Failure, Kind, StoreFailure
from fairlead.failures.redaction import DEFAULT, Redactor
from fairlead.runtime.context import shown
from fairlead.store.statements import statements
from fairlead.store.store import Row, Store, Tx, Work, writable

SQL = statements(__file__)
#: Seconds that a conversation stays taken when whoever took it is gone.
LEASE: Final = 30.0
#: Seconds that a run waits for the one before it.
PATIENCE: Final = 60.0
#: How often somebody who waits looks by himself.
_LOOK: Final = 2.0
_TITLE: Final = 80
#: What an id may be: no control characters, and not too long.
LONGEST_ID: Final = 200
ID_PATTERN: Final = r"^[^\x00-\x1f\x7f-\x9f]+$"
_ID: Final = re.compile(r"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]+")


@dataclass(frozen=True, slots=True)
class Conversation:
    """What is known of a conversation, without what was said. Times are seconds since 1970."""

    id: str
    agent: str
    owner: str
    title: str | None
    created: float
    updated: float
    messages: int
    holder: str | None = None
    until: float | None = None
    state: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        told: dict[str, Any] = {
            "id": self.id,
            "agent": self.agent,
            "title": self.title,
            "messages": self.messages,
        }
        told |= {"created": self.created, "updated": self.updated}
        if "awaiting" in self.state:
            told["awaiting"] = self.state["awaiting"]
        return told


@dataclass(frozen=True, slots=True)
class Found:
    """Something that was said, and where."""

    conversation: str
    agent: str
    title: str | None
    position: int
    role: str
    text: str
    created: float


class Conversations:
    """The conversations of an app."""

    def __init__(self, store: Store, wall: Callable[[], float], redactor: Redactor = DEFAULT) -> None:
        self._store = store
        self._wall = wall
        self._redactor = redactor

    @asynccontextmanager
    async def open(
        self, id: str, agent: str, owner: str, patience: float = PATIENCE, task: str = "", run: int = 0
    ) -> AsyncIterator[OpenConversation]:
        """Take a conversation for one run, and begin it where there is none.

        A run of a task takes it from an earlier run of the same task, never from a later one: of those, the newest is
        the one that counts, however late an earlier one comes.

        Raises:
            Failure: it is somebody else's or another agent's, or its run takes longer than this one waits.
        """
        if len(id) > LONGEST_ID or not _ID.fullmatch(id):
            raise Failure(
                Kind.invalid_input,
                f"A conversation's id has 1 to {LONGEST_ID} characters, none of them a control character.",
                field="conversation",
            )
        holder = f"{task}/{run:010}-{secrets.token_hex(8)}"
        try:
            async with self._held(id, agent, owner, holder, patience) as conversation:
                yield conversation
        except StoreFailure as failure:
            if task:
                # Run again, it goes on from what was kept, as it does after the end of a worker.
                failure.details["resumes"] = True
            raise

    @asynccontextmanager
    async def _held(
        self, id: str, agent: str, owner: str, holder: str, patience: float
    ) -> AsyncIterator[OpenConversation]:
        taken = await self._taken(id, agent, owner, holder, patience)
        renewing = asyncio.ensure_future(self._renewed(id, holder))
        try:
            said = await self._store.read(lambda tx: tx.all(SQL.transcript, id=id))
            transcript = [read(row[0]) for row in said]
            yield OpenConversation(self._store, self._wall, self._redactor, taken, holder, transcript)
        finally:
            renewing.cancel()
            # A run that is cancelled lets go of the conversation as well. Where the store is away, its lease ends.
            with suppress(StoreFailure):
                await asyncio.shield(self._store.write(lambda tx: _release(tx, id, holder)))

    async def get(self, id: str, owner: str) -> tuple[Conversation, list[Message]]:
        """A conversation with all that was said.

        Raises:
            Failure: there is none of this owner.
        """

        def work(tx: Tx) -> tuple[Any, Any]:
            return tx.one(SQL.by_id, id=id, owner=owner), tx.all(SQL.transcript, id=id)

        row, said = await self._store.read(work)
        if row is None:
            raise _missing(id)
        return _conversation(row), [read(each[0]) for each in said]

    async def page(
        self, owner: str, *, agent: str = "", limit: int = 50, before: Conversation | None = None
    ) -> list[Conversation]:
        """A page of an owner's conversations, the newest first; `before` is the last of the page before."""
        until, after = (1e18, "") if before is None else (before.updated, before.id)
        rows = await self._store.read(
            lambda tx: tx.all(SQL.listed, owner=owner, agent=agent, before=until, after=after, most=limit)
        )
        return [_conversation(row) for row in rows]

    async def rename(self, id: str, owner: str, title: str) -> None:
        """Give a conversation another title. Raises Failure when there is none."""
        now, told = self._wall(), writable(self._redactor.text(title))[:_TITLE]
        if not await self._store.write(
            lambda tx: tx.run(SQL.rename, id=id, owner=owner, title=told, now=now)
        ):
            raise _missing(id)

    async def delete(self, id: str, owner: str) -> None:
        """Forget a conversation and all that was said. Raises Failure when there is none."""

        def work(tx: Tx) -> int:
            gone = tx.run(SQL.forget, id=id, owner=owner)
            if gone:
                tx.run(SQL.forget_words, id=id)
            return gone

        if not await self._store.write(work):
            raise _missing(id)

    async def clear(self, id: str, owner: str) -> None:
        """Forget what was said, and keep the conversation. Raises Failure when there is none."""
        now = self._wall()

        def work(tx: Tx) -> int:
            cleared = tx.run(SQL.clear, id=id, owner=owner, now=now)
            if cleared:
                tx.run(SQL.forget_words, id=id)
            return cleared

        if not await self._store.write(work):
            raise _missing(id)

    async def prune(self, older_than: float) -> int:
        """Forget conversations in which nothing was said for so many seconds; gives how many."""
        now, count = self._wall(), 0

        def work(tx: Tx) -> int:
            rows = tx.all(SQL.older, before=now - older_than, now=now)
            for id, owner in rows:
                tx.run(SQL.forget, id=id, owner=owner)
                tx.run(SQL.forget_words, id=id)
            return len(rows)

        while gone := await self._store.write(work):
            count += gone
        return count

    async def find(
        self, words: str, owner: str, *, agent: str = "", but: str = "", limit: int = 20
    ) -> list[Found]:
        """What was said with all these words in it, the best first; `but` is a conversation to leave out."""
        asked = writable(words)
        if self._store.kind == "sqlite":
            asked = _quoted(asked)
        if not asked.strip():
            return []
        rows = await self._store.read(
            lambda tx: tx.all(SQL.find, words=asked, owner=owner, agent=agent, but=but, most=limit)
        )
        return [Found(*row) for row in rows]

    async def _taken(self, id: str, agent: str, owner: str, holder: str, patience: float) -> Conversation:
        deadline = asyncio.get_running_loop().time() + patience
        with self._store.listening(_topic(id)) as bell:
            while True:
                work = partial(_take, id=id, agent=agent, owner=owner, holder=holder, now=self._wall())
                row, taken = await self._asked_for(id, holder, work)
                if row is None:
                    raise _missing(id)
                conversation = _conversation(row)
                if conversation.agent != agent:
                    if taken:
                        await self._store.write(lambda tx: _release(tx, id, holder))
                    raise Failure(
                        Kind.conflict,
                        f"This conversation is one with {conversation.agent!r}, not with {agent!r}. Use another id.",
                        field="conversation",
                    )
                if taken:
                    return conversation
                left = deadline - asyncio.get_running_loop().time()
                if left <= 0:
                    raise Failure(
                        Kind.busy,
                        f"Another run of this conversation still goes on, after {patience:g} seconds. Try again later.",
                        field="conversation",
                    )
                await bell.rung(min(_LOOK, left))

    async def _asked_for(self, id: str, holder: str, work: Work[tuple[Any, bool]]) -> tuple[Any, bool]:
        """Ask for a conversation. Who is cancelled meanwhile gives it back when it comes."""
        asking = asyncio.ensure_future(self._store.write(work))

        def give_back(asked: asyncio.Future[tuple[Any, bool]]) -> None:
            if not asked.cancelled() and asked.exception() is None and asked.result()[1]:
                with suppress(Failure):  # the store is closed by now
                    self._store.submit(lambda tx: _release(tx, id, holder), True)

        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            asking.add_done_callback(give_back)
            raise

    async def _renewed(self, id: str, holder: str) -> None:
        while True:
            await asyncio.sleep(LEASE / 3)
            work = partial(_renew, id=id, holder=holder, until=self._wall() + LEASE)
            with suppress(Failure):  # the store is away: it is tried again before the lease ends
                await self._store.write(work)


class OpenConversation:
    """A conversation in the hands of one run."""

    def __init__(
        self,
        store: Store,
        wall: Callable[[], float],
        redactor: Redactor,
        about: Conversation,
        holder: str,
        transcript: list[Message],
    ) -> None:
        self.about = about
        self.id = about.id
        self.transcript = transcript
        #: What the run keeps besides the messages; `note` writes it down.
        self.state: dict[str, Any] = about.state
        self._store = store
        self._wall = wall
        self._redactor = redactor
        self._holder = holder

    async def keep(self, message: Message) -> None:
        """Write down what was said, and the state with it.

        Raises:
            Failure: the conversation was taken over by another run.
        """
        kept = redacted(message, self._redactor)
        number, now = secrets.randbits(62), self._wall()
        body, state = spell(kept), dumps(self.state)
        title = _title(kept) if kept.role == "user" else None

        def work(tx: Tx) -> bool:
            row = tx.one(SQL.grow, id=self.id, holder=self._holder, now=now, state=state, title=title)
            if row is None:
                return False
            tx.run(
                SQL.say,
                number=number,
                id=self.id,
                position=row[0] - 1,
                role=kept.role,
                words=writable(kept.content) if kept.role in ("user", "assistant") else "",
                body=body,
                now=now,
            )
            return True

        if not await self._store.write(work):
            raise _lost()

    async def note(self) -> None:
        """Write down the state alone."""
        state, now = dumps(self.state), self._wall()
        about = {"id": self.id, "holder": self._holder, "state": state, "now": now}
        if not await self._store.write(lambda tx: tx.run(SQL.note, **about)):
            raise _lost()


def restore(
    tx: Tx, id: str, agent: str, owner: str, said: Sequence[Message], state: Mapping[str, Any], now: float
) -> bool:
    """Enter a conversation that was kept elsewhere, redacted already; whether there was none of this id."""
    title = next((_title(each) for each in said if each.role == "user"), None)
    about = {"id": id, "agent": agent, "owner": owner, "title": title, "now": now}
    if not tx.run(SQL.restore, **about, messages=len(said), state=dumps(state)):
        return False
    for position, message in enumerate(said):
        words = writable(message.content) if message.role in ("user", "assistant") else ""
        kept = {"position": position, "role": message.role, "words": words, "body": spell(message)}
        tx.run(SQL.say, number=secrets.randbits(62), id=id, now=now, **kept)
    return True


def remember_failure(tx: Tx, id: str, owner: str, error: Mapping[str, Any], before: int, words: str) -> None:
    """Remember how a run failed, and what was said to begin it, redacted already, where that was not kept.

    A conversation that waits for an answer, or in which another run goes on, has something else to tell.
    """
    row = tx.one(SQL.by_id, id=id, owner=owner)
    about = None if row is None else _conversation(row)
    if about is None or "awaiting" in about.state:
        return
    failed = {"error": error, "said": "" if about.messages > before else words, "messages": about.messages}
    state = dumps({**about.state, "failed": failed})
    tx.run(SQL.remember, id=id, owner=owner, messages=about.messages, state=state)


def failure_in(about: Conversation) -> dict[str, Any] | None:
    """How the last run in a conversation failed, where nothing was said since."""
    failed: dict[str, Any] | None = about.state.get("failed")
    return None if failed is None or failed["messages"] != about.messages else failed


def redacted(message: Message, redactor: Redactor) -> Message:
    """A message as it may be kept."""
    calls = tuple(replace(call, arguments=_arguments(call.arguments, redactor)) for call in message.calls)
    thought = None if message.reasoning is None else redactor.text(message.reasoning)
    return replace(message, content=redactor.text(message.content), calls=calls, reasoning=thought)


def _arguments(given: str, redactor: Redactor) -> str:
    """Arguments as they may be kept: by their names and as values, and what a model wrote otherwise as a text."""
    try:
        # Twice, as a function of the developer's may change what it is given.
        value, told = loads(given), shown(loads(given), redactor)
    except ValueError:
        return redactor.text(given)
    return redactor.text(given if told == value else dumps(told))


def spell(message: Message) -> str:
    """A message as it is kept. Pictures are not."""
    told: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.calls:
        told["calls"] = [[call.id, call.name, call.arguments] for call in message.calls]
    for name in ("call_id", "name", "reasoning", "kept"):
        value = getattr(message, name)
        if value is not None:
            told[name] = value
    return writable(dumps(told))


def read(body: str) -> Message:
    """A message that was kept."""
    told = loads(body)
    calls = tuple(ToolCall(name, arguments, id) for id, name, arguments in told.pop("calls", ()))
    return Message(calls=calls, **told)


def _take(tx: Tx, id: str, agent: str, owner: str, holder: str, now: float) -> tuple[Any, bool]:
    tx.run(SQL.begin, id=id, agent=agent, owner=owner, title=None, now=now)
    task, _, run = holder.rpartition("/")
    later = f"{task}/{int(run.partition('-')[0]) + 1:010}"
    taken = tx.run(
        SQL.take, id=id, owner=owner, holder=holder, task=task, later=later, until=now + LEASE, now=now
    )
    return tx.one(SQL.by_id, id=id, owner=owner), bool(taken)


def _renew(tx: Tx, id: str, holder: str, until: float) -> None:
    tx.run(SQL.renew, id=id, holder=holder, until=until)


def _release(tx: Tx, id: str, holder: str) -> None:
    tx.run(SQL.release, id=id, holder=holder)
    tx.tell(_topic(id))


def _topic(id: str) -> str:
    return f"conversation:{id}"


def _conversation(row: Row) -> Conversation:
    *about, state = row
    told: list[Any] = [*about, loads(state)]
    return Conversation(*told)


def _title(message: Message) -> str | None:
    return writable(" ".join(message.content.split()))[:_TITLE] or None


def _quoted(words: str) -> str:
    """Words for SQLite's index, each as itself: what people type has no grammar."""
    return " ".join('"' + word.replace('"', '""') + '"' for word in words.split())


def _missing(id: str) -> Failure:
    return Failure(
        Kind.not_found, f"There is no conversation {id[:LONGEST_ID]!r} of yours.", field="conversation"
    )


def _lost() -> Failure:
    return Failure(
        Kind.conflict, "Another run has taken this conversation over: this one took too long to be heard of."
    )
