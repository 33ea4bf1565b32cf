"""Tasks that begin at once, so that a call that never waits is answered without a turn of the event loop.

From Python 3.12 on asyncio has them. Before, a spare task lends its name: what is begun runs as that task, in
contextvars of its own. If it waits, the task is its own from then on; if it does not, the task serves the next.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio import _enter_task, _leave_task
from collections.abc import Callable, Coroutine, Generator
from contextvars import copy_context
from types import coroutine
from typing import Any

Work = Coroutine[Any, Any, None]


if sys.version_info >= (3, 12):

    class Starter:
        """Begins tasks."""

        def start(self, work: Work) -> asyncio.Task[None] | None:
            """Begin; gives the task that goes on with it, None where it has ended."""
            task = asyncio.Task(work, loop=asyncio.get_running_loop(), eager_start=True)
            return None if task.done() else task

        def close(self) -> None:
            """Keep nothing."""

else:

    class Starter:
        """Begins tasks."""

        def __init__(self) -> None:
            self._spare: _Spare | None = None

        def start(self, work: Work) -> asyncio.Task[None] | None:
            """Begin; gives the task that goes on with it, None where it has ended."""
            loop = asyncio.get_running_loop()
            spare = self._spare
            if spare is None or not spare.waits:
                if spare is None or spare.task.done():
                    self._spare = _Spare(loop)
                return loop.create_task(work)
            try:
                _enter_task(loop, spare.task)
            except RuntimeError:  # a task is running, and there cannot be two
                return loop.create_task(work)
            run = copy_context().run
            try:
                waiting = run(work.send, None)
            except (StopIteration, asyncio.CancelledError):
                return None
            except Exception as exc:
                loop.call_exception_handler({"message": "A task failed as it began.", "exception": exc})
                return None
            finally:
                _leave_task(loop, spare.task)
                if spare.task.cancelling():
                    self._spare = None  # what it was lent to has cancelled it
            self._spare = None
            spare.take(work, waiting, run)
            return spare.task

        def close(self) -> None:
            """Keep nothing."""
            if self._spare is not None:
                self._spare.task.cancel()
                self._spare = None


class _Spare:
    """A task that waits for work that has been begun in its name."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._turn: asyncio.Future[None] = loop.create_future()
        self._work: Work | None = None
        self._waiting: Any = None
        self._run: Callable[..., Any] = copy_context().run
        #: Whether it can take something: it has begun to wait.
        self.waits = False
        self.task: asyncio.Task[None] = loop.create_task(self._live())

    def take(self, work: Work, waiting: Any, run: Callable[..., Any]) -> None:
        """Go on with work that waits for this, by stepping it with this."""
        self.waits = False
        self._work, self._waiting, self._run = work, waiting, run
        if not self._turn.done():
            self._turn.set_result(None)

    async def _live(self) -> None:
        self.waits = True
        try:
            await self._turn
        except asyncio.CancelledError:
            self.waits = False
            if self._work is None:
                raise
            # It was meant for the work, and has to reach it where that waits.
            self.task.uncancel()
            self.task.cancel()
        if self._work is not None:
            await _carried_on(self._work, self._waiting, self._run)


@coroutine
def _carried_on(work: Work, waiting: Any, run: Callable[..., Any]) -> Generator[Any, Any, None]:
    while True:
        try:
            try:
                sent = yield waiting
            except BaseException as exc:
                waiting = run(work.throw, exc)
            else:
                waiting = run(work.send, sent)
        except StopIteration:
            return
