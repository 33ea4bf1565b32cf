"""`worker`: runs tasks until it is told to stop. The first signal drains it, the second has it hand back what runs."""

from __future__ import annotations

import asyncio
from contextlib import redirect_stdout
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from fairlead.surfaces.cli.command import Command, Options
from fairlead.surfaces.cli.console import YELLOW, harmless, harmless_line
from fairlead.surfaces.cli.hints import wrong_option
from fairlead.surfaces.cli.spans import DATA_ROW, choose_store, span, whole

if TYPE_CHECKING:
    from fairlead.runtime import App, Signal
    from fairlead.surfaces.cli.console import Console
    from fairlead.surfaces.cli.program import Program
    from fairlead.tasks import Task, Tasks, Worker

CONCURRENCY: Final = "16"
_DRAIN: Final = "10"
_LEASE: Final = "30"
_MOST: Final = 10_000


def _worker(program: Program, arguments: list[str]) -> int:
    valued = ("--concurrency", "--queue", "--drain", "--lease", "--data")
    options = Options(arguments, ("--verbose", "-v", "--json"), valued)
    if "--json" in options.on:
        program.form = "ndjson"
    given = options.values
    settings: dict[str, Any] = {
        "concurrency": whole("--concurrency", given.get("--concurrency", CONCURRENCY), 1, _MOST),
        "lease": span("--lease", given.get("--lease", _LEASE)),
    }
    if settings["lease"] < 1:
        raise wrong_option("--lease", "expected at least 1 second")
    if given.get("--queue") == "":
        raise wrong_option("--queue", "expected a name")
    drain = span("--drain", given.get("--drain", _DRAIN))
    choose_store(given.get("--data"))
    from fairlead.runtime import Signal
    from fairlead.surfaces.cli import interrupts

    app = program.the_app()
    teller = _Teller(program.console, as_json="--json" in options.on, verbose=bool(options.on - {"--json"}))
    _hear_warnings(teller)
    hurry = Signal()
    shift = _Shift(app, teller, given.get("--queue"), settings, drain, hurry)
    # What actions print is no line of ours.
    with redirect_stdout(program.console.stderr):
        return interrupts.run(shift.run, hurry=hurry)


class _Shift:
    """One worker from its start to its end."""

    def __init__(
        self,
        app: App,
        teller: _Teller,
        queue: str | None,
        settings: dict[str, Any],
        drain: float,
        hurry: Signal,
    ) -> None:
        self._app = app
        self._teller = teller
        self._queue = queue
        self._settings = settings
        self._drain = drain
        self._hurry = hurry

    async def run(self, signal: Signal) -> int:
        from fairlead.surfaces.cli.call import started, stopped
        from fairlead.tasks import Tasks

        teller = self._teller
        tasks: Tasks = (
            self._app.tasks if self._queue is None else Tasks(self._app, self._app.store, self._queue)
        )
        teller.tasks = tasks
        await started(self._app, signal)
        from fairlead.surfaces.talking import gateway_of

        gateway = gateway_of(self._app)
        try:
            worker = tasks.worker(heard=teller.heard, **self._settings)
            worker.start()
            if gateway is not None:
                gateway.start(serving=False)
            teller.begun(worker, self._settings["concurrency"], tasks.store.name)
            await signal.wait()
            await self._stop(worker)
            await teller.ended(worker)
        finally:
            if gateway is not None:
                await gateway.stop()
            clean = await stopped(self._app, teller.console)
        return 0 if clean else 1

    async def _stop(self, worker: Worker) -> None:
        self._teller.draining(worker, self._drain)
        stopping = asyncio.ensure_future(worker.stop(self._drain))
        hurried = asyncio.ensure_future(self._hurry.wait())
        await asyncio.wait((stopping, hurried), return_when=asyncio.FIRST_COMPLETED)
        if not stopping.done():
            self._teller.say("hurried", f"Stopping at once: {_tasks_of(worker.busy)} handed back.")
            await worker.stop()
        hurried.cancel()
        await stopping


