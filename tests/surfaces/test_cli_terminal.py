"""Real processes: on a terminal, under signals, and at the end of a pipe."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Program = Callable[[str], Path]
Spawn = Callable[..., "subprocess.Popen[str]"]
OnTerminal = Callable[..., Any]

IMPORT = """
@app.action
async def load(ctx: Context) -> str:
    "Load things."
    await ctx.progress.report(message="starting", percent=25)
    await ctx.logger.warn("careful")
    await ctx.progress.report(message="finishing", percent=100)
    return "loaded"

@app.action(side_effects="destructive")
async def wipe(target: str) -> str:
    "Wipe it."
    return "wiped " + target
"""

WAIT = """
@app.service
async def db():
    yield 1
    print("closed", file=sys.stderr, flush=True)

@app.action
async def wait(ctx: Context) -> None:
    "Wait for ever."
    try:
        print("ready", file=sys.stderr, flush=True)
        await asyncio.Event().wait()
    finally:
        print("cleaned", file=sys.stderr, flush=True)

@app.action
def block() -> None:
    "Block a thread."
    print("ready", file=sys.stderr, flush=True)
    time.sleep(60)

@app.action
def aside() -> None:
    "Have the signal delivered to a thread that is not the main one."
    import signal, threading
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)
    time.sleep(60)

@app.action
async def stuck() -> None:
    "Block the loop."
    print("ready", file=sys.stderr, flush=True)
    time.sleep(60)

@app.action
async def count():
    "Count for ever."
    number = 0
    while True:
        yield number
        number += 1
