"""`fairlead plumb`: run, check, format and draw typed pipelines. `plumb` is the same as a program of its own."""

from __future__ import annotations

import asyncio
import os
import sys
from codecs import BOM_UTF8
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from fairlead.failures import Failure
from fairlead.surfaces.cli.command import Command, Options
from fairlead.surfaces.cli.hints import near_miss, wrong_option

if TYPE_CHECKING:
    from fairlead.failures import runtime
    from fairlead.pipelines.checking import Options as CheckOptions
    from fairlead.pipelines.host import Host
    from fairlead.pipelines.problems import CheckError
    from fairlead.pipelines.program import Checked, Process
    from fairlead.runtime import App
    from fairlead.surfaces.cli.console import Console
    from fairlead.surfaces.cli.program import Program

_BY_HAND: Final = "The input is read from the terminal: one JSON value a line, Ctrl-D ends it."
_CONFIG: Final = 2
#: Below these are files that somebody has open: who puts another file in their place, tells nobody.
_OPEN: Final = ("/dev/", "/proc/")
#: Verbs whose failures are read by programs, too.
_RUNNING: Final = ("run", "call", "test", "serve")


class Verb(NamedTuple):
    """One word after `plumb`: what it does, and what it takes."""

    run: Callable[[Program, Options], int]
    words: int = 1
    switches: tuple[str, ...] = ()
    valued: tuple[str, ...] = ()


def _plumb(program: Program, arguments: list[str]) -> int:
    if not arguments:
        return program.help_for("plumb")
    name, *rest = arguments
    if name not in _VERBS and (name.endswith(".plumb") or name.startswith("-")):
        name, rest = "run", arguments
    verb = _VERBS.get(name)
    if verb is None:
        expected = f"expected a file NAME.plumb, or one of {', '.join(_VERBS)}."
        raise wrong_option("argument 1", f"{expected}{near_miss(name[:20], _VERBS)}")
    options = Options(rest, verb.switches, verb.valued, verb.words)
    if not options.words:
        raise wrong_option("argument 2", f"expected a file: {program.start.typed} plumb {name} FILE")
    from fairlead.failures import runtime
    from fairlead.pipelines.problems import CheckError
    from fairlead.surfaces.cli.console import Unwritable

    try:
        return verb.run(program, options)
    except CheckError as error:
        return _problems(program, error, running=name in _RUNNING)
    except runtime.RuntimeFailure as failure:
        program.console.say(runtime.dumps(failure))
        return runtime.exit_code(failure)
    except (Failure, BrokenPipeError, Unwritable):
        raise
    except Exception as error:
        if program.console.debug:
            raise
        program.console.say(runtime.dumps(_unforeseen(error)))
        return 1


def _unforeseen(error: Exception) -> runtime.RuntimeFailure:
    """What nobody foresaw, told as any other failure is."""
    from fairlead.failures.failure import text_of
    from fairlead.failures.redaction import DEFAULT
    from fairlead.failures.runtime import InternalError

    what = f"{type(error).__name__}: {DEFAULT.text(text_of(error))}".rstrip(": ")
    return InternalError(f"This was not foreseen: {what}. FAIRLEAD_DEBUG=1 shows the traceback.", cause=error)


def _problems(program: Program, error: CheckError, *, running: bool) -> int:
    """Tell all that is wrong with a program: to people, and last as one line for who reads what a run says."""
    from fairlead.failures import runtime

    for problem in error.problems:
        program.console.say(problem.shown())
    count = len(error.problems)
    program.console.say(f"{count} {'problem' if count == 1 else 'problems'}.")
    if running and not program.console.err_tty:
        program.console.say(runtime.dumps(error.failure))
    return _CONFIG


def _check_options(program: Program, options: Options, **more: Any) -> CheckOptions:
    from fairlead.pipelines.apps import options_for, types_of

    @cache
    def app() -> App | None:
        return program.find_app(guess=True)

    @cache
    def types(name: str) -> Any:
        found = app()
        action = None if found is None else found.get(name)
        return None if action is None else types_of(action)

    def names() -> list[str]:
        found = app()
        return [] if found is None else [each.name for each in found.actions]

    given = {key: options.values[f"--{key}"] for key in ("provider", "model") if f"--{key}" in options.values}
    docroot = options.values.get("--docroot")
    if docroot:
        more["search_path"] = (docroot,)
    made = options_for(None, program.console.environ, **given, **more)
    made.actions, made.action_names = types, names
    return made


