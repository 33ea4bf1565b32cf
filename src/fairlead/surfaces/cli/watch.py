"""`tasks watch`: a task's log as it grows, on a terminal with a bar and with the chance to answer, or as JSON lines.

To stop watching is not to stop the task.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from fairlead.failures import Failure, Kind
from fairlead.failures import action as wire
from fairlead.runtime import Signal
from fairlead.surfaces.cli import chat_cards as cards
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
        #: What an agent said since it last used a tool: its answer, when it is over.
        self._answer = ""
        #: The arguments of tools that an agent uses now, by the call.
        self._arguments: dict[str, Any] = {}

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
                self._answer = ""
            case "started" if data.get("attempt", 1) > 1:
                self._say("info", f"Attempt {data['attempt']} begins.")
            case "activity":
                self._activity(data)
            case "draft":
                self._say("info", f"Draft: {brief(data.get('draft'))}")
            case "truncated":
                self._say("warn", f"What was said before offset {data['oldest']} is not kept in full.")

    def _activity(self, told: dict[str, Any]) -> None:
        """What is being done. What an agent does is a line for each tool; its questions are the task's."""
        kind, data = told.get("kind"), told.get("data") or {}
        match kind:
            case "tool_call":
                self._answer = ""
                self._break()
                self._arguments[str(data.get("id"))] = data.get("arguments")
                if data.get("name") not in cards.QUIET:
                    words = cards.short_arguments(data.get("arguments"), self._console.width // 2)
                    self._doing(f"{data.get('name')} {words}", None)
            case "tool_progress":
                event = data.get("event") or {}
                words = event.get("message") or event.get("title") or ""
                self._doing(f"{told.get('title')} {words}", event.get("percent"))
            case "tool_result":
                self._used(data)
            case "todo":
                self._say("info", f"To do: {told.get('title')}")
            case "thinking" | "usage" | "approval" | "clarification":
                pass
            case _:
                words = " ".join(str(told[name]) for name in ("title", "detail") if told.get(name))
                self._say("warn" if kind == "warning" else "info", f"{kind or 'activity'}: {words}")

    def _doing(self, words: str, percent: float | None) -> None:
        self._live.event({"type": "progress", "message": words, "percent": percent})

    def _used(self, data: dict[str, Any]) -> None:
        arguments = self._arguments.pop(str(data.get("id")), None)
        self._clear()
        if self._console.err_tty and (data.get("name") not in cards.QUIET or not data.get("ok")):
            signs = cards.marks(self._console.stderr.encoding)
            self._console.say(cards.ended(data, arguments, self._console.err, signs, self._console.width))

    def _delta(self, value: Any) -> None:
        if self._program.form == "json":
            self._chunks.append(value)
            return
        self._live.clear()
        self._streamed = True
        if isinstance(value, str):
            self._answer += value
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
        waits_for = task.question if task.state.paused else None
        # The event says more than the question: the state that the task went to.
        if waits_for is None or any(question.get(name) != value for name, value in waits_for.items()):
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
        data = envelope.get("data")
        shown = (
            isinstance(data, str) and self._program.form == "people" and data.strip() == self._answer.strip()
        )
        if envelope["ok"] and self._streamed and (shown or envelope["meta"].get("chunks")):
            # It has been shown piece by piece.
            envelope = {**envelope, "data": None, "meta": {**envelope["meta"], "chunks": 1}}
        elif envelope["ok"] and envelope.get("data") is None and self._chunks:
            envelope["data"] = self._chunks
        return envelope
