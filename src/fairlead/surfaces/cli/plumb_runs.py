"""`plumb run` that is recorded or durable, `plumb test` and `plumb serve`."""

from __future__ import annotations

import glob
import io
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TextIO

from fairlead import _json
from fairlead.failures import Failure
from fairlead.failures.runtime import ConfigError, ParseError
from fairlead.pipelines.recordings import Recorder, Replayed, read_record, replay
from fairlead.surfaces.cli.hints import near_miss, wrong_option

if TYPE_CHECKING:
    from fairlead.pipelines.host import Host
    from fairlead.pipelines.program import Checked, Process
    from fairlead.runtime import App
    from fairlead.surfaces.cli.command import Options
    from fairlead.surfaces.cli.program import Program

#: How recordings are called that stand beside a program: `triage.rec.jsonl`, `triage.angry.rec.jsonl`.
RECORDING: Final = ".rec.jsonl"
_HOST: Final = "127.0.0.1"
_PORT: Final = "8000"
#: Tasks that are run at once where pipelines are served.
_AT_ONCE: Final = 8
_WHOLE: Final = ("tokens", "calls")
_LIMITS: Final = (*_WHOLE, "cost", "time")


def limits_of(given: str | None) -> dict[str, float] | None:
    """What `--budget tokens=1000,time=60` says. Raises Failure when that is nothing."""
    if given is None:
        return None
    limits: dict[str, float] = {}
    for part in given.split(","):
        name, _, number = part.strip().partition("=")
        if name not in _LIMITS:
            expected = f"expected limits as in tokens=1000,time=60, each one of {', '.join(_LIMITS)}."
            raise wrong_option("--budget", f"{expected}{near_miss(name, _LIMITS)}")
        try:
            limits[name] = int(number) if name in _WHOLE else float(number)
        except ValueError:
            limits[name] = -1
        if not 0 <= limits[name] < float("inf"):
            raise wrong_option("--budget", f"{name} has to be a number of at least 0.")
    return limits


def messages_of(text: bytes) -> tuple[list[Any], list[int], ParseError | None]:
    """The messages of JSON Lines, which only a line feed ends, up to a line that is none; the numbers of their lines;
    and what is wrong there."""
    from fairlead.pipelines.lines import unreadable

    found: list[Any] = []
    numbers: list[int] = []
    for number, line in enumerate(text.split(b"\n"), start=1):
        try:
            if line.strip():
                found.append(_json.loads(line))
                numbers.append(number)
        except ValueError as error:
            message = unreadable(f"Line {number} of the input", error)
            return (
                found,
                numbers,
                ParseError(message, details={"source": "main", "line": number}, cause=error),
            )
    return found, numbers, None


async def recorded(
    main: Process,
    messages: list[Any],
    numbers: list[int],
    broken: ParseError | None,
    write: Callable[[bytes], Awaitable[None]],
    host: Host,
    path: str,
) -> None:
    """Run and write down what happens. `broken` is how the input goes on after its messages. Raises Failure."""
    from fairlead.pipelines.lines import sent, written
    from fairlead.pipelines.running import Run

    with _recording(path) as file:
        recorder = Recorder(file, host.limits)
        host.journal = recorder.journal()

        def told(batch: list[Any]) -> Awaitable[None]:
            recorder.sent(batch)
            return write(written(batch))

        try:
            async with Run(main, host, write=told) as run:
                recorder.received(messages)
                await sent(run, messages, broken, numbers)
        except Failure as failure:
            recorder.ended(failure)
            raise
        recorder.ended(None)


@contextmanager
def _recording(path: str) -> Iterator[TextIO]:
    """A file that is written line by line, for one person. Raises ConfigError where that cannot be done."""

    class Lines(io.FileIO):
        def write(self, data: Any) -> int:
            with _told(path):
                return super().write(data)

    with _told(path):
        raw = Lines(path, "w")
    with io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8") as file:
        yield file