def _loaded(program: Program, options: Options, **more: Any) -> Checked:
    from fairlead.pipelines.checking import check_file, require

    return require(check_file(options.words[0], _check_options(program, options, **more)))


def _main(program: Program, options: Options) -> tuple[Checked, Process]:
    checked = _loaded(program, options)
    for problem in checked.warnings:
        program.console.say(problem.shown())
    assert checked.main is not None
    return checked, checked.main


def _check(program: Program, options: Options) -> int:
    from fairlead.pipelines.checking import check_file

    module = "--module" in options.on
    checked = check_file(options.words[0], _check_options(program, options, require_main=not module))
    if "--json" in options.on:
        program.write_json(checked.to_dict())
        return _CONFIG if checked.errors else 0
    for problem in checked.problems:
        program.console.say(problem.shown())
    if checked.errors:
        count = len(checked.errors)
        program.console.say(f"{count} {'problem' if count == 1 else 'problems'}.")
        return _CONFIG
    program.console.write(f"ok ({len(checked.types)} types, {len(checked.processes)} bindings)\n")
    return 0


def _fmt(program: Program, options: Options) -> int:
    from fairlead.pipelines.formatting import format_text
    from fairlead.pipelines.modules import read

    changed = 0
    for path in options.words:
        source = read(path)
        text = format_text(source.text, path)
        if "--stdout" in options.on:
            program.console.write(text)
        elif text != source.text:
            changed += 1
            if "--check" not in options.on:
                _save(path, text)
            program.console.say(f"{path} {'would change' if '--check' in options.on else 'is formatted'}.")
    return 1 if changed and "--check" in options.on else 0


def _render(program: Program, options: Options) -> int:
    from fairlead.pipelines.rendering import FORMATS, render

    target = options.values.get("--out")
    default = target.rpartition(".")[2] if target and "." in target else "svg"
    format = options.values.get("--format", {"mmd": "mermaid", "gv": "dot"}.get(default, default))
    if format not in FORMATS:
        raise wrong_option("--format", f"expected one of {', '.join(FORMATS)}.{near_miss(format, FORMATS)}")
    checked = _loaded(program, options, require_main="--binding" not in options.values)
    name = options.values.get("--binding", "main")
    process = checked.processes.get(name)
    if process is None:
        raise wrong_option("--binding", f"there is no {name!r}.{near_miss(name, checked.processes)}")
    text = render(process, format)
    if target is None:
        program.console.write(text)
    else:
        _save(target, text)
    return 0


def _save(path: str, text: str) -> None:
    """Write a file. Raises ConfigError when that cannot be done; what was there is still there then."""
    try:
        _put(path, text.encode())
    except OSError as error:
        raise _unwritable(path, error) from error


def _put(path: str, data: bytes) -> None:
    from fairlead.tools.fence import Fence

    # A pipe, or what stands for an open file as /dev/stdout, is written to; Windows opens no files below a folder.
    # What ends with a slash is a folder's name, and refused.
    there = os.path.isfile(path) or not (os.path.exists(path) or path.endswith("/"))
    if os.open in os.supports_dir_fd and there and not os.path.abspath(path).startswith(_OPEN):
        folder, name = os.path.split(os.path.realpath(path))
        # A file that is called ~ is not the home.
        Fence(folder, turns=False).write(f"./{name}", data)
        return
    with open(path, "wb") as file:
        file.write(data)


def _unwritable(path: str, error: OSError) -> Failure:
    from fairlead.failures.runtime import ConfigError

    message = f"The file {path!r} cannot be written: {error.strerror}."
    return ConfigError(message, details={"file": path}, cause=error)


def _run(program: Program, options: Options) -> int:
    from fairlead.pipelines.lines import between

    checked, main = _main(program, options)
    console = program.console
    if console.stdin.isatty() and main.inputs:
        console.say(_BY_HAND)
    host = _host(program, options)
    if "--record" in options.values or "--durable" in options.values:
        return _kept(program, options, checked, main, host)
    return _finish(program, lambda: between(main, lambda: _input(console), _writer(console), host))


