"""The server on real pipes: nothing but the protocol on stdout, calls at once, and an orderly end."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

APP = '''
app = App("served", description="Served over pipes.")

@app.action
async def add(a: int, b: int = 2) -> dict[str, int]:
    """Add two numbers."""
    return {"total": a + b}

@app.action
async def whoami(ctx: Context) -> dict[str, object]:
    """Say who is calling."""
    return {"user": ctx.user, "auth": ctx.auth, "surface": ctx.surface}
'''

CALL = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add","arguments":{"a":40}}}'


def sized(body: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


@pytest.fixture(scope="module")
def lines(serve: Callable[..., Any]) -> Any:
    """A server that is spoken to in lines."""
    peer = serve(APP, "--max-frame-bytes", "2000")
    peer.initialize()
    return peer


@pytest.fixture(scope="module")
def headers(serve: Callable[..., Any]) -> Any:
    """A server that is spoken to with headers."""
    peer = serve(APP, "--max-frame-bytes", "2000")
    peer.write(b"Content-Le")
    peer.write(sized(CALL)[len(b"Content-Le") :])
    assert framed(peer)["result"]["structuredContent"] == {"total": 42}
    return peer


def framed(peer: Any) -> Any:
    head = peer.read_until(b"\r\n\r\n")
    name, _, size = head.strip().partition(b": ")
    assert name == b"Content-Length"
    return json.loads(peer.read_bytes(int(size)))


# Framing.


def test_65_a_call_with_headers_is_answered_with_headers(headers: Any) -> None:
    headers.write(sized(CALL))
    assert framed(headers)["result"]["structuredContent"] == {"total": 42}


def test_66_a_broken_line_is_a_parse_error_and_the_connection_goes_on(lines: Any) -> None:
    lines.write(b'{"jsonrpc": \n')
    told = lines.read()
    assert (told["id"], told["error"]["code"]) == (None, -32700)
    assert lines.ask("ping") == {}


def test_67_a_header_split_over_writes_is_detected(serve: Callable[..., Any]) -> None:
    peer = serve(APP)
    whole = sized(CALL)
    for piece in (whole[:4], whole[4:19], whole[19:21], whole[21:]):
        peer.write(piece)
    assert framed(peer)["id"] == 7
    assert peer.finish() == (0, b"")


def test_68_a_call_on_a_line_is_answered_on_a_line(lines: Any) -> None:
    lines.write(CALL + b"\r\n")
    assert lines.read()["result"]["structuredContent"] == {"total": 42}


def test_69_a_line_that_is_too_long_gives_one_error_and_the_next_is_read(lines: Any) -> None:
    for _ in range(5):
        lines.write(b"x" * 1000)
    lines.write(b"\n" + CALL + b"\n")
    told = lines.read()
    assert (told["id"], told["error"]["code"]) == (None, -32600)
    assert "exceeds limit" in told["error"]["message"]
    assert lines.read()["id"] == 7


def test_70_a_body_that_is_too_long_gives_one_framed_error_and_the_next_is_read(headers: Any) -> None:
    headers.write(sized(b'"' + b"x" * 5000 + b'"') + sized(CALL))
    told = framed(headers)
    assert (told["id"], told["error"]["code"]) == (None, -32600)
    assert "exceeds limit" in told["error"]["message"]
    assert framed(headers)["id"] == 7


def test_a_header_without_a_number_is_answered_and_the_next_frame_is_read(headers: Any) -> None:
    headers.write(b"Content-Length: some\r\n\r\n{}" + sized(CALL))
    assert framed(headers)["error"]["code"] == -32600
    assert framed(headers)["id"] == 7


def test_a_framing_can_be_asked_for(serve: Callable[..., Any]) -> None:
    peer = serve(APP, "--framing", "newline")
    peer.write(b"Content-Length: 2\r\n")
    assert peer.read()["error"]["code"] == -32700
    assert peer.ask("ping") == {}


# What is not part of the protocol stays out of it.

NOISY = '''
import ctypes, subprocess
print("while importing")
os.write(1, b"bytes while importing\\n")
app = App("noisy")

@app.action
def shout() -> str:
    """Write to stdout in every way there is, and try to read from stdin."""
    print("print")
    sys.stdout.write("no line end, é ☃ ")
    sys.__stdout__.write("the original ")
    os.write(1, b"descriptor\\n")
    libc = ctypes.CDLL(None)
    libc.puts(b"from C")
    libc.fflush(None)
    os.system("echo shell; cat")
    subprocess.run([sys.executable, "-c", "print('child'); print(repr(input()))"], stderr=subprocess.DEVNULL)
    try:
        input("a question? ")
    except EOFError:
        return "stdin is empty"
    return "read something"
'''


def test_what_an_app_prints_reaches_stderr_and_not_the_client(serve: Callable[..., Any]) -> None:
    peer = serve(NOISY)
    assert peer.initialize()["serverInfo"]["name"] == "noisy"
    assert peer.call("shout")["structuredContent"] == {"result": "stdin is empty"}
    assert peer.ask("ping") == {}
    assert peer.heard == []
    assert peer.finish() == (0, b"")
    said = [
        "while importing",
        "bytes while",
        "print",
        "the original",
        "descriptor",
        "from C",
        "shell",
        "child",
    ]
    assert [word for word in said if word not in peer.err] == []


# Concurrency, shown by who waits for whom.

MEETING = '''
app = App("meeting")
meeting = asyncio.Barrier(3)

@app.action
async def meet(who: str) -> str:
    """Come to a meeting that begins when three are there."""
    await meeting.wait()
    return who

@app.action
def thread(who: str) -> str:
    """The same for sync functions."""
    return asyncio.run_coroutine_threadsafe(meeting.wait(), loop).result() and who or who

@app.action
async def join() -> None:
    """Make the loop known."""
    global loop
    loop = asyncio.get_running_loop()
'''


@pytest.mark.parametrize("action", ["meet", "thread"])
def test_three_calls_run_at_once_and_the_connection_stays_open_meanwhile(
    serve: Callable[..., Any], action: str
) -> None:
    peer = serve(MEETING)
    peer.initialize()
    peer.call("join")
    for name in ("ann", "bob"):
        peer.send("tools/call", {"name": action, "arguments": {"who": name}}, id=name)
    assert peer.ask("ping") == {}
    assert peer.heard == []  # neither can be done before the third is there
    peer.send("tools/call", {"name": action, "arguments": {"who": "eve"}}, id="eve")
    told = {
        each["id"]: each["result"]["structuredContent"]["result"] for each in (peer.read() for _ in range(3))
    }
    assert told == {"ann": "ann", "bob": "bob", "eve": "eve"}


# The end.

ENDLESS = '''
app = App("endless")

@app.service
def lamp():
    print("lamp on", file=sys.stderr, flush=True)
    yield "lamp"
    print("lamp off", file=sys.stderr, flush=True)

@app.action
async def wait(ctx: Context) -> None:
    """Wait for ever."""
    print("waiting", file=sys.stderr, flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        print("stopped waiting", file=sys.stderr, flush=True)

@app.action
async def stay() -> None:
    """Wait for ever, whatever is said."""
    print("staying", file=sys.stderr, flush=True)
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass

@app.action
async def later() -> str:
    """Be done a moment later."""
    for _ in range(100):
        await asyncio.sleep(0)
    return "done"

@app.action
async def large(size: int) -> str:
    """Give much."""
    return "x" * size
'''


def test_calls_that_run_when_the_input_ends_are_answered(serve: Callable[..., Any]) -> None:
    peer = serve(ENDLESS)
    peer.send("tools/call", {"name": "later"}, id=1)
    peer.write(b'{"jsonrpc":"2.0","id":2,"method":"ping"}')  # without a line end
    code, rest = peer.finish()
    assert code == 0
    assert {json.loads(line)["id"] for line in rest.splitlines()} == {1, 2}


def test_a_call_that_does_not_end_is_cancelled_when_the_input_has_ended(serve: Callable[..., Any]) -> None:
    peer = serve(ENDLESS)
    peer.send("tools/call", {"name": "wait"}, id=1)
    peer.wait_for_error("waiting")
    code, _ = peer.finish()
    assert code == 0
    assert peer.err.splitlines() == ["lamp on", "waiting", "stopped waiting", "lamp off"]


def test_a_call_that_will_not_be_cancelled_does_not_keep_the_process(serve: Callable[..., Any]) -> None:
    peer = serve(ENDLESS)
    peer.send("tools/call", {"name": "stay"}, id=1)
    peer.wait_for_error("staying")
    peer.process.send_signal(signal.SIGTERM)
    assert peer.end() == (0, b"")
    assert peer.err.splitlines()[-1] == "lamp off"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_calls_and_services_in_order(serve: Callable[..., Any], number: int) -> None:
    peer = serve(ENDLESS)
    peer.send("tools/call", {"name": "wait"}, id=1)
    peer.wait_for_error("waiting")
    peer.process.send_signal(number)
    code, rest = peer.end()
    assert (code, rest) == (0, b"")
    assert peer.err.splitlines() == ["lamp on", "waiting", "stopped waiting", "lamp off"]


def test_a_client_that_is_gone_ends_everything_quietly(serve: Callable[..., Any]) -> None:
    peer = serve(ENDLESS)
    peer.send("tools/call", {"name": "wait"}, id=1)
    peer.wait_for_error("waiting")
    peer.process.stdout.close()
    peer.send("ping", id=2)
    assert peer.process.wait(20) == 0
    assert peer.err.splitlines() == ["lamp on", "waiting", "stopped waiting", "lamp off"]


def test_input_that_is_empty_ends_at_once(serve: Callable[..., Any]) -> None:
    peer = serve(ENDLESS, stdin=subprocess.DEVNULL)
    assert peer.end() == (0, b"")
    assert peer.err == ""


def test_files_serve_as_well_as_pipes(serve: Callable[..., Any], tmp_path: Path) -> None:
    question, answer = tmp_path / "in", tmp_path / "out"
    question.write_bytes(CALL + b"\n" + CALL.replace(b"7", b"8"))
    with question.open("rb") as stdin, answer.open("wb") as stdout:
        assert serve(APP, stdin=stdin, stdout=stdout).process.wait(20) == 0
    assert {json.loads(line)["id"] for line in answer.read_bytes().splitlines()} == {7, 8}


# Back-pressure.


def test_a_client_that_does_not_read_is_not_read_from_either(serve: Callable[..., Any]) -> None:
    peer = serve(ENDLESS)
    stdin = peer.process.stdin.fileno()
    assert peer.ask("ping") == {}
    ping = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"%b"}}\n' % (b"x" * 200)
    os.set_blocking(stdin, False)
    sent = 0
    while select.select([], [stdin], [], 1.0)[1]:
        sent += os.write(stdin, (ping * 100)[sent % len(ping) :])
        assert sent < 64 << 20, "it reads for ever"
    os.set_blocking(stdin, True)
    whole, begun = divmod(sent, len(ping))
    for _ in range(whole):
        assert peer.read()["result"] == {}
    peer.write(ping[begun:] if begun else b"")
    peer.send("ping", id="last")
    assert peer.answer("last") == {}


def test_a_large_answer_is_written_whole(serve: Callable[..., Any]) -> None:
    peer = serve(ENDLESS)
    peer.send("tools/call", {"name": "large", "arguments": {"size": 5_000_000}}, id=1)
    peer.send("ping", id=2)
    told = [peer.read(), peer.read()]
    assert {each["id"] for each in told} == {1, 2}
    large = next(each for each in told if each["id"] == 1)
    assert len(large["result"]["structuredContent"]["result"]) == 5_000_000


# Who, and when.


def test_calls_are_made_for_the_person_who_runs_the_command(lines: Any) -> None:
    from fairlead.surfaces.cli.identity import local

    told = lines.call("whoami")["structuredContent"]
    assert told == {"user": local().user, "auth": local().auth, "surface": "mcp"}


MODULES = """
import atexit, json, sys
from fairlead.surfaces.cli import main
atexit.register(lambda: print("\\n" + json.dumps(sorted(sys.modules)), file=sys.stderr))
main(sys.argv[1:])
"""


def test_initialize_is_answered_before_any_shape_is_compiled(tmp_path: Path) -> None:
    (tmp_path / "served.py").write_text("from fairlead import App, Context\n" + APP)
    asked = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        },
    }
    command = [sys.executable, "-c", MODULES, "--app", "served", "mcp", "--stdio"]
    done = subprocess.run(command, cwd=tmp_path, input=json.dumps(asked), capture_output=True, text=True)
    assert json.loads(done.stdout)["result"]["serverInfo"]["name"] == "served"
    modules = frozenset(json.loads(done.stderr.splitlines()[-1]))
    heavy = [
        "pydantic",
        "pydantic_core",
        "click",
        "difflib",
        "importlib.metadata",
        "tomllib",
        "http",
        "tempfile",
    ]
    peers = ["mcp", "uvicorn", "httpx", "starlette", "jwt", "anyio", "opentelemetry"]
    ours = ["fairlead.surfaces.http.routes", "fairlead.surfaces.mcp.http", "fairlead.surfaces.mcp.install"]
    assert modules.isdisjoint([*heavy, *peers, *ours])


BROKEN = (
    APP
    + '''
class Opaque:
    pass

@app.action
def keep(value: Opaque) -> None:
    """Keep something."""
'''
)


def test_a_shape_that_cannot_be_compiled_is_named_and_the_server_lives_on(serve: Callable[..., Any]) -> None:
    peer = serve(BROKEN)
    peer.initialize()
    told = peer.ask("tools/list")
    assert told["code"] == -32603
    assert "'keep'" in told["message"]
    assert peer.call("add", a=1)["structuredContent"] == {"total": 3}


EMBEDDED = '''
app = App("embedded")

@app.action
async def add(a: int, b: int = 2) -> dict[str, int]:
    """Add two numbers."""
    print("adding")
    return {"total": a + b}

async def main() -> None:
    await app.mcp().stdio(user={"id": "ann"}, auth=None)

asyncio.run(main())
print("afterwards")
'''


def test_a_program_of_ones_own_can_serve_and_has_its_stdout_back_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "embedded.py"
    path.write_text("import asyncio\nfrom fairlead import App\n" + EMBEDDED)
    done = subprocess.run([sys.executable, str(path)], input=CALL + b"\n", capture_output=True)
    answer, after = done.stdout.splitlines()
    assert json.loads(answer)["result"]["structuredContent"] == {"total": 42}
    assert after == b"afterwards"
    assert done.stderr == b"adding\n"
