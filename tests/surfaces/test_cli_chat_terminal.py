"""Chats in real processes: on a terminal with line editing, under signals, and on the screen that people look at."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from talking import AGENT
from warm import Warm

PATIENCE = 30.0
Spawn = Callable[..., "subprocess.Popen[str]"]
PLAIN = {"NO_COLOR": "1"}


@pytest.fixture
def path(program: Callable[[str], Path]) -> Path:
    return program(AGENT)


@pytest.fixture
def chat(path: Path, on_terminal: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """A chat on a pseudo terminal."""

    def start(*options: str, **env: str) -> Any:
        places = {"FAIRLEAD_DATA": str(tmp_path / "data"), "LC_ALL": "C.UTF-8"}
        process = on_terminal(path, "chat", *options, **(places | PLAIN | env))
        process.wait_for("> " if env.get("TERM") == "dumb" else READY)
        return process

    return start


#: What line editing writes when it is ready for a line.
READY = "\x1b[?2004h> "


def say(process: Any, text: str, *shown: str) -> None:
    """Type something, and wait for what is shown then; by itself for the next prompt."""
    process.seen = ""
    process.type(text)
    for each in shown or (READY,):
        process.wait_for(each)


def leave(process: Any, text: str = "\x04") -> int:
    process.type(text)
    code: int = process.finish()[0]
    assert "Traceback" not in process.seen
    return code


def test_ctrl_d_leaves(chat: Callable[..., Any]) -> None:
    assert leave(chat()) == 0


def test_ctrl_c_interrupts_the_turn_and_at_the_prompt_leaves(chat: Callable[..., Any]) -> None:
    process = chat()
    say(process, "count\n", "One two")
    say(process, "\x03", "Interrupted.", READY)
    say(process, "/history\n", "bob\r\n  One two", READY)
    say(process, "hello\n", "You said: hello", READY)
    assert leave(process, "\x03") == 130


def test_ctrl_c_gives_up_a_line_that_was_begun(chat: Callable[..., Any]) -> None:
    process = chat()
    say(process, "hel", "hel")
    say(process, "\x03", READY)
    say(process, "lo\n", "You said: lo", READY)
    assert leave(process, "\x03") == 130


def test_ctrl_c_ends_a_tool_that_hangs(chat: Callable[..., Any]) -> None:
    process = chat()
    say(process, "hang\n", "hanging on")
    say(process, "\x03", "Interrupted.", READY)
    say(process, "hello\n", "You said: hello", READY)
    assert leave(process, "/exit\n") == 0


def test_ctrl_c_at_a_question_ends_the_turn(chat: Callable[..., Any]) -> None:
    process = chat()
    say(process, "wipe\n", "Allow it?")
    say(process, "\x03", "Interrupted.", READY)
    assert "wiped" not in process.seen
    assert leave(process) == 0


def test_pasted_text_is_one_message(chat: Callable[..., Any]) -> None:
    process = chat()
    say(process, "\x1b[200~one\ntwo\x1b[201~\n", "You said: one\r\ntwo", READY)
    assert leave(process) == 0


def test_earlier_lines_come_back_in_the_next_chat(chat: Callable[..., Any]) -> None:
    first = chat()
    say(first, "hello there\n", "You said: hello there", READY)
    assert leave(first) == 0
    second = chat()
    say(second, "\x1b[A\n", "You said: hello there", READY)
    assert leave(second) == 0


def test_a_command_is_completed(chat: Callable[..., Any]) -> None:
    process = chat()
    say(process, "/conv\t\n", "There are no conversations yet.", READY)
    assert leave(process) == 0


def test_a_dumb_terminal_gets_lines(chat: Callable[..., Any]) -> None:
    process = chat(TERM="dumb")
    say(process, "look\n", "1.2k in")
    assert leave(process, "/exit\n") == 0
    assert "\x1b" not in process.seen
    assert "→ look notes.txt\r\n✓ look" in process.seen


def test_a_request_to_terminate_ends_the_chat(path: Path, spawn: Spawn, tmp_path: Path) -> None:
    env = os.environ | {"FAIRLEAD_DATA": str(tmp_path / "data")}
    process = spawn(path, "chat", "--json", env=env)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("hang")
    process.stdin.close()
    while "hanging on" not in process.stdout.readline():
        pass
    process.send_signal(signal.SIGTERM)
    last = json.loads(process.stdout.readlines()[-1])
    assert (process.wait(PATIENCE), last["error"]["code"]) == (143, "CANCELLED")


def test_a_request_to_terminate_is_heard_while_a_pipe_is_read(
    program: Callable[[str], Path], spawn: Spawn, tmp_path: Path
) -> None:
    service = """
@app.service
async def light():
    print("on", file=sys.stderr, flush=True)
    yield 1
    print("off", file=sys.stderr, flush=True)