@contextmanager
def _told(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        message = f"The recording {path!r} cannot be written: {error.strerror}."
        raise ConfigError(message, details={"file": path}, cause=error) from error


async def durably(
    app: App,
    checked: Checked,
    messages: list[Any],
    write: Callable[[bytes], Awaitable[None]],
    host: Host,
    name: str,
) -> None:
    """Run as a task of the store, or go on with it; its results are written when it is done. Raises Failure."""
    from fairlead.pipelines.durable import run_durably
    from fairlead.pipelines.lines import written

    settings = {"docroot": host.docroot, "auto_approve": host.auto_approve, "limits": host.limits}
    heard = {"listener": host.listener, "environ": host.environ, "model": host.model}
    results = await run_durably(app, checked, messages, name, **settings, **heard)
    await write(written(results))


def own_app(program: Program) -> App:
    """The app that is there, or one of its own for pipelines that need none."""
    app = program.find_app(guess=True)
    if app is None:
        from fairlead.runtime import App

        app = program._app = App("plumb")
    return app


async def tested(
    main: Process, paths: list[str], host: Callable[[], Host], say: Callable[[str], None]
) -> int:
    """Replay recordings; say how each went. Gives how many did not go as recorded."""
    wrong = 0
    for path in paths:
        try:
            with open(path, encoding="utf-8") as file:  # noqa: ASYNC230 - before anything runs
                record = read_record(file.read(), path)
        except OSError as error:
            raise ConfigError(f"The recording {path!r} cannot be read: {error.strerror}.") from error
        except UnicodeDecodeError as error:
            message = f"{path!r} is not UTF-8 text, and no recording."
            raise ConfigError(message, details={"file": path}, cause=error) from error
        done = await replay(main, record, host())
        wrong += not done.ok
        for line in _lines(path, done):
            say(line)
    return wrong


def _lines(path: str, done: Replayed) -> list[str]:
    name = os.path.basename(path)
    if done.ok:
        return [f"ok {name} ({len(done.outputs)} results, {done.steps} steps)"]
    return [f"not ok {name}", *(f"  {each}" for each in done.differences)]


def recordings_of(program: str, given: list[str]) -> list[str]:
    """The recordings to replay: those that are named, or those beside the program. Raises Failure without any."""
    if given:
        return given
    stem = glob.escape(os.path.splitext(program)[0])
    found = sorted({*glob.glob(f"{stem}{RECORDING}"), *glob.glob(f"{stem}.*{RECORDING}")})
    if not found:
        name = os.path.splitext(program)[0] + RECORDING
        message = f"There is no recording to test {program!r} with. "
        message += f"Make one: plumb run {program} --record {name} < messages.jsonl"
        raise ConfigError(message, details={"file": program})
    return found


def serve(program: Program, options: Options) -> int:
    """Serve pipelines as actions: HTTP, MCP and OpenAPI, or the console with their live pictures."""
    from fairlead.pipelines.apps import add_pipeline

    app = own_app(program)
    made: dict[str, Any] = {"auto_approve": "--auto-approve" in options.on}
    if "--docroot" in options.values:
        made["docroot"] = options.values["--docroot"]
    for flag, variable in (("--provider", "PLUMB_PROVIDER"), ("--model", "PLUMB_MODEL")):
        if flag in options.values:
            # What is started from here finds it, too.
            os.environ[variable] = options.values[flag]
    for path in options.words:
        add_pipeline(app, path, **made)
    program._app = app
    if "--console" in options.on:
        from fairlead.surfaces.console.command import DEV

        port = ["--port", options.values["--port"]] if "--port" in options.values else []
        return DEV.run(program, ["--no-reload", "--no-open", *port])
    return _served(program, app, options.values.get("--port", _PORT))


def _served(program: Program, app: App, port: str) -> int:
    """Serve on this machine, for this machine; tasks are run here, too."""
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise wrong_option("--port", "expected a number from 0 to 65535.")
    from fairlead.surfaces.console.serving import require_uvicorn
    from fairlead.surfaces.http.serving import Plan, Way, listening, serve

    require_uvicorn()
    at = listening(_HOST, int(port))
    plan = Plan("", os.getcwd(), http={"allowed_hosts": [_HOST, "localhost"]}, worker=_AT_ONCE)
    root = f"http://{_HOST}:{at.getsockname()[1]}"
    names = ", ".join(each.name for each in app.catalogue if "pipeline" in each.metadata)
    program.console.say(f"Serving {names} for this machine only. Ctrl-C stops it.")
    for what, path in (("actions", "/fairlead/actions"), ("docs", "/docs"), ("MCP", "/mcp")):
        program.console.say(f"  {what:8}{root}{path}")
    return serve(plan, Way(1, False, 10.0, "warning", False, ""), plan.site(app), at)