def _kept(program: Program, options: Options, checked: Checked, main: Process, host: Host) -> int:
    """Run and write it down, or run it as a task."""
    from fairlead.surfaces.cli import plumb_runs as runs

    given = {key: options.values[key] for key in ("--record", "--durable") if key in options.values}
    if len(given) == 2:
        raise wrong_option("--record", "a durable run is not recorded; leave out one of the two.")
    if not main.inputs:
        raise wrong_option(next(iter(given)), "this pipeline takes no messages, and never ends.")
    write = _writer(program.console)
    messages, numbers, broken = runs.messages_of(_all_input(program.console))
    if "--record" in given:
        path = given["--record"]
        return _finish(program, lambda: runs.recorded(main, messages, numbers, broken, write, host, path))
    if broken is not None:
        # A task has all of its input, or is none.
        raise broken
    app = host.app = runs.own_app(program)
    return _finish(program, lambda: runs.durably(app, checked, messages, write, host, given["--durable"]))


def _test(program: Program, options: Options) -> int:
    from fairlead.surfaces.cli import plumb_runs as runs

    # Nobody is asked: agents that name no model need none here.
    options.values.setdefault("--model", "script/recording")
    _, main = _main(program, options)
    named = [options.values["--replay"]] if "--replay" in options.values else []
    paths = runs.recordings_of(options.words[0], named)
    wrong = 0

    async def all_of_them() -> None:
        nonlocal wrong
        say = lambda line: program.console.write(f"{line}\n")  # noqa: E731
        wrong = await runs.tested(main, paths, lambda: _host(program, options), say)

    return _finish(program, all_of_them) or min(wrong, 1)


def _serve(program: Program, options: Options) -> int:
    from fairlead.surfaces.cli import plumb_runs as runs

    return runs.serve(program, options)


def _call(program: Program, options: Options) -> int:
    from fairlead import _json
    from fairlead.failures.runtime import ParseError
    from fairlead.pipelines.lines import unreadable, written
    from fairlead.pipelines.running import call

    _, main = _main(program, options)
    given = options.words[1] if len(options.words) > 1 else _all_input(program.console)
    try:
        value = _json.loads(given)
    except ValueError as error:
        message = unreadable("The input", error)
        raise ParseError(message, details={"source": "main"}, cause=error) from error
    host, write = _host(program, options), _writer(program.console)

    async def once() -> None:
        await write(written([await call(main, value, host)]))

    return _finish(program, once)


def _host(program: Program, options: Options) -> Host:
    from fairlead import _json
    from fairlead.pipelines.host import Host

    console = program.console
    debug = "--telemetry" in options.on or console.environ.get("PIPELINE_DEBUG") == "1"

    def heard(event: dict[str, Any]) -> None:
        console.say(_json.dumps(event))

    identity = program.identity
    return Host(
        app=program._app,
        docroot=options.values.get("--docroot"),
        auto_approve="--auto-approve" in options.on,
        listener=heard if debug else None,
        environ=console.environ,
        user=identity.user,
        auth=identity.auth,
        model=options.values.get("--model"),
        limits=_limits(options.values.get("--budget")),
    )


def _limits(given: str | None) -> dict[str, float] | None:
    if given is None:
        return None
    from fairlead.surfaces.cli.plumb_runs import limits_of

    return limits_of(given)


def _finish(program: Program, work: Callable[[], Any]) -> int:
    """Run to the end; a failure is one line of JSON on stderr, and its category the exit code."""
    from fairlead.failures import runtime
    from fairlead.runtime import Signal
    from fairlead.surfaces.cli.interrupts import run

    # Asked twice, it no longer waits for programs that it has asked to end; they do not outlive it.
    hurry = Signal()

    async def main(cancel: Signal) -> int:
        task = asyncio.ensure_future(work())
        for each in (cancel, hurry):
            each.subscribe(lambda *_: task.cancel())
        try:
            await task
        except asyncio.CancelledError:
            return 130
        except Failure as failure:
            program.console.say(runtime.dumps(failure))
            return runtime.exit_code(failure)
        finally:
            if program._app is not None:
                await program._app.stop()
        return 0

    return run(main, hurry=hurry)


async def _input(console: Console) -> AsyncIterator[bytes]:
    from fairlead.pipelines.lines import chunks_of

    try:
        descriptor = console.stdin.fileno()
    except (OSError, ValueError, AttributeError):
        yield console.stdin.read().encode()
        return
    async for chunk in chunks_of(descriptor):
        yield chunk


def _all_input(console: Console) -> bytes:
    """All of the input at once, as it was sent but for its mark: whether it is text is for who reads it."""
    buffer = getattr(console.stdin, "buffer", None)
    data: bytes = console.stdin.read().encode() if buffer is None else buffer.read()
    return data.removeprefix(BOM_UTF8)


