"""One run of a task: what its code may do with the task, and what is written down of what it says.

What is said is written in batches: while one is being written the next gathers, so that a quiet run is heard at
once and a busy one costs few writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from threading import get_ident
from typing import Any, Final

from fairlead._json import dumps
from fairlead.failures import Failure, Kind, StoreFailure
from fairlead.failures.redaction import Redactor
from fairlead.runtime.context import shown
from fairlead.runtime.events import READY
from fairlead.runtime.hooks import report
from fairlead.schema import NotJsonable, jsonable
from fairlead.store import Store
from fairlead.store.store import writable
from fairlead.tasks import ledger
from fairlead.tasks.bus import Bus
from fairlead.tasks.ledger import Fenced, Held, Said
from fairlead.tasks.records import Task
from fairlead.tasks.states import State

#: Events that are written together at most; past twice as many, the run is held back.
_BATCH: Final = 500
#: Seconds until a store that was away is tried again.
_AGAIN: Final = 0.5
#: Characters of deltas that are joined to one at most.
_JOINED: Final = 16_384


class Paused(Failure, kind=Kind.cancelled):
    """The task waits for an answer."""


class Run:
    """What `ctx.task` is."""

    def __init__(
        self, task: Task, store: Store, bus: Bus, wall: Callable[[], float], redactor: Redactor
    ) -> None:
        self.task = task
        self.id = task.id
        self.attempt = task.attempt
        self.run = task.run
        self.state = task.checkpoint
        assert task.worker is not None
        self.held = Held(task.id, task.run, task.worker)
        #: What it waits for, once it has asked.
        self.question: tuple[State, dict[str, Any]] | None = None
        self._store = store
        self._log = bus.log(self.held, task.latest)
        self._wall = wall
        self._redactor = redactor
        self.answers = task.answers
        self.asked = 0
        self._said: list[Said] = []
        #: What is being written; as long as the store does not say that it has it, it is tried again as it is.
        self._batch: list[Said] = []
        self._soon: asyncio.TimerHandle | asyncio.Handle | None = None
        self._writing: asyncio.Task[None] | None = None
        #: Whether the task is known to be another's by now.
        self.fenced = False
        self._loop = asyncio.get_running_loop()
        self._thread = get_ident()

    # What the task's code may do.

    def checkpoint(self, state: Any) -> Awaitable[None]:
        spelled = dumps(_json(state))
        self.state = state

        def work(tx: Any) -> None:
            ledger.checkpoint(tx, self.held, spelled)

        if get_ident() != self._thread:
            try:
                self._store.write_now(work)
            except Fenced:
                raise self._lost() from None
            return READY
        return self._kept(work)

    async def _kept(self, work: Any) -> None:
        try:
            await self._store.write(work)
        except Fenced:
            raise self._lost() from None

    def ask(
        self,
        question: str,
        options: Sequence[str] = (),
        *,
        allow_multiple: bool = False,
        auth: bool = False,
        details: Mapping[str, Any] | None = None,
    ) -> Any:
        asked: dict[str, Any] = self._shown({"question": writable(question)})
        asked["allow_multiple"] = bool(allow_multiple and options)
        if options:
            # As they are: the answer is one of them.
            asked["options"] = _json(list(options))
        if details:
            asked["details"] = self._shown(dict(details))
        at = self.asked
        self.asked += 1
        if at < len(self.answers):
            return self.answers[at]
        self.question = (State.auth_required if auth else State.input_required, asked)
        raise Paused

    def activity(self, kind: str, title: str, detail: str | None = None) -> None:
        told = {"kind": kind, "title": title, **({} if detail is None else {"detail": detail})}
        self._tell("activity", self._shown(told))

    def draft(self, draft: Mapping[str, Any]) -> None:
        self._tell("draft", {"draft": self._shown(dict(draft))})

    def output(self, text: str) -> None:
        self._tell("output", self._shown({"text": text}))

    # What the worker does with it.

    def _shown(self, told: dict[str, Any]) -> Any:
        """JSON as those who watch may see it."""
        return shown(_json(told), self._redactor)

    def _tell(self, type: str, data: Mapping[str, Any]) -> None:
        if get_ident() == self._thread:
            self.say(type, data)
        else:
            self._loop.call_soon_threadsafe(self.say, type, data)

    def say(self, type: str, data: Mapping[str, Any]) -> None:
        """Add to the log, soon."""
        said = self._said
        if type == "delta" and said and said[-1][0] == "delta":
            joined = _joined(said[-1][2], data)
            if joined is not None:
                said[-1] = ("delta", said[-1][1], joined)
                return
        said.append((type, self._wall(), data))
        if self._writing is None and self._soon is None:
            # A moment, in which a short run ends and says all of it at once.
            self._soon = self._loop.call_soon(self._begin)

    async def room(self) -> None:
        """Wait while too much is still to be written.

        Raises:
            Fenced: the task is not this run's any more.
        """
        while len(self._said) > 2 * _BATCH and not self.fenced:
            await self._written()
        if self.fenced:
            raise Fenced

    async def settled(self) -> list[Said]:
        """Wait for what is being written; gives what is left to write with the run's last move.

        Raises:
            Fenced: the task is not this run's any more.
        """
        while (self._batch or self._writing is not None) and not self.fenced:
            await self._written()
        self.close()
        if self.fenced:
            raise Fenced
        left, self._said = self._said, []
        while True:
            try:
                return await self._log.rest(left)
            except Failure as failure:
                # What the run has done is done: its last words wait for whoever keeps them, and it is not run again.
                if not passes(failure):
                    raise
                await asyncio.sleep(_AGAIN)

    def close(self) -> None:
        """Begin to write no more."""
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None

    async def _written(self) -> None:
        """Wait until something has been written, or could not be, for now."""
        if self._writing is None and not self._batch:
            self.close()
            self._begin()
        await (asyncio.sleep(_AGAIN / 2) if self._writing is None else asyncio.wait((self._writing,)))

    def _begin(self) -> None:
        self._soon = None
        self._writing = asyncio.ensure_future(self._write())

    async def _write(self) -> None:
        try:
            while self._batch or self._said:
                if not self._batch:
                    self._batch, self._said = self._said[:_BATCH], self._said[_BATCH:]
                await self._log.write(self._batch)
                self._batch = []
        except Fenced:
            self.fenced = True
        except Failure:
            # The store is away: nothing is lost, and it is tried again.
            self._soon = self._loop.call_later(_AGAIN, self._begin)
        except Exception:
            report(f"Something that task {self.id} said could not be written down.", self._redactor)
            self._batch = []
        finally:
            self._writing = None

    def _lost(self) -> Failure:
        self.fenced = True
        return Failure(
            Kind.cancelled, "This run of the task was ended: another worker has it, or it is over."
        )


def passes(error: Exception) -> bool:
    """Whether the store is away, or refuses everybody until it is mended, as a server that has become a standby."""
    if isinstance(error, StoreFailure) and error.kind is Kind.misconfigured:
        return True
    return isinstance(error, Failure) and error.kind is Kind.unavailable


def _joined(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any] | None:
    """Two deltas as one, where both are text."""
    first, second = one.get("data"), other.get("data")
    if type(first) is str and type(second) is str and len(first) < _JOINED:
        return {"data": first + second}
    return None


def _json(value: Any) -> Any:
    try:
        return jsonable(value)
    except NotJsonable as exc:
        raise Failure(Kind.invalid_input, f"A task keeps JSON, and this is none: {exc}", cause=exc) from exc
