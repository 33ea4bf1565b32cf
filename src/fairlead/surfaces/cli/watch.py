"""`tasks watch`: a task's log as it grows, on a terminal with a bar and with the chance to answer, or as JSON lines.

To stop watching is not to stop the task.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from fairlead.failures import Failure, Kind
from fairlead.failures import action as wire
from fairlead.runtime import Signal
from fairlead.surfaces.cli import question as asked
from fairlead.surfaces.cli import render
from fairlead.surfaces.cli.console import harmless
from fairlead.surfaces.cli.live import Live, brief
from fairlead.surfaces.refusal import refusal
from fairlead.tasks import Event, State, Task, Tasks

if TYPE_CHECKING:
    from fairlead.surfaces.cli.program import Program

_ENDS: Final = {
    State.canceled: Kind.cancelled,
    State.timeout: Kind.timeout,
    State.rejected: Kind.forbidden,
    State.failed: Kind.exhausted,
}


class Watch:
    """Shows one task until it has ended; `run` gives the exit code that its call would have had."""

    def __init__(
        self, program: Program, tasks: Tasks, task: Task, *, caller: str | None, verbose: bool, store: str
    ) -> None:
        self._program = program
        self._console = program.console
        self._tasks = tasks
        self._task = task
        self._caller = caller
        self._store = store
        self._live = Live(self._console, verbose)
        self._offset = 0
        self._chunks: list[Any] = []
        #: Whether pieces of the result have been shown.
        self._streamed = False
        #: Whether stdout stands in the middle of a line.
        self._midway = False
        self._asking: asyncio.Task[None] | None = None

    async def run(self, since: int, signal: Signal) -> int:
        self._offset = since
        if self._console.err_tty and self._program.form != "ndjson" and not self._task.state.final:
            self._console.say(
                f"Watching {self._task.id} ({self._task.state.value}). Ctrl-C stops watching, not the task."
            )
        watching = asyncio.ensure_future(self._follow(since, signal))
        stopped = asyncio.ensure_future(signal.wait())
        try:
            await asyncio.wait((watching, stopped), return_when=asyncio.FIRST_COMPLETED)
            if not watching.done():
                return self._leave()
            watching.result()
        finally:
            stopped.cancel()
            watching.cancel()
            self._stop_asking()
            self._clear()
        task = await self._tasks.get(self._task.id, caller=self._caller)
        return self._program.outcome("tasks").show(self._envelope(task))

    async def _follow(self, since: int, signal: Signal) -> None:
        async for event in self._tasks.events(self._task.id, since, caller=self._caller):
            self._offset = event.offset
            if self._program.form == "ndjson":
                self._console.write_json(event.to_dict())
            else:
                await self._show(event, signal)

    async def _show(self, event: Event, signal: Signal) -> None:
        data = event.data
        if event.type in ("input", "started", "terminal"):
            self._stop_asking()
        match event.type:
            case "log" | "progress" | "artifact":
                self._break()
                self._live.event({"type": event.type, **data})
            case "delta":
                self._delta(data.get("data"))
            case "output":
                self._delta(f"{data['text']}\n")
            case "clarification":
                await self._paused(data, signal)
            case "input":
                self._say("info", f"Answered: {brief(data.get('input'))}")
            case "started" if data.get("attempt", 1) > 1:
                self._say("info", f"Attempt {data['attempt']} begins.")
            case "activity":
                words = " ".join(str(data[name]) for name in ("title", "detail") if data.get(name))
                self._say("info", f"{data.get('kind', 'activity')}: {words}")
            case "draft":
                self._say("info", f"Draft: {brief(data.get('draft'))}")
            case "truncated":
                self._say("warn", f"What was said before offset {data['oldest']} is not kept in full.")

    def _delta(self, value: Any) -> None:
        if self._program.form == "json":
            self._chunks.append(value)
            return
        self._live.clear()
        self._streamed = True
        if isinstance(value, str):
            # What was said in pieces is one text.
            self._console.write(harmless(value) if self._console.out_tty else value)
            if value:
                self._midway = not value.endswith("\n")
        else:
            self._break()
            self._console.write(render.line(value, self._console) + "\n")

    def _say(self, level: str, words: str) -> None:
        self._break()
        self._live.log(level, words)

    def _break(self) -> None:
        """Begin a new line, if text of the task stands on this one."""
        if self._midway:
            self._console.write("\n")
            self._midway = False

    def _clear(self) -> None:
        self._live.clear()
        self._break()

    # Pauses.

    async def _paused(self, question: dict[str, Any], signal: Signal) -> None:
        task = await self._tasks.get(self._task.id, caller=self._caller)
        self._clear()
        if not task.state.paused or task.question != question:
            self._live.log("info", f"It asked: {question.get('question', '')}")  # and was answered since
            return
        self._console.say(asked.shown(question, self._console))
        if self._console.interactive:
            self._asking = asyncio.ensure_future(self._ask(question, signal))
        else:
            self._console.say(self._how_to_answer())

    async def _ask(self, question: dict[str, Any], signal: Signal) -> None:
        while True:
            answer = await asked.typed(question, self._console, signal)
            if answer is None:
                if not signal.cancelled:
                    self._console.say(self._how_to_answer())
                return
            try:
                await self._tasks.answer(self._task.id, answer, caller=self._caller)
                return
            except Failure as failure:
                self._console.say(harmless(failure.message))
                if failure.kind is not Kind.invalid_input:
                    return

    def _stop_asking(self) -> None:
        if self._asking is not None and not self._asking.done():
            # Somebody else has answered, or it is over: the question stands there no more.
            self._asking.cancel()
            self._console.say("")
        self._asking = None

    def _how_to_answer(self) -> str:
        return f"Answer it with '{self._program.spelled} tasks answer {self._task.id} VALUE{self._store}'."

    # The end.

    def _leave(self) -> int:
        self._stop_asking()
        self._clear()
        go_on = f"tasks watch {self._task.id} --since {self._offset}{self._store}"
        self._console.say(
            f"Stopped watching; the task goes on. '{self._program.spelled} {go_on}' watches it again, "
            f"'{self._program.spelled} tasks cancel {self._task.id}{self._store}' ends it."
        )
        return wire.exit_code(Failure(Kind.cancelled))

    def _envelope(self, task: Task) -> dict[str, Any]:
        envelope = task.envelope
        if envelope is None:
            reason = (task.reason or "").strip()
            words = f"The task ended as {task.state.value}" + (f": {reason}" if reason else ".")
            words = words if words.endswith((".", "!", "?")) else f"{words}."
            failure = Failure(_ENDS.get(task.state, Kind.internal), words)
            return refusal(failure, "cli", self._tasks.app, task.action)
        if envelope["ok"] and self._streamed and envelope["meta"].get("chunks"):
            envelope["data"] = None  # it has been shown piece by piece
        elif envelope["ok"] and envelope.get("data") is None and self._chunks:
            envelope["data"] = self._chunks
        return envelope