def _writer(console: Console) -> Callable[[bytes], Awaitable[None]]:
    """How results are written: a reader that is slow holds back the run, and neither its clocks nor Ctrl-C."""
    try:
        descriptor = console.stdout.fileno()
    except (OSError, ValueError, AttributeError):
        descriptor = None

    async def write(data: bytes) -> None:
        from fairlead.pipelines.lines import write_to
        from fairlead.surfaces.cli.console import Unwritable

        if descriptor is None or sys.platform == "win32":
            console.write(data.decode())
            return
        try:
            await write_to(descriptor, data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise Unwritable(error.errno, error.strerror) from error

    return write


_SHARED: Final = ("--provider", "--model", "--docroot")
_VERBS: Final = {
    "run": Verb(_run, 1, ("--telemetry", "--auto-approve"), ("--budget", "--record", "--durable", *_SHARED)),
    "call": Verb(_call, 2, ("--telemetry", "--auto-approve"), ("--budget", *_SHARED)),
    "test": Verb(_test, 1, ("--telemetry", "--auto-approve"), ("--replay", *_SHARED)),
    "serve": Verb(_serve, 1000, ("--console", "--auto-approve"), ("--port", *_SHARED)),
    "check": Verb(_check, 1, ("--json", "--module"), _SHARED),
    "fmt": Verb(_fmt, 1000, ("--check", "--stdout"), ()),
    "render": Verb(_render, 1, (), ("--format", "--out", "--binding", *_SHARED)),
}

PLUMB = Command(
    "plumb run|call|check|fmt|render|test|serve FILE [OPTIONS]",
    (
        ("run FILE", "Run a pipeline: JSON Lines from stdin, JSON Lines to stdout. `run` may be left out."),
        ("call FILE [JSON]", "Send one value, print the first result."),
        ("check FILE", "Check without running: every wire, every setting; list all problems."),
        ("fmt FILE...", "Write programs the one way."),
        ("render FILE", "Draw the graph with the types on its wires."),
        (
            "test FILE",
            "Replay recordings: FILE's own (NAME.rec.jsonl, NAME.*.rec.jsonl), or the one of --replay.",
        ),
        ("serve FILE...", "Serve pipelines as actions: HTTP, MCP and OpenAPI."),
        (
            "--budget LIMITS",
            "With run and call: what the whole may spend, as tokens=1000,cost=0.5,time=60,calls=20.",
        ),
        ("--record REC", "With run: write the run down, to be replayed by test."),
        (
            "--durable NAME",
            "With run: run it as a task of this name; the same command goes on after a crash.",
        ),
        ("--replay REC", "With test: the recording."),
        ("--console", "With serve: the browser console instead, with live pictures."),
        ("--port PORT", "With serve: where to listen."),
        ("--json", "With check: print bindings, types and problems as JSON."),
        ("--module", "With check: the file is used by others and needs no main."),
        ("--check", "With fmt: change nothing, exit with 1 when something would change."),
        ("--stdout", "With fmt: print the program."),
        ("--format FORMAT", "With render: svg, dot, mermaid or json. [default: by --out, else svg]"),
        ("--out FILE", "With render: where to write the picture. [default: stdout]"),
        ("--binding NAME", "With render: what to draw. [default: main]"),
        ("--provider NAME", "The model provider of agents that name none. [env: PLUMB_PROVIDER]"),
        ("--model NAME", "The model of agents that name none. [env: PLUMB_MODEL, FAIRLEAD_MODEL]"),
        ("--docroot DIR", "The folder for documents; modules are looked for there first. [env: PLUMB_PATH]"),
        ("--auto-approve", "Let tools that need a yes run without a question."),
        ("--telemetry", "Print what happens as JSON Lines on stderr. [env: PIPELINE_DEBUG=1]"),
    ),
    _plumb,
    (
        "plumb run triage.plumb < tickets.jsonl",
        "plumb check triage.plumb",
        "plumb render triage.plumb --out triage.svg",
        "plumb run triage.plumb --record triage.rec.jsonl < tickets.jsonl && plumb test triage.plumb",
    ),
)


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run `plumb` and exit with its code."""
    from fairlead.surfaces import cli

    cli.main(["plumb", *(sys.argv[1:] if argv is None else argv)])