"""


def test_a_progress_bar_is_redrawn_with_log_lines_above_it(program: Program, on_terminal: OnTerminal) -> None:
    code, seen = on_terminal(program(IMPORT), "load").finish()
    assert code == 0
    bar, after = seen.split("25% starting", 1)
    assert bar.startswith("\r\x1b[2K")
    assert "\r\x1b[2K\x1b[33mwarn \x1b[0m careful\n" in after
    assert seen.endswith("100% finishing\r\x1b[2Kloaded\n")


@pytest.mark.parametrize("env", [{"TERM": "dumb"}, {"TERM": "dumb", "NO_COLOR": "1"}])
def test_a_dumb_terminal_gets_plain_lines(
    program: Program, on_terminal: OnTerminal, env: dict[str, str]
) -> None:
    _, seen = on_terminal(program(IMPORT), "load", **env).finish()
    assert seen == "warn  careful\nloaded\n"


def test_no_color_keeps_the_bar_and_drops_the_colour(program: Program, on_terminal: OnTerminal) -> None:
    _, seen = on_terminal(program(IMPORT), "load", NO_COLOR="1").finish()
    assert "25% starting" in seen
    assert "\x1b[33m" not in seen


def test_the_person_at_the_terminal_confirms(program: Program, on_terminal: OnTerminal) -> None:
    process = on_terminal(program(IMPORT), "wipe", "--target", "disk", NO_COLOR="1")
    process.wait_for("[y/N] ")
    process.type("y\n")
    code, seen = process.finish()
    assert (code, seen.endswith("wiped disk\n")) == (0, True)
    assert "target: disk" in seen


def test_the_person_at_the_terminal_refuses(program: Program, on_terminal: OnTerminal) -> None:
    process = on_terminal(program(IMPORT), "wipe", "--target", "disk")
    process.wait_for("[y/N] ")
    process.type("\n")
    code, seen = process.finish()
    assert (code, "wiped disk" in seen) == (3, False)


def test_ctrl_c_at_the_prompt_cancels(program: Program, on_terminal: OnTerminal) -> None:
    process = on_terminal(program(IMPORT), "wipe", "--target", "disk")
    process.wait_for("[y/N] ")
    process.type("\x03")
    code, seen = process.finish()
    assert (code, "CANCELLED" in seen) == (130, True)


def wait_for_ready(process: subprocess.Popen[str]) -> None:
    assert process.stderr is not None
    assert process.stderr.readline() == "ready\n"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_cancels_cleanly(program: Program, spawn: Spawn, number: int, code: int) -> None:
    process = spawn(program(WAIT), "wait", "--output", "json")
    wait_for_ready(process)
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert process.returncode == code
    assert '"CANCELLED"' in out
    assert err.startswith("cleaned\nclosed\n")


def test_a_thread_that_does_not_listen_is_left_behind(program: Program, spawn: Spawn) -> None:
    process = spawn(program(WAIT), "block")
    wait_for_ready(process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, '"CANCELLED"' in out) == (130, True)
    assert "destroyed" not in err


def test_a_signal_that_reaches_another_thread_cancels_too(program: Program, spawn: Spawn) -> None:
    process = spawn(program(WAIT), "aside")
    out, _ = process.communicate(timeout=20)
    assert (process.returncode, '"CANCELLED"' in out) == (130, True)


def test_a_second_signal_ends_the_process_at_once(program: Program, spawn: Spawn) -> None:
    process = spawn(program(WAIT), "stuck")
    wait_for_ready(process)
    process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=0.3)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=20) == 130


@pytest.mark.parametrize("form", [["--ndjson"], ["--output", "text"]])
def test_a_closed_pipe_ends_the_command_quietly(program: Program, spawn: Spawn, form: list[str]) -> None:
    process = spawn(program(WAIT), "count", *form)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=20) == 141
    assert process.stderr is not None
    assert process.stderr.read() == "closed\n"


def test_json_is_utf_8_whatever_the_locale(program: Program, spawn: Spawn) -> None:
    source = "@app.action\nasync def say() -> str:\n    'Say.'\n    return 'Grüße'\n"
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    process = spawn(program(source), "say", env=env, encoding="utf-8", cold=True)
    out, _ = process.communicate(timeout=20)
    assert "Grüße" in out


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8:surrogateescape"])
def test_text_from_a_pipe_is_utf_8_whatever_the_locale(program: Program, encoding: str) -> None:
    source = "@app.action\nasync def echo(text: str) -> str:\n    'Echo.'\n    return text\n"
    command = [sys.executable, str(program(source)), "echo", "--text", "-"]
    env = {**os.environ, "PYTHONIOENCODING": encoding}
    for sent, code, told in (("Grüße".encode(), 0, '"data": "Grüße"'), (b"\xff\xfe", 2, '"invalid_value"')):
        done = subprocess.run(command, input=sent, env=env, capture_output=True, check=False)
        assert (done.returncode, told in done.stdout.decode()) == (code, True)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere arguments are text")
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--text", "Grüße"], "Grüße"),
        (["--text", "@@Grüße"], "@Grüße"),
        (["--json", '{"text": "Grüße"}'], "Grüße"),
        (["--text", b"\xff\xfe"], None),
    ],
)
def test_an_argument_is_utf_8_where_the_locale_knows_ascii_alone(
    program: Program, arguments: list[Any], told: str | None
) -> None:
    source = "@app.action\nasync def echo(text: str) -> str:\n    'Echo.'\n    return text\n"
    env = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, str(program(source)), "echo", *arguments]
    done = subprocess.run(command, env=env, capture_output=True, check=False)
    assert json.loads(done.stdout).get("data") == told
    assert done.returncode == (0 if told else 2)


FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    "command",
    ["count --ndjson", "count --output text", "word", "manifest", "unheard-of", "json"],
)
def test_output_that_cannot_be_written_is_told_in_a_line(
    program: Program, spawn: Spawn, command: str
) -> None:
    source = WAIT + "@app.action\nasync def word() -> str:\n    'Say.'\n    return 'x'\n"
    with FULL.open("w") as full:
        process = spawn(program(source), *command.split(), stdout=full)
        _, said = process.communicate('{"action": "word"}\n', timeout=20)
    assert process.returncode == 1
    assert said.removeprefix("closed\n").startswith("error: The output cannot be written: No space left")
    assert said.count("\n") - said.count("closed\n") == 1


def test_a_refusal_that_nobody_reads_ends_the_command_quietly(program: Program, spawn: Spawn) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = spawn(program(WAIT), "unheard-of", stdout=writer)
    os.close(writer)
    _, said = process.communicate(timeout=20)
    assert (process.returncode, said) == (141, "")


def test_python_m_fairlead_is_the_same_program(program: Program) -> None:
    path = program(IMPORT)
    command = [sys.executable, "-m", "fairlead", "--app", str(path), "load", "--output", "text"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "loaded\n", "")


def test_a_long_result_that_nobody_reads_to_its_end_is_told_by_the_exit_code(
    program: Program, spawn: Spawn
) -> None:
    source = "@app.action\nasync def say() -> str:\n    'Say much.'\n    return 'x' * 5_000_000\n"
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = spawn(program(source), "say", env=env, cold=True)
    assert process.stdout is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.wait(timeout=20) == 141


def test_lines_of_json_on_a_terminal_are_not_mixed_with_a_progress_bar(
    program: Program, on_terminal: OnTerminal
) -> None:
    _, seen = on_terminal(program(IMPORT), "load", "--ndjson").finish()
    kinds = [json.loads(line)["type"] for line in seen.strip().splitlines()]
    assert kinds[0] == "progress"
    assert kinds[-1] == "result"