class _Teller:
    """Says what the worker does: a line at its start and its end, more on request, or JSON lines on stdout."""

    tasks: Tasks

    def __init__(self, console: Console, *, as_json: bool, verbose: bool) -> None:
        self.console = console
        self._json = as_json
        self._each = verbose or as_json
        self._since: dict[tuple[str, int], float] = {}
        self._ran = 0
        self._warned = ""
        #: Lines that wait for what the store says of a task.
        self._looking: set[asyncio.Task[None]] = set()

    def say(self, word: str, words: str, **facts: Any) -> None:
        if not self._json:
            self.console.say(words)
            return
        try:
            self.console.write_json({"type": word, **facts})
        except OSError:  # that nobody gets it any more is no reason to leave tasks alone
            self.console.abandon_stdout()

    def warn(self, message: str) -> None:
        """What went wrong beside the tasks themselves; the same thing again is told once."""
        if message != self._warned:
            self._warned = message
            self.say(
                "warning", f"{self.console.err('warning:', YELLOW)} {harmless(message)}", message=message
            )

    def begun(self, worker: Worker, concurrency: int, store: str) -> None:
        self.say(
            "ready",
            f"Worker {worker.id} runs tasks of {worker.queue!r}, {concurrency} at once, from {store}. Ctrl-C stops it.",
            worker=worker.id,
            queue=worker.queue,
            concurrency=concurrency,
            store=store,
        )

    def draining(self, worker: Worker, drain: float) -> None:
        busy = worker.busy
        if not busy and not self._json:
            return
        words = (
            f"Stopping: {_tasks_of(busy)} still running, for {drain:g} s at most. Ctrl-C again stops at once."
        )
        self.say("draining", words, running=busy)

    async def ended(self, worker: Worker) -> None:
        if self._looking:
            await asyncio.wait(self._looking)
        self.say("stopped", f"Stopped. {_runs_of(self._ran)}.", worker=worker.id, runs=self._ran)

    def heard(self, word: str, task: Task) -> None:
        """What the worker tells of a task."""
        if word == "started":
            self._since[task.id, task.run] = monotonic()
            self._ran += 1
            if self._each:
                self._line(word, task, f"attempt {task.attempt}", {"attempt": task.attempt})
            return
        seconds = monotonic() - self._since.pop((task.id, task.run), monotonic())
        if self._each:
            looking = asyncio.ensure_future(self._let_go(word, task, seconds))
            self._looking.add(looking)
            looking.add_done_callback(self._looking.discard)

    async def _let_go(self, word: str, task: Task, seconds: float) -> None:
        from fairlead.failures import Failure

        try:
            now = await self.tasks.get(task.id)
        except Failure:
            return  # the store is away, which the worker tells by itself
        state = now.state.value if word in ("ended", "paused") else word.replace(" ", "_")
        facts: dict[str, Any] = {"state": now.state.value, "seconds": round(seconds, 3)}
        reason = f": {now.reason}" if word == "ended" and now.reason else ""
        self._line(state, task, f"{seconds:.3g} s{reason}", facts)

    def _line(self, word: str, task: Task, about: str, facts: dict[str, Any]) -> None:
        words = f"{word:<14} {task.id}  {task.action.replace('_', '-')}  {harmless_line(about)}"
        self.say("task", words, event=word, id=task.id, action=task.action, **facts)


def _hear_warnings(teller: _Teller) -> None:
    """Tell what the runtime logs in one line each; tracebacks are for those who ask, or set logging up."""
    import logging

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            teller.warn(record.getMessage())

    logger = logging.getLogger("fairlead")
    if not teller.console.debug and not logger.handlers:
        logger.addHandler(Lines(logging.WARNING))


def _tasks_of(count: int) -> str:
    return f"{count} task{'' if count == 1 else 's'}"


def _runs_of(count: int) -> str:
    return f"{count} run{'' if count == 1 else 's'} of tasks"


WORKER = Command(
    "worker [--concurrency N] [OPTIONS]",
    (
        ("--concurrency N", f"Tasks that it runs at once. [default: {CONCURRENCY}]"),
        ("--queue NAME", "Whose tasks it runs. [default: the app's name]"),
        (
            "--drain SECONDS",
            f"How long running tasks may go on when it stops; then they are handed back. [default: {_DRAIN}]",
        ),
        (
            "--lease SECONDS",
            f"After so long without a sign of life another worker takes what this one ran. [default: {_LEASE}]",
        ),
        ("--verbose", "A line for every run of a task."),
        ("--json", "Print JSON, an object a line: ready, task, warning, draining, stopped."),
        DATA_ROW,
    ),
    _worker,
    ("worker --concurrency 4 --verbose", "worker --drain 60"),
)
