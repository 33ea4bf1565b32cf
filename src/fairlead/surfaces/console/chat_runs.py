"""Runs of agents that the console's page follows: what was said so far, for a page that was loaded again.

A run belongs to whoever began it. A page that goes away may come back: only when nobody has looked on for a while is
the run cancelled, as a call over HTTP is when its client leaves.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, Final

from fairlead import _json
from fairlead.actions import Action
from fairlead.agents.conversations import remember_failure
from fairlead.agents.operator import OPERATOR
from fairlead.agents.running import CHAT
from fairlead.failures import Failure, Kind
from fairlead.runtime import App, Signal
from fairlead.runtime.clock import random_id
from fairlead.surfaces.auth import Caller
from fairlead.surfaces.console.chat_desk import PATIENCE, Desk

SURFACE: Final = "dev"
#: Seconds in which a page may come back.
GRACE: Final = 15.0
#: Seconds that runs have for their end when the server stops.
_ENDING: Final = 3.0
#: Bytes of events that are kept for a page that comes back; the oldest are dropped first.
_KEPT: Final = 8 << 20


class Run:
    """One run, and what it has said."""

    def __init__(self, app: App, owner: str, id: str, grace: float, patience: float) -> None:
        self.desk = Desk(self._told, patience)
        self.over = False
        #: How the call of the agent is known.
        self.invocation = random_id()
        #: How many messages the conversation had before this run, and what was said to begin it.
        self.before = 0
        self.words = ""
        self._app = app
        self._owner = owner
        self._id = id
        self._grace = grace
        self._signal = Signal()
        self._said: deque[bytes] = deque()
        self._size = 0
        #: How many events are not kept any more.
        self._dropped = 0
        self._bell = asyncio.Event()
        self._listeners = 0
        self._leaving: asyncio.TimerHandle | None = None

    async def go(self, action: Action[..., Any], input: Any, caller: Caller) -> None:
        """Run the agent to its end."""
        OPERATOR.set(self.desk)
        stream = self._app.stream(
            action,
            input,
            surface=SURFACE,
            user=caller.user,
            auth=caller.auth,
            metadata={CHAT: True},
            invocation_id=self.invocation,
            # Whoever writes to an agent has agreed to it.
            confirm=True if action.requires_confirmation else None,
            signal=self._signal,
        )
        try:
            async with stream:
                async for event in stream:
                    self._say(event)
                    if event["type"] == "result" and not event["envelope"]["ok"]:
                        await self._failed(event["envelope"]["error"])
        finally:
            self.over = True
            self._ring()

    def terminate(self, reason: str) -> None:
        """Cancel the run: what it does is stopped, what it said so far is kept."""
        self._signal.cancel(reason)

    async def follow(self) -> AsyncIterator[bytes]:
        """All that was said, and what is said from now on."""
        self._came()
        at = 0
        try:
            while True:
                at = max(at, self._dropped)
                fresh = list(islice(self._said, at - self._dropped, None))
                at += len(fresh)
                if fresh:
                    yield b"".join(b"data: %b\n\n" % each for each in fresh)
                elif self.over:
                    return
                else:
                    await self._bell.wait()
        finally:
            self._left()

    def _say(self, event: Mapping[str, Any]) -> None:
        said = _json.encode(event)
        self._said.append(said)
        self._size += len(said)
        while self._size > _KEPT and len(self._said) > 1:
            self._size -= len(self._said.popleft())
            self._dropped += 1
        self._ring()

    async def _failed(self, error: Mapping[str, Any]) -> None:
        """Have the conversation tell of it, as soon as the run cannot be followed any more."""
        about = (self._id, self._owner, error, self.before, self.words)
        with suppress(Failure):  # the store is away; who follows the run has heard of it
            await self._app.store.write(lambda tx: remember_failure(tx, *about))

    def _told(self, kind: str, title: str, data: Mapping[str, Any]) -> None:
        shown = self._app.redactor.value(dict(data))
        self._say({"type": "activity", "kind": kind, "title": title, "detail": None, "data": shown})

    def _ring(self) -> None:
        self._bell.set()
        self._bell = asyncio.Event()

    def _came(self) -> None:
        self._listeners += 1
        if self._leaving is not None:
            self._leaving.cancel()
            self._leaving = None

    def _left(self) -> None:
        self._listeners -= 1
        if not self._listeners and not self.over:
            loop = asyncio.get_running_loop()
            reason = "The page was closed, and nobody came back to it."
            self._leaving = loop.call_later(self._grace, self.terminate, reason)


class Runs:
    """The runs that are going on, by whose they are and in which conversation."""

    def __init__(self, app: App, grace: float = GRACE, patience: float = PATIENCE) -> None:
        self._app = app
        self._grace = grace
        self._patience = patience
        self._live: dict[tuple[str, str], Run] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, owner: str, id: str, action: Action[..., Any], input: Any, caller: Caller) -> Run:
        """Begin a run. Raises Failure while there is one in this conversation."""
        self.check(owner, id)
        key = (owner, id)
        run = self._live[key] = Run(self._app, owner, id, self._grace, self._patience)
        task = asyncio.get_running_loop().create_task(run.go(action, input, caller))
        self._tasks.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            self._live.pop(key, None)

        task.add_done_callback(ended)
        return run

    def check(self, owner: str, id: str) -> None:
        """Raises Failure while there is a run in this conversation."""
        if self.find(owner, id) is not None:
            raise Failure(
                Kind.busy, "The agent is still at work in this conversation. Wait, or end that run."
            )

    async def end(self, reason: str) -> None:
        """Cancel all runs, and wait a moment for their ends."""
        for run in self._live.values():
            run.terminate(reason)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_ENDING)

    def find(self, owner: str, id: str) -> Run | None:
        return self._live.get((owner, id))

    def get(self, owner: str, id: str) -> Run:
        """The run that goes on in a conversation. Raises Failure when there is none."""
        run = self.find(owner, id)
        if run is None:
            raise Failure(Kind.not_found, "No run goes on in this conversation.")
        return run