"""
    process = spawn(
        program(AGENT + service), "chat", env=os.environ | {"FAIRLEAD_DATA": str(tmp_path / "data")}
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "on\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 143
    assert "off\n" in process.stderr.read()


def test_a_pipe_that_nobody_reads_ends_the_chat_quietly(path: Path, spawn: Spawn, tmp_path: Path) -> None:
    env = os.environ | {"FAIRLEAD_DATA": str(tmp_path / "data")}
    process = spawn(path, "chat", env=env)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdout.close()
    process.stdin.write("hello")
    process.stdin.close()
    assert process.wait(PATIENCE) == 141


# The screen, as people see it.


class Tmux:
    """A terminal of its own, on a server of its own."""

    def __init__(self, folder: Path, line: str, env: dict[str, str]) -> None:
        self._socket = ["tmux", "-S", str(folder / "tmux"), "-f", os.devnull]
        clean = {
            key: value for key, value in os.environ.items() if key not in ("TMUX", "NO_COLOR", "FORCE_COLOR")
        }
        subprocess.run(
            [*self._socket, "-u", "new-session", "-d", "-x", "80", "-y", "40", f"{line}; read -r gone"],
            env=clean | {"LC_ALL": "C.UTF-8"} | env,
            check=True,
            timeout=PATIENCE,
        )

    def type(self, *keys: str) -> None:
        subprocess.run([*self._socket, "send-keys", *keys], check=True, timeout=PATIENCE)

    def screen(self, *options: str) -> str:
        done = subprocess.run(
            [*self._socket, "capture-pane", "-p", *options],
            check=True,
            timeout=PATIENCE,
            capture_output=True,
            text=True,
        )
        return done.stdout.rstrip("\n")

    def wait_for(self, text: str) -> str:
        """The screen, once it shows this."""
        end = time.monotonic() + PATIENCE
        while text not in (shown := self.screen()):
            assert time.monotonic() < end, f"{text!r} did not appear on\n{shown}"
            time.sleep(0.02)
        return shown

    def close(self) -> None:
        subprocess.run([*self._socket, "kill-server"], check=False, capture_output=True, timeout=PATIENCE)


@pytest.fixture
def tmux(path: Path, tmp_path: Path, warm_python: Warm) -> Iterator[Tmux]:
    if shutil.which("tmux") is None:
        pytest.fail("The tests of the chat's screen need tmux: tests/needs.sh installs it.")
    terminal = Tmux(tmp_path, warm_python.line(str(path), "chat"), {"FAIRLEAD_DATA": str(tmp_path / "data")})
    try:
        terminal.wait_for("Ctrl-D leaves.\n\n>")
        yield terminal
    finally:
        terminal.close()


def below(screen: str, line: str) -> str:
    """What stands on the screen from this line on."""
    return screen[screen.rindex(line) :]


def test_an_answer_with_a_tool_looks_like_this(tmux: Tmux) -> None:
    tmux.type("look", "Enter")
    seen = below(tmux.wait_for("1 tool · 1.2k in, 30 out"), "> look")
    assert seen.splitlines()[:9] == [
        "> look",
        "I look.",
        "",
        seen.splitlines()[3],
        "  │ line 1 of notes.txt",
        "  │ line 2 of notes.txt",
        "  │ line 3 of notes.txt",
        "  │ line 4 of notes.txt",
        "  │ … 16 more lines",
    ]
    assert seen.splitlines()[3].startswith("✓ look notes.txt")
    assert seen.rstrip().endswith("\n\n>")


def test_markdown_is_drawn_in_colour(tmux: Tmux) -> None:
    tmux.type("long", "Enter")
    seen = below(tmux.wait_for("• two"), "> long")
    assert "```python\nprint(1)\n```\n\n• one\n• two" in seen
    assert "\x1b[1mtwo" in tmux.screen("-e")


def test_a_tool_that_runs_is_shown_on_one_line_that_goes_away(tmux: Tmux) -> None:
    tmux.type("hang", "Enter")
    assert below(tmux.wait_for("10% hanging on"), "> hang").splitlines()[1][2:].startswith("hang")
    tmux.type("C-c")
    seen = below(tmux.wait_for("Interrupted. What was said is kept."), "> hang")
    assert "hanging on" not in seen


def test_an_approval_is_asked_below_what_it_is_about(tmux: Tmux) -> None:
    tmux.type("wipe", "Enter")
    seen = below(tmux.wait_for("Allow it?"), "> wipe")
    assert seen.splitlines()[1:3] == ["? bob wants to use wipe. It writes.", "    target: disk"]
    tmux.type("y", "Enter")
    seen = below(tmux.wait_for("1.2k in"), "Allow it?")
    assert seen.splitlines()[0].endswith("conversation: y")
    assert seen.splitlines()[1].startswith("✓ wipe disk")
    assert seen.splitlines()[2] == "  │ wiped disk"


def test_a_question_is_asked_with_its_options(tmux: Tmux) -> None:
    tmux.type("colour", "Enter")
    seen = below(tmux.wait_for("Answer, by number or in words:"), "> colour")
    assert seen.splitlines()[1:4] == ["Which colour?", "  1  red", "  2  blue"]
    tmux.type("2", "Enter")
    tmux.wait_for('"blue"')


def test_thoughts_stand_beside_a_bar(tmux: Tmux) -> None:
    tmux.type("think", "Enter")
    seen = below(tmux.wait_for("I think so."), "> think")
    assert seen.splitlines()[1:4] == ["┆ Hmm, let me see.", "", "I think so."]
